package expr

import (
	"math"
	"math/bits"

	"sluice/dataflow"
	"sluice/dataflow/batch"
	"sluice/dataflow/decimal"
)

// arithmetic builds x op y for numbers, timestamps and durations.
func (b *builder) arithmetic(t *typed) evaluator {
	x, y := t.args[0], t.args[1]
	switch t.typ.Kind {
	case dataflow.Float:
		return b.floatArithmetic(t)
	case dataflow.Decimal:
		return &decimalArithmetic{result: newResult(t), op: t.op, x: b.value(x), y: b.value(y), sx: x.typ.Scale, sy: y.typ.Scale}
	}
	if x.isConstant() && (t.op == opAdd || t.op == opMultiply) {
		x, y = y, x
	}
	e := &intArithmetic{result: newResult(t), op: t.op, x: b.value(x), y: b.value(y)}
	if y.isConstant() && !y.val.null {
		e.constant, e.c = true, y.val.i
	}
	return e
}

// intArithmetic computes with 64-bit integers. The kernels notice by a flag for the whole batch that
// something overflows or divides by zero; only then are the rows looked at one by one.
type intArithmetic struct {
	result
	op       op
	x, y     evaluator
	constant bool  // y is the constant c
	c        int64 // then
}

func (e *intArithmetic) eval(r *run, sel []int32) *batch.Vector {
	x, y := e.x.eval(r, sel), e.y.eval(r, sel)
	out := e.reset(r.n)
	e.nullsOfBoth(x, y)
	bad := false
	switch {
	case !dense(r.n, sel) || (e.op == opDivide || e.op == opRemainder) && sel != nil:
		bad = intsAt(e.op, out.Ints, x.Ints, y.Ints, sel)
	case e.constant:
		bad = intsConstant(e.op, out.Ints, x.Ints[:r.n], e.c)
	default:
		bad = ints(e.op, out.Ints, x.Ints[:r.n], y.Ints)
	}
	if bad {
		e.each(sel, func(i int32) {
			if what := intFault(e.op, x.Ints[i], y.Ints[i], e.typ.Kind); what != "" {
				e.fail(r, i, what)
			}
		})
	}
	return out
}

var overflowNames = map[dataflow.Kind]string{
	dataflow.Int: "integer overflow", dataflow.Float: "float overflow", dataflow.Decimal: "decimal overflow",
	dataflow.Timestamp: "timestamp overflow", dataflow.Duration: "duration overflow",
}

const divisionByZero = "division by zero"

// intFault tells what is wrong with x op y, if anything.
func intFault(o op, x, y int64, k dataflow.Kind) string {
	bad := false
	switch o {
	case opAdd:
		s := x + y
		bad = (x^s)&(y^s) < 0
	case opSubtract:
		d := x - y
		bad = (x^y)&(x^d) < 0
	case opMultiply:
		bad = mulOverflows(x, y)
	default:
		if y == 0 {
			return divisionByZero
		}
		bad = o == opDivide && x == math.MinInt64 && y == -1
	}
	if bad {
		return overflowNames[k]
	}
	return ""
}

func mulOverflows(x, y int64) bool {
	hi, lo := bits.Mul64(uint64(x), uint64(y))
	signed := int64(hi) - (x >> 63 & y) - (y >> 63 & x)
	return signed != int64(lo)>>63
}

// ints computes dst = x op y and reports whether a row may be at fault.
func ints(o op, dst, x, y []int64) bool {
	dst, y = dst[:len(x)], y[:len(x)]
	var bad int64
	switch o {
	case opAdd:
		for i, a := range x {
			b := y[i]
			s := a + b
			dst[i] = s
			bad |= (a ^ s) & (b ^ s)
		}
	case opSubtract:
		for i, a := range x {
			b := y[i]
			d := a - b
			dst[i] = d
			bad |= (a ^ b) & (a ^ d)
		}
	case opMultiply:
		for i, a := range x {
			b := y[i]
			hi, lo := bits.Mul64(uint64(a), uint64(b))
			dst[i] = int64(lo)
			if int64(hi)-(a>>63&b)-(b>>63&a) != int64(lo)>>63 {
				bad = -1
			}
		}
	case opDivide:
		for i, a := range x {
			if b := y[i]; uint64(b)+1 > 1 {
				dst[i] = a / b
			} else { // 0 or -1
				dst[i], bad = -a, -1
			}
		}
	case opRemainder:
		for i, a := range x {
			if b := y[i]; uint64(b)+1 > 1 {
				dst[i] = a % b
			} else {
				dst[i], bad = 0, -1
			}
		}
	}
	return bad < 0
}

// intsConstant computes dst = x op c and reports whether a row may be at fault.
func intsConstant(o op, dst, x []int64, c int64) bool {
	dst = dst[:len(x)]
	switch o {
	case opAdd:
		return addConstant(dst, x, c)
	case opSubtract:
		if c != math.MinInt64 {
			return addConstant(dst, x, -c)
		}
	case opMultiply:
		return multiplyConstant(dst, x, c)
	case opDivide:
		if uint64(c)+1 > 1 {
			for i, a := range x {
				dst[i] = a / c
			}
			return false
		}
	case opRemainder:
		if uint64(c)+1 > 1 {
			for i, a := range x {
				dst[i] = a % c
			}
			return false
		}
	}
	bad := false
	for i, a := range x {
		switch {
		case o == opSubtract:
			dst[i] = a - c
			bad = bad || a >= 0
		case o == opDivide:
			dst[i] = -a
			bad = bad || c == 0 || a == math.MinInt64
		default:
			dst[i] = 0
			bad = bad || c == 0
		}
	}
	return bad
}

func addConstant(dst, x []int64, c int64) bool {
	var bad int64
	for i, a := range x {
		s := a + c
		dst[i] = s
		bad |= (a ^ s) & (c ^ s)
	}
	return bad < 0
}

func multiplyConstant(dst, x []int64, c int64) bool {
	if c == 0 || c == -1 { // dividing by it gives no range of the factors that are safe
		bad := false
		for i, a := range x {
			dst[i] = a * c
			bad = bad || c != 0 && a == math.MinInt64
		}
		return bad
	}
	lo, hi := math.MinInt64/c, math.MaxInt64/c
	if c < 0 {
		lo, hi = hi, lo
	}
	width := uint64(hi - lo)
	bad := 0
	for i, a := range x {
		dst[i] = a * c
		bad |= truth(uint64(a-lo) > width)
	}
	return bad != 0
}

// intsAt is ints for the rows that sel lists.
func intsAt(o op, dst, x, y []int64, sel []int32) bool {
	bad := false
	switch o {
	case opAdd:
		for _, i := range sel {
			s := x[i] + y[i]
			dst[i] = s
			bad = bad || (x[i]^s)&(y[i]^s) < 0
		}
	case opSubtract:
		for _, i := range sel {
			d := x[i] - y[i]
			dst[i] = d
			bad = bad || (x[i]^y[i])&(x[i]^d) < 0
		}
	case opMultiply:
		for _, i := range sel {
			dst[i] = x[i] * y[i]
			bad = bad || mulOverflows(x[i], y[i])
		}
	case opDivide:
		for _, i := range sel {
			if b := y[i]; uint64(b)+1 > 1 {
				dst[i] = x[i] / b
			} else {
				dst[i], bad = -x[i], true
			}
		}
	case opRemainder:
		for _, i := range sel {
			if b := y[i]; uint64(b)+1 > 1 {
				dst[i] = x[i] % b
			} else {
				dst[i], bad = 0, true
			}
		}
	}
	return bad
}

// negation builds -x.
func (b *builder) negation(t *typed) evaluator {
	return &negation{result: newResult(t), x: b.value(t.args[0])}
}

type negation struct {
	result
	x evaluator
}

func (e *negation) eval(r *run, sel []int32) *batch.Vector {
	x := e.x.eval(r, sel)
	out := e.reset(r.n)
	e.nullsOf(x)
	switch e.typ.Kind {
	case dataflow.Float:
		for i, a := range x.Floats[:r.n] {
			out.Floats[i] = -a
		}
	case dataflow.Decimal:
		e.each(sel, func(i int32) { out.Decimals[i] = decimal.Neg(x.Decimals[i]) })
	default:
		var bad int64
		for i, a := range x.Ints[:r.n] {
			out.Ints[i] = -a
			bad |= a & -a
		}
		if bad < 0 {
			e.each(sel, func(i int32) {
				if x.Ints[i] == math.MinInt64 {
					e.fail(r, i, overflowNames[e.typ.Kind])
				}
			})
		}
	}
	return out
}
