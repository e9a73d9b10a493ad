//go:build !invariants

package rewrite_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"sluice/dataflow"
	"sluice/rewrite"
)

// TestLongChain: a step costs as much in a large graph as in a small one, but for what is copied once. Where each step
// resolved or copied the graph, four times as many operators took sixteen times as much. (With the tag invariants
// each step does resolve the graph.)
func TestLongChain(t *testing.T) {
	engine := &rewrite.Engine{Catalog: catalog}
	ways := map[string]func(g *dataflow.Graph) *rewrite.Result{
		"all at once": func(g *dataflow.Graph) *rewrite.Result {
			r, _ := engine.Parallel(g, rewrite.Builtin(), 4)
			return r
		},
		"one by one": func(g *dataflow.Graph) *rewrite.Result {
			for _, op := range g.Operators {
				if op.Type == "filter" {
					g.Rewrites = append(g.Rewrites, dataflow.Rewrite{Rule: "partition", Operator: op.Name})
				}
			}
			r, diags := engine.Run(g, rewrite.Builtin())
			if diags.HasErrors() {
				t.Fatal(diags)
			}
			return r
		},
	}
	for name, way := range ways {
		bytes := func(n int) uint64 {
			var text strings.Builder
			text.WriteString("type T: id int, ref int\nr = read() -> s0:T\n")
			for i := range n {
				fmt.Fprintf(&text, "f%d = filter(s%d) -> s%d {condition=2}\n", i, i, i+1)
			}
			fmt.Fprintf(&text, "w = write(s%d)", n)
			g := resolved(t, text.String())
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			result := way(g)
			runtime.ReadMemStats(&after)
			if len(result.Steps) != n {
				t.Fatalf("%s: %d steps for %d filters", name, len(result.Steps), n)
			}
			return after.TotalAlloc - before.TotalAlloc
		}
		small, large := bytes(100), bytes(400)
		t.Logf("%s: %d bytes for 100 filters, %d for 400", name, small, large)
		if large > 8*small {
			t.Errorf("%s: rewriting 400 filters takes %d bytes, 100 take %d: more than 8 times as much", name, large, small)
		}
	}
}
