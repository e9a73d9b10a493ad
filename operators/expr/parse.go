package expr

import "fmt"

// Bounds of an expression's text, so that one from outside can cost only so much.
const (
	maxText  = 64 << 10 // bytes
	maxDepth = 200      // of parts inside parts
	maxNodes = 4000     // operators, calls and columns
)

// parser reads tokens by precedence climbing. At the first fault it notes the error and jumps to the
// end, so that all the callers run out of tokens; what they return is then not looked at.
type parser struct {
	text   string
	tokens []token
	pos    int
	depth  int
	nodes  int
	err    *Error // the fault of the syntax
	errs   Errors // faults that do not stop the parser
}

// parse runs rule over the whole of text.
func parse[T any](text string, rule func(p *parser) T) (T, Errors) {
	var none T
	if len(text) > maxText {
		return none, Errors{{Message: fmt.Sprintf("the text has %d bytes, more than %d", len(text), maxText)}}
	}
	tokens, err := scan(text)
	if err != nil {
		return none, Errors{*err}
	}
	p := &parser{text: text, tokens: tokens}
	result := rule(p)
	if t := p.peek(); t.kind != endToken {
		p.failAt(t.start, "unexpected %s", t.describe(text))
	}
	if p.err != nil {
		return none, Errors{*p.err}
	}
	return result, p.errs
}

// parseExpression reads one expression.
func parseExpression(text string) (node, Errors) {
	return parse(text, func(p *parser) node { return p.expression(lowest) })
}

// parseList reads a list of expressions with names; stars tells whether * is one.
func parseList(text string, stars bool) ([]item, Errors) {
	return parse(text, func(p *parser) []item {
		items := []item{p.item(stars)}
		for p.takeSymbol(",") {
			items = append(items, p.item(stars))
		}
		return items
	})
}

func (p *parser) peek() token { return p.tokens[p.pos] }

func (p *parser) peekAfter() token { return p.tokens[min(p.pos+1, len(p.tokens)-1)] }

func (p *parser) next() token {
	t := p.tokens[p.pos]
	if p.pos < len(p.tokens)-1 {
		p.pos++
	}
	return t
}

func (p *parser) takeSymbol(s string) bool {
	if !p.peek().isSymbol(s) {
		return false
	}
	p.next()
	return true
}

func (p *parser) take(keyword string) bool {
	if !p.peek().is(keyword) {
		return false
	}
	p.next()
	return true
}

func (p *parser) expectSymbol(s string) {
	if !p.takeSymbol(s) {
		p.failHere("%q", s)
	}
}

func (p *parser) expect(keyword string) {
	if !p.take(keyword) {
		p.failHere("%s", keyword)
	}
}

// failHere notes that the next token is not what is expected.
func (p *parser) failHere(format string, args ...any) {
	t := p.peek()
	p.failAt(t.start, "expected %s, not %s", fmt.Sprintf(format, args...), t.describe(p.text))
}

func (p *parser) failAt(offset int, format string, args ...any) {
	if p.err == nil {
		p.err = &Error{Offset: offset, Message: fmt.Sprintf(format, args...)}
	}
	p.pos = len(p.tokens) - 1
}

// from is the span from offset start to the end of the token before the next one.
func (p *parser) from(start int) span {
	if p.pos == 0 {
		return span{start, start}
	}
	return span{start, max(start, p.tokens[p.pos-1].end)}
}

// count bounds the size of what is built.
func (p *parser) count(at int) {
	if p.nodes++; p.nodes > maxNodes {
		p.failAt(at, "the expression has more than %d parts", maxNodes)
	}
}

func (p *parser) item(stars bool) item {
	t := p.peek()
	if stars && p.takeSymbol("*") {
		return item{span: t.span}
	}
	if stars && (t.kind == nameToken || t.kind == quotedToken) && p.peekAfter().isSymbol(".") &&
		p.tokens[min(p.pos+2, len(p.tokens)-1)].isSymbol("*") {
		p.pos += 2
		p.next()
		return item{span: p.from(t.start), stream: t.text}
	}
	x := p.expression(lowest)
	it := item{x: x}
	if p.take("AS") {
		name := p.peek()
		it.alias, it.nameAt = p.name("a name"), name.start
	}
	it.span = p.from(t.start)
	return it
}

// name reads a name, quoted or not.
func (p *parser) name(what string) string {
	t := p.peek()
	if t.kind == quotedToken || t.kind == nameToken && !isReserved(t.text) {
		p.next()
		return t.text
	}
	p.failHere("%s", what)
	return ""
}

// The precedence of operators, from the one that binds least.
const (
	lowest = iota
	orLevel
	andLevel
	notLevel
	isLevel
	compareLevel
	inLevel // IN, BETWEEN, LIKE
	concatLevel
	addLevel
	multiplyLevel
	unaryLevel
)

var symbolLevels = map[string]int{
	"=": compareLevel, "<>": compareLevel, "!=": compareLevel, "<": compareLevel, "<=": compareLevel,
	">": compareLevel, ">=": compareLevel, "||": concatLevel, "+": addLevel, "-": addLevel,
	"*": multiplyLevel, "/": multiplyLevel, "%": multiplyLevel,
}

// level returns the precedence of the operator at the next token, lowest if there is none.
func (p *parser) level() int {
	t := p.peek()
	switch {
	case t.kind == symbolToken:
		return symbolLevels[t.text]
	case t.kind != nameToken:
		return lowest
	case t.is("OR"):
		return orLevel
	case t.is("AND"):
		return andLevel
	case t.is("IS"):
		return isLevel
	case t.is("IN"), t.is("BETWEEN"), t.is("LIKE"):
		return inLevel
	case t.is("NOT"):
		if n := p.peekAfter(); n.is("IN") || n.is("BETWEEN") || n.is("LIKE") {
			return inLevel
		}
	}
	return lowest
}

// expression reads an expression of operators that bind more than level above.
func (p *parser) expression(above int) node {
	start := p.peek().start
	if p.depth++; p.depth > maxDepth {
		p.failAt(start, "the expression is nested more than %d deep", maxDepth)
	}
	defer func() { p.depth-- }()
	x := p.operand()
	for p.err == nil {
		level := p.level()
		if level <= above {
			break
		}
		p.count(start)
		x = p.operator(start, level, x)
		if p.level() == level && (level == compareLevel || level == inLevel) {
			t := p.peek()
			p.failAt(t.start, "unexpected %s: comparisons cannot be chained; join them with AND", t.describe(p.text))
		}
	}
	return x
}

// operator reads the operator of the given level behind x, with what belongs to it.
func (p *parser) operator(start, level int, x node) node {
	switch level {
	case isLevel:
		return p.is(start, x)
	case inLevel:
		return p.in(start, x)
	}
	op := p.next().text
	switch level {
	case orLevel:
		op = "OR"
	case andLevel:
		op = "AND"
	case compareLevel:
		if op == "!=" {
			op = "<>"
		}
	}
	y := p.expression(level)
	return &infix{p.from(start), op, x, y}
}

func (p *parser) is(start int, x node) node {
	p.expect("IS")
	not := p.take("NOT")
	switch {
	case p.take("NULL"):
		return &isNull{p.from(start), not, x}
	case p.take("DISTINCT"):
		p.expect("FROM")
		y := p.expression(isLevel)
		op := "IS DISTINCT FROM"
		if not {
			op = "IS NOT DISTINCT FROM"
		}
		return &infix{p.from(start), op, x, y}
	case p.take("TRUE"):
		return p.isBool(start, x, 1, not)
	case p.take("FALSE"):
		return p.isBool(start, x, 0, not)
	}
	p.failHere("NULL, TRUE, FALSE or DISTINCT FROM")
	return x
}

// isBool makes x IS [NOT] TRUE, which is a comparison that does not yield NULL.
func (p *parser) isBool(start int, x node, truth int64, not bool) node {
	op := "IS NOT DISTINCT FROM"
	if not {
		op = "IS DISTINCT FROM"
	}
	s := p.from(start)
	return &infix{s, op, x, boolLiteral(span{s.end, s.end}, truth)}
}

// in reads IN, BETWEEN or LIKE behind x.
func (p *parser) in(start int, x node) node {
	not := p.take("NOT")
	switch {
	case p.take("IN"):
		p.expectSymbol("(")
		list := []node{p.expression(lowest)}
		for p.takeSymbol(",") {
			list = append(list, p.expression(lowest))
		}
		p.expectSymbol(")")
		return &inList{p.from(start), not, x, list}
	case p.take("BETWEEN"):
		lo := p.expression(inLevel)
		p.expect("AND")
		hi := p.expression(inLevel)
		return &between{p.from(start), not, x, lo, hi}
	}
	p.expect("LIKE")
	n := &like{not: not, x: x, pattern: p.expression(inLevel)}
	if p.take("ESCAPE") {
		n.escape = p.expression(inLevel)
	}
	n.span = p.from(start)
	return n
}
