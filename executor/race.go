package executor

import (
	"fmt"

	"sluice/dataflow/batch"
	"sluice/operators"
)

// A race node has copies of one stream on its inputs, as a stream selector behind a hot standby has. It
// takes each row of each epoch from whichever input brings it first, and drops it from the others. A
// copy that lags behind, in the middle of an epoch too, holds nothing up.

// raceState is how far a race node is.
type raceState struct {
	epochs int64 // that have ended
	passed int64 // rows of the current one that have been passed on
	// counts are the rows of the epochs that have ended, for the inputs that are still in them: counts[i]
	// is of epoch first+i.
	counts []int64
	first  int64
	sel    []int32
	view   batch.Batch
}

// racePort is how far one input of a race node is.
type racePort struct {
	epochs int64 // that have ended
	rows   int64 // of the current one
}

func (n *node) raceRows(port int, b *batch.Batch) error {
	r, p := &n.raced, &n.in[port].raced
	p.rows += int64(b.Rows())
	if p.epochs < r.epochs || p.rows <= r.passed {
		return nil
	}
	fresh := p.rows - r.passed
	r.passed = p.rows
	if skip := int64(b.Rows()) - fresh; skip > 0 {
		b = r.from(b, int32(skip))
	}
	return n.process(port, b)
}

// from is b without its first rows.
func (r *raceState) from(b *batch.Batch, skip int32) *batch.Batch {
	r.view = *b
	if b.Sel != nil {
		r.view.Sel = b.Sel[skip:]
		return &r.view
	}
	r.sel = r.sel[:0]
	for i := skip; i < int32(b.Len); i++ {
		r.sel = append(r.sel, i)
	}
	r.view.Sel = r.sel
	return &r.view
}

func (n *node) raceMark(port int, m operators.Mark) error {
	r, p := &n.raced, &n.in[port].raced
	rows, epoch := p.rows, p.epochs
	p.epochs, p.rows = p.epochs+1, 0
	if epoch < r.epochs {
		if want := r.counts[epoch-r.first]; rows != want {
			return n.fail(fmt.Errorf("the copies differ: input %d brought %d rows in epoch %d, another one %d; an operator above is not deterministic",
				port, rows, m.Epoch, want))
		}
		n.forgetCounts()
		return nil
	}
	if rows != r.passed {
		return n.fail(fmt.Errorf("the copies differ: input %d ended epoch %d after %d rows, another one has brought %d; an operator above is not deterministic",
			port, m.Epoch, rows, r.passed))
	}
	r.counts = append(r.counts, rows)
	r.epochs, r.passed = r.epochs+1, 0
	n.forgetCounts()
	n.tick(m.Clock)
	m.Prev = n.epoch
	m.Watermark = max(m.Watermark, n.watermark)
	return n.finishEpoch(m)
}

// forgetCounts drops the counts of epochs that all inputs have ended.
func (n *node) forgetCounts() {
	r := &n.raced
	least := r.epochs
	for i := range n.in {
		if !n.in[i].absent {
			least = min(least, n.in[i].raced.epochs)
		}
	}
	if k := least - r.first; k > 0 {
		r.counts = append(r.counts[:0], r.counts[k:]...)
		r.first = least
	}
}
