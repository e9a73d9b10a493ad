package executor

import (
	"sync"
	"sync/atomic"

	"sluice/dataflow/batch"
	"sluice/operators"
)

// Rows that somebody takes back when they are done with (their owner) need not be copied to be kept, or to be
// handed to another task of this process: what an operator passes on as it is, or a selection of it, is a view of
// them. They go back when the last view is gone.

// loan is rows with an owner and several users.
type loan struct {
	rows  *batch.Batch
	owner releaser
	users atomic.Int32
}

var loans = sync.Pool{New: func() any { return &loan{} }}

// newLoan makes a loan with one user.
func newLoan(b *batch.Batch, owner releaser) *loan {
	l := loans.Get().(*loan)
	l.rows, l.owner = b, owner
	l.users.Store(1)
	return l
}

// put implements releaser: one of the users is done.
func (l *loan) put(*batch.Batch) {
	if l.users.Add(-1) > 0 {
		return
	}
	rows, owner := l.rows, l.owner
	l.rows, l.owner = nil, nil
	loans.Put(l)
	owner.put(rows)
}

// view is rows of a loan, with a selection of its own. It is the owner of itself.
type view struct {
	batch.Batch
	sel  []int32 // memory for Sel
	loan *loan
}

var views = sync.Pool{New: func() any { return &view{} }}

// view makes a view of b, whose columns are those of the loan; the caller's use of the loan becomes that of the view.
func (l *loan) view(b *batch.Batch) *view {
	v := views.Get().(*view)
	v.Batch, v.loan = *b, l
	if b.Sel != nil {
		v.sel = append(v.sel[:0], b.Sel...)
		if v.Sel = v.sel; v.Sel == nil {
			v.Sel = []int32{} // nil would be all rows
		}
	}
	return v
}

// put implements releaser.
func (v *view) put(*batch.Batch) {
	l := v.loan
	v.Batch, v.loan = batch.Batch{}, nil
	views.Put(v)
	l.put(nil)
}

// held is what a node works on.
type held struct {
	rows  *batch.Batch
	owner releaser // nil: it cannot be kept
	loan  *loan    // nil as long as nobody else uses it
}

// scarce is an owner whose rows take of the credit of a channel. They are copied to be kept: where one channel feeds
// several inputs, its rows would wait at one of them for the end of the epoch at another, and that end for credit.
type scarce interface {
	releaser
	scarce()
}

// hold is called before the node works on rows, and letGo afterwards.
func (n *node) hold(b *batch.Batch, owner releaser) {
	n.held = held{rows: b, owner: owner}
	if l, ok := owner.(*loan); ok {
		n.held.loan = l
	}
}

func (n *node) letGo() {
	h := n.held
	n.held = held{}
	switch {
	case h.loan != nil:
		h.loan.put(nil)
	case h.owner != nil:
		h.owner.put(h.rows)
	}
}

// sparse is how many times as many rows a batch has at most as are selected, for it to be worth keeping as a whole.
const sparse = 16

// share gives b one more user, who has to put the loan back, if b is what the node works on, or a selection of it;
// else it returns nil, and b is to be copied where it is kept.
func (n *node) share(b *batch.Batch) *loan {
	h := &n.held
	if _, ok := h.owner.(scarce); ok {
		return nil
	}
	if h.owner == nil || !sameColumns(b, h.rows) || b.Sel != nil && len(b.Sel)*sparse < b.Len {
		return nil
	}
	if h.loan == nil {
		h.loan = newLoan(h.rows, h.owner)
	}
	h.loan.users.Add(1)
	return h.loan
}

// sameColumns reports whether two batches differ in nothing but their selection.
func sameColumns(a, b *batch.Batch) bool {
	return a.Len == b.Len && len(a.Cols) == len(b.Cols) && len(a.Cols) > 0 && &a.Cols[0] == &b.Cols[0] &&
		len(a.RowWatermarks) == len(b.RowWatermarks) && (len(a.RowWatermarks) == 0 || &a.RowWatermarks[0] == &b.RowWatermarks[0])
}

// sourceLease is a batch that a source has given away.
type sourceLease struct {
	feed       *feed
	rows       *batch.Batch
	release    func(*batch.Batch)
	watermarks []int64 // memory
}

// sourceLeases keeps leases for reuse.
type sourceLeases struct {
	mu   sync.Mutex
	free []*sourceLease
}

// lease makes the owner of a source's rows, nil if they are the source's.
func (f *feed) lease(rows *operators.SourceRows) *sourceLease {
	if rows.Release == nil {
		return nil
	}
	f.leases.mu.Lock()
	defer f.leases.mu.Unlock()
	var l *sourceLease
	if n := len(f.leases.free); n > 0 {
		l, f.leases.free = f.leases.free[n-1], f.leases.free[:n-1]
	} else {
		l = &sourceLease{feed: f}
	}
	l.rows, l.release = rows.Batch, rows.Release
	return l
}

// put implements releaser.
func (l *sourceLease) put(*batch.Batch) {
	l.release(l.rows)
	l.rows, l.release = nil, nil
	f := &l.feed.leases
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.free) < poolBatches {
		f.free = append(f.free, l)
	}
}
