package expr

import (
	"fmt"
	"strings"

	"sluice/dataflow"
)

// checker gives a parsed expression its types. It reports every fault it finds; what is wrong becomes
// a typed of the kind Invalid, which causes no further faults.
type checker struct {
	text  string
	scope *Scope
	errs  *Errors
	// resolve, if not nil, is asked about each part first: an aggregation puts keys and aggregate calls
	// in the place of parts here.
	resolve func(n node) (*typed, bool)
	// noAggregates, if not empty, tells why there can be no aggregates here.
	noAggregates string
}

func (c *checker) errorf(s span, format string, args ...any) *typed {
	c.errs.add(s.start, format, args...)
	return &typed{span: s}
}

// quote shows a part of the text in a message.
func (c *checker) quote(n interface{ where() span }) string { return quote(c.text, n.where()) }

func (c *checker) check(n node) *typed {
	if c.resolve != nil {
		if t, ok := c.resolve(n); ok {
			return t
		}
	}
	switch n := n.(type) {
	case *literal:
		return constant(n.span, n.typ, n.val)
	case *column:
		return c.column(n)
	case *unary:
		return c.unary(n)
	case *infix:
		return c.binary(n)
	case *isNull:
		return settle(&typed{span: n.span, op: opIsNull, typ: dataflow.BoolType, not: n.not, args: []*typed{c.check(n.x)}})
	case *inList:
		return c.in(n)
	case *between:
		return c.between(n)
	case *like:
		return c.like(n)
	case *caseOf:
		return c.caseOf(n)
	case *cast:
		return c.cast(n.span, c.check(n.x), n.typ)
	case *call:
		return c.call(n)
	}
	return &typed{span: n.where()}
}

func (c *checker) checkAll(list []node) []*typed {
	args := make([]*typed, len(list))
	for i, n := range list {
		args[i] = c.check(n)
	}
	return args
}

func (c *checker) column(n *column) *typed {
	found := c.scope.find(n.stream, n.name)
	switch {
	case len(found) == 1:
		col := c.scope.cols[found[0]]
		return &typed{span: n.span, op: opColumn, typ: col.Type, nullable: col.Nullable, index: found[0]}
	case len(found) > 1:
		from := make([]string, len(found))
		for i, f := range found {
			from[i] = c.scope.cols[f].stream + "." + n.name
		}
		return c.errorf(n.span, "column %q is ambiguous: %s", n.name, strings.Join(from, ", "))
	case n.stream != "" && !c.scope.hasStream(n.stream):
		*c.errs = append(*c.errs, Error{n.start, fmt.Sprintf("unknown stream %q", n.stream), dataflow.Nearest(n.stream, c.scope.streams)})
		return &typed{span: n.span}
	case c.scope.unknown:
		return &typed{span: n.span}
	}
	*c.errs = append(*c.errs, Error{n.nameAt, fmt.Sprintf("unknown column %q", n.name), dataflow.Nearest(n.name, c.scope.names(n.stream))})
	return &typed{span: n.span}
}

func (c *checker) unary(n *unary) *typed {
	x := c.check(n.x)
	if n.op == "NOT" {
		return negate(n.span, c.condition(x, "NOT"))
	}
	switch {
	case x.invalid() || x.typ.Kind == dataflow.Null:
		return x
	case !isNumber(x.typ) && x.typ.Kind != dataflow.Duration:
		return c.errorf(n.span, "%q cannot be applied to %s in %s", n.op, x.typ, c.quote(n))
	case n.op == "+":
		return x
	}
	t := strict(n.span, opNegate, x.typ, x)
	t.fails = x.typ.Kind == dataflow.Int || x.typ.Kind == dataflow.Duration
	return settle(t)
}

// negate makes NOT x, with the NOT moved inwards as far as that goes.
func negate(s span, x *typed) *typed {
	switch x.op {
	case opCompare:
		t := *x
		t.cmp = x.cmp.negated()
		return &t
	case opIsNull, opDistinct, opIn, opLike:
		t := *x
		t.not = !x.not
		return &t
	case opNot:
		return x.args[0]
	case opAnd, opOr:
		t := *x
		t.op = opAnd + opOr - x.op
		t.args = []*typed{negate(x.args[0].span, x.args[0]), negate(x.args[1].span, x.args[1])}
		return &t
	}
	return settle(strict(s, opNot, dataflow.BoolType, x))
}

// condition makes sure that x is a bool; a bare NULL becomes one. The words say what needs it.
func (c *checker) condition(x *typed, what string) *typed {
	switch x.typ.Kind {
	case dataflow.Bool, dataflow.Invalid:
		return x
	case dataflow.Null:
		return constant(x.span, dataflow.BoolType, x.val)
	}
	return c.errorf(x.span, "%s needs a bool, not %s, in %s", what, x.typ, c.quote(x))
}

var arithmetic = map[string]op{"+": opAdd, "-": opSubtract, "*": opMultiply, "/": opDivide, "%": opRemainder}

func (c *checker) binary(n *infix) *typed {
	switch n.op {
	case "AND", "OR":
		return c.logic(n)
	case "||":
		return c.concat(n)
	}
	x, y := c.check(n.x), c.check(n.y)
	if x.invalid() || y.invalid() {
		return &typed{span: n.span}
	}
	if o, ok := arithmetic[n.op]; ok {
		return c.arithmetic(n.span, o, n.op, x, y)
	}
	if cmp, ok := comparisons[n.op]; ok {
		return c.compare(n.span, cmp, x, y)
	}
	x, y, ok := c.comparable(n.span, x, y)
	if !ok {
		return &typed{span: n.span}
	}
	return settle(&typed{span: n.span, op: opDistinct, typ: dataflow.BoolType, not: n.op == "IS NOT DISTINCT FROM", args: []*typed{x, y}})
}

func (c *checker) logic(n *infix) *typed {
	x, y := c.condition(c.check(n.x), n.op), c.condition(c.check(n.y), n.op)
	o, decides := opAnd, int64(0)
	if n.op == "OR" {
		o, decides = opOr, 1
	}
	if x.invalid() || y.invalid() {
		return &typed{span: n.span}
	}
	if x.isConstant() && !x.val.null { // TRUE AND y is y; FALSE AND y is FALSE, and y is never reached
		if x.val.i == decides {
			return constant(n.span, dataflow.BoolType, scalar{i: decides})
		}
		return y
	}
	return settle(strict(n.span, o, dataflow.BoolType, x, y))
}

// concat types x || y: what is beside a string and no bytes is cast to a string.
func (c *checker) concat(n *infix) *typed {
	x, y := c.check(n.x), c.check(n.y)
	beside := func(z, text *typed) *typed {
		if text.typ.Kind == dataflow.String && !z.invalid() && z.typ.Kind != dataflow.Null && !isText(z.typ) {
			return c.cast(z.span, z, dataflow.StringType)
		}
		return z
	}
	x, y = beside(x, y), beside(y, x)
	t, ok := common(x.typ, y.typ)
	switch {
	case x.invalid() || y.invalid():
		return &typed{span: n.span}
	case t.Kind == dataflow.Null:
		return constant(n.span, t, scalar{null: true})
	case !ok || !isText(t):
		return c.errorf(n.span, `"||" cannot be applied to %s and %s in %s; use concat or CAST`, x.typ, y.typ, c.quote(n))
	}
	r := strict(n.span, opConcat, t, c.convert(x, t), c.convert(y, t))
	r.fails = true
	return settle(r)
}

// arithmetic types x o y; sign is how o is written.
func (c *checker) arithmetic(s span, o op, sign string, x, y *typed) *typed {
	x, y = nullOperands(o, x, y)
	a, b := x.typ.Kind, y.typ.Kind
	result := dataflow.Type{}
	switch {
	case a == dataflow.Null:
		return constant(s, dataflow.NullType, scalar{null: true})
	case isNumber(x.typ) && isNumber(y.typ):
		return c.numeric(s, o, x, y)
	case a == dataflow.Timestamp && b == dataflow.Timestamp && o == opSubtract:
		result = dataflow.DurationType
	case a == dataflow.Timestamp && b == dataflow.Duration && (o == opAdd || o == opSubtract),
		a == dataflow.Duration && b == dataflow.Timestamp && o == opAdd:
		result = dataflow.TimestampType
	case a == dataflow.Duration && b == dataflow.Duration && o == opDivide:
		x, y = c.convert(x, dataflow.FloatType), c.convert(y, dataflow.FloatType)
		result = dataflow.FloatType
	case a == dataflow.Duration && b == dataflow.Duration && o != opMultiply,
		a == dataflow.Duration && b == dataflow.Int && (o == opMultiply || o == opDivide),
		a == dataflow.Int && b == dataflow.Duration && o == opMultiply:
		result = dataflow.DurationType
	default:
		return c.errorf(s, "%q cannot be applied to %s and %s in %s", sign, x.typ, y.typ, quote(c.text, s))
	}
	t := strict(s, o, result, x, y)
	t.fails = true
	return settle(t)
}

// nullOperands gives a bare NULL beside a typed operand the type that makes sense there.
func nullOperands(o op, x, y *typed) (*typed, *typed) {
	typed := func(null, beside *typed, left bool) *typed {
		t := beside.typ
		switch {
		case t.Kind == dataflow.Timestamp && !(left && o == opSubtract):
			t = dataflow.DurationType
		case t.Kind == dataflow.Duration && (o == opMultiply || o == opDivide && !left):
			t = dataflow.IntType
		}
		return constant(null.span, t, null.val)
	}
	if x.typ.Kind == dataflow.Null && y.typ.Kind != dataflow.Null {
		x = typed(x, y, true)
	} else if y.typ.Kind == dataflow.Null && x.typ.Kind != dataflow.Null {
		y = typed(y, x, false)
	}
	return x, y
}

// numeric types arithmetic on numbers.
func (c *checker) numeric(s span, o op, x, y *typed) *typed {
	t, _ := common(x.typ, y.typ)
	switch t.Kind {
	case dataflow.Float:
		x, y = c.convert(x, t), c.convert(y, t)
	case dataflow.Decimal:
		a, b := asDecimal(x.typ), asDecimal(y.typ)
		var ok bool
		if t, ok = decimalResult(o, a, b); !ok {
			return c.errorf(s, "%s would have %d digits behind the point, more than %d; CAST a part of it to fewer",
				quote(c.text, s), int(a.Scale)+int(b.Scale), dataflow.MaxPrecision)
		}
		x, y = c.convert(x, a), c.convert(y, b)
	}
	r := strict(s, o, t, x, y)
	r.fails = true
	return settle(r)
}
