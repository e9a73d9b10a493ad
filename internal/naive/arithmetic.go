package naive

import (
	"math"
	"math/big"
)

// functions are the operations that are NULL as soon as an operand is.
var functions map[string]operation

func init() {
	functions = map[string]operation{
		"not": func(_ *Node, a []Value) (Value, error) { return boolean(!a[0].Bool), nil },
		"neg": negate,
		"+":   arithmetic, "-": arithmetic, "*": arithmetic, "/": arithmetic, "%": arithmetic,
		"||": joined,
	}
	for op, holds := range map[string]func(c int) bool{
		"=": func(c int) bool { return c == 0 }, "<>": func(c int) bool { return c != 0 },
		"!=": func(c int) bool { return c != 0 }, "<": func(c int) bool { return c < 0 },
		"<=": func(c int) bool { return c <= 0 }, ">": func(c int) bool { return c > 0 },
		">=": func(c int) bool { return c >= 0 },
	} {
		functions[op] = func(n *Node, a []Value) (Value, error) {
			return boolean(holds(compare(a[0], a[1], n.Args[0].Type, n.Args[1].Type))), nil
		}
	}
	addLike()
	addMath()
	addText()
	addTime()
}

func asFloat(v Value, t Type) float64 {
	switch t.Kind {
	case Float:
		return v.Float
	case Decimal:
		f, _ := asRat(v, t).Float64()
		return f
	}
	return float64(v.Int)
}

// asRat is the exact value of an int, decimal, timestamp or duration.
func asRat(v Value, t Type) *big.Rat {
	if t.Kind == Decimal {
		return new(big.Rat).SetFrac(v.Dec, pow10(t.Scale))
	}
	return new(big.Rat).SetInt64(v.Int)
}

func pow10(n int) *big.Int { return new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(n)), nil) }

// integer is the int, timestamp or duration of value v, if 64 bits hold it.
func integer(v *big.Int) (Value, error) {
	if !v.IsInt64() {
		return fail("%s is out of range", v)
	}
	return Value{Int: v.Int64()}, nil
}

// float is a float, unless it is not a finite number.
func float(f float64) (Value, error) {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return fail("the result is no number that a float holds")
	}
	return Value{Float: f}, nil
}

// decimal is r rounded to the scale of t, halves away from zero, if t has that many digits.
func decimal(r *big.Rat, t Type) (Value, error) {
	scaled := new(big.Rat).Mul(r, new(big.Rat).SetInt(pow10(t.Scale)))
	v := roundHalfAway(scaled)
	if v.CmpAbs(pow10(t.Precision)) >= 0 {
		return fail("%s is out of range for %s", r.RatString(), t)
	}
	return Value{Dec: v}, nil
}

// roundHalfAway is the nearest integer, and of two equally near ones the greater in absolute value.
func roundHalfAway(r *big.Rat) *big.Int {
	twice := new(big.Int).Lsh(new(big.Int).Abs(r.Num()), 1)
	twice.Add(twice, r.Denom())
	v := twice.Quo(twice, new(big.Int).Lsh(r.Denom(), 1))
	if r.Sign() < 0 {
		v.Neg(v)
	}
	return v
}

func negate(n *Node, a []Value) (Value, error) {
	switch n.Type.Kind {
	case Float:
		return float(-a[0].Float)
	case Decimal:
		return Value{Dec: new(big.Int).Neg(a[0].Dec)}, nil
	}
	return integer(new(big.Int).Neg(big.NewInt(a[0].Int)))
}

func arithmetic(n *Node, a []Value) (Value, error) {
	ta, tb := n.Args[0].Type, n.Args[1].Type
	switch n.Type.Kind {
	case Float:
		return floatArithmetic(n.Op, asFloat(a[0], ta), asFloat(a[1], tb))
	case Decimal:
		return decimalArithmetic(n, asRat(a[0], ta), asRat(a[1], tb))
	}
	x, y, z := big.NewInt(a[0].Int), big.NewInt(a[1].Int), new(big.Int)
	switch n.Op {
	case "+":
		return integer(z.Add(x, y))
	case "-":
		return integer(z.Sub(x, y))
	case "*":
		return integer(z.Mul(x, y))
	}
	if y.Sign() == 0 {
		return fail("division by zero")
	}
	if n.Op == "/" {
		return integer(z.Quo(x, y)) // Quo truncates toward zero
	}
	return integer(z.Rem(x, y)) // Rem has the sign of x
}

func floatArithmetic(op string, x, y float64) (Value, error) {
	switch op {
	case "+":
		return float(x + y)
	case "-":
		return float(x - y)
	case "*":
		return float(x * y)
	}
	if y == 0 {
		return fail("division by zero")
	}
	if op == "/" {
		return float(x / y)
	}
	return float(math.Mod(x, y))
}

func decimalArithmetic(n *Node, x, y *big.Rat) (Value, error) {
	r := new(big.Rat)
	switch n.Op {
	case "+":
		return decimal(r.Add(x, y), n.Type)
	case "-":
		return decimal(r.Sub(x, y), n.Type)
	case "*":
		return decimal(r.Mul(x, y), n.Type)
	}
	if y.Sign() == 0 {
		return fail("division by zero")
	}
	r.Quo(x, y)
	if n.Op == "%" {
		whole := new(big.Rat).SetInt(new(big.Int).Quo(r.Num(), r.Denom()))
		r.Sub(x, whole.Mul(whole, y))
	}
	return decimal(r, n.Type)
}
