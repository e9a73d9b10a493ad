package expr

import (
	"fmt"
	"strings"

	"sluice/dataflow"
)

// CompileAggregate compiles the parameters of an aggregation: group-by is a list of expressions, each
// of which may have a name (AS); select is a list of expressions over the grouped ones, over aggregate
// calls and, with a time window, over window_start, window_end and window_time; having is a condition
// over the same and over the names of the select list. Blank group-by and having mean that there is
// none. All faults are reported at once. In a scope of which a schema is not known, the plan is empty.
func CompileAggregate(groupBy, selectList, having string, s *Scope, timeWindow bool) (*AggregatePlan, ParamErrors) {
	a := &aggregation{scope: s, timeWindow: timeWindow, plan: &AggregatePlan{}}
	if strings.TrimSpace(groupBy) != "" {
		a.groupBy(groupBy)
	}
	a.selects(selectList)
	if strings.TrimSpace(having) != "" {
		a.having(having)
	}
	if len(a.faults) > 0 {
		return nil, a.faults
	}
	if s.unknown {
		return &AggregatePlan{}, nil
	}
	return a.finish(), nil
}

// aggregation is an AggregatePlan under construction. Its output expressions see the columns of Inter.
type aggregation struct {
	scope      *Scope
	timeWindow bool
	plan       *AggregatePlan
	faults     ParamErrors

	keys    []groupKey
	calls   []string // canonical texts of plan.Calls
	args    []*typed // of plan.Calls, as columns of Inter
	aliases map[string]*typed
	outputs []*typed
	broken  bool // a list could not be parsed, so that names may be of what it would have had
}

type groupKey struct {
	form string // canonical text, with columns resolved
	name string // behind AS; may be empty
	t    *typed
}

// windowNames are the pseudo columns of a time window. Until the number of calls is known, their index
// in Inter is counted from windowBase.
var windowNames = []string{"window_start", "window_end", "window_time"}

const windowBase = 1 << 20

func (a *aggregation) groupBy(text string) {
	items, errs := parseList(text, false)
	a.broken = items == nil
	c := &checker{text: text, scope: a.scope, errs: &errs, noAggregates: "group-by is of rows; it cannot have aggregates"}
	for _, it := range items {
		t := c.check(it.x)
		if t.isConstant() {
			t = c.errorf(it.span, "%s is the same for all rows; group-by needs a column or an expression over columns", c.quote(it))
		}
		key := groupKey{a.form(it.x), it.alias, t}
		if key.name == "" {
			if n, ok := it.x.(*column); ok {
				key.name = n.name
			}
		}
		for _, k := range a.keys {
			if k.form == key.form || key.name != "" && k.name == key.name {
				c.errorf(it.span, "%s is in group-by twice", c.quote(it))
				break
			}
		}
		a.keys = append(a.keys, key)
		a.plan.Keys = append(a.plan.Keys, newProgram(text, it.x, t))
	}
	a.faults.add("group-by", errs)
}

// form is the text of n by which equal expressions are told: columns are written by their index.
func (a *aggregation) form(n node) string {
	p := printer{column: func(c *column) string {
		if found := a.scope.find(c.stream, c.name); len(found) == 1 {
			return fmt.Sprintf("#%d", found[0])
		}
		return c.stream + "." + c.name
	}}
	p.print(n, lowest)
	return string(p.out)
}

// checker checks expressions over Inter.
func (a *aggregation) checker(text string, errs *Errors) *checker {
	c := &checker{text: text, scope: a.scope, errs: errs}
	c.resolve = func(n node) (*typed, bool) {
		t, ok := a.resolve(c, n)
		if ok {
			t.attach(text)
		}
		return t, ok
	}
	return c
}

// resolve puts columns of Inter in the place of keys, aggregate calls, pseudo columns and aliases.
func (a *aggregation) resolve(c *checker, n node) (*typed, bool) {
	if _, ok := n.(*literal); ok {
		return nil, false
	}
	if len(a.keys) > 0 {
		form := a.form(n)
		for i, k := range a.keys {
			if k.form == form {
				return a.keyColumn(n.where(), i), true
			}
		}
	}
	switch n := n.(type) {
	case *column:
		return a.column(c, n), true
	case *call:
		if f := functionNamed(n.name); f != nil && f.aggregate {
			return a.call(c, n, f), true
		}
	}
	return nil, false
}

func (a *aggregation) keyColumn(s span, i int) *typed {
	k := a.keys[i].t
	if k.invalid() {
		return &typed{span: s}
	}
	return &typed{span: s, op: opColumn, typ: k.typ, nullable: k.nullable, index: i}
}

// column resolves a name that is not a grouped column of the input.
func (a *aggregation) column(c *checker, n *column) *typed {
	if n.stream == "" {
		for i, k := range a.keys {
			if k.name == n.name {
				return a.keyColumn(n.span, i)
			}
		}
		for i, name := range windowNames {
			if name != n.name {
				continue
			}
			if a.timeWindow {
				return &typed{span: n.span, op: opColumn, typ: dataflow.TimestampType, index: windowBase + i}
			}
			if len(a.scope.find("", name)) == 0 {
				return c.errorf(n.span, "%s needs a window of time", name)
			}
		}
		if t := a.aliases[n.name]; t != nil {
			again := *t
			return &again
		}
	}
	if a.broken {
		return &typed{span: n.span}
	}
	if len(a.scope.find(n.stream, n.name)) == 1 {
		return c.errorf(n.span, "column %q must be in group-by or inside an aggregate", n.name)
	}
	known := len(*c.errs)
	t := c.column(n)
	if len(*c.errs) > known && n.stream == "" {
		e := &(*c.errs)[known]
		if strings.HasPrefix(e.Message, "unknown column") {
			e.Suggestion = dataflow.Nearest(n.name, a.names())
		}
	}
	return t
}

// names lists what an unknown name may have meant.
func (a *aggregation) names() []string {
	names := a.scope.names("")
	for _, k := range a.keys {
		names = append(names, k.name)
	}
	if a.timeWindow {
		names = append(names, windowNames...)
	}
	if a.aliases != nil {
		names = append(names, a.plan.Schema.Names()...)
	}
	return names
}

var aggregateFuncs = map[string]AggregateFunc{
	"count": Count, "sum": Sum, "avg": Avg, "min": Min, "max": Max, "stddev_samp": StddevSamp, "var_samp": VarSamp,
	"first": First, "last": Last,
}

// call checks an aggregate call and gives its column of Inter.
func (a *aggregation) call(outer *checker, n *call, f *function) *typed {
	c := &checker{text: outer.text, scope: a.scope, errs: outer.errs, noAggregates: "aggregates cannot stand inside each other"}
	call := AggregateCall{Func: aggregateFuncs[n.name], Distinct: n.distinct, Text: outer.text[n.start:n.end]}
	var args []*typed
	valid := true
	for _, x := range n.args {
		t := c.check(x)
		if t.typ.Kind == dataflow.Null {
			t = c.convert(t, dataflow.IntType)
		}
		args, valid = append(args, t), valid && !t.invalid()
	}
	var filter *typed
	if n.filter != nil {
		filter = c.condition(c.check(n.filter), "FILTER")
		valid = valid && !filter.invalid()
	}
	if !valid {
		return &typed{span: n.span}
	}
	nullable := filter != nil || len(a.keys) == 0 && !a.timeWindow
	switch {
	case n.star && call.Func == Count:
		call.Func, call.Type = CountStar, dataflow.IntType
	case n.star:
		return c.errorf(n.span, "only count takes *")
	case n.distinct && call.Func > Max:
		return c.errorf(n.span, "%s takes no DISTINCT in %s", n.name, c.quote(n))
	case len(args) != 1:
		return c.badCall(n, f, args)
	default:
		t, ok := call.Func.resultType(args[0].typ)
		if !ok {
			return c.badCall(n, f, args)
		}
		if call.Func == StddevSamp || call.Func == VarSamp {
			args[0], nullable = c.convert(args[0], t), true
		}
		call.Type, nullable = t, nullable || args[0].nullable
		if call.Func == Sum && isWideInt(args[0]) {
			args[0] = args[0].args[0]
		}
	}
	if call.Func == Min || call.Func == Max {
		call.Distinct = false
	}
	if call.Func == Count || call.Func == CountStar {
		nullable = false
	}
	if len(args) == 1 {
		call.Arg = newProgram(c.text, n.args[0], args[0])
	}
	if filter != nil {
		call.Filter = newProgram(c.text, n.filter, filter)
	}
	return a.callColumn(n, call, nullable)
}

// isWideInt tells whether t is an int as a decimal that holds any int. The sum of ints is exact, so it
// can be that of the ints themselves.
func isWideInt(t *typed) bool {
	return t.op == opCast && t.typ.Kind == dataflow.Decimal && t.typ.Scale == 0 && t.typ.Precision >= intDecimal.Precision &&
		t.args[0].typ.Kind == dataflow.Int
}

// callColumn finds a call among those that there are, or adds it.
func (a *aggregation) callColumn(n *call, call AggregateCall, nullable bool) *typed {
	form := fmt.Sprint(call.Func, call.Distinct)
	for _, x := range n.args {
		form += "," + a.form(x)
	}
	if n.filter != nil {
		form += " where " + a.form(n.filter)
	}
	at := -1
	for i, known := range a.calls {
		if known == form {
			at = i
		}
	}
	if at < 0 {
		at = len(a.calls)
		a.calls = append(a.calls, form)
		a.plan.Calls = append(a.plan.Calls, call)
		a.args = append(a.args, &typed{typ: call.Type, nullable: nullable})
	}
	return &typed{span: n.span, op: opColumn, typ: call.Type, nullable: nullable, index: len(a.keys) + at}
}

// resultType is the type of an aggregate of values of type t; ok is false if there is no such.
func (f AggregateFunc) resultType(t dataflow.Type) (result dataflow.Type, ok bool) {
	number := isNumber(t)
	switch f {
	case Count:
		return dataflow.IntType, true
	case Sum:
		if t.Kind == dataflow.Decimal {
			return dataflow.DecimalType(dataflow.MaxPrecision, t.Scale), true
		}
		return t, number || t.Kind == dataflow.Duration
	case Avg:
		if t.Kind == dataflow.Decimal {
			return dataflow.DecimalType(dataflow.MaxPrecision, max(t.Scale, 6)), true
		}
		if t.Kind == dataflow.Duration {
			return t, true
		}
		return dataflow.FloatType, number
	case StddevSamp, VarSamp:
		return dataflow.FloatType, number
	}
	return t, true
}

func (a *aggregation) selects(text string) {
	items, errs := parseList(text, true)
	defer func() { a.broken = a.broken || items == nil }()
	c := a.checker(text, &errs)
	a.plan.Schema = &dataflow.Schema{}
	list := selectList{checker: c, schema: a.plan.Schema, isEventTime: func(index int) bool { return index == windowBase+2 }}
	aliases := map[string]*typed{} // not to be seen by the select list itself
	for _, it := range items {
		if it.x == nil {
			c.errorf(it.span, "%s cannot be selected from an aggregation; name the grouped columns", c.quote(it))
			continue
		}
		t := c.check(it.x)
		t.attach(text)
		name := c.itemName(it)
		list.add(it, name, t)
		aliases[name] = t
		a.outputs = append(a.outputs, t)
		a.plan.Output = append(a.plan.Output, newProgram(text, it.x, t))
	}
	a.aliases = aliases
	a.faults.add("select", errs)
}

func (a *aggregation) having(text string) {
	n, errs := parseExpression(text)
	if n != nil {
		c := a.checker(text, &errs)
		t := c.condition(c.check(n), "having")
		a.outputs = append(a.outputs, t)
		a.plan.Having = newProgram(text, n, t)
	}
	a.faults.add("having", errs)
}

// finish makes Inter and gives the pseudo columns their place in it.
func (a *aggregation) finish() *AggregatePlan {
	p := a.plan
	p.Inter = &dataflow.Schema{}
	add := func(name string, t *typed) {
		p.Inter.Columns = append(p.Inter.Columns, dataflow.Column{Name: name, Type: t.typ, Nullable: t.nullable})
	}
	for i, k := range a.keys {
		add(p.Keys[i].String(), k.t)
	}
	for i, call := range p.Calls {
		add(call.Text, a.args[i])
	}
	if a.timeWindow {
		for _, name := range windowNames {
			add(name, &typed{typ: dataflow.TimestampType})
		}
	}
	seen := map[*typed]bool{}
	for _, t := range a.outputs {
		placeWindows(t, len(p.Keys)+len(p.Calls), seen)
	}
	return p
}

// placeWindows moves the pseudo columns in t to index base and the following ones.
func placeWindows(t *typed, base int, seen map[*typed]bool) {
	if seen[t] {
		return
	}
	seen[t] = true
	if t.op == opColumn && t.index >= windowBase {
		t.index += base - windowBase
	}
	for _, arg := range t.args {
		placeWindows(arg, base, seen)
	}
}
