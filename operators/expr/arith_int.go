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
	if e := b.multiplyAdd(t); e != nil {
		return e
	}
	return newArithmetic(t, b.value(t.args[0]), b.value(t.args[1]))
}

// newArithmetic makes the evaluator of t, given those of its operands.
func newArithmetic(t *typed, x, y evaluator) evaluator {
	right := t.args[1]
	if t.typ.Kind == dataflow.Decimal {
		return &decimalArithmetic{result: newResult(t), op: t.op, x: x, y: y, sx: t.args[0].typ.Scale, sy: right.typ.Scale}
	}
	if t.args[0].isConstant() && (t.op == opAdd || t.op == opMultiply) {
		x, y, right = y, x, t.args[0]
	}
	constant := right.isConstant() && !right.val.null
	if t.typ.Kind == dataflow.Float {
		return &floatArithmetic{result: newResult(t), op: t.op, x: x, y: y, constant: constant, c: right.val.f}
	}
	return &intArithmetic{result: newResult(t), op: t.op, x: x, y: y, constant: constant, c: right.val.i}
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
