package expr

import (
	"fmt"

	"sluice/dataflow"
)

// SelectPlan is a compiled select list over one input row: what a map operator computes.
type SelectPlan struct {
	Schema  *dataflow.Schema
	Columns []*Program // one for each column of Schema
}

// CompileSelect compiles a select list: expressions with names (`b * 2 AS c`), columns that keep their
// name (`a`), `*` and `stream.*`. The input's event time stays that of the output if its column is
// selected as it is, under whatever name. All faults are reported at once, sorted by offset. In a
// scope of which a schema is not known, the plan is empty.
func CompileSelect(text string, s *Scope) (*SelectPlan, Errors) {
	items, errs := parseList(text, true)
	if items == nil {
		return nil, errs
	}
	c := &checker{text: text, scope: s, errs: &errs}
	list := selectList{checker: c, schema: &dataflow.Schema{}}
	plan := &SelectPlan{Schema: list.schema}
	add := func(it item, name string, n node, t *typed) {
		if list.add(it, name, t) {
			plan.Columns = append(plan.Columns, newProgram(text, n, t))
		}
	}
	for _, it := range items {
		if it.x != nil {
			t := c.check(it.x)
			add(it, c.itemName(it), it.x, t)
			continue
		}
		for _, n := range c.star(it) {
			add(it, n.name, n, c.check(n))
		}
	}
	if len(errs) > 0 {
		errs.sort()
		return nil, errs
	}
	if s.unknown {
		return &SelectPlan{}, nil
	}
	return plan, nil
}

// star gives the columns for which * or stream.* stands.
func (c *checker) star(it item) []*column {
	if it.stream != "" && !c.scope.hasStream(it.stream) {
		*c.errs = append(*c.errs, Error{it.start, fmt.Sprintf("unknown stream %q", it.stream), dataflow.Nearest(it.stream, c.scope.streams)})
		return nil
	}
	var columns []*column
	for _, col := range c.scope.cols {
		if it.stream == "" || it.stream == col.stream {
			columns = append(columns, &column{it.span, col.stream, col.Name, it.start})
		}
	}
	return columns
}

// itemName is the name of an element's column: that behind AS, or that of the column which it is.
func (c *checker) itemName(it item) string {
	if it.alias != "" {
		return it.alias
	}
	if n, ok := it.x.(*column); ok {
		return n.name
	}
	c.errorf(it.span, "%s needs a name: AS ...", c.quote(it))
	return ""
}

// selectList collects the columns of an output.
type selectList struct {
	*checker
	schema *dataflow.Schema
	// isEventTime tells whether a column of the input, taken as it is, is the event time; nil: the
	// scope's columns say it.
	isEventTime func(index int) bool
}

// add adds a column and reports whether it is sound.
func (l *selectList) add(it item, name string, t *typed) bool {
	at := it.start
	if it.alias != "" {
		at = it.nameAt
	}
	if name != "" && l.schema.Index(name) >= 0 {
		l.errs.add(at, "there are two columns %q", name)
		return false
	}
	if t.typ.Kind == dataflow.Null {
		l.errorf(it.span, "%s has no type; use CAST(NULL AS ...)", l.quote(it))
	}
	eventTime := false
	if t.op == opColumn && l.schema.EventTime() < 0 {
		if l.isEventTime != nil {
			eventTime = l.isEventTime(t.index)
		} else {
			eventTime = l.scope.cols[t.index].EventTime
		}
	}
	l.schema.Columns = append(l.schema.Columns, dataflow.Column{Name: name, Type: t.typ, Nullable: t.nullable, EventTime: eventTime})
	return !t.invalid()
}
