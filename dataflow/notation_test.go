package dataflow_test

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sluice/dataflow"
)

// The tests write graphs in a notation of their own, one operator or type a line:
//
//	type T: a int, b string not null, t timestamp eventtime
//	source = read() -> flights:T, bad@errors {path=x; format=csv}
//
// "stream:Type@port" is an output, and decimal(10/2) a type. Positions are those of the words in the line.
var operatorLine = regexp.MustCompile(`^(\S*) = (\S*?)\(([^)]*)\)(?: -> ([^{]*))?(?: ?\{(.*)\})?$`)

func parseGraph(t testing.TB, text string) *dataflow.Graph {
	t.Helper()
	g := &dataflow.Graph{Name: "test", File: "t", Pos: dataflow.Pos{File: "t", Line: 1, Col: 1}}
	for i, line := range strings.Split(strings.TrimSpace(text), "\n") {
		p := lineParser{line: line, number: i + 1}
		switch m := operatorLine.FindStringSubmatch(line); {
		case line == "" || strings.HasPrefix(line, "#"):
		case strings.HasPrefix(line, "type "):
			g.Types = append(g.Types, p.namedType(t))
		case m != nil:
			g.Operators = append(g.Operators, p.operator(m))
		default:
			t.Fatalf("line %d: cannot read %q", i+1, line)
		}
	}
	return g
}

type lineParser struct {
	line   string
	number int
	from   int // where the next word is looked for
}

func (p *lineParser) pos(word string) dataflow.Pos {
	if i := strings.Index(p.line[p.from:], word); i >= 0 {
		p.from += i
	}
	return dataflow.Pos{File: "t", Line: p.number, Col: p.from + 1}
}

func words(list, separator string) []string {
	var out []string
	for _, w := range strings.Split(list, separator) {
		if w = strings.TrimSpace(w); w != "" {
			out = append(out, w)
		}
	}
	return out
}

func (p *lineParser) namedType(t testing.TB) *dataflow.NamedType {
	name, columns, _ := strings.Cut(strings.TrimPrefix(p.line, "type "), ":")
	n := &dataflow.NamedType{Name: name, Pos: p.pos(name)}
	for _, c := range words(columns, ",") {
		f := strings.Fields(c)
		typ, err := dataflow.ParseType(strings.ReplaceAll(f[1], "/", ","))
		if err != nil && f[1] != "invalid" {
			t.Fatal(err)
		}
		n.Schema.Columns = append(n.Schema.Columns, dataflow.Column{
			Name: f[0], Type: typ, Nullable: !strings.Contains(c, "not null"), EventTime: strings.Contains(c, "eventtime"),
		})
	}
	return n
}

func (p *lineParser) operator(m []string) *dataflow.Operator {
	op := &dataflow.Operator{Name: m[1], Type: m[2], Pos: dataflow.Pos{File: "t", Line: p.number, Col: 1}}
	p.from = strings.Index(p.line, "(")
	for _, w := range words(m[3], ",") {
		op.Inputs = append(op.Inputs, dataflow.Input{Stream: strings.Trim(w, "'"), Pos: p.pos(w)})
	}
	for _, w := range words(m[4], ",") {
		pos := p.pos(w)
		w, port, _ := strings.Cut(w, "@")
		stream, typ, _ := strings.Cut(w, ":")
		op.Outputs = append(op.Outputs, dataflow.Output{Stream: strings.Trim(stream, "'"), Port: port, Type: typ, Pos: pos})
	}
	for _, w := range words(m[5], ";") {
		name, value, _ := strings.Cut(w, "=")
		pos := p.pos(w)
		at := pos
		at.Col += len(name) + 1
		op.Params = append(op.Params, dataflow.Param{Name: name, Value: value, Pos: pos, Text: dataflow.Text{{Pos: at}}})
	}
	return op
}

// fakeCatalog has a few operators that need no expressions.
type fakeCatalog map[string]*dataflow.Descriptor

func (c fakeCatalog) Lookup(name string) *dataflow.Descriptor { return c[name] }

func (c fakeCatalog) Types() []string {
	var names []string
	for name := range c {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

var catalog = fakeCatalog{
	"read": {
		Name: "read", Output: true, Ports: []dataflow.PortDesc{{Name: "errors"}, {Name: "late"}},
		Params: []dataflow.ParamDesc{
			{Name: "path", Type: dataflow.PathParam, Required: true},
			{Name: "format", Type: dataflow.EnumParam, Values: []string{"csv", "json"}},
			{Name: "rows", Type: dataflow.IntParam, Min: 1},
			{Name: "rate", Type: dataflow.FloatParam, Min: 0.5},
			{Name: "wait", Type: dataflow.DurationParam},
			{Name: "loud", Type: dataflow.BoolParam},
		},
		Check: func(c *dataflow.Check) []*dataflow.Schema {
			schemas := slices.Clone(c.Declared)
			for i, out := range c.Op.Outputs {
				if out.Port != "" {
					schemas[i] = &dataflow.Schema{Columns: []dataflow.Column{{Name: "reason", Type: dataflow.StringType}}}
				}
			}
			return schemas
		},
	},
	// pick passes rows on and reports a parameter that is no column.
	"pick": {
		Name: "pick", MinInputs: 1, MaxInputs: 1, Output: true,
		Params: []dataflow.ParamDesc{{Name: "column", Type: dataflow.ExpressionParam, Required: true}},
		Check: func(c *dataflow.Check) []*dataflow.Schema {
			in := c.Inputs[0].Schema
			if name := c.Op.Value("column"); in != nil && in.Index(name) < 0 {
				c.ParamErrorf("column", 0, dataflow.Nearest(name, in.Names()), "unknown column %q of %q", name, c.Inputs[0].Stream)
			}
			return []*dataflow.Schema{in}
		},
	},
	"calc": {
		Name: "calc", MinInputs: 1, MaxInputs: 1, Output: true,
		Check: func(*dataflow.Check) []*dataflow.Schema {
			return []*dataflow.Schema{{Columns: []dataflow.Column{
				{Name: "a", Type: dataflow.IntType},
				{Name: "b", Type: dataflow.FloatType, Nullable: true},
				{Name: "t", Type: dataflow.TimestampType, EventTime: true},
			}}}
		},
	},
	"union": {
		Name: "union", MinInputs: 2, MaxInputs: -1, Output: true,
		Check: func(c *dataflow.Check) []*dataflow.Schema { return []*dataflow.Schema{c.Inputs[0].Schema} },
	},
	"join":  {Name: "join", MinInputs: 2, MaxInputs: 3, Output: true},
	"write": {Name: "write", MinInputs: 1, MaxInputs: 1},
}

func diagnosticsText(ds dataflow.Diagnostics) string {
	var b strings.Builder
	for _, d := range ds {
		fmt.Fprintln(&b, d)
	}
	return b.String()
}
