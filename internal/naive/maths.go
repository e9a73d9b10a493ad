package naive

import (
	"math"
	"math/big"
)

func addMath() {
	functions["abs()"] = func(n *Node, a []Value) (Value, error) {
		switch n.Type.Kind {
		case Float:
			return float(math.Abs(a[0].Float))
		case Decimal:
			return Value{Dec: new(big.Int).Abs(a[0].Dec)}, nil
		}
		return integer(new(big.Int).Abs(big.NewInt(a[0].Int)))
	}
	functions["sign()"] = func(n *Node, a []Value) (Value, error) {
		switch t := n.Args[0].Type; t.Kind {
		case Float:
			return Value{Int: int64(compare(a[0], Value{}, FloatType, FloatType))}, nil
		default:
			return Value{Int: int64(asRat(a[0], t).Sign())}, nil
		}
	}
	functions["round()"] = round
	functions["floor()"] = func(n *Node, a []Value) (Value, error) { return whole(n, a[0], math.Floor, -1) }
	functions["ceil()"] = func(n *Node, a []Value) (Value, error) { return whole(n, a[0], math.Ceil, 1) }
	functions["sqrt()"] = ofFloat(math.Sqrt)
	functions["ln()"] = ofFloat(math.Log)
	functions["log10()"] = ofFloat(math.Log10)
	functions["exp()"] = ofFloat(math.Exp)
	functions["power()"] = func(n *Node, a []Value) (Value, error) {
		return float(math.Pow(asFloat(a[0], n.Args[0].Type), asFloat(a[1], n.Args[1].Type)))
	}
}

// ofFloat is a function of a float. Where it has no value, it fails.
func ofFloat(f func(float64) float64) operation {
	return func(n *Node, a []Value) (Value, error) { return float(f(asFloat(a[0], n.Args[0].Type))) }
}

// whole is floor (side -1) or ceil (side 1).
func whole(n *Node, v Value, f func(float64) float64, side int) (Value, error) {
	t := n.Args[0].Type
	switch t.Kind {
	case Int:
		return v, nil
	case Float:
		return float(f(v.Float))
	}
	r := asRat(v, t)
	q := new(big.Int).Quo(r.Num(), r.Denom())
	if new(big.Rat).SetInt(q).Cmp(r) == -side {
		q.Add(q, big.NewInt(int64(side)))
	}
	return decimal(new(big.Rat).SetInt(q), n.Type)
}

// round gives a[1] digits after the point, or none; halves go away from zero. A negative number of
// digits rounds before the point.
func round(n *Node, a []Value) (Value, error) {
	t, digits := n.Args[0].Type, int64(0)
	if len(a) > 1 {
		digits = max(-400, min(a[1].Int, 400))
	}
	switch {
	case t.Kind == Float:
		return float(roundFloat(a[0].Float, int(digits)))
	case t.Kind == Int:
		return integer(roundTo(asRat(a[0], t), int(min(digits, 0))).Num())
	case digits >= int64(t.Scale):
		return a[0], nil
	}
	return decimal(roundTo(asRat(a[0], t), int(digits)), n.Type)
}

// roundFloat scales, rounds and scales back. A float that is too large for digits at that place to count
// stays as it is.
func roundFloat(x float64, digits int) float64 {
	p := math.Pow(10, math.Abs(float64(digits)))
	switch {
	case digits == 0:
		return math.Round(x)
	case digits < 0 && math.IsInf(p, 0):
		return 0
	case digits < 0:
		if v := math.Round(x/p) * p; !math.IsInf(v, 0) {
			return v
		}
		return x
	}
	if v := math.Round(x * p); math.Abs(v) < 1<<52 {
		return v / p
	}
	return x
}

// roundTo rounds to that many digits after the point.
func roundTo(r *big.Rat, digits int) *big.Rat {
	unit := new(big.Rat).SetInt(pow10(max(digits, -digits)))
	if digits < 0 {
		unit.Inv(unit)
	}
	v := roundHalfAway(new(big.Rat).Mul(r, unit))
	return new(big.Rat).Quo(new(big.Rat).SetInt(v), unit)
}
