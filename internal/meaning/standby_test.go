package meaning

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"sluice/dataflow/batch"
	"sluice/operators"
	"sluice/rewrite"
)

// gate is put around operators that stand for a copy: it lets some of their rows through and then holds
// the copy up, in the middle of an epoch or at its end, until it is opened.
type gate struct {
	mu    sync.Mutex
	rows  int // that may still pass
	marks int
	open  chan struct{}
}

// held is an operator behind a gate.
type held struct {
	operators.Operator
	gate *gate
}

func (h held) Process(in int, b *batch.Batch) error {
	h.gate.pass(&h.gate.rows, b.Rows())
	return h.Operator.Process(in, b)
}

func (h held) EndEpoch(m operators.Mark) error {
	h.gate.pass(&h.gate.marks, 1)
	return h.Operator.EndEpoch(m)
}

// pass waits for the gate to open once what may pass has passed.
func (g *gate) pass(left *int, n int) {
	g.mu.Lock()
	*left -= n
	wait := *left < 0
	g.mu.Unlock()
	if wait {
		<-g.open
	}
}

// TestStalledCopy: of the copies of a hot standby one stalls, after any number of rows or epochs. All that
// the writers are to get comes from the other one while it stalls; and once it goes on, the run ends.
func TestStalledCopy(t *testing.T) {
	stalled := 0
	rapid.Check(t, func(t *rapid.T) {
		q := drawQuery(t, true)
		d := &drawer{t: t}
		v := variant{graph: q.graph}
		target := v.apply(d, rewrite.Builtin().Rule("hot-standby"), "")
		if target == "" {
			return
		}
		w := way{cuts: drawCuts(d, false), tasks: true}
		want, err := run(q.graph, q.inputs, w)
		if err != nil {
			return
		}
		g := &gate{rows: d.int(0, 30, "rows that pass"), marks: d.int(0, 12, "marks that pass"), open: make(chan struct{})}
		copied := fmt.Sprintf("%s.%d", target, d.int(1, 2, "copy"))
		w.wrap = func(c *operators.Context, op operators.Operator) operators.Operator {
			if c.Op.Name == copied {
				return held{op, g}
			}
			return op
		}
		arrived := make(chan struct{})
		w.seen = counting(want.count(), arrived)
		stalled++
		type end struct {
			results
			error
		}
		ended := make(chan end, 1)
		go func() {
			got, err := run(v.graph, q.inputs, w)
			ended <- end{got, err}
		}()
		var e end
		select {
		case <-arrived:
			close(g.open)
			e = <-ended
		case e = <-ended:
			// Nothing had to wait, or the run has failed.
		case <-time.After(20 * time.Second):
			t.Fatalf("not all rows came while %s stalled\n%s%s\n%s", copied, q.text, v.steps, q.rows)
		}
		if e.error != nil {
			t.Fatalf("%v\n%s%s\n%s", e.error, q.text, v.steps, q.rows)
		}
		for _, name := range slices.Sorted(maps.Keys(want)) {
			if diff := difference(want[name], e.results[name], inOrder); diff != "" {
				t.Fatalf("%s: %s\n%s%s\n%s", name, diff, q.text, v.steps, q.rows)
			}
		}
	})
	t.Logf("%d copies stalled", stalled)
}

// counting closes done when so many rows have come to all writers.
func counting(rows int, done chan struct{}) func(int) {
	var mu sync.Mutex
	if rows == 0 {
		close(done)
	}
	return func(n int) {
		mu.Lock()
		defer mu.Unlock()
		if rows > 0 && rows <= n {
			close(done)
		}
		rows -= n
	}
}
