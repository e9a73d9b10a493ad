package rewrite_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"sluice/dataflow"
	"sluice/rewrite"
)

// TestRules runs the data files: "graph" and "rules" say what the following commands work on;
// "apply NAME OPERATOR PARAM=VALUE..." shows the step and the new graph, or why there is none, and with
// "keep" the new graph is what following commands work on. "check" shows what is wrong with rules.
func TestRules(t *testing.T) {
	datadriven.Walk(t, "testdata/rules", func(t *testing.T, path string) {
		var graph, marked *dataflow.Graph
		rules := rewrite.Builtin()
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			switch d.Cmd {
			case "graph":
				graph = resolved(t, d.Input)
				return "ok\n"
			case "rules", "check":
				set, diags := rewrite.ParseRules("my.rules", []byte(d.Input), catalog)
				rules = rewrite.Builtin()
				diags = append(diags, rules.Add(set)...)
				if len(diags) > 0 {
					return diags.Error() + "\n"
				}
				return "ok\n"
			case "apply":
				out, text := apply(graph, rules, d)
				if d.HasArg("keep") && out != nil {
					graph = out
				}
				return text
			case "run":
				return run(t, d.Input, rules)
			case "tasks":
				p := physical(t, graph, d.HasArg("network"))
				if d.HasArg("json") {
					j, err := p.JSON()
					if err != nil {
						t.Fatal(err)
					}
					return string(j)
				}
				if d.HasArg("dot") {
					return p.Dot()
				}
				return p.Text()
			case "json":
				j, err := graph.JSON()
				if err != nil {
					t.Fatal(err)
				}
				return string(j)
			case "mark":
				marked = graph
				return "ok\n"
			case "change": // from the graph at the last "mark" to that of now
				return dataflow.Compare(physical(t, marked, false), physical(t, graph, false)).Text()
			}
			t.Fatalf("%s: unknown command %q", d.Pos, d.Cmd)
			return ""
		})
	})
}

func apply(g *dataflow.Graph, rules *rewrite.RuleSet, d *datadriven.TestData) (*dataflow.Graph, string) {
	args := make(map[string]string)
	for _, a := range d.CmdArgs[2:] {
		if len(a.Vals) > 0 {
			args[a.Key] = a.Vals[0]
		}
	}
	rule := rules.Rule(d.CmdArgs[0].Key)
	if rule == nil {
		return nil, "no such rule\n"
	}
	engine := &rewrite.Engine{Catalog: catalog}
	var w strings.Builder
	for _, op := range g.Named(d.CmdArgs[1].Key) {
		out, step, err := engine.Apply(g, rule, g.Operator(op.Name), args)
		if err != nil {
			return nil, err.Error() + "\n"
		}
		g = out
		w.WriteString(step.Diff)
	}
	return g, w.String() + g.Term(dataflow.TermOptions{})
}

func physical(t *testing.T, g *dataflow.Graph, network bool) *dataflow.Physical {
	p, err := dataflow.BuildTasks(g, dataflow.TaskOptions{Network: network, Catalog: catalog})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func run(t *testing.T, input string, rules *rewrite.RuleSet) string {
	engine := &rewrite.Engine{Catalog: catalog}
	result, diags := engine.Run(resolved(t, input), rules)
	if diags.HasErrors() {
		return diags.Error() + "\n"
	}
	var w strings.Builder
	for _, s := range result.Steps {
		fmt.Fprintf(&w, "%d: %s on %s\n%s", s.Number, s.Rule.Name, s.Target, s.Diff)
	}
	return w.String() + result.Graph.Term(dataflow.TermOptions{})
}
