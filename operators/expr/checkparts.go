package expr

import (
	"fmt"
	"unicode/utf8"

	"sluice/dataflow"
)

// compare types x cmp y. A constant goes to the right, where kernels look for it.
func (c *checker) compare(s span, cmp comparison, x, y *typed) *typed {
	x, y, ok := c.comparable(s, x, y)
	if !ok {
		return &typed{span: s}
	}
	if x.isConstant() && !y.isConstant() {
		x, y, cmp = y, x, cmp.swapped()
	}
	t := strict(s, opCompare, dataflow.BoolType, x, y)
	t.cmp = cmp
	return settle(t)
}

// comparable converts x and y to types that a kernel compares: the same kind, and decimals of any two
// scales. A decimal constant beside an int stays one only if it is not whole.
func (c *checker) comparable(s span, x, y *typed) (*typed, *typed, bool) {
	if x.invalid() || y.invalid() {
		return x, y, false
	}
	x, y = c.literalBeside(x, y), c.literalBeside(y, x)
	if x.invalid() || y.invalid() {
		return x, y, false
	}
	t, ok := common(x.typ, y.typ)
	if !ok {
		c.errs.add(s.start, "cannot compare %s with %s in %s", x.typ, y.typ, quote(c.text, s))
		return x, y, false
	}
	switch t.Kind {
	case dataflow.Null:
		return constant(x.span, dataflow.IntType, x.val), constant(y.span, dataflow.IntType, y.val), true
	case dataflow.Decimal:
		if x, y, ok := wholeBeside(x, y); ok {
			return x, y, true
		}
		return c.toDecimal(x, t), c.toDecimal(y, t), true
	}
	return c.convert(x, t), c.convert(y, t), true
}

// toDecimal makes x a decimal of its own scale; a bare NULL gets the type t.
func (c *checker) toDecimal(x *typed, t dataflow.Type) *typed {
	if x.typ.Kind == dataflow.Null {
		return c.convert(x, t)
	}
	return c.convert(x, asDecimal(x.typ))
}

// wholeBeside makes a whole decimal constant beside an int an int.
func wholeBeside(x, y *typed) (*typed, *typed, bool) {
	if x.typ.Kind == dataflow.Int && y.typ.Kind == dataflow.Decimal && y.isConstant() && !y.val.null {
		v, ok := wholeOf(y.val.d, y.typ.Scale)
		return x, constant(y.span, dataflow.IntType, scalar{i: v}), ok
	}
	if y.typ.Kind == dataflow.Int && x.typ.Kind == dataflow.Decimal {
		y, x, ok := wholeBeside(y, x)
		return x, y, ok
	}
	return x, y, false
}

// literalBeside reads a text literal that stands beside a timestamp or duration as one.
func (c *checker) literalBeside(x, beside *typed) *typed {
	k := beside.typ.Kind
	if x.typ.Kind != dataflow.String || !x.isConstant() || x.val.null || k != dataflow.Timestamp && k != dataflow.Duration {
		return x
	}
	v, ok := literalAs(x.val.s, beside.typ)
	if !ok {
		return c.errorf(x.span, "%s is not a %s, with which it is compared", quote(x.val.s, span{0, len(x.val.s)}), beside.typ)
	}
	return constant(x.span, beside.typ, v)
}

// convert makes x, whose type must allow it, a value of type t without being asked to in the text.
func (c *checker) convert(x *typed, t dataflow.Type) *typed {
	if x.typ == t || x.invalid() {
		return x
	}
	if x.typ.Kind == dataflow.Null {
		return constant(x.span, t, x.val)
	}
	r := strict(x.span, opCast, t, x)
	r.fails = t.Kind == dataflow.Decimal && wholeDigits(t) < wholeDigits(asDecimal(x.typ))
	return settle(r)
}

// unify finds the type of parts that make up one column, and converts them to it. what names the
// place for the message.
func (c *checker) unify(s span, what string, parts []*typed) (dataflow.Type, bool) {
	t := dataflow.NullType
	for _, p := range parts {
		if p.invalid() {
			return p.typ, false
		}
		u, ok := common(t, p.typ)
		if !ok {
			c.errs.add(p.start, "%s has both %s and %s in %s", what, t, p.typ, quote(c.text, s))
			return dataflow.Type{}, false
		}
		t = u
	}
	if t.Kind != dataflow.Null {
		for i, p := range parts {
			parts[i] = c.convert(p, t)
		}
	}
	return t, true
}

// shared wraps x so that it can be used in several places but is computed once.
func shared(x *typed) *typed {
	if x.op == opColumn || x.isConstant() || x.invalid() {
		return x
	}
	return settle(strict(x.span, opShared, x.typ, x))
}

func (c *checker) in(n *inList) *typed {
	x := c.check(n.x)
	parts := c.checkAll(n.list)
	for i, p := range parts {
		parts[i] = c.literalBeside(p, x)
	}
	t := x.typ
	for _, p := range append([]*typed{x}, parts...) {
		u, ok := common(t, p.typ)
		if p.invalid() {
			return &typed{span: n.span}
		}
		if !ok {
			return c.errorf(p.span, "cannot compare %s with %s in %s", x.typ, p.typ, c.quote(n))
		}
		t = u
	}
	if t.Kind == dataflow.Null {
		return constant(n.span, dataflow.BoolType, scalar{null: true})
	}
	to := c.convert
	if t.Kind == dataflow.Decimal { // compared exactly, each with its own digits
		to = c.toDecimal
	}
	args := []*typed{to(x, t)}
	for _, p := range parts {
		args = append(args, to(p, t))
	}
	r := strict(n.span, opIn, dataflow.BoolType, args...)
	r.not = n.not
	return settle(r)
}

func (c *checker) between(n *between) *typed {
	x, lo, hi := shared(c.check(n.x)), c.check(n.lo), c.check(n.hi)
	if x.invalid() || lo.invalid() || hi.invalid() {
		return &typed{span: n.span}
	}
	above, below := c.compare(n.span, greaterEqual, x, lo), c.compare(n.span, lessEqual, x, hi)
	t := settle(strict(n.span, opAnd, dataflow.BoolType, above, below))
	if n.not && !t.invalid() {
		return negate(n.span, t)
	}
	return t
}

func (c *checker) like(n *like) *typed {
	x, pattern, escape := c.check(n.x), c.check(n.pattern), rune(-1)
	for _, p := range []*typed{x, pattern} {
		if p.typ.Kind != dataflow.String && p.typ.Kind != dataflow.Null && !p.invalid() {
			return c.errorf(p.span, "LIKE needs a string, not %s, in %s", p.typ, c.quote(n))
		}
	}
	if n.escape != nil {
		e := c.check(n.escape)
		if !e.isConstant() || e.typ.Kind != dataflow.String || utf8.RuneCountInString(e.val.s) != 1 {
			return c.errorf(n.escape.where(), "ESCAPE needs one character")
		}
		escape, _ = utf8.DecodeRuneInString(e.val.s)
	}
	if x.invalid() || pattern.invalid() {
		return &typed{span: n.span}
	}
	x, pattern = c.convert(x, dataflow.StringType), c.convert(pattern, dataflow.StringType)
	t := strict(n.span, opLike, dataflow.BoolType, x, pattern)
	t.not, t.escape = n.not, escape
	if !pattern.isConstant() {
		t.fails = true
		return settle(t)
	}
	if pattern.val.null {
		return constant(n.span, dataflow.BoolType, pattern.val)
	}
	compiled, err := compileLike(pattern.val.s, escape)
	if err != nil {
		return c.errorf(pattern.span, "%s in %s", err, c.quote(n))
	}
	t.pattern, t.args = compiled, t.args[:1]
	return settle(t)
}

func (c *checker) caseOf(n *caseOf) *typed {
	var operand *typed
	if n.operand != nil {
		operand = shared(c.check(n.operand))
	}
	var conds, results []*typed
	bad := false
	for _, w := range n.whens {
		cond := c.check(w.cond)
		switch {
		case operand == nil:
			cond = c.condition(cond, "WHEN")
		case operand.invalid() || cond.invalid():
			cond = &typed{span: cond.span}
		default:
			cond = c.compare(w.cond.where(), equal, operand, cond)
		}
		bad = bad || cond.invalid()
		conds, results = append(conds, cond), append(results, c.check(w.result))
	}
	other := constant(span{n.end, n.end}, dataflow.NullType, scalar{null: true})
	if n.other != nil {
		other = c.check(n.other)
	}
	results = append(results, other)
	t, ok := c.unify(n.span, "CASE", results)
	if bad || !ok {
		return &typed{span: n.span}
	}
	r := &typed{span: n.span, op: opCase, typ: t}
	for i, cond := range conds {
		r.args = append(r.args, cond, results[i])
		r.nullable = r.nullable || results[i].nullable
	}
	last := results[len(conds)]
	r.args, r.nullable = append(r.args, last), r.nullable || last.nullable
	if t.Kind == dataflow.Null {
		return constant(n.span, t, scalar{null: true})
	}
	return settle(r)
}

// castTargets are the kinds to which each kind can be cast, besides its own and string.
var castTargets = map[dataflow.Kind][]dataflow.Kind{
	dataflow.Bool:    {dataflow.Int},
	dataflow.Int:     {dataflow.Bool, dataflow.Float, dataflow.Decimal},
	dataflow.Float:   {dataflow.Int, dataflow.Decimal},
	dataflow.Decimal: {dataflow.Int, dataflow.Float, dataflow.Decimal},
	dataflow.String: {dataflow.Bool, dataflow.Int, dataflow.Float, dataflow.Decimal, dataflow.Bytes,
		dataflow.Timestamp, dataflow.Duration},
}

// castHints tell what to write instead of a cast that there is not.
var castHints = map[[2]dataflow.Kind]string{
	{dataflow.Timestamp, dataflow.Int}: "; use extract(epoch FROM ...)",
	{dataflow.Duration, dataflow.Int}:  "; divide it by a duration, such as 1s",
	{dataflow.Int, dataflow.Timestamp}: "; use TIMESTAMP '1970-01-01' + x * 1s",
	{dataflow.Int, dataflow.Duration}:  "; multiply it by a duration, such as 1s",
}

func (c *checker) cast(s span, x *typed, to dataflow.Type) *typed {
	from := x.typ.Kind
	if x.invalid() || to.Kind == dataflow.Invalid {
		return &typed{span: s}
	}
	if from == dataflow.Null || x.typ == to {
		whole := *x
		whole.span = s
		return c.convert(&whole, to)
	}
	allowed := to.Kind == dataflow.String && from != dataflow.String
	for _, k := range castTargets[from] {
		allowed = allowed || k == to.Kind
	}
	if !allowed {
		return c.errorf(s, "cannot cast %s to %s in %s%s", x.typ, to, quote(c.text, s), castHints[[2]dataflow.Kind{from, to.Kind}])
	}
	t := strict(s, opCast, to, x)
	t.fails = from == dataflow.String || to.Kind == dataflow.Int && from != dataflow.Bool || to.Kind == dataflow.Decimal
	return settle(t)
}

// call checks the call of a function.
func (c *checker) call(n *call) *typed {
	f := functionNamed(n.name)
	switch {
	case f == nil:
		*c.errs = append(*c.errs, Error{n.start, fmt.Sprintf("unknown function %q", n.name), dataflow.Nearest(n.name, functionNames())})
		c.checkAll(n.args)
		return &typed{span: n.span}
	case f.aggregate && c.noAggregates != "":
		return c.errorf(n.span, "%s: %s", c.quote(n), c.noAggregates)
	case f.aggregate:
		return c.errorf(n.span, "%s is an aggregate, which only an aggregate operator's select and having can call", c.quote(n))
	case n.star:
		return c.errorf(n.span, "only count takes *")
	case n.distinct:
		return c.errorf(n.span, "DISTINCT is for aggregates; %s is none", n.name)
	case n.filter != nil:
		return c.errorf(n.filter.where(), "FILTER is for aggregates; %s is none", n.name)
	}
	args := c.checkAll(n.args)
	for _, a := range args {
		if a.invalid() {
			return &typed{span: n.span}
		}
	}
	return f.check(c, n, f, args)
}

// badCall reports that a function does not take these arguments.
func (c *checker) badCall(n *call, f *function, args []*typed) *typed {
	types := ""
	for i, a := range args {
		if i > 0 {
			types += ", "
		}
		types += a.typ.String()
	}
	forms := f.signatures[0]
	for _, s := range f.signatures[1:] {
		forms += " or " + s
	}
	return c.errorf(n.span, "%s does not take (%s) in %s; it is %s", n.name, types, c.quote(n), forms)
}
