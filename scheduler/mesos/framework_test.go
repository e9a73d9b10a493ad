package mesos

import (
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"sluice/dataflow"
	"sluice/internal/fakemesos"
	"sluice/scheduler/shell"
	"sluice/scheduler/store"
)

// small is what the workers of tests need.
var small = Need{CPUs: 0.5, MemMB: 64}

// fast are times for a cluster whose times are fiftieths of those of Mesos.
func fast(ids *atomic.Int64) Config {
	return Config{
		User: "root", Name: "sluice",
		NewID:           func() string { return fmt.Sprintf("t%d", ids.Add(1)) },
		FailoverTimeout: 10 * time.Minute, Silence: 300 * time.Millisecond, Margin: 200 * time.Millisecond,
		KillGrace: 200 * time.Millisecond, RetryFirst: 20 * time.Millisecond, RetryMax: 200 * time.Millisecond,
		ReconcileFirst: 100 * time.Millisecond, RevivePause: 20 * time.Millisecond, Repeat: 200 * time.Millisecond,
		Patience: 200 * time.Millisecond, QuickEnd: 20 * time.Millisecond,
	}
}

// bench is a cluster of Mesos, a store and a framework.
type bench struct {
	t     testing.TB
	mesos *fakemesos.Cluster
	store store.Store
	ids   atomic.Int64
	*Framework
}

func newBench(t testing.TB, o fakemesos.Options) *bench {
	t.Helper()
	b := &bench{t: t, mesos: fakemesos.New(t, o)}
	s, err := store.OpenDir(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	b.store = s
	b.begin(nil)
	t.Cleanup(func() { b.Framework.Close() })
	return b
}

// begin makes the framework, also a second time.
func (b *bench) begin(change func(*Options)) {
	b.t.Helper()
	o := Options{Config: fast(&b.ids), Store: b.store, Masters: b.mesos.Endpoints(), Log: func(s string) { b.t.Log(s) }}
	if change != nil {
		change(&o)
	}
	f, err := New(o)
	if err != nil {
		b.t.Fatal(err)
	}
	b.Framework = f
}

// query begins a query.
func (b *bench) query(name string, need Need, e ExecutorSpec) shell.Cluster {
	b.t.Helper()
	c, err := b.Cluster(name, need, e)
	if err != nil {
		b.t.Fatal(err)
	}
	return c
}

// eventually waits for something to be so.
func eventually(t testing.TB, what string, so func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !so(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s: it never was so", what)
		}
	}
}

// running waits until so many workers run.
func (b *bench) running(n int) []WorkerInfo {
	b.t.Helper()
	eventually(b.t, fmt.Sprintf("%d workers run", n), func() bool { return b.countRunning() == n })
	return b.Workers()
}

func (b *bench) countRunning() int {
	count := 0
	for _, w := range b.Workers() {
		if w.State == "TASK_RUNNING" && !w.Lost && !w.Killed {
			count++
		}
	}
	return count
}

// end waits for the end of a worker.
func (b *bench) end(c shell.Cluster) shell.Ended {
	b.t.Helper()
	select {
	case e := <-c.Ended():
		return e
	case <-time.After(time.Minute):
		b.t.Fatal("no worker has ended")
		return shell.Ended{}
	}
}

func simulated(n int) fakemesos.Options {
	var o fakemesos.Options
	for i := range n {
		o.Agents = append(o.Agents, fakemesos.AgentSpec{Hostname: fmt.Sprintf("h%d", i), Simulate: true})
	}
	return o
}

func TestWorkersRunOnDistinctAgentsUntilTheyAreKilled(t *testing.T) {
	b := newBench(t, simulated(3))
	c := b.query("q", small, ExecutorSpec{Command: "x", Control: "tcp://127.0.0.1:1"})
	capacity := dataflow.Resources{CPUs: 0.001, Mem: 1 << 20}
	c.Start([]dataflow.Resources{capacity, capacity, capacity})
	ws := b.running(3)
	if got := c.Running(); len(got) != 3 || !slices.Contains(got, ws[1].ID) {
		t.Errorf("%v run", got)
	}
	if ws[0].Agent == ws[1].Agent || ws[1].Agent == ws[2].Agent || ws[0].Agent == ws[2].Agent {
		t.Fatalf("two workers on one agent: %+v", ws)
	}
	c.Kill(ws[1].ID)
	if e := b.end(c); e.ID != ws[1].ID || e.Quick != 0 || !e.Capacity.Equal(capacity) {
		t.Fatalf("%+v has ended, not %s", e, ws[1].ID)
	}
	if got := c.Running(); len(got) != 2 || slices.Contains(got, ws[1].ID) {
		t.Errorf("%v run", got)
	}
	if c.Known(ws[1].ID) || !c.Known(ws[0].ID) {
		t.Error("the wrong worker is known")
	}
	eventually(t, "offers are not wanted any more", func() bool {
		calls := b.mesos.Calls()
		last := ""
		for _, x := range calls {
			if x.Type == "SUPPRESS" || x.Type == "REVIVE" {
				last = x.Type
			}
		}
		return last == "SUPPRESS"
	})
}
