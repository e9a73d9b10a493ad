package naive

// Node is an expression. Op is "literal", "column", "cast", an operator of the language in lower case
// ("+", "and", "is not null", "not in", ...), "neg" for the sign, "case" (operands: condition, result,
// condition, result, ..., and the ELSE if their number is odd), "case of" (the same behind the
// compared value; an even number in all means that there is an ELSE), or the name of a function with
// "()" behind it. extract and date_trunc have their unit as a literal for their first operand.
type Node struct {
	Op   string
	Args []*Node
	Type Type

	Value  Value  // of a literal
	Column int    // of a column: its index in the row
	Name   string // of a column, as it is written; of a literal, its text if it is not to be the usual one
}

// Literal is a constant. A bare NULL has NullType.
func Literal(t Type, v Value) *Node { return &Node{Op: "literal", Type: t, Value: v} }

// Column is column index of the row, of type t.
func Column(name string, index int, t Type) *Node {
	return &Node{Op: "column", Type: t, Column: index, Name: name}
}

// Cast is CAST(x AS t).
func Cast(x *Node, t Type) *Node { return &Node{Op: "cast", Args: []*Node{x}, Type: t} }

// New is an operator or function and its operands.
func New(op string, args ...*Node) *Node {
	n := &Node{Op: op, Args: args}
	n.Type = resultType(op, args)
	return n
}

// Eval gives the value for one row, or a RowError.
func (n *Node) Eval(row []Value) (Value, error) {
	switch n.Op {
	case "literal":
		return n.Value, nil
	case "column":
		return row[n.Column], nil
	case "and", "or":
		return n.evalLogic(row)
	case "in", "not in":
		return n.evalIn(row)
	case "between", "not between":
		return n.evalBetween(row)
	case "case", "case of":
		return n.evalCase(row)
	case "coalesce()":
		return n.evalCoalesce(row)
	}
	args := make([]Value, len(n.Args))
	for i, a := range n.Args {
		v, err := a.Eval(row)
		if err != nil {
			return v, err
		}
		args[i] = v
	}
	if f, ok := nullFunctions[n.Op]; ok {
		return f(n, args)
	}
	for _, v := range args {
		if v.Null {
			return null, nil
		}
	}
	if f, ok := functions[n.Op]; ok {
		return f(n, args)
	}
	return fail("no such operation: %s", n.Op)
}
