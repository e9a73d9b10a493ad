package expr

import (
	"bytes"
	"math"

	"sluice/dataflow"
	"sluice/dataflow/batch"
	"sluice/dataflow/decimal"
)

// compare builds x cmp y.
func (b *builder) compare(t *typed) test {
	x, y := t.args[0], t.args[1]
	if y.isConstant() && !y.val.null {
		if c := b.compareConstant(t, x, y); c != nil {
			return c
		}
	}
	return &pairTest{x: b.value(x), y: b.value(y), how: newPairing(t.cmp, x.typ, y.typ)}
}

// compareConstant builds a comparison with a constant, nil if there is no special kernel for it.
func (b *builder) compareConstant(t, x, y *typed) test {
	switch x.typ.Kind {
	case dataflow.Int, dataflow.Timestamp, dataflow.Duration:
		return newIntRange(b.value(x), t.cmp, y.val.i)
	case dataflow.Decimal:
		if x.op == opCast && x.args[0].typ.Kind == dataflow.Int && x.typ == intDecimal {
			if c, cmp, ok := intBound(t.cmp, y.val.d, y.typ.Scale); ok {
				return newIntRange(b.value(x.args[0]), cmp, c)
			}
		}
	case dataflow.Float:
		if !math.IsNaN(y.val.f) {
			return newFloatRange(b.value(x), t.cmp, y.val.f)
		}
	case dataflow.String, dataflow.Bytes:
		return &textTest{x: b.value(x), cmp: t.cmp, c: []byte(y.val.s)}
	}
	return nil
}

// intBound turns a comparison of an int with a decimal that is not whole, or too large, into one with
// an int. Equality with it is left to the comparison of decimals.
func intBound(cmp comparison, d decimal.Num, scale uint8) (int64, comparison, bool) {
	if cmp == equal || cmp == notEqual {
		return 0, cmp, false
	}
	half, ok := decimal.Rescale(d, scale, 0) // rounded
	if !ok {
		return 0, cmp, false
	}
	c, ok := decimal.Int64(half)
	back, fits := decimal.Rescale(half, 0, scale)
	if !ok || !fits {
		return 0, cmp, false
	}
	below := decimal.Cmp(back, d) < 0 // c < d < c+1, else c-1 < d < c
	if cmp == less || cmp == lessEqual {
		if below {
			return c, lessEqual, true
		}
		return c, less, true
	}
	if below {
		return c, greater, true
	}
	return c, greaterEqual, true
}

// intRange is a comparison of integers with constants: x lies in [lo, hi], or does not. All six
// operators and BETWEEN are that, and one kernel without branches does it.
type intRange struct {
	x      evaluator
	lo, hi int64
	empty  bool // [lo, hi] has no member
	not    bool
}

func newIntRange(x evaluator, cmp comparison, c int64) *intRange {
	t := &intRange{x: x, lo: math.MinInt64, hi: math.MaxInt64}
	switch cmp {
	case equal, notEqual:
		t.lo, t.hi, t.not = c, c, cmp == notEqual
	case less:
		t.hi, t.empty = c-1, c == math.MinInt64
	case lessEqual:
		t.hi = c
	case greater:
		t.lo, t.empty = c+1, c == math.MaxInt64
	case greaterEqual:
		t.lo = c
	}
	return t
}

func (t *intRange) test(r *run, sel, dst []int32) ([]int32, batch.Bitmap) {
	x := t.x.eval(r, sel)
	switch {
	case t.empty && t.not:
		return all(r.n, sel, dst), x.Valid
	case t.empty:
		return room(dst, 0), x.Valid
	case t.not:
		return outside(x.Ints[:r.n], t.lo, t.hi, sel, dst), x.Valid
	}
	return inside(x.Ints[:r.n], t.lo, t.hi, sel, dst), x.Valid
}

// inside lists the rows with lo <= x <= hi; lo must not be above hi.
func inside(x []int64, lo, hi int64, sel, dst []int32) []int32 {
	width, k := uint64(hi)-uint64(lo), 0
	dst = room(dst, count(len(x), sel))
	if sel == nil {
		for i, v := range x {
			dst[k] = int32(i)
			k += truth(uint64(v)-uint64(lo) <= width)
		}
		return dst[:k]
	}
	for _, i := range sel {
		dst[k] = i
		k += truth(uint64(x[i])-uint64(lo) <= width)
	}
	return dst[:k]
}

// outside lists the rows that inside does not.
func outside(x []int64, lo, hi int64, sel, dst []int32) []int32 {
	width, k := uint64(hi)-uint64(lo), 0
	dst = room(dst, count(len(x), sel))
	if sel == nil {
		for i, v := range x {
			dst[k] = int32(i)
			k += truth(uint64(v)-uint64(lo) > width)
		}
		return dst[:k]
	}
	for _, i := range sel {
		dst[k] = i
		k += truth(uint64(x[i])-uint64(lo) > width)
	}
	return dst[:k]
}

// intersect makes one test of two ranges of the same column, nil if they are not that.
func intersect(x, y selector) selector {
	tx, _ := x.(*testSelector)
	ty, _ := y.(*testSelector)
	if tx == nil || ty == nil {
		return nil
	}
	a, _ := tx.of.(*intRange)
	b, _ := ty.of.(*intRange)
	if a == nil || b == nil || a.not || b.not {
		return nil
	}
	ca, ok := a.x.(columnValue)
	if cb, also := b.x.(columnValue); !ok || !also || ca != cb {
		return nil
	}
	both := &intRange{x: a.x, lo: max(a.lo, b.lo), hi: min(a.hi, b.hi)}
	both.empty = a.empty || b.empty || both.lo > both.hi
	return &testSelector{both}
}

// floatRange is a comparison of floats with constants: lo <= x <= hi, or not that. Since not-a-number
// is neither, it counts as greater than all numbers where the bound is an upper one and not is set.
type floatRange struct {
	x      evaluator
	lo, hi float64
	not    bool
}

func newFloatRange(x evaluator, cmp comparison, c float64) *floatRange {
	t := &floatRange{x: x, lo: math.Inf(-1), hi: c}
	switch cmp {
	case equal, notEqual:
		t.lo, t.not = c, cmp == notEqual
	case less, greaterEqual:
		t.not = cmp == greaterEqual
		if t.hi = math.Nextafter(c, math.Inf(-1)); math.IsInf(c, -1) {
			t.lo = math.Inf(1)
		}
	case greater:
		t.not = true
	}
	return t
}

func (t *floatRange) test(r *run, sel, dst []int32) ([]int32, batch.Bitmap) {
	x := t.x.eval(r, sel)
	xs, flip := x.Floats[:r.n], truth(t.not)
	if math.IsInf(t.lo, -1) {
		return atMost(xs, t.hi, flip, sel, dst), x.Valid
	}
	k := 0
	dst = room(dst, count(r.n, sel))
	if sel == nil {
		for i, v := range xs {
			dst[k] = int32(i)
			k += truth(v >= t.lo)&truth(v <= t.hi) ^ flip
		}
		return dst[:k], x.Valid
	}
	for _, i := range sel {
		dst[k] = i
		k += truth(xs[i] >= t.lo)&truth(xs[i] <= t.hi) ^ flip
	}
	return dst[:k], x.Valid
}

// atMost lists the rows with x <= hi, or with flip = 1 the others.
func atMost(x []float64, hi float64, flip int, sel, dst []int32) []int32 {
	k := 0
	dst = room(dst, count(len(x), sel))
	if sel == nil {
		for i, v := range x {
			dst[k] = int32(i)
			k += truth(v <= hi) ^ flip
		}
		return dst[:k]
	}
	for _, i := range sel {
		dst[k] = i
		k += truth(x[i] <= hi) ^ flip
	}
	return dst[:k]
}

// textTest compares text with a constant.
type textTest struct {
	x   evaluator
	cmp comparison
	c   []byte
}

func (t *textTest) test(r *run, sel, dst []int32) ([]int32, batch.Bitmap) {
	x := t.x.eval(r, sel)
	dst = room(dst, count(r.n, sel))
	k := 0
	if t.cmp == equal || t.cmp == notEqual {
		flip := truth(t.cmp == notEqual)
		if sel == nil {
			for i := range int32(r.n) {
				dst[k] = i
				k += truth(string(x.Bytes(int(i))) == string(t.c)) ^ flip
			}
			return dst[:k], x.Valid
		}
		for _, i := range sel {
			dst[k] = i
			k += truth(string(x.Bytes(int(i))) == string(t.c)) ^ flip
		}
		return dst[:k], x.Valid
	}
	holds := orders[t.cmp]
	for j := range dst {
		i := rowAt(sel, j)
		dst[k] = i
		k += holds[bytes.Compare(x.Bytes(int(i)), t.c)+1]
	}
	return dst[:k], x.Valid
}

// orders tells for each operator whether it holds (1) where the order of its operands is -1, 0, 1.
var orders = [...][3]int{equal: {0, 1, 0}, notEqual: {1, 0, 1}, less: {1, 0, 0}, lessEqual: {1, 1, 0}, greater: {0, 0, 1}, greaterEqual: {0, 1, 1}}

// rowAt is the j-th row of a selection.
func rowAt(sel []int32, j int) int32 {
	if sel == nil {
		return int32(j)
	}
	return sel[j]
}

// pairTest compares two values of each row.
type pairTest struct {
	x, y  evaluator
	how   pairing
	valid batch.Bitmap
}

func (t *pairTest) test(r *run, sel, dst []int32) (rows []int32, valid batch.Bitmap) {
	x, y := t.x.eval(r, sel), t.y.eval(r, sel)
	valid, t.valid = joint(t.valid, r.n, x.Valid, y.Valid)
	return t.how.rows(x, y, valid, sel, dst), valid
}
