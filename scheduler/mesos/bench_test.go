package mesos

import (
	"fmt"
	"testing"
	"time"

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
