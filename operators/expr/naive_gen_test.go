package expr_test

import (
	"fmt"
	"math"
	"math/big"
	"slices"

	"pgregory.net/rapid"

	"sluice/internal/naive"
)

// generator draws random well-typed expressions over a table.
type generator struct {
	t   *rapid.T
	tab *table
}

func (g *generator) int(lo, hi int) int { return rapid.IntRange(lo, hi).Draw(g.t, "") }

func (g *generator) chance(of int) bool { return g.int(0, of-1) == of-1 }

func pick[T any](g *generator, of ...T) T { return of[g.int(0, len(of)-1)] }

var allKinds = []naive.Kind{naive.Bool, naive.Int, naive.Float, naive.Decimal, naive.String, naive.Bytes, naive.Timestamp, naive.Duration}

// expression draws an expression of kind k with at most depth levels of operators. The type of a decimal
// is what comes of it.
func (g *generator) expression(k naive.Kind, depth int) *naive.Node {
	if depth <= 0 || g.chance(8) {
		return g.leaf(k)
	}
	if g.chance(4) {
		return g.generic(k, depth-1)
	}
	switch k {
	case naive.Bool:
		return g.bool(depth - 1)
	case naive.Int:
		return g.integer(depth - 1)
	case naive.Float:
		return g.float(depth - 1)
	case naive.Decimal:
		return g.decimal(depth - 1)
	case naive.String:
		return g.string(depth - 1)
	case naive.Bytes:
		return g.bytes(depth - 1)
	case naive.Timestamp:
		return g.timestamp(depth - 1)
	}
	return g.duration(depth - 1)
}

// leaf draws a column or a literal.
func (g *generator) leaf(k naive.Kind) *naive.Node {
	if g.chance(4) {
		return g.literal(k)
	}
	return g.column(k)
}

func (g *generator) column(k naive.Kind) *naive.Node {
	var fits []int
	for i, t := range g.tab.types {
		if t.Kind == k {
			fits = append(fits, i)
		}
	}
	i := pick(g, fits...)
	name := g.tab.names[i]
	if g.chance(6) {
		name = "flow." + name
	}
	if g.chance(6) {
		name = `"` + g.tab.names[i] + `"`
	}
	return naive.Column(name, i, g.tab.types[i])
}

func (g *generator) literal(k naive.Kind) *naive.Node {
	if g.chance(10) {
		t := naive.Type{Kind: k}
		if k == naive.Decimal {
			t = decimalType(g.t)
		}
		return naive.Cast(naive.Literal(naive.NullType, naive.Value{Null: true}), t)
	}
	t := naive.Type{Kind: k}
	if k == naive.Decimal {
		return g.decimalLiteral()
	}
	n := naive.Literal(t, randomValue(g.t, t))
	switch {
	case k == naive.Timestamp:
		n.Value.Int = rapid.Int64Range(-62135596800000000, 253402300799999999).Draw(g.t, "")
		if g.chance(2) {
			n.Value.Int -= n.Value.Int % 1e6
		}
	case k == naive.Duration && g.chance(2):
		unit := g.int(0, 5)
		count := int64(g.int(-50, 50))
		micros := []int64{1, 1e3, 1e6, 60e6, 3600e6, 86400e6}[unit]
		n.Value.Int = count * micros
		n.Name = fmt.Sprintf("INTERVAL '%d' %s", count, []string{"MICROSECOND", "millisecond", "SECONDS", "MINUTE", "hour", "DAY"}[unit])
		if count > 0 && g.chance(2) {
			n.Name = fmt.Sprintf("%d%s", count, []string{"us", "ms", "s", "m", "h", "d"}[unit])
		}
	}
	return n
}

// decimalLiteral draws a number with a point, whose type follows from its digits.
func (g *generator) decimalLiteral() *naive.Node {
	if g.chance(8) { // an int that does not fit 64 bits
		v, _ := new(big.Int).SetString("9223372036854775809", 10)
		v.Add(v, big.NewInt(rapid.Int64Range(0, 7e17).Draw(g.t, "")))
		return naive.Literal(naive.DecimalType(19, 0), naive.Value{Dec: v})
	}
	scale := g.int(1, 10)
	v := big.NewInt(rapid.Int64Range(-1e12, 1e12).Draw(g.t, ""))
	digits := len(new(big.Int).Abs(v).String())
	if v.Sign() == 0 {
		digits = 0
	}
	return naive.Literal(naive.DecimalType(max(digits, scale), scale), naive.Value{Dec: v})
}

// generic draws the forms that there are for every kind.
func (g *generator) generic(k naive.Kind, depth int) *naive.Node {
	some := func() *naive.Node { return g.expression(k, depth) }
	switch g.int(0, 6) {
	case 0:
		return g.caseOf(k, depth)
	case 1:
		return g.simpleCase(k, depth)
	case 2:
		return naive.New("coalesce()", g.several(k, depth)...)
	case 3:
		return naive.New("nullif()", some(), some())
	case 4:
		return naive.New("greatest()", g.several(k, depth)...)
	case 5:
		return naive.New("least()", g.several(k, depth)...)
	}
	return g.cast(k, depth)
}

// several draws a few expressions of a kind, of which one may be a bare NULL, and numbers of other kinds
// beside floats and decimals.
func (g *generator) several(k naive.Kind, depth int) []*naive.Node {
	args := []*naive.Node{g.expression(k, depth)}
	for range g.int(1, 3) {
		switch {
		case g.chance(10):
			args = append(args, naive.Literal(naive.NullType, naive.Value{Null: true}))
		case g.chance(5) && (k == naive.Float || k == naive.Decimal):
			args = append(args, g.expression(naive.Int, depth))
		case g.chance(5) && k == naive.Float:
			args = append(args, g.expression(naive.Decimal, depth))
		default:
			args = append(args, g.expression(k, depth))
		}
	}
	at := g.int(0, len(args)-1)
	args[0], args[at] = args[at], args[0]
	return args
}

func (g *generator) caseOf(k naive.Kind, depth int) *naive.Node {
	results := g.several(k, depth)
	var args []*naive.Node
	for i, r := range results {
		if i == len(results)-1 && g.chance(2) {
			args = append(args, r)
			break
		}
		args = append(args, g.expression(naive.Bool, depth), r)
	}
	return naive.New("case", args...)
}

func (g *generator) simpleCase(k naive.Kind, depth int) *naive.Node {
	on := pick(g, allKinds...)
	results := g.several(k, depth)
	args := []*naive.Node{g.expression(on, depth)}
	for i, r := range results {
		if i > 0 && i == len(results)-1 && g.chance(2) {
			args = append(args, r)
			break
		}
		args = append(args, g.expression(on, depth), r)
	}
	return naive.New("case of", args...)
}

// casts lists the kinds that can be cast to each kind.
var casts = map[naive.Kind][]naive.Kind{
	naive.Bool:      {naive.String, naive.Int, naive.Bool},
	naive.Int:       {naive.String, naive.Bool, naive.Float, naive.Decimal, naive.Int},
	naive.Float:     {naive.String, naive.Int, naive.Decimal},
	naive.Decimal:   {naive.String, naive.Int, naive.Float, naive.Decimal, naive.Decimal},
	naive.String:    {naive.Bool, naive.Int, naive.Float, naive.Decimal, naive.String, naive.Bytes, naive.Timestamp, naive.Duration},
	naive.Bytes:     {naive.String, naive.Bytes},
	naive.Timestamp: {naive.String, naive.Timestamp},
	naive.Duration:  {naive.String, naive.Duration},
}

func (g *generator) cast(k naive.Kind, depth int) *naive.Node {
	to := naive.Type{Kind: k}
	if k == naive.Decimal {
		to = decimalType(g.t)
	}
	from := pick(g, casts[k]...)
	if from == naive.String && g.chance(2) { // text of the right form
		t := to
		if k == naive.Decimal && g.chance(2) {
			t = pick(g, naive.IntType, naive.FloatType)
		}
		return naive.Cast(naive.Cast(g.expression(t.Kind, depth-1), naive.StringType), to)
	}
	return naive.Cast(g.expression(from, depth), to)
}

// number draws a number of any kind.
func (g *generator) number(depth int) *naive.Node {
	return g.expression(pick(g, naive.Int, naive.Float, naive.Decimal), depth)
}

// pair draws two expressions that can be compared.
func (g *generator) pair(depth int) (a, b *naive.Node) {
	k := pick(g, allKinds...)
	null := naive.Literal(naive.NullType, naive.Value{Null: true})
	switch {
	case g.chance(12):
		return g.expression(k, depth), null
	case g.chance(20):
		return null, g.expression(k, depth)
	case g.chance(3):
		return g.number(depth), g.number(depth)
	case k == naive.Timestamp && g.chance(3):
		n := g.literal(k)
		if n.Op == "literal" && n.Name == "" {
			n.Name = "'" + n.Value.Show(n.Type) + "'"
		}
		return g.expression(k, depth), n
	}
	return g.expression(k, depth), g.expression(k, depth)
}

// multiplyAdd draws the sum or difference of a product with a constant, and something.
func (g *generator) multiplyAdd(k naive.Kind, depth int) *naive.Node {
	var c, y *naive.Node
	if k == naive.Int {
		c = constantInt(pick[int64](g, 0, 1, -1, 2, 3, -7, 10, 1<<31, 1<<61, 1<<62, math.MinInt64, math.MaxInt64))
	} else {
		c = naive.Literal(naive.FloatType, randomValue(g.t, naive.FloatType))
	}
	x := g.expression(k, depth)
	if g.chance(2) {
		x, c = c, x
	}
	product := naive.New("*", x, c)
	if y = g.expression(k, depth); g.chance(2) {
		y = g.literal(k)
	}
	if g.chance(2) {
		return naive.New(pick(g, "+", "-"), product, y)
	}
	return naive.New(pick(g, "+", "-"), y, product)
}

// bounds draws comparisons of one column with constants.
func (g *generator) bounds() *naive.Node {
	k := pick(g, naive.Int, naive.Float, naive.Timestamp, naive.Duration, naive.Decimal, naive.String)
	x := g.column(k)
	constant := func() *naive.Node {
		if g.chance(2) { // one that occurs
			if v := g.tab.rows[g.int(0, len(g.tab.rows)-1)][x.Column]; !v.Null && k != naive.Timestamp {
				return naive.Literal(x.Type, v)
			}
		}
		return g.literal(k)
	}
	compare := func() *naive.Node {
		if g.chance(3) {
			return naive.New(pick(g, comparisons...), constant(), x)
		}
		return naive.New(pick(g, comparisons...), x, constant())
	}
	return naive.New(pick(g, "and", "and", "or"), compare(), compare())
}

var comparisons = []string{"=", "<>", "!=", "<", "<=", ">", ">="}

func (g *generator) bool(depth int) *naive.Node {
	switch g.int(0, 14) {
	case 14:
		return g.bounds()
	case 0, 1, 2:
		a, b := g.pair(depth)
		return naive.New(pick(g, comparisons...), a, b)
	case 3, 4:
		return naive.New("and", g.condition(depth), g.condition(depth))
	case 5, 6:
		return naive.New("or", g.condition(depth), g.condition(depth))
	case 7:
		return naive.New("not", g.condition(depth))
	case 8:
		if g.chance(2) {
			return naive.New(pick(g, "is true", "is not true", "is false", "is not false"), g.condition(depth))
		}
		return naive.New(pick(g, "is null", "is not null"), g.expression(pick(g, allKinds...), depth))
	case 9:
		a, b := g.pair(depth)
		return naive.New(pick(g, "is distinct from", "is not distinct from"), a, b)
	case 10:
		return g.in(depth)
	case 11:
		x, lo := g.pair(depth)
		var hi *naive.Node
		switch {
		case x.Type.Kind == naive.Int || x.Type.Kind == naive.Float || x.Type.Kind == naive.Decimal:
			hi = g.number(depth)
		case x.Type.Kind == naive.Null:
			hi = g.expression(lo.Type.Kind, depth)
		default:
			hi = g.expression(x.Type.Kind, depth)
		}
		return naive.New(pick(g, "between", "not between"), x, lo, hi)
	case 12:
		return g.like(depth)
	}
	return g.textTest(depth)
}

// condition draws a condition; now and then a bare NULL.
func (g *generator) condition(depth int) *naive.Node {
	if g.chance(20) {
		return naive.Literal(naive.NullType, naive.Value{Null: true})
	}
	return g.expression(naive.Bool, depth)
}

func (g *generator) in(depth int) *naive.Node {
	k := pick(g, allKinds...)
	args := []*naive.Node{g.expression(k, depth)}
	constants := g.chance(2) // as they mostly are
	for range g.int(1, 5) {
		switch {
		case g.chance(12):
			args = append(args, naive.Literal(naive.NullType, naive.Value{Null: true}))
		case constants:
			args = append(args, g.literal(k))
		case g.chance(6) && (k == naive.Int || k == naive.Float || k == naive.Decimal):
			args = append(args, g.number(depth))
		default:
			args = append(args, g.expression(k, depth))
		}
	}
	return naive.New(pick(g, "in", "not in"), args...)
}

func constantText(s string) *naive.Node { return naive.Literal(naive.StringType, naive.Value{Text: s}) }

func constantInt(i int64) *naive.Node { return naive.Literal(naive.IntType, naive.Value{Int: i}) }

func (g *generator) like(depth int) *naive.Node {
	op := pick(g, "like", "not like")
	s := g.expression(naive.String, depth)
	if g.chance(4) {
		return naive.New(op, s, g.expression(naive.String, depth))
	}
	escape := pick(g, "", "", "", `\`, "!", "é")
	pattern := ""
	for range g.int(0, 5) {
		part := pick(g, "%", "%", "_", "a", "b", "ab", "é", "日", "😀", " ", "c", ".", "1")
		if escape != "" && g.chance(3) {
			part = escape + pick(g, "%", "_", escape)
		}
		if part == escape {
			part += escape
		}
		pattern += part
	}
	if escape == "" {
		return naive.New(op, s, constantText(pattern))
	}
	return naive.New(op, s, constantText(pattern), constantText(escape))
}

var regexps = []string{"a", "^a", "b$", "^$", "(a|b)+", "a.c", `\d+`, "[é-日]", "(?i)AB", "^.{2,3}$", "😀", ""}

func (g *generator) textTest(depth int) *naive.Node {
	a := g.expression(naive.String, depth)
	if g.chance(3) {
		b := g.column(naive.String) // a constant with a fault would be refused
		if g.chance(2) {
			b = constantText(pick(g, regexps...))
		}
		return naive.New("regexp_like()", a, b)
	}
	return naive.New(pick(g, "starts_with()", "ends_with()"), a, g.expression(naive.String, depth))
}

var (
	extractUnits  = []string{"year", "quarter", "month", "week", "day", "dow", "doy", "hour", "minute", "second", "millisecond", "microsecond"}
	durationUnits = []string{"day", "hour", "minute", "second", "millisecond", "microsecond"}
)

func (g *generator) integer(depth int) *naive.Node {
	switch g.int(0, 12) {
	case 12:
		return g.multiplyAdd(naive.Int, depth)
	case 0, 1, 2, 3:
		return naive.New(pick(g, "+", "-", "*", "/", "%"), g.expression(naive.Int, depth), g.expression(naive.Int, depth))
	case 4:
		return naive.New("neg", g.expression(naive.Int, depth))
	case 5:
		return naive.New("abs()", g.expression(naive.Int, depth))
	case 6:
		return naive.New("sign()", pick(g, g.number, g.duration)(depth))
	case 7:
		return naive.New("length()", g.expression(pick(g, naive.String, naive.Bytes), depth))
	case 8:
		return naive.New("position()", g.expression(naive.String, depth), g.expression(naive.String, depth))
	case 9:
		if g.chance(3) {
			return naive.New("extract()", constantText(pick(g, durationUnits...)), g.expression(naive.Duration, depth))
		}
		return naive.New("extract()", constantText(pick(g, extractUnits...)), g.expression(naive.Timestamp, depth))
	case 10:
		if g.chance(3) {
			return naive.New(pick(g, "day()", "hour()", "minute()", "second()"), g.expression(naive.Duration, depth))
		}
		return naive.New(pick(g, "year()", "month()", "day()", "hour()", "minute()", "second()"), g.expression(naive.Timestamp, depth))
	}
	if g.chance(2) {
		return naive.New("round()", g.expression(naive.Int, depth), g.digits(depth))
	}
	return naive.New(pick(g, "round()", "floor()", "ceil()"), g.expression(naive.Int, depth))
}

func (g *generator) float(depth int) *naive.Node {
	switch g.int(0, 9) {
	case 9:
		return g.multiplyAdd(naive.Float, depth)
	case 0, 1, 2:
		a, b := g.expression(naive.Float, depth), g.number(depth)
		if g.chance(2) {
			a, b = b, a
		}
		return naive.New(pick(g, "+", "-", "*", "/", "%"), a, b)
	case 3:
		return naive.New(pick(g, "neg", "abs()"), g.expression(naive.Float, depth))
	case 4:
		return naive.New(pick(g, "floor()", "ceil()", "round()"), g.expression(naive.Float, depth))
	case 5:
		return naive.New("round()", g.expression(naive.Float, depth), g.digits(depth))
	case 6:
		return naive.New(pick(g, "sqrt()", "ln()", "log10()", "exp()"), g.number(depth))
	case 7:
		return naive.New("power()", g.number(depth), g.number(depth))
	}
	return naive.New("/", g.expression(naive.Duration, depth), g.expression(naive.Duration, depth))
}

// digits draws a number of digits to round to.
func (g *generator) digits(depth int) *naive.Node {
	if g.chance(3) {
		return g.expression(naive.Int, depth)
	}
	return constantInt(int64(g.int(-20, 12)))
}

func (g *generator) decimal(depth int) *naive.Node {
	switch g.int(0, 6) {
	case 6:
		return naive.New("extract()", constantText("epoch"), g.expression(pick(g, naive.Timestamp, naive.Duration), depth))
	case 0, 1, 2:
		return g.decimalArithmetic(depth)
	case 3:
		return naive.New(pick(g, "neg", "abs()"), g.expression(naive.Decimal, depth))
	case 4:
		return naive.New(pick(g, "floor()", "ceil()", "round()"), g.expression(naive.Decimal, depth))
	}
	return naive.New("round()", g.expression(naive.Decimal, depth), constantInt(int64(g.int(-40, 40))))
}

func (g *generator) decimalArithmetic(depth int) *naive.Node {
	a, b := g.expression(naive.Decimal, depth), g.expression(pick(g, naive.Int, naive.Decimal, naive.Decimal), depth)
	if g.chance(2) {
		a, b = b, a
	}
	op := pick(g, "+", "-", "*", "*", "/", "/", "%")
	if op == "*" && a.Type.Scale+b.Type.Scale > 38 { // refused
		op = "-"
	}
	return naive.New(op, a, b)
}

// place draws a position in a text or a number of characters.
func (g *generator) place(depth int) *naive.Node {
	if g.chance(3) {
		return g.expression(naive.Int, depth)
	}
	return constantInt(int64(pick(g, -2, -1, 0, 1, 2, 3, 4, 6, 100, math.MaxInt64)))
}

// besideText are the kinds of what || joins to a string.
var besideText = []naive.Kind{naive.String, naive.String, naive.Bool, naive.Int, naive.Float, naive.Decimal, naive.Timestamp, naive.Duration}

func (g *generator) string(depth int) *naive.Node {
	some := func() *naive.Node { return g.expression(naive.String, depth) }
	switch g.int(0, 8) {
	case 0:
		args := []*naive.Node{some(), g.expression(pick(g, besideText...), depth)}
		if g.chance(2) {
			slices.Reverse(args)
		}
		return naive.New("||", args...)
	case 1:
		args := g.several(naive.String, depth)
		if g.chance(2) {
			args = append(args, g.expression(pick(g, allKinds...), depth))
		}
		return naive.New("concat()", args...)
	case 2:
		return naive.New(pick(g, "lower()", "upper()"), some())
	case 3:
		return naive.New("substring()", some(), g.place(depth))
	case 4:
		return naive.New("substring()", some(), g.place(depth), g.place(depth))
	case 5:
		return naive.New(pick(g, "trim()", "ltrim()", "rtrim()"), some())
	case 6:
		return naive.New("trim()", some(), some())
	case 7:
		return naive.New("replace()", some(), some(), some())
	}
	return naive.New("split_part()", some(), pick(g, some(), constantText(",")), g.place(depth))
}

func (g *generator) bytes(depth int) *naive.Node {
	switch g.int(0, 2) {
	case 0:
		return naive.New("||", g.expression(naive.Bytes, depth), g.expression(naive.Bytes, depth))
	case 1:
		return naive.New("substring()", g.expression(naive.Bytes, depth), g.place(depth), g.place(depth))
	}
	return naive.Cast(naive.Cast(g.expression(naive.Bytes, depth), naive.StringType), naive.BytesType)
}

var truncUnits = []string{"year", "quarter", "month", "week", "day", "hour", "minute", "second", "millisecond", "microsecond"}

func (g *generator) timestamp(depth int) *naive.Node {
	switch g.int(0, 2) {
	case 0:
		a, b := g.expression(naive.Timestamp, depth), g.expression(naive.Duration, depth)
		if op := pick(g, "+", "-"); op == "-" || g.chance(2) {
			return naive.New(op, a, b)
		}
		return naive.New("+", b, a)
	case 1:
		return naive.New("date_trunc()", constantText(pick(g, truncUnits...)), g.expression(naive.Timestamp, depth))
	}
	return g.cast(naive.Timestamp, depth)
}

func (g *generator) duration(depth int) *naive.Node {
	some := func() *naive.Node { return g.expression(naive.Duration, depth) }
	switch g.int(0, 5) {
	case 0:
		return naive.New("-", g.expression(naive.Timestamp, depth), g.expression(naive.Timestamp, depth))
	case 1:
		return naive.New(pick(g, "+", "-", "%"), some(), some())
	case 2:
		return naive.New(pick(g, "*", "/"), some(), g.expression(naive.Int, depth))
	case 3:
		return naive.New("*", g.expression(naive.Int, depth), some())
	}
	return naive.New(pick(g, "neg", "abs()"), some())
}

// each calls f for n and every expression inside it.
func each(n *naive.Node, f func(n *naive.Node)) {
	f(n)
	for _, a := range n.Args {
		each(a, f)
	}
}

// operations lists the operations of an expression.
func operations(n *naive.Node) []string {
	var ops []string
	each(n, func(n *naive.Node) { ops = append(ops, n.Op) })
	slices.Sort(ops)
	return slices.Compact(ops)
}
