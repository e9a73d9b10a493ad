package expr

import (
	"strings"

	"sluice/dataflow"
	"sluice/dataflow/decimal"
	"sluice/operators/value"
)

// printer writes an expression in its canonical form, which parses to the same expression.
type printer struct {
	out []byte
	// column writes a column; nil writes it as the expression has it.
	column func(c *column) string
	// replace gives the text that stands for n, if it is not to be written as it is. The text needs no
	// parentheses. It may be nil.
	replace func(n node) (string, bool)
}

// format gives the canonical form of n.
func format(n node) string {
	var p printer
	p.print(n, lowest)
	return string(p.out)
}

func (p *printer) add(s string) { p.out = append(p.out, s...) }

// print writes n where operators up to level above need parentheses.
func (p *printer) print(n node, above int) {
	if p.replace != nil {
		if text, ok := p.replace(n); ok {
			p.add(text)
			return
		}
	}
	level := printLevel(n)
	if level <= above {
		p.add("(")
		defer p.add(")")
	}
	switch n := n.(type) {
	case *literal:
		p.out = appendLiteral(p.out, n.typ, &n.val)
	case *column:
		p.printColumn(n)
	case *unary:
		p.add(n.op)
		if n.op == "NOT" {
			p.add(" ")
			p.print(n.x, andLevel)
			return
		}
		p.print(n.x, signLevel(n.x))
	case *infix:
		p.print(n.x, leftLevel(level))
		p.add(" " + n.op + " ")
		p.print(n.y, level)
	case *isNull:
		p.print(n.x, isLevel-1)
		p.add(" IS " + not(n.not) + "NULL")
	case *inList:
		p.print(n.x, inLevel)
		p.add(" " + not(n.not) + "IN (")
		p.list(n.list)
		p.add(")")
	case *between:
		p.print(n.x, inLevel)
		p.add(" " + not(n.not) + "BETWEEN ")
		p.print(n.lo, inLevel)
		p.add(" AND ")
		p.print(n.hi, inLevel)
	case *like:
		p.print(n.x, inLevel)
		p.add(" " + not(n.not) + "LIKE ")
		p.print(n.pattern, inLevel)
		if n.escape != nil {
			p.add(" ESCAPE ")
			p.print(n.escape, inLevel)
		}
	case *caseOf:
		p.caseOf(n)
	case *cast:
		p.add("CAST(")
		p.print(n.x, lowest)
		p.add(" AS " + n.typ.String() + ")")
	case *call:
		p.call(n)
	}
}

func not(v bool) string {
	if v {
		return "NOT "
	}
	return ""
}

// printLevel is the precedence of the operator at the top of n.
func printLevel(n node) int {
	switch n := n.(type) {
	case *unary:
		if n.op == "NOT" {
			return notLevel
		}
		return unaryLevel
	case *infix:
		return binaryLevel(n.op)
	case *isNull:
		return isLevel
	case *inList, *between, *like:
		return inLevel
	case *literal:
		if n.typ.Kind == dataflow.Int && n.val.i < 0 {
			return unaryLevel
		}
	}
	return unaryLevel + 1
}

func binaryLevel(op string) int {
	switch op {
	case "OR":
		return orLevel
	case "AND":
		return andLevel
	case "IS DISTINCT FROM", "IS NOT DISTINCT FROM":
		return isLevel
	}
	return symbolLevels[op]
}

// leftLevel is what the left operand of a binary operator must bind more than: the operators group to
// the left, but comparisons not at all.
func leftLevel(level int) int {
	if level == compareLevel {
		return level
	}
	return level - 1
}

// signLevel is what the operand x of a sign must bind more than. A whole decimal must not look like the
// digits of the least int.
func signLevel(x node) int {
	if l, ok := x.(*literal); ok && l.typ.Kind == dataflow.Decimal && l.typ.Scale == 0 {
		return unaryLevel + 1
	}
	return unaryLevel
}

func (p *printer) printColumn(n *column) {
	if p.column != nil {
		p.add(p.column(n))
		return
	}
	if n.stream != "" {
		p.out = appendName(p.out, n.stream)
		p.add(".")
	}
	p.out = appendName(p.out, n.name)
}

func (p *printer) list(list []node) {
	for i, x := range list {
		if i > 0 {
			p.add(", ")
		}
		p.print(x, lowest)
	}
}

func (p *printer) caseOf(n *caseOf) {
	p.add("CASE")
	if n.operand != nil {
		p.add(" ")
		p.print(n.operand, lowest)
	}
	for _, w := range n.whens {
		p.add(" WHEN ")
		p.print(w.cond, lowest)
		p.add(" THEN ")
		p.print(w.result, lowest)
	}
	if n.other != nil {
		p.add(" ELSE ")
		p.print(n.other, lowest)
	}
	p.add(" END")
}

func (p *printer) call(n *call) {
	p.add(n.name + "(")
	switch {
	case n.star:
		p.add("*")
	case n.distinct:
		p.add("DISTINCT ")
	}
	args := n.args
	if n.name == "position" && len(args) > 0 {
		p.print(args[0], inLevel) // IN would be taken for that of position(a IN b)
		if args = args[1:]; len(args) > 0 {
			p.add(", ")
		}
	}
	p.list(args)
	p.add(")")
	if n.filter != nil {
		p.add(" FILTER (WHERE ")
		p.print(n.filter, lowest)
		p.add(")")
	}
}

// trimWords mean something at the start of trim(...), so that columns of these names are quoted there.
var trimWords = map[string]bool{"LEADING": true, "TRAILING": true, "BOTH": true, "FROM": true}

// appendName writes a name, in quotes if it needs them.
func appendName(dst []byte, name string) []byte {
	if !isReserved(name) && !trimWords[strings.ToUpper(name)] && nameEnd(name, 0) == len(name) {
		return append(dst, name...)
	}
	dst = append(dst, '"')
	dst = append(dst, strings.ReplaceAll(name, `"`, `""`)...)
	return append(dst, '"')
}

// appendLiteral writes a constant as a literal of its type.
func appendLiteral(dst []byte, t dataflow.Type, v *scalar) []byte {
	if v.null {
		return append(dst, "NULL"...)
	}
	switch t.Kind {
	case dataflow.Bool:
		return append(dst, strings.ToUpper(string(value.AppendBool(nil, v.i != 0)))...)
	case dataflow.Int:
		return value.AppendInt(dst, v.i)
	case dataflow.Float:
		return appendFloat(dst, v.f)
	case dataflow.Decimal:
		return appendDecimal(dst, v.d, t.Scale)
	case dataflow.Timestamp:
		return append(value.AppendTimestamp(append(dst, "TIMESTAMP '"...), v.i), '\'')
	case dataflow.Duration:
		if v.i < 0 {
			return append(value.AppendDuration(append(dst, "INTERVAL '"...), v.i), '\'')
		}
		return value.AppendDuration(dst, v.i)
	}
	dst = append(dst, '\'')
	dst = append(dst, strings.ReplaceAll(v.s, "'", "''")...)
	return append(dst, '\'')
}

// appendFloat writes a float so that it is one again when it is read: with an exponent.
func appendFloat(dst []byte, f float64) []byte {
	start := len(dst)
	dst = value.AppendFloat(dst, f)
	if !strings.ContainsAny(string(dst[start:]), "eE") {
		dst = append(dst, "e0"...)
	}
	return dst
}

// appendDecimal writes all digits behind the point, since they are part of a literal's type.
func appendDecimal(dst []byte, d decimal.Num, scale uint8) []byte {
	start := len(dst)
	dst = decimal.Append(dst, d, scale)
	point := strings.IndexByte(string(dst[start:]), '.')
	have := 0
	if point >= 0 {
		have = len(dst) - start - point - 1
	} else if scale > 0 {
		dst = append(dst, '.')
	}
	for ; have < int(scale); have++ {
		dst = append(dst, '0')
	}
	return dst
}
