package realtest

import (
	"slices"
	"syscall"
	"testing"
	"time"

	"sluice/scheduler/local"
)

// partitioned is a query with tasks of all kinds under -p: with sources, without state, with state, with a sink.
const partitioned = rowType + `
  <operator name="both" type="union"><input name="rowsA"/><input name="rowsB"/><output name="rows"/></operator>
  <operator name="f" type="filter"><input name="rows"/><param name="condition" value="v >= 100"/><output name="good"/></operator>
  <operator name="g" type="aggregate"><input name="good"/><param name="window" value="tumbling(30s)"/><param name="group-by" value="k"/>
    <param name="select" value="window_start, k, count(*) AS n, sum(v) AS s"/><output name="sums"/></operator>
  <operator name="out" type="writer"><input name="sums"/><param name="path" value="out.csv"/></operator>
`

// TestBalance kills all workers at once. The first one that replaces them takes all that does not wait, and after some seconds
// all three have their share again. What is written is exact.
func TestBalance(t *testing.T) {
	t.Parallel()
	for name, args := range map[string][]string{"single": nil, "partitions": {"-p", "3"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			q := newQuery(t, partitioned, data{rows: 400_000, seed: 5}, "", slices.Concat(args, []string{"--nodes", "3", "--checkpoint", "200ms"})...)
			r := q.start("--set", "a.rate=2000", "--set", "b.rate=1000")
			s := r.await("all run", on(3))
			for _, w := range s.workers() {
				s.signal(t, w, syscall.SIGKILL)
			}
			began := time.Now()
			r.await("three others have come", func(now status) bool {
				return on(3)(now) && !slices.ContainsFunc(s.workers(), func(w string) bool { return now.pids[w] != 0 })
			})
			after := r.await("tasks have moved", func(now status) bool { return now.running() && now.spread(3) })
			t.Logf("after %v:\n%s\n%s", time.Since(began), after.text, r.said.String())
			for _, source := range []string{"a", "b"} {
				if a, err := local.Ask(r.state, local.Request{Set: &local.SetRequest{Operator: source, Param: "rate", Value: "1000000"}}); err != nil || a.Error != "" {
					t.Fatalf("%+v, %v", a, err)
				}
			}
			r.finish()
			q.check()
		})
	}
}

// spread tells whether so many workers have tasks, and none many more than another one.
func (s status) spread(workers int) bool {
	n := map[string]int{}
	for _, t := range s.tasks {
		if t.state == "running" {
			n[t.worker]++
		}
	}
	least, most := len(s.tasks), 0
	for _, tasks := range n {
		least, most = min(least, tasks), max(most, tasks)
	}
	return len(n) == workers && most-least <= 3
}
