package expr

import (
	"sluice/dataflow/batch"
	"sluice/dataflow/decimal"
)

// floatArithmetic computes with floats. That a result is infinite or not a number is noticed by a flag
// for the whole batch; it is a row error unless an operand was so already.
type floatArithmetic struct {
	result
	op       op
	x, y     evaluator
	constant bool
	c        float64
}

// isUnbounded reports whether f is infinite or not a number.
func isUnbounded(f float64) bool { return f-f != 0 }

func (e *floatArithmetic) eval(r *run, sel []int32) *batch.Vector {
	x, y := e.x.eval(r, sel), e.y.eval(r, sel)
	out := e.reset(r.n)
	e.nullsOfBoth(x, y)
	bad := false
	switch {
	case !dense(r.n, sel):
		bad = floatsAt(e.op, out.Floats, x.Floats, y.Floats, sel)
	case e.constant:
		bad = floatsConstant(e.op, out.Floats, x.Floats[:r.n], e.c)
	default:
		bad = floats(e.op, out.Floats, x.Floats[:r.n], y.Floats)
	}
	if bad {
		e.each(sel, func(i int32) {
			switch {
			case (e.op == opDivide || e.op == opRemainder) && y.Floats[i] == 0:
				e.fail(r, i, divisionByZero)
			case isUnbounded(out.Floats[i]) && !isUnbounded(x.Floats[i]) && !isUnbounded(y.Floats[i]):
				e.fail(r, i, overflowNames[e.typ.Kind])
			}
		})
	}
	return out
}

// floatsAt is floats for the rows that sel lists.
func floatsAt(o op, dst, x, y []float64, sel []int32) bool {
	bad := 0.0
	for _, i := range sel {
		v := floatOp(o, x[i], y[i])
		dst[i] = v
		bad += v - v
	}
	return bad != 0
}

// decimalArithmetic computes with decimals of the scales sx and sy.
type decimalArithmetic struct {
	result
	op     op
	x, y   evaluator
	sx, sy uint8
}

func (e *decimalArithmetic) eval(r *run, sel []int32) *batch.Vector {
	x, y := e.x.eval(r, sel), e.y.eval(r, sel)
	out := e.reset(r.n)
	e.nullsOfBoth(x, y)
	e.each(sel, func(i int32) {
		if (e.op == opDivide || e.op == opRemainder) && decimal.IsZero(y.Decimals[i]) {
			e.fail(r, i, divisionByZero)
			return
		}
		v, ok := e.compute(x.Decimals[i], y.Decimals[i])
		if !ok {
			e.fail(r, i, overflowNames[e.typ.Kind])
		}
		out.Decimals[i] = v
	})
	return out
}

func (e *decimalArithmetic) compute(a, b decimal.Num) (v decimal.Num, ok bool) {
	switch e.op {
	case opMultiply:
		return decimal.Mul(a, b)
	case opDivide:
		return decimal.Div(a, b, e.sx, e.sy, e.typ.Scale)
	}
	s := e.typ.Scale
	if e.sx != s {
		if a, ok = decimal.Rescale(a, e.sx, s); !ok {
			return a, false
		}
	}
	if e.sy != s {
		if b, ok = decimal.Rescale(b, e.sy, s); !ok {
			return b, false
		}
	}
	switch e.op {
	case opAdd:
		return decimal.Add(a, b)
	case opSubtract:
		return decimal.Sub(a, b)
	}
	return decimal.Rem(a, b)
}
