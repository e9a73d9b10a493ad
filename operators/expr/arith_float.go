package expr

import (
	"sluice/dataflow/batch"
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
