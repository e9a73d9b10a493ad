package expr

import (
	"strconv"
	"strings"

	"sluice/dataflow"
	"sluice/dataflow/decimal"
	"sluice/operators/value"
)

// operand reads what stands between operators: a literal, a column, a call, something in parentheses,
// or one of these behind a sign or NOT.
func (p *parser) operand() node {
	t := p.peek()
	switch t.kind {
	case intToken, decimalToken, floatToken:
		p.next()
		return p.number(t, t.text)
	case durationToken:
		p.next()
		return p.duration(t, t.text)
	case stringToken:
		p.next()
		return &literal{t.span, dataflow.StringType, scalar{s: t.text}}
	case quotedToken:
		return p.column()
	case symbolToken:
		return p.symbolOperand(t)
	case nameToken:
		return p.nameOperand(t)
	}
	p.failHere("an expression")
	return &literal{span: t.span}
}

func (p *parser) symbolOperand(t token) node {
	switch t.text {
	case "(":
		p.next()
		x := p.expression(lowest)
		p.expectSymbol(")")
		return x
	case "-", "+":
		p.next()
		p.count(t.start)
		if n := p.peek(); t.text == "-" && n.kind == intToken && n.text == "9223372036854775808" {
			p.next() // the one int whose digits alone are none
			return p.number(token{intToken, p.from(t.start), ""}, "-"+n.text)
		}
		x := p.expression(multiplyLevel)
		return &unary{p.from(t.start), t.text, x}
	}
	p.failHere("an expression")
	return &literal{span: t.span}
}

func (p *parser) nameOperand(t token) node {
	if p.peekAfter().isSymbol(".") { // a stream, whatever its name
		return p.column()
	}
	switch {
	case t.is("NULL"):
		p.next()
		return &literal{t.span, dataflow.NullType, scalar{null: true}}
	case t.is("TRUE"):
		p.next()
		return boolLiteral(t.span, 1)
	case t.is("FALSE"):
		p.next()
		return boolLiteral(t.span, 0)
	case t.is("NOT"):
		p.next()
		p.count(t.start)
		x := p.expression(andLevel)
		return &unary{p.from(t.start), "NOT", x}
	case t.is("CASE"):
		return p.caseOf()
	case isReserved(t.text):
		p.failHere("an expression")
		return &literal{span: t.span}
	}
	switch n := p.peekAfter(); {
	case n.isSymbol("("):
		return p.call()
	case n.kind == stringToken && t.is("TIMESTAMP"):
		p.next()
		p.next()
		us, err := value.ParseTimestamp([]byte(n.text))
		if err != nil {
			p.errs.add(n.start, "%s is not a timestamp", quote(n.text, span{0, len(n.text)}))
			return &literal{span: p.from(t.start)}
		}
		return &literal{p.from(t.start), dataflow.TimestampType, scalar{i: us}}
	case n.kind == stringToken && t.is("INTERVAL"):
		return p.interval()
	}
	return p.column()
}

func boolLiteral(s span, v int64) *literal {
	return &literal{s, dataflow.BoolType, scalar{i: v}}
}

// number makes the literal of an unquoted number, which digits gives with its sign.
func (p *parser) number(t token, digits string) node {
	switch t.kind {
	case intToken:
		if v, err := strconv.ParseInt(digits, 10, 64); err == nil {
			return &literal{t.span, dataflow.IntType, scalar{i: v}}
		}
	case floatToken:
		if v, err := strconv.ParseFloat(digits, 64); err == nil {
			return &literal{t.span, dataflow.FloatType, scalar{f: v}}
		}
		p.errs.add(t.start, "%s is too large for a float", quote(p.text, t.span))
		return &literal{span: t.span}
	}
	typ, ok := decimalLiteralType(digits)
	if ok {
		if d, err := decimal.Parse([]byte(digits), typ.Precision, typ.Scale); err == nil {
			return &literal{t.span, typ, scalar{d: d}}
		}
	}
	p.errs.add(t.start, "%s has more than %d digits", quote(p.text, t.span), dataflow.MaxPrecision)
	return &literal{span: t.span}
}

// decimalLiteralType is the smallest decimal type that holds the digits as they are written.
func decimalLiteralType(digits string) (dataflow.Type, bool) {
	whole, fraction, _ := strings.Cut(digits, ".")
	whole = strings.TrimLeft(whole, "0")
	if len(fraction) > dataflow.MaxPrecision || len(whole)+len(fraction) > dataflow.MaxPrecision {
		return dataflow.Type{}, false
	}
	return dataflow.DecimalType(uint8(max(1, len(whole)+len(fraction))), uint8(len(fraction))), true
}

func (p *parser) duration(t token, text string) node {
	us, err := value.ParseDuration([]byte(text))
	if err != nil {
		p.errs.add(t.start, "%s is neither a number nor a duration (such as 250ms 10s 5m 1h 2d)", quote(p.text, t.span))
		return &literal{span: t.span}
	}
	return &literal{t.span, dataflow.DurationType, scalar{i: us}}
}

// intervalUnits are the units of INTERVAL, in microseconds. Months and years have no fixed length.
var intervalUnits = map[string]int64{
	"microsecond": 1, "millisecond": 1000, "second": 1e6, "minute": 60e6, "hour": 3600e6, "day": 86400e6,
	"week": 7 * 86400e6,
}

// interval reads INTERVAL '5' MINUTE, or INTERVAL '1h30m' without a unit.
func (p *parser) interval() node {
	t := p.next()
	text := p.next()
	unit := p.peek()
	name := strings.TrimSuffix(strings.ToLower(unit.text), "s")
	us, known := intervalUnits[name]
	bad := func(what string) node {
		p.errs.add(text.start, "%s is not %s", quote(text.text, span{0, len(text.text)}), what)
		return &literal{span: p.from(t.start)}
	}
	if unit.kind != nameToken || !known {
		if unit.kind == nameToken && (name == "month" || name == "year") {
			p.failAt(unit.start, "a %s has no fixed length; use DAY", name)
		}
		v, err := value.ParseDuration([]byte(text.text))
		if err != nil {
			return bad("a duration (such as 250ms 10s 5m 1h 2d); or a unit such as MINUTE is missing behind it")
		}
		return &literal{p.from(t.start), dataflow.DurationType, scalar{i: v}}
	}
	p.next()
	v, ok := scaledDuration(strings.TrimSpace(text.text), us)
	if !ok {
		return bad("a number of " + name + "s that fits a duration")
	}
	return &literal{p.from(t.start), dataflow.DurationType, scalar{i: v}}
}

// scaledDuration is the decimal number in text times unit, in whole microseconds.
func scaledDuration(text string, unit int64) (int64, bool) {
	d, err := decimal.Parse([]byte(text), dataflow.MaxPrecision, 9)
	if err != nil || text == "" {
		return 0, false
	}
	product, ok := decimal.Mul(d, decimal.FromInt64(unit))
	if !ok {
		return 0, false
	}
	us, ok := decimal.Rescale(product, 9, 0)
	if !ok {
		return 0, false
	}
	return decimal.Int64(us)
}

// column reads name or stream.name, in which neither needs quotes for being a keyword.
func (p *parser) column() node {
	t := p.next()
	p.count(t.start)
	if !p.takeSymbol(".") {
		return &column{t.span, "", t.text, t.start}
	}
	own := p.peek()
	if own.kind != nameToken && own.kind != quotedToken {
		p.failHere("a column")
	}
	p.next()
	return &column{p.from(t.start), t.text, own.text, own.start}
}

func (p *parser) caseOf() node {
	start := p.next().start
	p.count(start)
	n := &caseOf{}
	if !p.peek().is("WHEN") {
		n.operand = p.expression(lowest)
	}
	for p.take("WHEN") {
		cond := p.expression(lowest)
		p.expect("THEN")
		n.whens = append(n.whens, when{cond, p.expression(lowest)})
	}
	if len(n.whens) == 0 {
		p.failHere("WHEN")
	}
	if p.take("ELSE") {
		n.other = p.expression(lowest)
	}
	if !p.take("END") {
		p.failHere("WHEN, ELSE or END")
	}
	n.span = p.from(start)
	return n
}
