package expr

import (
	"math/big"

	"sluice/dataflow/batch"
	"sluice/dataflow/decimal"
)

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

func (e *decimalArithmetic) compute(a, b decimal.Num) (decimal.Num, bool) {
	switch e.op {
	case opMultiply:
		return decimal.Mul(a, b)
	case opDivide:
		return decimal.Div(a, b, e.sx, e.sy, e.typ.Scale)
	}
	s := e.typ.Scale
	x, y, ok := a, b, true
	if e.sx != s {
		x, ok = decimal.Rescale(a, e.sx, s)
	} else if e.sy != s {
		y, ok = decimal.Rescale(b, e.sy, s)
	}
	if !ok {
		return exactly(e.op, a, b, s-e.sx, s-e.sy)
	}
	switch e.op {
	case opAdd:
		return decimal.Add(x, y)
	case opSubtract:
		return decimal.Sub(x, y)
	}
	return decimal.Rem(x, y)
}

// exactly computes a sum, difference or remainder of which an operand does not fit 38 digits at the
// scale of the result, although the result may: it has dx and dy digits fewer behind the point.
func exactly(o op, a, b decimal.Num, dx, dy uint8) (decimal.Num, bool) {
	x, y := scaledBig(a, dx), scaledBig(b, dy)
	switch o {
	case opAdd:
		x.Add(x, y)
	case opSubtract:
		x.Sub(x, y)
	default:
		x.Rem(x, y)
	}
	if x.CmpAbs(scaledBig(decimal.Num{Lo: 1}, 38)) >= 0 {
		return decimal.Num{}, false
	}
	lo := new(big.Int).And(x, new(big.Int).SetUint64(1<<64-1))
	return decimal.Num{Lo: lo.Uint64(), Hi: x.Rsh(x, 64).Int64()}, true
}

// scaledBig is n times ten to the given power.
func scaledBig(n decimal.Num, power uint8) *big.Int {
	v := big.NewInt(n.Hi)
	v.Lsh(v, 64).Add(v, new(big.Int).SetUint64(n.Lo))
	return v.Mul(v, new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(power)), nil))
}
