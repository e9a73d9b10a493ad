package naive

import (
	"math/big"
	"strings"
)

// evalLogic evaluates AND and OR: the second operand only if the first does not decide.
func (n *Node) evalLogic(row []Value) (Value, error) {
	decides := n.Op == "or"
	a, err := n.Args[0].Eval(row)
	if err != nil {
		return a, err
	}
	if !a.Null && a.Bool == decides {
		return boolean(decides), nil
	}
	b, err := n.Args[1].Eval(row)
	if err != nil {
		return b, err
	}
	switch {
	case !b.Null && b.Bool == decides:
		return boolean(decides), nil
	case a.Null || b.Null:
		return null, nil
	}
	return boolean(!decides), nil
}

// Holds tells whether n, as a condition, is TRUE for the row. It looks at no more of it than that takes:
// where x is NULL, x AND y cannot be TRUE and y is not evaluated, although its value as a bool would
// depend on y.
func (n *Node) Holds(row []Value) (bool, error) { return n.is(true, row) }

// is tells whether n has the given truth value.
func (n *Node) is(want bool, row []Value) (bool, error) {
	switch n.Op {
	case "not":
		return n.Args[0].is(!want, row)
	case "cast": // from bool to bool, which changes nothing
		if n.Args[0].Type.Kind == Bool {
			return n.Args[0].is(want, row)
		}
	case "between", "not between":
		x, lo, hi := n.Args[0], n.Args[1], n.Args[2]
		inside := New("and", New(">=", x, lo), New("<=", x, hi))
		return inside.is(want == (n.Op == "between"), row)
	case "and", "or":
		x, err := n.Args[0].is(want, row)
		if err != nil || x != (want == (n.Op == "and")) {
			return x, err
		}
		return n.Args[1].is(want, row)
	}
	v, err := n.Eval(row)
	return err == nil && !v.Null && v.Bool == want, err
}

// not is NOT of a result.
func not(v Value, err error) (Value, error) {
	if err == nil && !v.Null {
		v.Bool = !v.Bool
	}
	return v, err
}

// evalBetween evaluates x >= lo AND x <= hi.
func (n *Node) evalBetween(row []Value) (Value, error) {
	x, lo, hi := n.Args[0], n.Args[1], n.Args[2]
	v, err := New("and", New(">=", x, lo), New("<=", x, hi)).Eval(row)
	if n.Op == "not between" {
		return not(v, err)
	}
	return v, err
}

// evalIn evaluates x = a OR x = b OR ..., as floats if any of them is one. If x is NULL, so is the result,
// whatever the others are.
func (n *Node) evalIn(row []Value) (Value, error) {
	v, err := n.Args[0].Eval(row)
	if err != nil || v.Null {
		return v, err
	}
	x, unknown := n.Args[0], false
	if commonOf(n.Args).Kind == Float {
		x = Cast(x, FloatType)
	}
	for _, a := range n.Args[1:] {
		if v, err = New("=", x, a).Eval(row); err != nil {
			return v, err
		}
		if !v.Null && v.Bool {
			break
		}
		unknown = unknown || v.Null
	}
	if unknown && !v.Bool {
		v = null
	}
	if n.Op == "not in" {
		return not(v, nil)
	}
	return v, nil
}

// evalCase evaluates conditions in order up to the first that is true, and then its result.
func (n *Node) evalCase(row []Value) (Value, error) {
	args := n.Args
	if n.Op == "case of" {
		args = args[1:]
	}
	for ; len(args) >= 2; args = args[2:] {
		cond := args[0]
		if n.Op == "case of" {
			cond = New("=", n.Args[0], cond)
		}
		holds, err := cond.Holds(row)
		if err != nil {
			return null, err
		}
		if holds {
			return args[1].evalAs(n.Type, row)
		}
	}
	if len(args) == 1 {
		return args[0].evalAs(n.Type, row)
	}
	return null, nil
}

// evalAs evaluates n as a value of another number type, to which it is converted.
func (n *Node) evalAs(t Type, row []Value) (Value, error) {
	v, err := n.Eval(row)
	if err != nil || v.Null || t == n.Type {
		return v, err
	}
	return cast(v, n.Type, t)
}

func (n *Node) evalCoalesce(row []Value) (Value, error) {
	for _, a := range n.Args {
		if v, err := a.evalAs(n.Type, row); err != nil || !v.Null {
			return v, err
		}
	}
	return null, nil
}

// compare is -1, 0 or 1. A float compares as a float with any number; an int and a decimal compare
// exactly.
func compare(a, b Value, ta, tb Type) int {
	switch {
	case ta.Kind == Float || tb.Kind == Float:
		x, y := asFloat(a, ta), asFloat(b, tb)
		switch {
		case x < y:
			return -1
		case x > y:
			return 1
		}
		return 0
	case ta.Kind == Decimal || tb.Kind == Decimal:
		return asRat(a, ta).Cmp(asRat(b, tb))
	case ta.Kind == Bool:
		return truth(a.Bool) - truth(b.Bool)
	case ta.Kind == String || ta.Kind == Bytes:
		return strings.Compare(a.Text, b.Text)
	}
	return big.NewInt(a.Int).Cmp(big.NewInt(b.Int))
}

func truth(b bool) int {
	if b {
		return 1
	}
	return 0
}

// operation computes an operation whose operands have been evaluated.
type operation func(n *Node, args []Value) (Value, error)

// nullFunctions are those that may have a value although an operand is NULL.
var nullFunctions = map[string]operation{
	"is null":      func(_ *Node, a []Value) (Value, error) { return boolean(a[0].Null), nil },
	"is not null":  func(_ *Node, a []Value) (Value, error) { return boolean(!a[0].Null), nil },
	"is true":      func(_ *Node, a []Value) (Value, error) { return boolean(!a[0].Null && a[0].Bool), nil },
	"is not true":  func(_ *Node, a []Value) (Value, error) { return boolean(a[0].Null || !a[0].Bool), nil },
	"is false":     func(_ *Node, a []Value) (Value, error) { return boolean(!a[0].Null && !a[0].Bool), nil },
	"is not false": func(_ *Node, a []Value) (Value, error) { return boolean(a[0].Null || a[0].Bool), nil },
	"is distinct from": func(n *Node, a []Value) (Value, error) {
		return boolean(distinct(n, a)), nil
	},
	"is not distinct from": func(n *Node, a []Value) (Value, error) {
		return boolean(!distinct(n, a)), nil
	},
	"nullif()":   nullif,
	"greatest()": func(n *Node, a []Value) (Value, error) { return extreme(n, a, 1) },
	"least()":    func(n *Node, a []Value) (Value, error) { return extreme(n, a, -1) },
	"concat()":   concat,
	"cast": func(n *Node, a []Value) (Value, error) {
		if a[0].Null {
			return null, nil
		}
		return cast(a[0], n.Args[0].Type, n.Type)
	},
}

func distinct(n *Node, a []Value) bool {
	if a[0].Null || a[1].Null {
		return a[0].Null != a[1].Null
	}
	return compare(a[0], a[1], n.Args[0].Type, n.Args[1].Type) != 0
}

func nullif(n *Node, a []Value) (Value, error) {
	if !distinct(n, a) {
		return null, nil
	}
	return a[0], nil
}

// extreme is the greatest (sign 1) or least (-1) of the operands that are not NULL.
func extreme(n *Node, a []Value, sign int) (Value, error) {
	best := null
	for i, v := range a {
		if v.Null {
			continue
		}
		v, err := cast(v, n.Args[i].Type, n.Type)
		if err != nil {
			return v, err
		}
		if best.Null || compare(v, best, n.Type, n.Type)*sign > 0 {
			best = v
		}
	}
	return best, nil
}

// joinedType is bytes for bytes, and string where either operand is a string.
func joinedType(args []*Node) Type {
	if args[1].Type.Kind == String {
		return StringType
	}
	return args[0].Type
}

// joined is bytes || bytes, or the text forms of both operands, one of which is a string.
func joined(n *Node, a []Value) (Value, error) {
	if n.Type.Kind == Bytes {
		return text(a[0].Text + a[1].Text), nil
	}
	return concat(n, a)
}

// concat joins the text forms of what is not NULL.
func concat(n *Node, a []Value) (Value, error) {
	s := ""
	for i, v := range a {
		if !v.Null {
			part, _ := format(v, n.Args[i].Type)
			s += part
		}
	}
	return text(s), nil
}
