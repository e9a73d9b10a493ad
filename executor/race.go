package executor

import (
	"cmp"
	"fmt"
	"slices"

	"sluice/dataflow/batch"
	"sluice/operators"
)

// A race node has copies of one stream on its inputs, as a stream selector behind a hot standby has. It
// takes each row of each epoch from whichever input brings it first, and drops it from the others. A
// copy that lags behind, in the middle of an epoch too, holds nothing up.

// raceState is how far a race node is.
type raceState struct {
	passed int64       // rows of the current epoch that have been passed on
	counts []raceCount // of epochs that have ended, for the inputs that are still in them, in order
	sel    []int32
	view   batch.Batch
}

// raceCount is how many rows an epoch had.
type raceCount struct{ epoch, rows int64 }

// racePort is how far one input of a race node is.
type racePort struct {
	epoch int64 // of the rows below, or the last that ended
	rows  int64
}

// maxRaceCounts bounds what a race node keeps for an input that lags behind or is gone.
const maxRaceCounts = 1 << 16

func (n *node) raceRows(port int, b *batch.Batch, at stamp) error {
	p := &n.in[port].raced
	if p.epoch != at.epoch {
		p.epoch, p.rows = at.epoch, 0
	}
	p.rows += int64(b.Rows())
	if at.epoch <= n.epoch {
		return nil
	}
	if err := n.raceBegin(at); err != nil {
		return err
	}
	r := &n.raced
	if at.epoch != n.now {
		return n.fail(fmt.Errorf("the copies differ: input %d is in epoch %d, another one in %d; an operator above is not deterministic", port, at.epoch, n.now))
	}
	n.tick(at.clock)
	if p.rows <= r.passed {
		return nil
	}
	fresh := p.rows - r.passed
	r.passed = p.rows
	if skip := int64(b.Rows()) - fresh; skip > 0 {
		b = r.from(b, int32(skip))
	}
	return n.process(port, b, nil) // the caller gives them back
}

// raceBegin begins the epoch if the node is between two.
func (n *node) raceBegin(at stamp) error {
	if n.now != 0 {
		return nil
	}
	n.raced.passed = 0
	_, err := n.begin(at)
	return err
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
	if p.epoch != m.Epoch {
		p.epoch, p.rows = m.Epoch, 0
	}
	if m.Epoch <= n.epoch {
		return n.raceOld(port, m)
	}
	if err := n.raceBegin(stampOf(m)); err != nil {
		return err
	}
	if m.Epoch != n.now || p.rows != r.passed {
		return n.fail(fmt.Errorf("the copies differ: input %d ended epoch %d after %d rows, another one has brought %d in epoch %d; an operator above is not deterministic",
			port, m.Epoch, p.rows, r.passed, n.now))
	}
	r.counts = append(r.counts, raceCount{m.Epoch, p.rows})
	n.tick(m.Clock)
	m.Prev = n.epoch
	m.Watermark = max(m.Watermark, n.watermark)
	err := n.finishEpoch(m)
	n.forgetCounts()
	return err
}

// raceOld takes the mark of an epoch that another input has ended already.
func (n *node) raceOld(port int, m operators.Mark) error {
	rows := n.in[port].raced.rows
	counts := n.raced.counts
	i, found := slices.BinarySearchFunc(counts, m.Epoch, func(c raceCount, epoch int64) int { return cmp.Compare(c.epoch, epoch) })
	again := m.End && rows == 0 // said once more by a copy that was restored behind it; else the checksums differ
	if found && counts[i].rows != rows && !again {
		return n.fail(fmt.Errorf("the copies differ: input %d brought %d rows in epoch %d, another one %d; an operator above is not deterministic",
			port, rows, m.Epoch, counts[i].rows))
	}
	n.forgetCounts()
	if m.End {
		return n.endAgain(m)
	}
	return nil
}

// forgetCounts drops the counts of epochs that all inputs have ended.
func (n *node) forgetCounts() {
	r := &n.raced
	least := n.epoch
	for i := range n.in {
		if !n.in[i].absent {
			least = min(least, n.in[i].raced.epoch)
		}
	}
	k := max(0, len(r.counts)-maxRaceCounts)
	for k < len(r.counts) && r.counts[k].epoch <= least {
		k++
	}
	if k > 0 {
		r.counts = append(r.counts[:0], r.counts[k:]...)
	}
}
