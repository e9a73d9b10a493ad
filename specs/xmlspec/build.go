package xmlspec

import (
	"strings"

	"sluice/dataflow"
)

func (p *parser) namedType(e element) *dataflow.NamedType {
	t := &dataflow.NamedType{Name: e.value("name"), Pos: p.pos(e)}
	columns := make(map[string]bool)
	eventTime, complete := "", true
	for _, c := range p.children(e) {
		col := p.column(t.Name, c)
		switch {
		case col.Name == "":
			complete = false
			continue
		case columns[col.Name]:
			p.errorf(c.node.start, "", "duplicate column %q of type %q", col.Name, t.Name)
			continue
		case col.EventTime && eventTime != "":
			p.errorf(c.attrs["eventtime"].value.sourceOffset(0), "", "type %q has two event times: %q and %q", t.Name, eventTime, col.Name)
			col.EventTime = false
		case col.EventTime:
			eventTime = col.Name
		}
		columns[col.Name] = true
		t.Schema.Columns = append(t.Schema.Columns, col)
	}
	if len(e.node.children) == 0 {
		p.errorf(e.node.start, "", "type %q has no columns", t.Name)
	}
	if !complete {
		t.Schema.Columns = nil // unknown, so that what is left out causes no further errors
	}
	return t
}

func (p *parser) column(typeName string, e element) dataflow.Column {
	col := dataflow.Column{Name: e.value("name"), Nullable: true}
	if a, ok := e.attrs["type"]; ok {
		t, err := dataflow.ParseType(a.value.value)
		if err != nil {
			name, _, _ := strings.Cut(a.value.value, "(")
			p.errorf(a.value.sourceOffset(0), dataflow.Nearest(name, dataflow.ColumnTypeNames), "column %q: %v", col.Name, err)
		}
		col.Type = t
	}
	col.Nullable = p.boolean(e, "nullable", true)
	col.EventTime = p.boolean(e, "eventtime", false)
	if col.EventTime && col.Type.Kind != dataflow.Timestamp {
		if col.Type.Kind != dataflow.Invalid {
			p.errorf(e.attrs["eventtime"].value.sourceOffset(0), "", "column %q is %s; an event time is a timestamp", col.Name, col.Type)
		}
		col.Type, col.EventTime = dataflow.Type{}, false
	}
	return col
}

// boolean is the value of an attribute that is true or false.
func (p *parser) boolean(e element, name string, otherwise bool) bool {
	a, ok := e.attrs[name]
	switch {
	case !ok:
		return otherwise
	case a.value.value == "true":
		return true
	case a.value.value == "false":
		return false
	}
	p.errorf(a.value.sourceOffset(0), dataflow.Nearest(a.value.value, []string{"true", "false"}),
		"attribute %q is %q, not true or false", name, shorten(a.value.value))
	return otherwise
}

func (p *parser) readOperator(e element) *dataflow.Operator {
	op := &dataflow.Operator{Name: e.value("name"), Type: e.value("type"), Pos: p.pos(e)}
	p.operator = op.Name
	defer func() { p.operator = "" }()
	var needs *element
	for _, c := range p.children(e) {
		switch c.rule.name {
		case "input":
			op.Inputs = append(op.Inputs, dataflow.Input{Stream: c.value("name"), Pos: p.pos(c)})
		case "output":
			op.Outputs = append(op.Outputs, dataflow.Output{
				Stream: c.value("name"), Port: c.value("port"), Type: c.value("type"), Pos: p.pos(c),
			})
		case "param":
			op.Params = append(op.Params, p.param(c))
		case resources:
			if needs != nil {
				p.errorf(c.node.start, "", "a second <%s>; an operator has one: write all that it needs in that of line %d", resources, p.pos(*needs).Line)
				continue
			}
			needs = &c
			op.Resources = p.resources(c)
		}
	}
	return op
}

func (p *parser) rewrite(e element) dataflow.Rewrite {
	rw := dataflow.Rewrite{Rule: e.value("rule"), Operator: e.value("operator"), Pos: p.pos(e)}
	for _, c := range p.children(e) {
		rw.Params = append(rw.Params, p.param(c))
	}
	return rw
}

func (p *parser) rules(e element) dataflow.RuleFile {
	href := e.attrs["href"].value
	if e.has("href") && href.value == "" {
		p.errorf(href.sourceOffset(0), "", `attribute "href" is empty`)
	}
	return dataflow.RuleFile{Href: p.expand(href).value, Pos: p.pos(e)}
}

func (p *parser) param(e element) dataflow.Param {
	name := e.value("name")
	p.children(e) // it has none: this reports them
	value, hasValue := e.attrs["value"]
	t, hasText := e.node.text(p.src)
	switch {
	case hasValue && hasText:
		p.errorf(value.nameOffset, "", "parameter %q has both a value attribute and a text; one is enough", name)
		t = value.value
	case hasValue:
		t = value.value
	case !hasText:
		p.errorf(e.node.start, "", "parameter %q has no value; value=\"\" is the empty one", name)
		name = ""
	}
	t = p.expand(t)
	return dataflow.Param{Name: name, Value: t.value, Pos: p.pos(e), Text: t.places(p.src)}
}

// expand replaces the variables in a value.
func (p *parser) expand(t text) text {
	return p.expander.expand(t, func(offset int, message string) { p.errorf(offset, "", "%s", message) })
}
