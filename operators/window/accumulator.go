package window

import (
	"sluice/dataflow"
	"sluice/dataflow/batch"
)

// function names an aggregate function.
type function uint8

const (
	countStar function = iota
	count
	sum
	avg
	minimum
	maximum
	stddevSamp
	varSamp
	first
	last
)

// call is one aggregate call.
type call struct {
	fn       function
	arg      dataflow.Type
	result   dataflow.Type
	distinct bool
	filter   bool
	text     string // as it is written, for messages
}

// update is a run of rows to be added to slots.
type update struct {
	arg   *batch.Vector
	n     int
	rows  []int32 // the rows to add; nil: 0 to n-1
	slots []int32 // by row: where it is added
	seq   int64   // of row 0
	seqs  []int64 // by row, or nil: seq + row
	// partial says that some rows were left out: there may be slots that have seen no value.
	partial bool
	owner   *accumulators
}

// size is how many rows are added.
func (u *update) size() int {
	if u.rows != nil {
		return len(u.rows)
	}
	return u.n
}

func (u *update) row(i int) int32 {
	if u.rows != nil {
		return u.rows[i]
	}
	return int32(i)
}

func (u *update) rowSeq(r int32) int64 {
	if u.seqs != nil {
		return u.seqs[r]
	}
	return u.seq + int64(r)
}

// accumulator is the state of one aggregate call: flat arrays with an element for each slot, where a
// slot is one group in one window. In a slot that nobody uses the state is that of no rows.
type accumulator interface {
	// grow makes room for slots below n.
	grow(n int)
	// update adds rows, none of whose arguments is NULL.
	update(u *update)
	// merge adds the states of the slots src to those of dst, pair by pair.
	merge(dst, src []int32)
	// reset brings slots back to the state of no rows.
	reset(slots []int32)
	// result makes out the vector of the slots' results. The places whose result cannot be had are
	// reported to bad.
	result(slots []int32, out *batch.Vector, bad *faults)
	// size is a bound on the bytes of text in the result of a slot.
	size(slot int32) int
	stored
}

// fault says why a row of a batch of results is bad.
type fault struct {
	row     int32
	message string
}

type faults struct {
	text string // of the call at work
	list []fault
}

func (f *faults) add(row int, message string) {
	f.list = append(f.list, fault{int32(row), f.text + ": " + message})
}

// accumulators is the state of all calls, for all slots.
type accumulators struct {
	calls []call
	list  []accumulator
	ids   *ids    // who hands out the slots
	fresh []int32 // slots taken since the last add
	rows  [2][]int32
}

// newAccumulators makes the state of calls. If empty, there may be slots without any rows.
func newAccumulators(calls []call, slots *ids, empty bool) *accumulators {
	a := &accumulators{calls: calls, ids: slots}
	for i := range a.rows {
		a.rows[i] = []int32{} // nil would mean all rows
	}
	for _, c := range calls {
		acc := newAccumulator(c)
		if c.distinct && c.fn != minimum && c.fn != maximum {
			acc = newDistinct(c.arg, acc, a)
		}
		if p, ok := acc.(interface{ force() }); ok && empty {
			p.force()
		}
		a.list = append(a.list, acc)
	}
	return a
}

func newAccumulator(c call) accumulator {
	switch c.fn {
	case countStar, count:
		return &counter{}
	case sum:
		return newSum(c)
	case avg:
		return newAvg(c)
	case minimum, maximum:
		return newExtreme(c)
	case stddevSamp, varSamp:
		return newMoments(c)
	default:
		return newPick(c)
	}
}

// add adds the listed rows of in (nil: all) to the slots, which slots gives by row.
func (a *accumulators) add(in *input, rows, slots []int32) {
	for i, acc := range a.list {
		acc.grow(a.ids.n)
		u := update{arg: in.args[i], n: in.n, rows: rows, slots: slots, seq: in.seq, seqs: in.seqs, owner: a}
		if m := in.masks[i]; m != nil {
			a.narrow(&u, m, 0)
		}
		if u.arg != nil && u.arg.Valid != nil {
			a.narrow(&u, u.arg.Valid, 1)
		}
		// Even without any row left the accumulator has to learn that there are slots without a value.
		if u.size() > 0 || u.partial {
			acc.update(&u)
		}
	}
	a.fresh = a.fresh[:0]
}

// narrow leaves only the rows that pass has.
func (a *accumulators) narrow(u *update, pass batch.Bitmap, buffer int) {
	if u.rows == nil && pass.Count(u.n) == u.n {
		return
	}
	list := a.rows[buffer][:0]
	if u.rows == nil {
		for r := range u.n {
			if pass.Get(r) {
				list = append(list, int32(r))
			}
		}
	} else {
		for _, r := range u.rows {
			if pass.Get(int(r)) {
				list = append(list, r)
			}
		}
	}
	u.partial = u.partial || len(list) < u.size()
	a.rows[buffer], u.rows = list, list
}

func (a *accumulators) grow() {
	for _, acc := range a.list {
		acc.grow(a.ids.n)
	}
}

func (a *accumulators) merge(dst, src []int32) {
	for _, acc := range a.list {
		acc.grow(a.ids.n)
		acc.merge(dst, src)
	}
}

func (a *accumulators) reset(slots []int32) {
	for _, acc := range a.list {
		acc.grow(a.ids.n)
		acc.reset(slots)
	}
}

// presence tells which slots have seen a value. Until rows are first left out for being NULL or
// filtered, each slot in use has, and nothing is stored.
type presence struct {
	seen []bool
	on   bool
}

// force makes p keep account from the start.
func (p *presence) force() { p.on = true }

func (p *presence) growSeen(n int) {
	if p.on {
		p.seen = extend(p.seen, n)
	}
}

// note is called for each update.
func (p *presence) note(u *update) {
	if !p.on {
		if !u.partial {
			return
		}
		p.turnOn(u.owner)
	}
	if u.rows == nil {
		for _, s := range u.slots[:u.n] {
			p.seen[s] = true
		}
		return
	}
	for _, r := range u.rows {
		p.seen[u.slots[r]] = true
	}
}

func (p *presence) turnOn(a *accumulators) {
	p.on = true
	p.seen = make([]bool, a.ids.n)
	for i := range p.seen {
		p.seen[i] = true
	}
	for _, s := range a.ids.free {
		p.seen[s] = false
	}
	for _, s := range a.fresh {
		p.seen[s] = false
	}
}

func (p *presence) mergeSeen(dst, src []int32) {
	if p.on {
		for i, d := range dst {
			p.seen[d] = p.seen[d] || p.seen[src[i]]
		}
	}
}

func (p *presence) resetSeen(slots []int32) {
	if p.on {
		for _, s := range slots {
			p.seen[s] = false
		}
	}
}

// valid returns the bitmap of the slots that have seen a value, nil if all have, reusing old.
func (p *presence) valid(slots []int32, old batch.Bitmap) batch.Bitmap {
	if !p.on {
		return nil
	}
	m := batch.GrowBitmap(old, len(slots))
	for i, s := range slots {
		m.SetTo(i, p.seen[s])
	}
	return m
}
