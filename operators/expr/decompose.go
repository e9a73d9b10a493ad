package expr

import (
	"fmt"
	"slices"
	"strings"

	"sluice/dataflow"
)

// AggregateText is the text of an aggregation's parameters.
type AggregateText struct{ GroupBy, Select, Having string }

// DecomposeAggregate writes an aggregation as a chain of three with the same result: the first computes
// partial aggregates over any part of the rows, the second merges those of several parts into ones of
// the same form, and the third merges them into the output. With a window of time all three have the
// window, and the event time of what goes between them is window_time. The error names an aggregate
// that cannot be merged, or a fault of the parameters.
func DecomposeAggregate(p AggregateText, s *Scope, timeWindow bool) (stages [3]AggregateText, err error) {
	plan, faults := CompileAggregate(p.GroupBy, p.Select, p.Having, s, timeWindow)
	if len(faults) > 0 {
		return stages, fmt.Errorf("%s in %s", faults[0].Message, faults[0].Param)
	}
	d := &decomposition{args: map[string]argument{}, scope: &aggregation{scope: s}, parts: map[string]string{}}
	for _, c := range plan.Calls {
		if c.Arg != nil {
			always := !c.Arg.Nullable() && c.Filter == nil && (len(plan.Keys) > 0 || timeWindow)
			d.args[c.Text] = argument{c.argument(), always}
		}
	}
	d.keys(p.GroupBy)
	final := AggregateText{GroupBy: d.keyNames()}
	if final.Select, err = d.rewriteList(p.Select); err != nil {
		return stages, err
	}
	if strings.TrimSpace(p.Having) != "" {
		n, _ := parseExpression(p.Having)
		if final.Having, err = d.rewrite(p.Having, n); err != nil {
			return stages, err
		}
		final.Having = d.checked(final.Having)
	}
	between := d.between(timeWindow)
	return [3]AggregateText{{GroupBy: d.namedKeys(), Select: between(d.partial)}, {GroupBy: d.keyNames(), Select: between(d.merge)}, final}, nil
}

// decomposition collects the columns that go between the stages.
type decomposition struct {
	scope *aggregation        // tells equal expressions
	args  map[string]argument // of aggregate calls, by the calls' texts

	keyForms []string
	names    []string // of the keys' columns
	keyTexts []string

	parts   map[string]string // columns by the partial aggregates that they hold
	columns []string
	partial []string // the aggregate that makes each column
	merge   []string // and that which merges it
	sums    []string // of ints, as the last stage computes them
}

// argument is the type of the argument as it is written.
func (c *AggregateCall) argument() dataflow.Type {
	if c.Func == Sum && c.Type.Kind == dataflow.Decimal && c.Arg.Type().Kind == dataflow.Int {
		return c.Type
	}
	return c.Arg.Type()
}

// argument is what is known of the argument of an aggregate call.
type argument struct {
	dataflow.Type
	always bool // each group has a row in which it is not NULL and counts
}

func (d *decomposition) keys(groupBy string) {
	if strings.TrimSpace(groupBy) == "" {
		return
	}
	items, _ := parseList(groupBy, false)
	for i, it := range items {
		name := it.alias
		if n, ok := it.x.(*column); ok && name == "" {
			name = n.name
		}
		if name == "" {
			name = fmt.Sprint("key ", i+1)
		}
		d.keyForms = append(d.keyForms, d.scope.form(it.x))
		d.names = append(d.names, name)
		d.keyTexts = append(d.keyTexts, format(it.x))
	}
}

func (d *decomposition) keyNames() string {
	quoted := make([]string, len(d.names))
	for i, n := range d.names {
		quoted[i] = string(appendName(nil, n))
	}
	return strings.Join(quoted, ", ")
}

// namedKeys is the group-by list of the first stage.
func (d *decomposition) namedKeys() string {
	named := make([]string, len(d.names))
	for i, n := range d.names {
		named[i] = d.keyTexts[i] + " AS " + string(appendName(nil, n))
	}
	return strings.Join(named, ", ")
}

// between makes the select list of a stage of which aggregates are the calls.
func (d *decomposition) between(timeWindow bool) func(aggregates []string) string {
	return func(aggregates []string) string {
		var items []string
		for _, n := range d.names {
			items = append(items, string(appendName(nil, n)))
		}
		for i, a := range aggregates {
			items = append(items, a+" AS "+string(appendName(nil, d.columns[i])))
		}
		if timeWindow {
			items = append(items, "window_time")
		}
		return strings.Join(items, ", ")
	}
}

func (d *decomposition) rewriteList(text string) (string, error) {
	items, _ := parseList(text, false)
	var out []string
	for _, it := range items {
		name := it.alias
		if n, ok := it.x.(*column); ok && name == "" {
			name = n.name
		}
		x, err := d.rewrite(text, it.x)
		if err != nil {
			return "", err
		}
		out = append(out, x+" AS "+string(appendName(nil, name)))
	}
	return strings.Join(out, ", "), nil
}

// rewrite writes n over the columns that come from the stage before.
func (d *decomposition) rewrite(text string, n node) (string, error) {
	var failed error
	p := printer{replace: func(n node) (string, bool) {
		if _, ok := n.(*literal); ok {
			return "", false
		}
		form := d.scope.form(n)
		for i, k := range d.keyForms {
			if k == form {
				return string(appendName(nil, d.names[i])), true
			}
		}
		c, ok := n.(*call)
		if !ok {
			return "", false
		}
		if f := functionNamed(c.name); f == nil || !f.aggregate {
			return "", false
		}
		x, err := d.call(text, c)
		if err != nil && failed == nil {
			failed = err
		}
		return x, true
	}}
	p.print(n, lowest)
	return string(p.out), failed
}

// call writes an aggregate call over merged partial aggregates.
func (d *decomposition) call(text string, c *call) (string, error) {
	written := text[c.start:c.end]
	if c.distinct && c.name != "min" && c.name != "max" {
		return "", fmt.Errorf("%s cannot be merged from parts: two of them may have seen the same value", written)
	}
	t := d.args[written]
	arg := ""
	if len(c.args) == 1 {
		arg = format(c.args[0])
	}
	filter := ""
	if c.filter != nil {
		filter = " FILTER (WHERE " + format(c.filter) + ")"
	}
	switch c.name {
	case "count":
		if c.star {
			arg = "*"
		}
		return "coalesce(sum(" + d.part("count("+arg+")"+filter, "sum") + "), 0)", nil
	case "sum":
		if t.Kind == dataflow.Int {
			// The sum over a part could overflow where that over all rows does not.
			sum := "CAST(sum(" + d.part("sum(CAST("+arg+" AS decimal(38,0)))"+filter, "sum") + ") AS int)"
			if !slices.Contains(d.sums, sum) {
				d.sums = append(d.sums, sum)
			}
			return sum, nil
		}
		return "sum(" + d.part("sum("+arg+")"+filter, "sum") + ")", nil
	case "min", "max":
		return c.name + "(" + d.part(c.name+"("+arg+")"+filter, c.name) + ")", nil
	case "avg":
		n := "sum(" + d.part("count("+arg+")"+filter, "sum") + ")"
		if !t.always {
			n = "nullif(" + n + ", 0)"
		}
		switch t.Kind {
		case dataflow.Int:
			// A sum of ints could overflow where their average does not.
			sum := d.part(fmt.Sprintf("sum(CAST(%s AS decimal(38,0)))%s", arg, filter), "sum")
			return "(CAST(sum(" + sum + ") AS float) / " + n + ")", nil
		case dataflow.Float:
			return "(sum(" + d.part("sum("+arg+")"+filter, "sum") + ") / " + n + ")", nil
		case dataflow.Decimal:
			sum := "sum(" + d.part("sum("+arg+")"+filter, "sum") + ")"
			return fmt.Sprintf("CAST(%s / %s AS decimal(38,%d))", sum, n, max(t.Scale, 6)), nil
		}
	}
	return "", fmt.Errorf("%s cannot be merged from parts", written)
}

// checked is a condition that also fails for the groups that it is not true of if one of their sums is out
// of range, as such a group does in the whole.
func (d *decomposition) checked(having string) string {
	for _, sum := range d.sums {
		having = "(" + sum + " IS NULL OR " + sum + " IS NOT NULL) AND (" + having + ")"
	}
	return having
}

// part returns the name of the column with a partial aggregate, which is merged by the named function.
func (d *decomposition) part(aggregate, merge string) string {
	name, ok := d.parts[aggregate]
	if !ok {
		name = string(appendName(nil, fmt.Sprint("part ", len(d.columns)+1)))
		d.parts[aggregate] = name
		d.columns = append(d.columns, fmt.Sprint("part ", len(d.columns)+1))
		d.partial = append(d.partial, aggregate)
		d.merge = append(d.merge, merge+"("+name+")")
	}
	return name
}

// Conjuncts returns the conditions that a condition joins by AND, in order; nil if it cannot be parsed.
func Conjuncts(condition string) []string {
	n, errs := parseExpression(condition)
	if len(errs) > 0 {
		return nil
	}
	var parts []string
	var split func(n node)
	split = func(n node) {
		if and, ok := n.(*infix); ok && and.op == "AND" {
			split(and.x)
			split(and.y)
			return
		}
		parts = append(parts, format(n))
	}
	split(n)
	return parts
}

// Items returns the expressions of a list such as that of group-by, without their names; nil if it cannot be parsed.
func Items(list string) []string {
	items, errs := parseList(list, false)
	if len(errs) > 0 {
		return nil
	}
	texts := make([]string, len(items))
	for i, it := range items {
		texts[i] = format(it.x)
	}
	return texts
}
