package dataflow_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"sluice/dataflow"
)

// TestGolden runs the files of testdata/graphs. Each test is a graph in the notation of parseGraph and one of
// these commands; "go test -rewrite" writes what they give into the files.
//
//	resolve      diagnostics, then the streams' schemas
//	term [params], dot, json, order    the text forms
func TestGolden(t *testing.T) {
	datadriven.Walk(t, "testdata/graphs", func(t *testing.T, path string) {
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			g := parseGraph(t, d.Input)
			diags := dataflow.Resolve(g, catalog)
			first := graphState(t, g)
			if again := dataflow.Resolve(g, catalog); again.Error() != diags.Error() || graphState(t, g) != first {
				t.Errorf("%s: resolving again gives something else:\n%s", d.Pos, diagnosticsText(again))
			}
			switch d.Cmd {
			case "resolve":
				return diagnosticsText(diags) + schemasText(g)
			case "term":
				return g.Term(dataflow.TermOptions{Params: d.HasArg("params")})
			case "dot":
				return g.Dot()
			case "json":
				return first
			case "order":
				var names []string
				for _, op := range g.Topological() {
					names = append(names, op.Name)
				}
				return strings.Join(names, " ") + "\n"
			}
			t.Fatalf("%s: unknown command %s", d.Pos, d.Cmd)
			return ""
		})
	})
}

// schemasText lists the streams that have a schema, and the operators that read each one.
func schemasText(g *dataflow.Graph) string {
	var b strings.Builder
	for _, op := range g.Operators {
		for _, out := range op.Outputs {
			schema := "?"
			if out.Schema != nil {
				schema = out.Schema.String()
			}
			fmt.Fprintf(&b, "%s.%s = %s %s", op.Name, out.Port, out.Stream, schema)
			for _, c := range out.Consumers {
				fmt.Fprintf(&b, " -> %s.%d", c.Op.Name, c.Input)
			}
			b.WriteByte('\n')
		}
	}
	return b.String()
}

func graphState(t *testing.T, g *dataflow.Graph) string {
	t.Helper()
	j, err := g.JSON()
	if err != nil {
		t.Fatal(err)
	}
	return string(j)
}
