package rewrite

import (
	"fmt"
	"slices"
	"strconv"

	"sluice/dataflow"
)

// argument is what a function takes at one place.
type argument uint8

const (
	operatorArgument argument = iota // a variable that stands for an operator
	valueArgument
)

// function is a function of the rule language: a test if it gives no value, else to be compared in
// constraints; those with a place in settings may stand there too.
type function struct {
	name string
	args []argument
	// test tells whether a test holds, and if not why.
	test func(c *call) (bool, string)
	// value gives the value, and whether it is known.
	value func(c *call) (string, error)
	// measure tells that the value is a measure of a running operator.
	measure bool
	// setting tells that the value may be that of a parameter of a new node.
	setting bool
}

// call is a function applied to operators and values.
type call struct {
	ops    []*dataflow.Operator
	values []string
	// element is the bundle element for which a setting is evaluated.
	element element
	// measures of the running query, or nil.
	measures Measures
	known    propertyMemo
}

// propertyMemo is the properties of operators, as far as they are known: to find them, expressions are compiled. A nil
// one remembers nothing.
type propertyMemo map[*dataflow.Operator]dataflow.Properties

func (m propertyMemo) of(op *dataflow.Operator) dataflow.Properties {
	p, ok := m[op]
	if !ok {
		p = op.Properties()
		if m != nil {
			m[op] = p
		}
	}
	return p
}

// properties are tests of a property of one operator, and say what the operator is or does if it has
// it not.
var properties = []struct {
	name string
	has  func(dataflow.Properties) bool
	not  func(dataflow.Properties) string
}{
	{"stateless", func(p dataflow.Properties) bool { return p.Stateless }, reason("keeps state")},
	{"stateful", func(p dataflow.Properties) bool { return !p.Stateless }, reason("keeps no state")},
	{"deterministic", func(p dataflow.Properties) bool { return p.Deterministic }, reason("is not deterministic")},
	{"keyed", func(p dataflow.Properties) bool { return p.Keyed }, reason("does not work by key")},
	{"commutative", func(p dataflow.Properties) bool { return p.Commutative }, reason("depends on the order of its rows")},
	{"associative", func(p dataflow.Properties) bool { return p.Associative }, reason("has results that cannot be merged from those over parts of its rows")},
	{"splittable", func(p dataflow.Properties) bool { return p.Splittable }, func(p dataflow.Properties) string {
		if p.NotSplittable == "" {
			return "cannot be split"
		}
		return "cannot be split: " + p.NotSplittable
	}},
}

func reason(text string) func(dataflow.Properties) string {
	return func(dataflow.Properties) string { return text }
}

var functions = buildFunctions()

func buildFunctions() map[string]*function {
	one, two := []argument{operatorArgument}, []argument{operatorArgument, operatorArgument}
	list := []*function{
		{name: "source", args: one, test: func(c *call) (bool, string) {
			return len(c.ops[0].Inputs) == 0, describe(c.ops[0]) + " has inputs"
		}},
		{name: "sink", args: one, test: func(c *call) (bool, string) {
			return c.ops[0].Desc.Sink(), describe(c.ops[0]) + " has outputs"
		}},
		{name: "fused", args: two, test: func(c *call) (bool, string) { return chained(c.ops[0], c.ops[1]) }},
		{name: "unordered", args: one, test: func(c *call) (bool, string) { return unordered(c.ops[0], c.known) }},
		{name: "same", args: two, test: func(c *call) (bool, string) { return sameWork(c.ops[0], c.ops[1]) }},

		{name: "type", args: one, setting: true, value: func(c *call) (string, error) { return c.ops[0].Type, nil }},
		{name: "name", args: one, setting: true, value: func(c *call) (string, error) { return c.ops[0].Name, nil }},
		{name: "key", args: one, setting: true, value: func(c *call) (string, error) {
			return keyOf(c.ops[0], c.element)
		}},
		{name: "param", args: []argument{operatorArgument, valueArgument}, setting: true, value: paramValue},
		{name: "groups", args: []argument{valueArgument, valueArgument}, setting: true, value: keyGroups},
		count("stages", func(op *dataflow.Operator) int { return max(1, len(op.Stages())) }),
		count("inputs", func(op *dataflow.Operator) int { return len(op.Inputs) }),
		count("outputs", func(op *dataflow.Operator) int { return len(usedOutputs(op)) }),
		count("consumers", func(op *dataflow.Operator) int { return len(consumersOf(op)) }),
	}
	for _, p := range properties {
		list = append(list, &function{name: p.name, args: one, test: func(c *call) (bool, string) {
			props := c.known.of(c.ops[0])
			if p.has(props) {
				return true, ""
			}
			return false, describe(c.ops[0]) + " " + p.not(props)
		}})
	}
	for _, name := range []string{"rate", "backlog", "utilisation", "cost"} {
		list = append(list, &function{name: name, args: one, measure: true, value: func(c *call) (string, error) {
			if c.measures != nil {
				if v, ok := c.measures.Measure(c.ops[0].Name, name); ok {
					return strconv.FormatFloat(v, 'g', -1, 64), nil
				}
			}
			return "", fmt.Errorf("%s of %s is not known: it is measured while a query runs", name, describe(c.ops[0]))
		}})
	}
	table := make(map[string]*function, len(list))
	for _, f := range list {
		table[f.name] = f
	}
	return table
}

// keyOf is the key of op over the columns of a stream, which must be an input of op or have the columns
// of one.
func keyOf(op *dataflow.Operator, e element) (string, error) {
	props := op.Properties()
	if e.of == op.Name && e.input >= 0 {
		return props.KeyOf(e.input), nil
	}
	if len(props.InputKeys) > 0 {
		return "", fmt.Errorf("%s has another key for each input, so its key has a meaning only for a node at one of them", describe(op))
	}
	if e.schema != nil && len(op.Inputs) > 0 && !equalSchemas(e.schema, op.Inputs[0].Schema) {
		return "", fmt.Errorf("the key of %s is one of the columns that it reads, which this stream has not", describe(op))
	}
	return props.KeyOf(-1), nil
}

func count(name string, of func(*dataflow.Operator) int) *function {
	return &function{name: name, args: []argument{operatorArgument}, setting: true, value: func(c *call) (string, error) {
		return strconv.Itoa(of(c.ops[0])), nil
	}}
}

// describe names an operator in a message.
func describe(op *dataflow.Operator) string { return fmt.Sprintf("operator %q (%s)", op.Name, op.Type) }

// paramValue is the value of a parameter of an operator: as written, or its default.
func paramValue(c *call) (string, error) {
	op, name := c.ops[0], c.values[0]
	if op.Desc.Param(name) != nil {
		return op.Value(name), nil
	}
	for _, a := range dataflow.Annotations {
		if a.Name == name {
			return op.Annotation(name), nil
		}
	}
	var names []string
	for _, p := range op.Desc.Params {
		names = append(names, p.Name)
	}
	return "", fmt.Errorf("%s has no parameter %q%s", describe(op), name, didYouMean(name, names))
}

// keyGroups is the range of key groups, "first-last", of part i (from 1) of k equal ones.
func keyGroups(c *call) (string, error) {
	i, err1 := strconv.Atoi(c.values[0])
	k, err2 := strconv.Atoi(c.values[1])
	if err1 != nil || err2 != nil || i < 1 || k < i || k > dataflow.KeyGroups {
		return "", fmt.Errorf("groups(%s, %s): the first must be from 1 up to the second, and that at most %d", c.values[0], c.values[1], dataflow.KeyGroups)
	}
	return dataflow.GroupRange{}.Part(i, k).String(), nil
}

// usedOutputs are the indexes of the outputs that someone reads.
func usedOutputs(op *dataflow.Operator) []int {
	var used []int
	for i := range op.Outputs {
		if len(op.Outputs[i].Consumers) > 0 {
			used = append(used, i)
		}
	}
	return used
}

// consumersOf are the operators that read op, in the order of its outputs and of their consumers.
func consumersOf(op *dataflow.Operator) []*dataflow.Operator {
	var ops []*dataflow.Operator
	seen := make(map[*dataflow.Operator]bool)
	for i := range op.Outputs {
		for _, c := range op.Outputs[i].Consumers {
			if !seen[c.Op] {
				seen[c.Op] = true
				ops = append(ops, c.Op)
			}
		}
	}
	return ops
}

// chained tells whether g is all that reads f, and f all that g reads.
func chained(f, g *dataflow.Operator) (bool, string) {
	for _, op := range consumersOf(f) {
		if op != g {
			return false, fmt.Sprintf("%s is also read by operator %q", describe(f), op.Name)
		}
	}
	for _, in := range g.Inputs {
		if in.From != f {
			return false, fmt.Sprintf("%s also reads operator %q", describe(g), in.From.Name)
		}
	}
	return true, ""
}

// sameWork tells whether two operators are of one type and have equal parameters.
func sameWork(f, g *dataflow.Operator) (bool, string) {
	if f.Type != g.Type {
		return false, fmt.Sprintf("operators %q and %q are of different types", f.Name, g.Name)
	}
	for _, p := range f.Desc.Params {
		if f.Value(p.Name) != g.Value(p.Name) {
			return false, fmt.Sprintf("operators %q and %q differ in %q", f.Name, g.Name, p.Name)
		}
	}
	sameOutputs := slices.EqualFunc(f.Outputs, g.Outputs, func(a, b dataflow.Output) bool { return a.Port == b.Port && equalSchemas(a.Schema, b.Schema) })
	if !sameOutputs {
		return false, fmt.Sprintf("operators %q and %q have different outputs", f.Name, g.Name)
	}
	return true, ""
}

func equalSchemas(a, b *dataflow.Schema) bool {
	return a == b || a != nil && b != nil && slices.Equal(a.Columns, b.Columns)
}
