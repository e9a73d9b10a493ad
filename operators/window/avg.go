package window

import (
	"math"

	"sluice/dataflow"
	"sluice/dataflow/batch"
	"sluice/dataflow/decimal"
)

// newAvg makes the state of avg(x): a sum and a number of rows.
func newAvg(c call) accumulator {
	switch {
	case c.arg.Kind == dataflow.Float:
		return &avgFloat{}
	case c.arg.Kind == dataflow.Decimal:
		return &avgDecimal{typ: c.result, scale: c.arg.Scale}
	default:
		return &avgInt{typ: c.result}
	}
}

// avgInt is the average of ints, a float, or of durations, a duration rounded half away from zero.
type avgInt struct {
	intSum
	count counter
	typ   dataflow.Type
}

func (a *avgInt) grow(n int)             { a.intSum.grow(n); a.count.grow(n) }
func (a *avgInt) update(u *update)       { a.intSum.update(u); a.count.update(u) }
func (a *avgInt) merge(dst, src []int32) { a.intSum.merge(dst, src); a.count.merge(dst, src) }
func (a *avgInt) reset(slots []int32)    { a.intSum.reset(slots); a.count.reset(slots) }
func (a *avgInt) size(int32) int         { return 0 }

func (a *avgInt) result(slots []int32, out *batch.Vector, _ *faults) {
	valid := out.Valid
	out.Reset(a.typ, len(slots))
	out.Valid = a.count.valid(slots, valid)
	for i, s := range slots {
		n := a.count.n[s]
		switch {
		case a.typ.Kind == dataflow.Float:
			out.Floats[i] = a.float(s) / float64(n)
		case n == 0:
			out.Ints[i] = 0
		case a.overflows(s):
			out.Ints[i] = clampInt(a.float(s) / float64(n))
		default:
			out.Ints[i] = divideHalfAway(a.low[s], n)
		}
	}
}

// divideHalfAway is a/n, rounded to the nearest integer, halves away from zero; n is positive.
func divideHalfAway(a, n int64) int64 {
	q, r := a/n, a%n
	switch {
	case r > 0 && r >= n-r:
		return q + 1
	case r < 0 && -r >= n+r:
		return q - 1
	}
	return q
}

func clampInt(f float64) int64 {
	switch {
	case f >= math.MaxInt64:
		return math.MaxInt64
	case f <= math.MinInt64:
		return math.MinInt64
	}
	return int64(math.Round(f))
}

// valid returns the bitmap of the slots that have rows, nil if all have, reusing old.
func (a *counter) valid(slots []int32, old batch.Bitmap) batch.Bitmap {
	all := true
	for _, s := range slots {
		all = all && a.n[s] > 0
	}
	if all {
		return nil
	}
	m := batch.GrowBitmap(old, len(slots))
	for i, s := range slots {
		m.SetTo(i, a.n[s] > 0)
	}
	return m
}

type avgFloat struct {
	floatSum
	count counter
}

func (a *avgFloat) grow(n int)             { a.floatSum.grow(n); a.count.grow(n) }
func (a *avgFloat) update(u *update)       { a.floatSum.update(u); a.count.update(u) }
func (a *avgFloat) merge(dst, src []int32) { a.floatSum.merge(dst, src); a.count.merge(dst, src) }
func (a *avgFloat) reset(slots []int32)    { a.floatSum.reset(slots); a.count.reset(slots) }
func (a *avgFloat) size(int32) int         { return 0 }

func (a *avgFloat) result(slots []int32, out *batch.Vector, _ *faults) {
	valid := out.Valid
	out.Reset(dataflow.FloatType, len(slots))
	out.Valid = a.count.valid(slots, valid)
	for i, s := range slots {
		out.Floats[i] = a.sum[s] / float64(a.count.n[s])
	}
}

// avgDecimal is the average of decimals, rounded half away from zero to the digits of its type.
type avgDecimal struct {
	decimalSum
	count counter
	typ   dataflow.Type
	scale uint8 // of the argument
}

func (a *avgDecimal) grow(n int)             { a.decimalSum.grow(n); a.count.grow(n) }
func (a *avgDecimal) update(u *update)       { a.decimalSum.update(u); a.count.update(u) }
func (a *avgDecimal) merge(dst, src []int32) { a.decimalSum.merge(dst, src); a.count.merge(dst, src) }
func (a *avgDecimal) reset(slots []int32)    { a.decimalSum.reset(slots); a.count.reset(slots) }
func (a *avgDecimal) size(int32) int         { return 0 }

func (a *avgDecimal) result(slots []int32, out *batch.Vector, bad *faults) {
	valid := out.Valid
	out.Reset(a.typ, len(slots))
	out.Valid = a.count.valid(slots, valid)
	for i, s := range slots {
		out.Decimals[i] = decimal.Num{}
		n := a.count.n[s]
		if n == 0 {
			continue
		}
		q, ok := decimal.Num{}, !a.overflows(s, dataflow.MaxPrecision)
		if ok {
			q, ok = decimal.Div(a.low[s], decimal.FromInt64(n), a.scale, 0, a.typ.Scale)
		}
		if !ok || !decimal.Fits(q, a.typ.Precision) {
			bad.add(i, "the average, or its sum, is out of the range of "+a.typ.String())
			continue
		}
		out.Decimals[i] = q
	}
}
