package rewrite_test

import (
	"regexp"
	"slices"
	"strings"

	"sluice/dataflow"
)

// fakeCatalog has operators that need no expressions, and the nodes that the built-in rules use.
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

func passes(c *dataflow.Check) []*dataflow.Schema {
	out := make([]*dataflow.Schema, len(c.Op.Outputs))
	for i, o := range c.Op.Outputs {
		out[i] = c.Inputs[0].Schema
		if o.Port == "errors" {
			out[i] = errorsSchema
		}
	}
	for _, in := range c.Inputs[1:] {
		if in.Schema != nil && c.Inputs[0].Schema != nil && !slices.Equal(in.Schema.Columns, c.Inputs[0].Schema.Columns) {
			c.Errorf("the inputs are of different types")
		}
	}
	return out
}

var (
	errorsSchema  = &dataflow.Schema{Columns: []dataflow.Column{{Name: "reason", Type: dataflow.StringType}}}
	countSchema   = &dataflow.Schema{Columns: []dataflow.Column{{Name: "n", Type: dataflow.IntType}}}
	partialSchema = &dataflow.Schema{Columns: []dataflow.Column{{Name: "state", Type: dataflow.BytesType}}}
)

func gives(s *dataflow.Schema) func(*dataflow.Check) []*dataflow.Schema {
	return func(c *dataflow.Check) []*dataflow.Schema {
		return slices.Repeat([]*dataflow.Schema{s}, len(c.Op.Outputs))
	}
}

func desc(name string, min, max int, change func(*dataflow.Descriptor)) *dataflow.Descriptor {
	d := &dataflow.Descriptor{Name: name, MinInputs: min, MaxInputs: max, Output: true, Deterministic: true, Check: passes}
	if change != nil {
		change(d)
	}
	return d
}

func text(names ...string) []dataflow.ParamDesc {
	var params []dataflow.ParamDesc
	for _, n := range names {
		params = append(params, dataflow.ParamDesc{Name: n})
	}
	return params
}

func stateless(d *dataflow.Descriptor) { d.Stateless = true }

// commutes is for operators with state whose result does not depend on the order of rows.
func commutes(d *dataflow.Descriptor) {
	d.Properties = func(*dataflow.Operator) dataflow.Properties {
		return dataflow.Properties{Deterministic: true, Commutative: true, NotSplittable: "it keeps state that is not divided by a key"}
	}
}

func node(many bool, params ...string) func(*dataflow.Descriptor) {
	return func(d *dataflow.Descriptor) {
		d.Stateless, d.Passthrough, d.Params = true, true, text(params...)
		if many {
			d.Output, d.ManyOutputs = false, true
		}
	}
}

func divides(change func(*dataflow.Descriptor)) func(*dataflow.Descriptor) {
	return func(d *dataflow.Descriptor) {
		change(d)
		d.Divides, d.Passthrough = true, d.ManyOutputs
		for i := range d.Params {
			d.Params[i].Settable = d.Params[i].Name != "key"
		}
	}
}

func aggregate(d *dataflow.Descriptor) {
	d.Params = text("group-by", "function")
	d.Ports = []dataflow.PortDesc{{Name: "errors"}}
	d.Check = func(c *dataflow.Check) []*dataflow.Schema {
		out := gives(countSchema)(c)
		if i := c.Op.OutputPort("errors"); i >= 0 {
			out[i] = errorsSchema
		}
		return out
	}
	d.Properties = func(op *dataflow.Operator) dataflow.Properties {
		p := dataflow.Properties{Deterministic: true, NotSplittable: "it has no group-by"}
		p.Commutative = op.Value("function") != "first"
		p.Associative = p.Commutative && op.Value("function") != "median"
		if key := op.Value("group-by"); key != "" {
			p.Keyed, p.Splittable, p.NotSplittable = true, true, ""
			p.Key = strings.Fields(key)
		}
		return p
	}
	d.Stages = func(op *dataflow.Operator) []dataflow.Stage {
		if op.Value("function") == "median" {
			return nil
		}
		return []dataflow.Stage{{Type: "partial", Params: op.Params}, {Type: "combine"}, {Type: "final"}}
	}
}

var catalog = func() fakeCatalog {
	c := fakeCatalog{}
	for _, d := range []*dataflow.Descriptor{
		desc("read", 0, 0, func(d *dataflow.Descriptor) {
			d.Params, d.Check, d.Ports = text("path"), nil, []dataflow.PortDesc{{Name: "errors"}}
		}),
		desc("write", 1, 1, func(d *dataflow.Descriptor) { d.Output = false; d.Params = text("path") }),
		desc("filter", 1, 1, func(d *dataflow.Descriptor) {
			d.Stateless, d.Params, d.Ports = true, text("condition"), []dataflow.PortDesc{{Name: "errors"}}
			d.Stages = func(op *dataflow.Operator) []dataflow.Stage {
				var stages []dataflow.Stage
				for _, part := range strings.Split(op.Value("condition"), " AND ") {
					stages = append(stages, dataflow.Stage{Type: "filter", Params: []dataflow.Param{{Name: "condition", Value: part}}})
				}
				if len(stages) < 2 {
					return nil
				}
				return stages
			}
		}),
		desc("sample", 1, 1, func(d *dataflow.Descriptor) { d.Stateless, d.Deterministic, d.Params = true, false, text("rate") }),
		desc("map", 1, 1, stateless),
		desc("union", 1, -1, stateless),
		desc("dedup", 1, 1, commutes),
		desc("join", 2, 2, func(d *dataflow.Descriptor) {
			d.Check = func(c *dataflow.Check) []*dataflow.Schema { return []*dataflow.Schema{c.Inputs[0].Schema} }
			d.Properties = func(*dataflow.Operator) dataflow.Properties {
				return dataflow.Properties{Deterministic: true, Commutative: true, Keyed: true, Splittable: true, InputKeys: [][]string{{"id"}, {"ref", "n"}}}
			}
		}),
		desc("aggregate", 1, 1, aggregate),
		desc("partial", 1, 1, func(d *dataflow.Descriptor) {
			commutes(d)
			d.Params, d.Check = text("group-by", "function"), gives(partialSchema)
		}),
		desc("combine", 1, -1, commutes),
		desc("final", 1, 1, func(d *dataflow.Descriptor) { commutes(d); d.Check = gives(countSchema) }),
		desc("splitter", 1, 1, divides(node(true, "key", "routes"))),
		desc("multicast", 1, 1, node(true)),
		desc("failover", 1, 1, node(true, "active")),
		desc("partition-filter", 1, 1, divides(node(false, "key", "groups"))),
		desc("merge", 1, -1, node(false)),
		desc("stream-selector", 1, -1, func(d *dataflow.Descriptor) { node(false, "active")(d); d.Races = true }),
		desc("netwriter", 1, 1, node(false, "target-addr")),
		desc("netreader", 1, 1, node(false)),
	} {
		c[d.Name] = d
	}
	return c
}()

// The tests write graphs in a notation of their own, one operator or type a line:
//
//	type T: a int, b string
//	source = read() -> flights:T, bad@errors {path=x; format=csv}
//
// "stream:Type@port" is an output.
var operatorLine = regexp.MustCompile(`^(\S*) = (\S*?)\(([^)]*)\)(?: -> ([^{]*))?(?: ?\{(.*)\})?$`)

var rewriteLine = regexp.MustCompile(`^rewrite (\S+)\(([^)]*)\) on (\S+)$`)

// tester is what testing and rapid have in common.
type tester interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

func parseGraph(t tester, input string) *dataflow.Graph {
	t.Helper()
	g := &dataflow.Graph{Name: "test", File: "t", Pos: dataflow.Pos{File: "t", Line: 1, Col: 1}}
	for i, line := range strings.Split(strings.TrimSpace(input), "\n") {
		pos := dataflow.Pos{File: "t", Line: i + 1, Col: 1}
		switch m := operatorLine.FindStringSubmatch(line); {
		case line == "":
		case strings.HasPrefix(line, "type "):
			g.Types = append(g.Types, parseType(t, line))
		case strings.HasPrefix(line, "rewrite "):
			m := rewriteLine.FindStringSubmatch(line)
			g.Rewrites = append(g.Rewrites, dataflow.Rewrite{Rule: m[1], Operator: m[3], Params: parseParams(m[2], ",", pos), Pos: pos})
		case m != nil:
			g.Operators = append(g.Operators, parseOperator(m, pos))
		default:
			t.Fatalf("line %d: cannot read %q", i+1, line)
		}
	}
	return g
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

func parseParams(list, separator string, pos dataflow.Pos) []dataflow.Param {
	var params []dataflow.Param
	for _, w := range words(list, separator) {
		name, value, _ := strings.Cut(w, "=")
		params = append(params, dataflow.Param{Name: name, Value: value, Pos: pos})
	}
	return params
}

func parseType(t tester, line string) *dataflow.NamedType {
	name, columns, _ := strings.Cut(strings.TrimPrefix(line, "type "), ":")
	n := &dataflow.NamedType{Name: name}
	for _, c := range words(columns, ",") {
		f := strings.Fields(c)
		typ, err := dataflow.ParseType(f[1])
		if err != nil {
			t.Fatal(err)
		}
		n.Schema.Columns = append(n.Schema.Columns, dataflow.Column{Name: f[0], Type: typ})
	}
	return n
}

func parseOperator(m []string, pos dataflow.Pos) *dataflow.Operator {
	op := &dataflow.Operator{Name: m[1], Type: m[2], Pos: pos, Params: parseParams(m[5], ";", pos)}
	for _, w := range words(m[3], ",") {
		op.Inputs = append(op.Inputs, dataflow.Input{Stream: w, Pos: pos})
	}
	for _, w := range words(m[4], ",") {
		w, port, _ := strings.Cut(w, "@")
		stream, typ, _ := strings.Cut(w, ":")
		op.Outputs = append(op.Outputs, dataflow.Output{Stream: stream, Port: port, Type: typ, Pos: pos})
	}
	return op
}

func resolved(t tester, input string) *dataflow.Graph {
	t.Helper()
	g := parseGraph(t, input)
	if diags := dataflow.Resolve(g, catalog); diags.HasErrors() {
		t.Fatalf("%v", diags)
	}
	return g
}
