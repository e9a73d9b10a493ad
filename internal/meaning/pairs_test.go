package meaning

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"pgregory.net/rapid"

	"sluice/dataflow"
	"sluice/rewrite"
)

// TestPairs runs the data files: "kept" runs a spec with and without its rewrites, which must give the same rows,
// or shows why a rewrite is refused. "pairs OPERATOR" applies to an operator of the spec each built-in rule, and
// after it each other one, to all that the operator's name means then and to the first part of it alone. It
// shows which are refused and why; the others run and must give the rows of the spec as it stands. In the
// specs T stands for the type of the test's rows.
func TestPairs(t *testing.T) {
	datadriven.Walk(t, "testdata/pairs", func(t *testing.T, path string) {
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			q := exampleQuery(t, d.Input)
			if d.Cmd == "kept" {
				return rewritten(t, q)
			}
			return pairs(t, q, d.CmdArgs[0].Key)
		})
	})
}

// exampleQuery makes a query of a spec without its type.
func exampleQuery(t *testing.T, spec string) *query {
	q := &query{text: strings.Replace(spec, ">\n", ">\n"+typeText, 1)}
	q.graph = parse(t, q.text)
	return q
}

// exampleInputs draws rows for the sources of a query, always the same for a seed.
func exampleInputs(g *dataflow.Graph, seed int) map[string]*input {
	inputs := map[string]*input{}
	for _, op := range g.Operators {
		if op.Desc.Source() {
			inputs[op.Name] = rapid.Custom(func(t *rapid.T) *input { return drawRows(&drawer{t: t}, op) }).Example(seed)
		}
	}
	return inputs
}

func rewritten(t *testing.T, q *query) string {
	result, diags := engine.Run(q.graph, rewrite.Builtin())
	if diags.HasErrors() {
		return diags.Error() + "\n"
	}
	return sameRows(t, q, variant{graph: result.Graph}) + "\n"
}

func pairs(t *testing.T, q *query, operator string) string {
	rules := rewrite.Builtin().Rules()
	var w strings.Builder
	for _, first := range rules {
		v := variant{graph: q.graph}
		if err := v.rewrite(first.Name, operator); err != "" {
			fmt.Fprintf(&w, "%s: %s\n", first.Name, err)
			continue
		}
		fmt.Fprintf(&w, "%s: %s\n", first.Name, sameRows(t, q, v))
		for _, second := range rules {
			targets := []string{operator}
			if part := firstPart(v.graph, operator); part != operator {
				targets = append(targets, part)
			}
			var results []string
			for _, target := range targets {
				both := v
				result := both.rewrite(second.Name, target)
				if result == "" {
					result = sameRows(t, q, both)
				}
				results = append(results, result)
			}
			if len(slices.Compact(slices.Clone(results))) == 1 {
				fmt.Fprintf(&w, "  %s on %s: %s\n", second.Name, strings.Join(targets, " and "), results[0])
				continue
			}
			for i, target := range targets {
				fmt.Fprintf(&w, "  %s on %s: %s\n", second.Name, target, results[i])
			}
		}
	}
	return w.String()
}

// firstPart is the first operator that stands for the named one.
func firstPart(g *dataflow.Graph, operator string) string {
	for _, op := range g.Operators {
		if op.StandsFor(operator) {
			return op.Name
		}
	}
	return operator
}

// rewrite applies a rule as a spec does and returns why it cannot.
func (v *variant) rewrite(rule, operator string) string {
	g := *v.graph
	g.Rewrites = []dataflow.Rewrite{{Rule: rule, Operator: operator}}
	result, diags := engine.Run(&g, rewrite.Builtin())
	if diags.HasErrors() {
		_, why, _ := strings.Cut(diags[0].Message, ": ")
		return "refused: " + why
	}
	v.graph = result.Graph
	v.steps += fmt.Sprintf("  <rewrite rule=%q operator=%q/>\n", rule, operator)
	return ""
}

// sameRows runs a query and its variant on several inputs and tells in which order the rows are the same.
func sameRows(t *testing.T, q *query, v variant) string {
	divided, merged := dividedState(v.graph)
	order := "in order"
	for seed := range 6 {
		inputs := exampleInputs(q.graph, seed)
		c := cuts{batches: []int{1 + seed%4, 3}}
		want, wantErr := run(q.graph, inputs, way{cuts: c})
		got, err := run(v.graph, inputs, way{cuts: c, tasks: seed%2 == 0})
		if wantErr != nil || err != nil {
			t.Fatalf("errors %v, %v\n%s%s", wantErr, err, q.text, v.steps)
		}
		for _, name := range slices.Sorted(maps.Keys(want)) {
			o := inOrder
			if behind(q.graph.Operator(name), func(op *dataflow.Operator) bool { return divided[op.Name] }) {
				o = q.keyOrder(name)
				order = "in the order of each key"
			}
			a, b := want[name], got[name]
			if merged {
				a, b = a.without("place"), b.without("place")
			}
			if diff := difference(a, b, o); diff != "" {
				t.Errorf("%s, %s: %s\n%s%s\nwant\n%sgot\n%s", name, o, diff, q.text, v.steps, a, b)
			}
		}
	}
	return "the same rows, " + order
}

// keyOrder is the order that rows of a writer keep behind a divided aggregate: the columns named key.
func (q *query) keyOrder(writer string) order {
	var o order
	for _, c := range q.graph.Operator(writer).Inputs[0].Schema.Columns {
		if strings.HasPrefix(c.Name, "key") {
			o.columns = append(o.columns, c.Name)
		}
	}
	o.any = len(o.columns) == 0
	return o
}
