package mesos

import (
	"fmt"
	"testing"
	"time"

	pb "github.com/mesos/mesos-go/api/v1/lib"
	sched "github.com/mesos/mesos-go/api/v1/lib/scheduler"

	"sluice/dataflow"
)

// BenchmarkPlacement launches 1000 workers, of ten queries, on 200 agents, until all run.
func BenchmarkPlacement(b *testing.B) {
	for b.Loop() {
		b.StopTimer()
		c := newBench(b, simulated(200))
		b.StartTimer()
		for i := range 10 {
			c.query(fmt.Sprintf("q%d", i), Need{CPUs: 0.1, MemMB: 32}, ExecutorSpec{Command: "x", Control: "c"}).Start(make([]dataflow.Resources, 100))
		}
		for c.countRunning() < 1000 {
			time.Sleep(time.Millisecond)
		}
		b.StopTimer()
		saw := 0
		for _, x := range c.mesos.Calls() {
			saw += len(x.Call.GetAccept().GetOfferIDs()) + len(x.Call.GetDecline().GetOfferIDs())
		}
		b.ReportMetric(float64(saw), "offers/op")
		c.Framework.Close()
		c.mesos.Close()
		b.StartTimer()
	}
}

// BenchmarkOffers is what one event with the offers of many agents takes, of which half are good for one of ten queries each,
// that want workers of five kinds.
func BenchmarkOffers(b *testing.B) {
	for _, agents := range []int{200, 2000} {
		b.Run(fmt.Sprint(agents), func(b *testing.B) {
			e := &sched.Event_Offers{}
			for i := range agents {
				o := pb.Offer{ID: pb.OfferID{Value: fmt.Sprint("O", i)}, AgentID: pb.AgentID{Value: fmt.Sprint("A", i)}}
				for _, name := range []string{"cpus", "mem", "disk"} {
					o.Resources = append(o.Resources, pb.Resource{Name: name, Type: new(pb.SCALAR), Scalar: &pb.Value_Scalar{Value: 10000}})
				}
				o.Attributes = []pb.Attribute{{Name: "media", Type: pb.TEXT, Text: &pb.Value_Text{Value: []string{"ssd", "disk"}[i%2]}}}
				e.Offers = append(e.Offers, o)
			}
			for b.Loop() {
				b.StopTimer()
				c := wanting(b, agents/2)
				b.StartTimer()
				c.Handle(Event{Now: c.now, Received: &Received{c.sub, &sched.Event{Type: sched.Event_OFFERS, Offers: e}}})
				if len(c.workers) != 10*agents/2 {
					b.Fatalf("%d workers", len(c.workers))
				}
			}
		})
	}
}

// wanting is a core that is subscribed, with ten queries that want some workers each.
func wanting(b *testing.B, workers int) *Core {
	ids := 0
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	cfg := Config{User: "root", Name: "sluice", NewID: func() string { ids++; return fmt.Sprint(ids) }}
	c, _, err := NewCore(cfg, nil, now)
	if err != nil {
		b.Fatal(err)
	}
	c.Handle(Event{Now: now})
	c.Handle(Event{Now: now, Received: &Received{c.sub, &sched.Event{Type: sched.Event_SUBSCRIBED, Subscribed: &sched.Event_Subscribed{
		FrameworkID: &pb.FrameworkID{Value: c.id},
	}}}})
	for i := range 10 {
		q := fmt.Sprint("q", i)
		c.Handle(Event{Now: now, Query: &Query{Name: q, Need: Need{CPUs: 0.1, MemMB: 32}, Executor: ExecutorSpec{Command: "x", Control: "c"}}})
		s := &Start{Query: q}
		for k := range workers {
			r := dataflow.Resources{Disk: int64(k%5) << 20}
			if k%5 == 4 {
				r.Attributes = []dataflow.Attribute{{Name: "media", Value: "ssd"}}
			}
			s.Capacities = append(s.Capacities, r)
		}
		c.Handle(Event{Now: now, Start: s})
	}
	return c
}
