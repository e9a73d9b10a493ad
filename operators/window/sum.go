package window

import (
	"math/bits"

	"sluice/dataflow"
	"sluice/dataflow/batch"
	"sluice/dataflow/decimal"
)

// counter counts rows.
type counter struct{ n []int64 }

func (a *counter) grow(n int) { a.n = extend(a.n, n) }

func (a *counter) update(u *update) {
	n := a.n
	if u.rows == nil {
		for _, s := range u.slots[:u.n] {
			n[s]++
		}
		return
	}
	for _, r := range u.rows {
		n[u.slots[r]]++
	}
}

func (a *counter) merge(dst, src []int32) {
	for i, d := range dst {
		a.n[d] += a.n[src[i]]
	}
}

func (a *counter) reset(slots []int32) {
	for _, s := range slots {
		a.n[s] = 0
	}
}

func (a *counter) result(slots []int32, out *batch.Vector, _ *faults) {
	out.Reset(dataflow.IntType, len(slots))
	for i, s := range slots {
		out.Ints[i] = a.n[s]
	}
}

func (a *counter) size(int32) int { return 0 }

// intSum adds up integers exactly: a sum may leave the range of int64 on its way and come back, so
// that it does not depend on the order of rows. The true sum is high*2^64 + low.
type intSum struct {
	low  []int64
	high []int64 // nil until a sum first leaves the range
}

func (a *intSum) grow(n int) {
	a.low = extend(a.low, n)
	if a.high != nil {
		a.high = extend(a.high, n)
	}
}

func (a *intSum) update(u *update) {
	low, vals := a.low, u.arg.Ints
	if u.rows == nil {
		for i, s := range u.slots[:u.n] {
			old, v := low[s], vals[i]
			t := old + v
			low[s] = t
			if (t^old)&(t^v) < 0 {
				a.carry(s, v)
			}
		}
		return
	}
	for _, r := range u.rows {
		s, v := u.slots[r], vals[r]
		t := low[s] + v
		if (t^low[s])&(t^v) < 0 {
			a.carry(s, v)
		}
		low[s] = t
	}
}

// carry notes that adding v to slot s wrapped around.
func (a *intSum) carry(s int32, v int64) {
	if a.high == nil {
		a.high = make([]int64, len(a.low))
	}
	if v < 0 {
		a.high[s]--
	} else {
		a.high[s]++
	}
}

func (a *intSum) merge(dst, src []int32) {
	for i, d := range dst {
		v := a.low[src[i]]
		t := a.low[d] + v
		if (t^a.low[d])&(t^v) < 0 {
			a.carry(d, v)
		}
		a.low[d] = t
		if a.high != nil {
			a.high[d] += a.high[src[i]]
		}
	}
}

func (a *intSum) reset(slots []int32) {
	for _, s := range slots {
		a.low[s] = 0
	}
	if a.high != nil {
		for _, s := range slots {
			a.high[s] = 0
		}
	}
}

// overflows reports whether the sum of a slot is no int64.
func (a *intSum) overflows(s int32) bool { return a.high != nil && a.high[s] != 0 }

// wide is the sum of a slot as a decimal without fraction digits; any sum of fewer than 2^62 rows fits.
func (a *intSum) wide(s int32) decimal.Num {
	n := decimal.FromInt64(a.low[s])
	if a.high != nil {
		n.Hi += a.high[s]
	}
	return n
}

// float is the sum of a slot as a float.
func (a *intSum) float(s int32) float64 {
	if a.high == nil {
		return float64(a.low[s])
	}
	return float64(a.high[s])*(1<<64) + float64(a.low[s])
}

// floatSum adds up floats in stream order.
type floatSum struct{ sum []float64 }

func (a *floatSum) grow(n int) { a.sum = extend(a.sum, n) }

func (a *floatSum) update(u *update) {
	acc, vals := a.sum, u.arg.Floats
	if u.rows == nil {
		for i, s := range u.slots[:u.n] {
			acc[s] += vals[i]
		}
		return
	}
	for _, r := range u.rows {
		acc[u.slots[r]] += vals[r]
	}
}

func (a *floatSum) merge(dst, src []int32) {
	for i, d := range dst {
		a.sum[d] += a.sum[src[i]]
	}
}

func (a *floatSum) reset(slots []int32) {
	for _, s := range slots {
		a.sum[s] = 0
	}
}

// decimalSum adds up decimals exactly, as intSum does integers: the true sum is high*2^128 + low.
type decimalSum struct {
	low  []decimal.Num
	high []int64
}

func (a *decimalSum) grow(n int) {
	a.low = extend(a.low, n)
	if a.high != nil {
		a.high = extend(a.high, n)
	}
}

func (a *decimalSum) update(u *update) {
	for i := range u.size() {
		r := u.row(i)
		a.add(u.slots[r], u.arg.Decimals[r])
	}
}

func (a *decimalSum) add(s int32, v decimal.Num) {
	x := a.low[s]
	lo, c := bits.Add64(x.Lo, v.Lo, 0)
	hi := x.Hi + v.Hi + int64(c)
	if (hi^x.Hi)&(hi^v.Hi) < 0 {
		if a.high == nil {
			a.high = make([]int64, len(a.low))
		}
		if v.Hi < 0 {
			a.high[s]--
		} else {
			a.high[s]++
		}
	}
	a.low[s] = decimal.Num{Lo: lo, Hi: hi}
}

func (a *decimalSum) merge(dst, src []int32) {
	for i, d := range dst {
		a.add(d, a.low[src[i]])
		if a.high != nil {
			a.high[d] += a.high[src[i]]
		}
	}
}

func (a *decimalSum) reset(slots []int32) {
	for _, s := range slots {
		a.low[s] = decimal.Num{}
	}
	if a.high != nil {
		for _, s := range slots {
			a.high[s] = 0
		}
	}
}

// overflows reports whether the sum of a slot has more than precision digits.
func (a *decimalSum) overflows(s int32, precision uint8) bool {
	return a.high != nil && a.high[s] != 0 || !decimal.Fits(a.low[s], precision)
}

// newSum makes the state of sum(x).
func newSum(c call) accumulator {
	switch c.arg.Kind {
	case dataflow.Float:
		return &sumFloat{typ: c.result}
	case dataflow.Decimal:
		return &sumDecimal{typ: c.result, scale: c.arg.Scale}
	default:
		return &sumInt{typ: c.result}
	}
}

type sumInt struct {
	intSum
	presence
	typ dataflow.Type
}

func (a *sumInt) grow(n int)             { a.intSum.grow(n); a.growSeen(n) }
func (a *sumInt) update(u *update)       { a.note(u); a.intSum.update(u) }
func (a *sumInt) merge(dst, src []int32) { a.intSum.merge(dst, src); a.mergeSeen(dst, src) }
func (a *sumInt) reset(slots []int32)    { a.intSum.reset(slots); a.resetSeen(slots) }
func (a *sumInt) size(int32) int         { return 0 }

func (a *sumInt) result(slots []int32, out *batch.Vector, bad *faults) {
	valid := out.Valid
	out.Reset(a.typ, len(slots))
	out.Valid = a.valid(slots, valid)
	if a.typ.Kind == dataflow.Decimal {
		for i, s := range slots {
			out.Decimals[i] = a.wide(s)
		}
		return
	}
	for i, s := range slots {
		out.Ints[i] = a.low[s]
		if a.overflows(s) {
			bad.add(i, "the sum is out of the range of "+a.typ.String())
		}
	}
}

type sumFloat struct {
	floatSum
	presence
	typ dataflow.Type
}

func (a *sumFloat) grow(n int)             { a.floatSum.grow(n); a.growSeen(n) }
func (a *sumFloat) update(u *update)       { a.note(u); a.floatSum.update(u) }
func (a *sumFloat) merge(dst, src []int32) { a.floatSum.merge(dst, src); a.mergeSeen(dst, src) }
func (a *sumFloat) reset(slots []int32)    { a.floatSum.reset(slots); a.resetSeen(slots) }
func (a *sumFloat) size(int32) int         { return 0 }

func (a *sumFloat) result(slots []int32, out *batch.Vector, _ *faults) {
	valid := out.Valid
	out.Reset(a.typ, len(slots))
	out.Valid = a.valid(slots, valid)
	for i, s := range slots {
		out.Floats[i] = a.sum[s]
	}
}

type sumDecimal struct {
	decimalSum
	presence
	typ   dataflow.Type
	scale uint8 // of the argument
}

func (a *sumDecimal) grow(n int)             { a.decimalSum.grow(n); a.growSeen(n) }
func (a *sumDecimal) update(u *update)       { a.note(u); a.decimalSum.update(u) }
func (a *sumDecimal) merge(dst, src []int32) { a.decimalSum.merge(dst, src); a.mergeSeen(dst, src) }
func (a *sumDecimal) reset(slots []int32)    { a.decimalSum.reset(slots); a.resetSeen(slots) }
func (a *sumDecimal) size(int32) int         { return 0 }

func (a *sumDecimal) result(slots []int32, out *batch.Vector, bad *faults) {
	valid := out.Valid
	out.Reset(a.typ, len(slots))
	out.Valid = a.valid(slots, valid)
	for i, s := range slots {
		n, ok := a.low[s], !a.overflows(s, dataflow.MaxPrecision)
		if ok {
			n, ok = decimal.Rescale(n, a.scale, a.typ.Scale)
		}
		if !ok || !decimal.Fits(n, a.typ.Precision) {
			bad.add(i, "the sum is out of the range of "+a.typ.String())
			n = decimal.Num{}
		}
		out.Decimals[i] = n
	}
}
