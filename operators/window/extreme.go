package window

import (
	"bytes"
	"math"

	"sluice/dataflow"
	"sluice/dataflow/batch"
	"sluice/dataflow/decimal"
)

// newExtreme makes the state of min(x) or max(x).
func newExtreme(c call) accumulator {
	switch c.arg.Kind {
	case dataflow.String, dataflow.Bytes:
		return newExtremeText(c)
	case dataflow.Decimal:
		return newExtremeDecimal(c)
	}
	a := &extremeWord{typ: c.arg, flip: 1 << 63}
	if c.fn == minimum {
		a.flip = 1<<63 - 1
	}
	return a
}

// extremeWord is min and max of what fits into 64 bits. Values are mapped to unsigned integers such
// that the extreme one is the largest and no value is below 0, the state of no rows: an integer by
// inverting its sign bit; a float too, if it is positive, else by inverting all bits; and for min all
// bits once more. NaN is above all other floats.
type extremeWord struct {
	presence
	best []uint64
	typ  dataflow.Type
	flip uint64 // what inverts an integer
}

func (a *extremeWord) grow(n int) { a.best = extend(a.best, n); a.growSeen(n) }

func (a *extremeWord) update(u *update) {
	a.note(u)
	switch a.typ.Kind {
	case dataflow.Float:
		a.updateFloats(u)
	case dataflow.Bool:
		for i := range u.size() {
			r := u.row(i)
			v := uint64(0)
			if u.arg.Bits.Get(int(r)) {
				v = 1
			}
			a.best[u.slots[r]] = max(a.best[u.slots[r]], v^a.flip)
		}
	default:
		a.updateInts(u)
	}
}

func (a *extremeWord) updateInts(u *update) {
	best, vals, flip := a.best, u.arg.Ints, a.flip
	if u.rows == nil {
		for i, s := range u.slots[:u.n] {
			best[s] = max(best[s], uint64(vals[i])^flip)
		}
		return
	}
	for _, r := range u.rows {
		s := u.slots[r]
		best[s] = max(best[s], uint64(vals[r])^flip)
	}
}

func (a *extremeWord) updateFloats(u *update) {
	best, vals, flip := a.best, u.arg.Floats, a.flip
	if u.rows == nil {
		for i, s := range u.slots[:u.n] {
			best[s] = max(best[s], orderedFloat(vals[i])^flip)
		}
		return
	}
	for _, r := range u.rows {
		s := u.slots[r]
		best[s] = max(best[s], orderedFloat(vals[r])^flip)
	}
}

// orderedFloat maps floats to integers that are ordered alike.
func orderedFloat(f float64) uint64 {
	if f != f {
		return nanBits
	}
	b := math.Float64bits(f)
	return b ^ uint64(int64(b)>>63)>>1
}

func (a *extremeWord) merge(dst, src []int32) {
	for i, d := range dst {
		a.best[d] = max(a.best[d], a.best[src[i]])
	}
	a.mergeSeen(dst, src)
}

func (a *extremeWord) reset(slots []int32) {
	for _, s := range slots {
		a.best[s] = 0
	}
	a.resetSeen(slots)
}

func (a *extremeWord) result(slots []int32, out *batch.Vector, _ *faults) {
	valid := out.Valid
	out.Reset(a.typ, len(slots))
	out.Valid = a.valid(slots, valid)
	switch a.typ.Kind {
	case dataflow.Float:
		for i, s := range slots {
			v := a.best[s] ^ a.flip
			out.Floats[i] = math.Float64frombits(v ^ uint64(int64(v)>>63)>>1)
		}
	case dataflow.Bool:
		for i, s := range slots {
			out.Bits.SetTo(i, a.best[s]^a.flip == 1)
		}
	default:
		for i, s := range slots {
			out.Ints[i] = int64(a.best[s] ^ a.flip)
		}
	}
}

func (a *extremeWord) size(int32) int { return 0 }

// extremeDecimal is min and max of decimals.
type extremeDecimal struct {
	presence
	best []decimal.Num
	typ  dataflow.Type
	sign int // what Cmp gives for a better value
}

func newExtremeDecimal(c call) *extremeDecimal {
	a := &extremeDecimal{typ: c.arg, sign: 1}
	if c.fn == minimum {
		a.sign = -1
	}
	a.force()
	return a
}

func (a *extremeDecimal) grow(n int) { a.best = extend(a.best, n); a.growSeen(n) }

func (a *extremeDecimal) update(u *update) {
	for i := range u.size() {
		r := u.row(i)
		a.offer(u.slots[r], u.arg.Decimals[r])
	}
}

func (a *extremeDecimal) offer(s int32, v decimal.Num) {
	if !a.seen[s] || decimal.Cmp(v, a.best[s]) == a.sign {
		a.best[s], a.seen[s] = v, true
	}
}

func (a *extremeDecimal) merge(dst, src []int32) {
	for i, d := range dst {
		if a.seen[src[i]] {
			a.offer(d, a.best[src[i]])
		}
	}
}

func (a *extremeDecimal) reset(slots []int32) { a.resetSeen(slots) }

func (a *extremeDecimal) result(slots []int32, out *batch.Vector, _ *faults) {
	valid := out.Valid
	out.Reset(a.typ, len(slots))
	out.Valid = a.valid(slots, valid)
	for i, s := range slots {
		out.Decimals[i] = a.best[s]
	}
}

func (a *extremeDecimal) size(int32) int { return 0 }

// extremeText is min and max of strings and bytes, which are ordered by their bytes.
type extremeText struct {
	presence
	best column
	sign int
}

func newExtremeText(c call) *extremeText {
	a := &extremeText{best: column{typ: c.arg}, sign: 1}
	if c.fn == minimum {
		a.sign = -1
	}
	a.force()
	return a
}

func (a *extremeText) grow(n int) { a.best.grow(n); a.growSeen(n) }

func (a *extremeText) update(u *update) {
	for i := range u.size() {
		r := u.row(i)
		a.offer(u.slots[r], u.arg.Bytes(int(r)))
	}
}

func (a *extremeText) offer(s int32, v []byte) {
	if !a.seen[s] || bytes.Compare(v, a.best.text.get(s)) == a.sign {
		a.best.text.set(s, v)
		a.seen[s] = true
	}
}

func (a *extremeText) merge(dst, src []int32) {
	for i, d := range dst {
		if a.seen[src[i]] {
			a.offer(d, a.best.text.get(src[i]))
		}
	}
}

func (a *extremeText) reset(slots []int32) {
	a.best.release(slots)
	a.resetSeen(slots)
}

func (a *extremeText) result(slots []int32, out *batch.Vector, _ *faults) {
	valid := out.Valid
	a.best.gather(slots, out)
	out.Valid = a.valid(slots, valid)
}

func (a *extremeText) size(slot int32) int { return a.best.size(slot) }
