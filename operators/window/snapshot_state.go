package window

import (
	"math"
	"slices"

	"sluice/dataflow"
	"sluice/dataflow/batch"
	"sluice/dataflow/decimal"
)

// stored is the part of an accumulator that keeps its state beyond the end of the process.
type stored interface {
	// save writes the states of slots.
	save(e *encoder, slots []int32)
	// load brings slots, which nobody has used yet, to the states that save wrote.
	load(d *decoder, slots []int32, owner *accumulators)
	// clone copies what save reads.
	clone() accumulator
}

func (a *accumulators) save(e *encoder, slots []int32) {
	for _, acc := range a.list {
		acc.save(e, slots)
	}
}

func (a *accumulators) load(d *decoder, slots []int32) {
	for _, acc := range a.list {
		acc.grow(a.ids.n)
		acc.load(d, slots, a)
	}
}

// clone copies what save and size read.
func (a *accumulators) clone() *accumulators {
	a.grow()
	c := &accumulators{calls: a.calls, list: make([]accumulator, len(a.list)), ids: &ids{n: a.ids.n}}
	for i, acc := range a.list {
		c.list[i] = acc.clone()
	}
	return c
}

// size is a bound on the bytes of text in the results of a slot.
func (a *accumulators) size(slot int32) int {
	n := 0
	for _, acc := range a.list {
		n += acc.size(slot)
	}
	return n
}

func (p *presence) saveSeen(e *encoder, slots []int32) {
	seen := e.flags(len(slots))
	for i, s := range slots {
		seen[i] = !p.on || p.seen[s]
	}
	e.bools(seen)
}

func (p *presence) loadSeen(d *decoder, slots []int32, owner *accumulators) []bool {
	seen := d.bools(len(slots))
	if !p.on && slices.Contains(seen, false) {
		p.turnOn(owner)
	}
	if p.on {
		for i, s := range slots {
			p.seen[s] = seen[i]
		}
	}
	return seen
}

func (p *presence) cloneSeen() presence { return presence{seen: slices.Clone(p.seen), on: p.on} }

func (a *counter) save(e *encoder, slots []int32) { gatherInts(e, a.n, slots) }

func (a *counter) load(d *decoder, slots []int32, _ *accumulators) {
	scatter(a.n, slots, d.within(len(slots), 0, math.MaxInt64, "a count"))
}

func (a *counter) clone() accumulator { c := a.copy(); return &c }
func (a *counter) copy() counter      { return counter{slices.Clone(a.n)} }

func scatter[T any](dst []T, slots []int32, vals []T) {
	for i, s := range slots {
		dst[s] = vals[i]
	}
}

func (a *intSum) save(e *encoder, slots []int32) {
	gatherInts(e, a.low, slots)
	saveHigh(e, a.high, slots)
}

// saveHigh writes the high parts of sums, which are nil if all are 0.
func saveHigh(e *encoder, high []int64, slots []int32) {
	if high == nil {
		e.zeros()
		return
	}
	gatherInts(e, high, slots)
}

// loadHigh reads what saveHigh wrote and returns high, which has a place for each of n slots or is nil.
func loadHigh(d *decoder, high []int64, slots []int32, n int) []int64 {
	vals := d.ints(len(slots))
	if high == nil && slices.ContainsFunc(vals, func(v int64) bool { return v != 0 }) {
		high = make([]int64, n)
	}
	if high != nil {
		scatter(high, slots, vals)
	}
	return high
}

func (a *intSum) load(d *decoder, slots []int32) {
	scatter(a.low, slots, d.ints(len(slots)))
	a.high = loadHigh(d, a.high, slots, len(a.low))
}

func (a *intSum) copy() intSum { return intSum{slices.Clone(a.low), slices.Clone(a.high)} }

func (a *floatSum) save(e *encoder, slots []int32) { gatherFloats(e, a.sum, slots) }
func (a *floatSum) load(d *decoder, slots []int32) { scatter(a.sum, slots, d.floats(len(slots))) }
func (a *floatSum) copy() floatSum                 { return floatSum{slices.Clone(a.sum)} }

func (a *decimalSum) save(e *encoder, slots []int32) {
	vals := make([]decimal.Num, len(slots))
	for i, s := range slots {
		vals[i] = a.low[s]
	}
	e.decimals(vals)
	saveHigh(e, a.high, slots)
}

func (a *decimalSum) load(d *decoder, slots []int32) {
	scatter(a.low, slots, d.decimals(len(slots)))
	a.high = loadHigh(d, a.high, slots, len(a.low))
}

func (a *decimalSum) copy() decimalSum { return decimalSum{slices.Clone(a.low), slices.Clone(a.high)} }

func (a *sumInt) save(e *encoder, slots []int32) { a.intSum.save(e, slots); a.saveSeen(e, slots) }
func (a *sumInt) load(d *decoder, slots []int32, o *accumulators) {
	a.intSum.load(d, slots)
	a.loadSeen(d, slots, o)
}
func (a *sumInt) clone() accumulator {
	return &sumInt{intSum: a.intSum.copy(), presence: a.cloneSeen(), typ: a.typ}
}

func (a *sumFloat) save(e *encoder, slots []int32) { a.floatSum.save(e, slots); a.saveSeen(e, slots) }
func (a *sumFloat) load(d *decoder, slots []int32, o *accumulators) {
	a.floatSum.load(d, slots)
	a.loadSeen(d, slots, o)
}
func (a *sumFloat) clone() accumulator {
	return &sumFloat{floatSum: a.floatSum.copy(), presence: a.cloneSeen(), typ: a.typ}
}

func (a *sumDecimal) save(e *encoder, slots []int32) {
	a.decimalSum.save(e, slots)
	a.saveSeen(e, slots)
}
func (a *sumDecimal) load(d *decoder, slots []int32, o *accumulators) {
	a.decimalSum.load(d, slots)
	a.loadSeen(d, slots, o)
}
func (a *sumDecimal) clone() accumulator {
	return &sumDecimal{decimalSum: a.decimalSum.copy(), presence: a.cloneSeen(), typ: a.typ, scale: a.scale}
}

func (a *avgInt) save(e *encoder, slots []int32) { a.intSum.save(e, slots); a.count.save(e, slots) }
func (a *avgInt) load(d *decoder, slots []int32, o *accumulators) {
	a.intSum.load(d, slots)
	a.count.load(d, slots, o)
}
func (a *avgInt) clone() accumulator {
	return &avgInt{intSum: a.intSum.copy(), count: a.count.copy(), typ: a.typ}
}

func (a *avgFloat) save(e *encoder, slots []int32) { a.floatSum.save(e, slots); a.count.save(e, slots) }
func (a *avgFloat) load(d *decoder, slots []int32, o *accumulators) {
	a.floatSum.load(d, slots)
	a.count.load(d, slots, o)
}
func (a *avgFloat) clone() accumulator {
	return &avgFloat{floatSum: a.floatSum.copy(), count: a.count.copy()}
}

func (a *avgDecimal) save(e *encoder, slots []int32) {
	a.decimalSum.save(e, slots)
	a.count.save(e, slots)
}
func (a *avgDecimal) load(d *decoder, slots []int32, o *accumulators) {
	a.decimalSum.load(d, slots)
	a.count.load(d, slots, o)
}
func (a *avgDecimal) clone() accumulator {
	return &avgDecimal{decimalSum: a.decimalSum.copy(), count: a.count.copy(), typ: a.typ, scale: a.scale}
}

func (a *extremeWord) save(e *encoder, slots []int32) {
	gatherInts(e, a.best, slots)
	a.saveSeen(e, slots)
}

func (a *extremeWord) load(d *decoder, slots []int32, o *accumulators) {
	for i, v := range d.ints(len(slots)) {
		a.best[slots[i]] = uint64(v)
	}
	a.loadSeen(d, slots, o)
}

func (a *extremeWord) clone() accumulator {
	return &extremeWord{presence: a.cloneSeen(), best: slices.Clone(a.best), typ: a.typ, flip: a.flip}
}

func (a *extremeDecimal) save(e *encoder, slots []int32) {
	a.saveSeen(e, slots)
	vals := make([]decimal.Num, len(slots))
	for i, s := range slots {
		if a.seen[s] {
			vals[i] = a.best[s]
		}
	}
	e.decimals(vals)
}

func (a *extremeDecimal) load(d *decoder, slots []int32, o *accumulators) {
	a.loadSeen(d, slots, o)
	scatter(a.best, slots, d.decimals(len(slots)))
}

func (a *extremeDecimal) clone() accumulator {
	return &extremeDecimal{presence: a.cloneSeen(), best: slices.Clone(a.best), typ: a.typ, sign: a.sign}
}

func (a *extremeText) save(e *encoder, slots []int32) {
	a.saveSeen(e, slots)
	e.column(&a.best, slots, a.unset(slots))
}

// unset marks the slots that have no value.
func (a *extremeText) unset(slots []int32) []bool {
	list := make([]bool, len(slots))
	for i, s := range slots {
		list[i] = !a.seen[s]
	}
	return list
}

func (a *extremeText) load(d *decoder, slots []int32, o *accumulators) {
	seen := a.loadSeen(d, slots, o)
	v := d.values(a.best.typ, len(slots))
	for i, s := range slots {
		if seen[i] {
			a.best.text.set(s, v.Bytes(i))
		}
	}
}

// values is vector where nothing may be NULL.
func (d *decoder) values(t dataflow.Type, n int) *batch.Vector {
	v := d.vector(t, n)
	if v.Valid != nil {
		d.failf("it has NULL for a value")
		v.Valid = nil
	}
	return v
}

func (a *extremeText) clone() accumulator {
	return &extremeText{presence: a.cloneSeen(), best: a.best.clone(), sign: a.sign}
}

func (a *moments) save(e *encoder, slots []int32) {
	gatherFloats(e, a.n, slots)
	gatherFloats(e, a.mean, slots)
	gatherFloats(e, a.m2, slots)
}

func (a *moments) load(d *decoder, slots []int32, _ *accumulators) {
	scatter(a.n, slots, d.floats(len(slots)))
	scatter(a.mean, slots, d.floats(len(slots)))
	scatter(a.m2, slots, d.floats(len(slots)))
}

func (a *moments) clone() accumulator {
	return &moments{root: a.root, n: slices.Clone(a.n), mean: slices.Clone(a.mean), m2: slices.Clone(a.m2)}
}

func (a *pick) save(e *encoder, slots []int32) {
	gatherInts(e, a.seq, slots)
	unset := make([]bool, len(slots))
	for i, s := range slots {
		unset[i] = a.seq[s] == 0
	}
	e.column(&a.value, slots, unset)
}

func (a *pick) load(d *decoder, slots []int32, _ *accumulators) {
	scatter(a.seq, slots, d.within(len(slots), 0, maxSeq, "a place in the stream"))
	v := d.values(a.value.typ, len(slots))
	for i, s := range slots {
		a.value.set(s, v, i)
	}
}

func (a *pick) clone() accumulator {
	return &pick{value: a.value.clone(), seq: slices.Clone(a.seq), last: a.last}
}

// maxSeq is above all places in a stream.
const maxSeq = 1 << 62

func (c *column) clone() column {
	return column{typ: c.typ, key: c.key, ints: slices.Clone(c.ints), nums: slices.Clone(c.nums), nulls: slices.Clone(c.nulls),
		text: text{refs: slices.Clone(c.text.refs), data: slices.Clone(c.text.data)}}
}

// save writes, for each slot, its values in the order in which they were added.
func (a *distinct) save(e *encoder, slots []int32) {
	a.inner.save(e, slots)
	counts := make([]int64, len(slots))
	var entries []int32
	for i, s := range slots {
		from := len(entries)
		for p := a.head[s]; p != 0; p = a.next[p-1] {
			entries = append(entries, p-1)
		}
		slices.Reverse(entries[from:])
		counts[i] = int64(len(entries) - from)
	}
	e.ints(counts)
	for len(entries) > 0 {
		n := fitting(entries, a.values.size)
		e.uvarint(uint64(n))
		e.column(&a.values, entries[:n], nil)
		entries = entries[n:]
	}
}

func (a *distinct) load(d *decoder, slots []int32, owner *accumulators) {
	a.inner.load(d, slots, owner)
	slot := -1
	var missing int64
	counts := d.within(len(slots), 0, math.MaxInt32, "a number of values")
	next := func() bool {
		for missing == 0 && slot+1 < len(counts) {
			slot++
			missing = counts[slot]
		}
		return missing > 0
	}
	for next() && d.err == nil {
		// Values differ, so each takes a byte at least, unless there is one only.
		v := d.values(a.values.typ, d.uvarint(min(pieceEntries, max(1, len(d.in)))))
		if v.Len == 0 {
			d.fail(errShort)
		}
		hashes := make([]uint64, v.Len)
		hashColumn(hashes, v, nil, true)
		for i := 0; i < v.Len && d.err == nil; i++ {
			if !next() || !a.insert(slots[slot], v, i, hashes[i]) {
				d.failf("it has a value twice, or one of no group")
				return
			}
			missing--
		}
	}
}

func (a *distinct) clone() accumulator {
	return &distinct{inner: a.inner.clone(), values: a.values.clone(), next: slices.Clone(a.next), head: slices.Clone(a.head)}
}
