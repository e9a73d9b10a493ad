package expr

import (
	"fmt"
	"strconv"
	"strings"

	"sluice/dataflow"
)

// call reads a call of a function or of an aggregate. Forms with words between their arguments become
// the plain form with commas.
func (p *parser) call() node {
	t := p.next()
	p.count(t.start)
	name := lowerASCII(t.text)
	if name == "cast" {
		return p.cast(t.start)
	}
	p.expectSymbol("(")
	n := &call{name: name}
	switch name {
	case "extract":
		p.extract(n)
	case "trim":
		p.trim(n)
	default:
		p.arguments(n)
	}
	p.expectSymbol(")")
	if p.peek().is("FILTER") && p.peekAfter().isSymbol("(") {
		p.next()
		p.next()
		p.expect("WHERE")
		n.filter = p.expression(lowest)
		p.expectSymbol(")")
	}
	n.span = p.from(t.start)
	return n
}

// lowerASCII folds the case of a function's name; such names have no other letters.
func lowerASCII(s string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'A' && r <= 'Z' {
			return r + 'a' - 'A'
		}
		return r
	}, s)
}

// arguments reads what stands between the parentheses of a call.
func (p *parser) arguments(n *call) {
	if p.peek().isSymbol(")") {
		return
	}
	if p.takeSymbol("*") {
		n.star = true
		return
	}
	n.distinct = p.take("DISTINCT")
	if n.name == "position" {
		n.args = append(n.args, p.expression(inLevel))
		if p.take("IN") {
			n.args = append(n.args, p.expression(lowest))
			return
		}
	} else {
		n.args = append(n.args, p.expression(lowest))
	}
	if n.name == "substring" && p.take("FROM") {
		n.args = append(n.args, p.expression(lowest))
		if p.take("FOR") {
			n.args = append(n.args, p.expression(lowest))
		}
		return
	}
	for p.takeSymbol(",") {
		n.args = append(n.args, p.expression(lowest))
	}
}

// extract reads unit FROM x.
func (p *parser) extract(n *call) {
	t := p.peek()
	if t.kind != nameToken && t.kind != stringToken {
		p.failHere("a unit such as YEAR")
		return
	}
	p.next()
	unit := &literal{t.span, dataflow.StringType, scalar{s: lowerASCII(t.text)}}
	if !p.takeSymbol(",") {
		p.expect("FROM")
	}
	n.args = []node{unit, p.expression(lowest)}
}

// trim reads s, or s, characters, or [LEADING|TRAILING|BOTH] [characters] FROM s.
func (p *parser) trim(n *call) {
	side := p.peek()
	if follows := p.peekAfter(); follows.kind != symbolToken || follows.isSymbol("(") {
		switch {
		case side.is("LEADING"):
			n.name = "ltrim"
			p.next()
		case side.is("TRAILING"):
			n.name = "rtrim"
			p.next()
		case side.is("BOTH"):
			p.next()
		}
	}
	if p.take("FROM") {
		n.args = []node{p.expression(lowest)}
		return
	}
	first := p.expression(lowest)
	switch {
	case p.take("FROM"):
		n.args = []node{p.expression(lowest), first}
	case p.takeSymbol(","):
		n.args = []node{first, p.expression(lowest)}
	default:
		n.args = []node{first}
	}
}

func (p *parser) cast(start int) node {
	p.expectSymbol("(")
	x := p.expression(lowest)
	p.expect("AS")
	typ := p.typeName()
	p.expectSymbol(")")
	return &cast{p.from(start), x, typ}
}

var columnTypes = []dataflow.Type{
	dataflow.BoolType, dataflow.IntType, dataflow.FloatType, dataflow.DecimalType(38, 9), dataflow.StringType,
	dataflow.BytesType, dataflow.TimestampType, dataflow.DurationType,
}

// otherNames are what other systems call the types.
var otherNames = map[string]string{
	"boolean": "bool", "integer": "int", "bigint": "int", "smallint": "int", "long": "int", "int64": "int",
	"double": "float", "real": "float", "float64": "float", "numeric": "decimal", "number": "decimal",
	"varchar": "string", "char": "string", "text": "string", "binary": "bytes", "varbinary": "bytes",
	"bytea": "bytes", "blob": "bytes", "date": "timestamp", "datetime": "timestamp", "interval": "duration",
}

// typeName reads the name of a column type; one that is not known is Invalid and noted.
func (p *parser) typeName() dataflow.Type {
	t := p.peek()
	name := strings.ToLower(p.name("a type"))
	for _, typ := range columnTypes {
		if typ.Kind.String() != name {
			continue
		}
		if typ.Kind == dataflow.Decimal && p.takeSymbol("(") {
			return p.decimalType(t.start)
		}
		return typ
	}
	if p.err == nil {
		suggestion := otherNames[name]
		if suggestion == "" {
			suggestion = dataflow.Nearest(name, typeNames())
		}
		p.errs = append(p.errs, Error{t.start, fmt.Sprintf("unknown type %q", t.text), suggestion})
	}
	if p.takeSymbol("(") { // so that varchar(20) is one mistake, not two
		for p.peek().kind == intToken || p.peek().isSymbol(",") {
			p.next()
		}
		p.expectSymbol(")")
	}
	return dataflow.Type{}
}

func typeNames() []string {
	names := make([]string, len(columnTypes))
	for i, t := range columnTypes {
		names[i] = t.Kind.String()
	}
	return names
}

// decimalType reads the rest of decimal(p,s) or decimal(p).
func (p *parser) decimalType(start int) dataflow.Type {
	precision, scale := p.size(), 0
	if p.takeSymbol(",") {
		scale = p.size()
	}
	p.expectSymbol(")")
	if p.err != nil {
		return dataflow.Type{}
	}
	if precision < 1 || precision > dataflow.MaxPrecision || scale > precision {
		p.errs.add(start, "decimal(%d,%d) is no type: 1 to %d digits, and no more of them behind the point",
			precision, scale, dataflow.MaxPrecision)
		return dataflow.Type{}
	}
	return dataflow.DecimalType(uint8(precision), uint8(scale))
}

// size reads a small number.
func (p *parser) size() int {
	t := p.peek()
	v, err := strconv.Atoi(t.text)
	if t.kind != intToken || err != nil || v > 1000 {
		p.failHere("a number of digits")
		return 0
	}
	p.next()
	return v
}
