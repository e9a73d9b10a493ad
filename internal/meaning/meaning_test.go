package meaning

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"sluice/dataflow"
	"sluice/operators/catalog"
	"sluice/rewrite"
)

// TestMain sets how many queries each test draws, each of which it runs in several forms.
func TestMain(m *testing.M) {
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "rapid.checks" })
	if !given {
		flag.Set("rapid.checks", checks)
	}
	os.Exit(m.Run())
}

var engine = &rewrite.Engine{Catalog: catalog.Operators}

// TestRewriting: a graph gives the same rows after any rule at any operator, after any two rules one
// after the other, and with as many replicas as there may be; where epochs do not matter, in other ones, too.
func TestRewriting(t *testing.T) {
	applied, rows, failed := map[string]int{}, 0, 0
	rapid.Check(t, func(t *rapid.T) {
		d := &drawer{t: t}
		fixed := d.chance(2, "fixed epochs")
		q := drawQuery(t, fixed)
		fixed = fixed || slices.ContainsFunc(q.graph.Operators, mixes)
		c := drawCuts(d, false)
		want, wantErr := run(q.graph, q.inputs, way{cuts: c})
		if wantErr != nil {
			failed++
		}
		rows += want.count()
		for _, v := range drawVariants(d, q.graph, applied) {
			w := way{cuts: drawCuts(d, !fixed), tasks: d.chance(2, "tasks")}
			got, err := run(v.graph, q.inputs, w)
			compareVariant(t, q, v, want, wantErr, got, err)
		}
	})
	t.Logf("%d rows, %d runs that fail; applied: %v", rows, failed, applied)
	for _, r := range rewrite.Builtin().Rules() {
		if applied[r.Name] == 0 {
			t.Errorf("rule %s was never applied", r.Name)
		}
	}
}

func (r results) count() int {
	n := 0
	for _, t := range r {
		n += len(t.rows)
	}
	return n
}

// variant is a rewritten graph.
type variant struct {
	steps string // as elements of a spec
	graph *dataflow.Graph
}

// drawVariants draws rewritten graphs: each rule by itself, where there is a place for it; two rules one after
// the other; and what -p makes.
func drawVariants(d *drawer, g *dataflow.Graph, applied map[string]int) []variant {
	var vs []variant
	rules := rewrite.Builtin().Rules()
	for _, r := range rules {
		v := variant{graph: g}
		if v.apply(d, r, "") == "" {
			continue
		}
		applied[r.Name]++
		vs = append(vs, v)
	}
	for range min(3, len(vs)) {
		v := draw(d, "first", vs[:len(vs):len(vs)]...)
		second := draw(d, "second", rules...)
		part := ""
		if d.chance(2, "nested") {
			part = "."
		}
		if v.apply(d, second, part) != "" {
			applied["pairs"]++
			vs = append(vs, v)
		}
	}
	k := d.int(2, 4, "p")
	if r, _ := engine.Parallel(g, rewrite.Builtin(), k); len(r.Steps) > 0 {
		applied["parallel"]++
		vs = append(vs, variant{fmt.Sprintf("  <!-- sluice run -p %d -->\n", k), r.Graph})
	}
	return vs
}

// apply applies the rule to what a name with part in it means, which it returns; "" if there is none where it can be.
func (v *variant) apply(d *drawer, r *rewrite.Rule, part string) string {
	rw := dataflow.Rewrite{Rule: r.Name}
	args, params := map[string]string{}, ""
	for i, p := range []string{"k", "fan"} {
		if r.Param(p) != nil {
			args[p] = fmt.Sprint(d.int(1+i, 4, p))
			params += fmt.Sprintf("<param name=%q value=%q/>", p, args[p])
			rw.Params = append(rw.Params, dataflow.Param{Name: p, Value: args[p]})
		}
	}
	var sites []string
	for _, op := range v.graph.Operators {
		if strings.Contains(op.Name, part) && engine.Applies(r, op, args) == nil {
			sites = append(sites, op.Name)
		}
		// A name that means several operators.
		if op.Origin != nil && op.Origin.Replica == 1 && v.graph.Operator(op.Origin.Of) == nil && engine.Applies(r, op, args) == nil {
			sites = append(sites, op.Origin.Of)
		}
	}
	if len(sites) == 0 {
		return ""
	}
	rw.Operator = draw(d, "site", sites...)
	g := *v.graph
	g.Rewrites = []dataflow.Rewrite{rw}
	result, diags := engine.Run(&g, rewrite.Builtin())
	if diags.HasErrors() {
		if strings.Contains(diags.Error(), "the same has to be done to each copy") || strings.Contains(diags.Error(), "does not apply") {
			return ""
		}
		d.t.Fatalf("rule %s applies to %q, but: %v\n%s", r.Name, rw.Operator, diags, v.graph.Term(dataflow.TermOptions{Params: true}))
	}
	v.graph = result.Graph
	v.steps += fmt.Sprintf("  <rewrite rule=%q operator=%q>%s</rewrite>\n", r.Name, rw.Operator, params)
	return rw.Operator
}

// compareVariant compares what the writers got from a rewritten graph with what they are to get.
func compareVariant(t *rapid.T, q *query, v variant, want results, wantErr error, got results, err error) {
	fail := func(format string, args ...any) {
		t.Fatalf("%s\n%s%s\n%s", fmt.Sprintf(format, args...), q.text, v.steps, q.rows)
	}
	if (wantErr == nil) != (err == nil) {
		fail("error %v, want %v", err, wantErr)
	}
	if err != nil {
		return
	}
	divided, merged := dividedState(v.graph)
	for _, name := range slices.Sorted(maps.Keys(want)) {
		o := inOrder
		if behind(q.graph.Operator(name), func(op *dataflow.Operator) bool { return divided[op.Name] }) {
			o = q.orders[name]
		}
		a, b := want[name], got[name]
		if merged {
			a, b = a.without("place"), b.without("place")
		}
		if diff := difference(a, b, o); diff != "" {
			fail("%s, %s: %s\nwant\n%sgot\n%s", name, o, diff, a, b)
		}
	}
}

// dividedState gives the operators with state that were divided into parts, and whether any
// operator was.
func dividedState(g *dataflow.Graph) (ops map[string]bool, any bool) {
	ops = map[string]bool{}
	for _, op := range g.Operators {
		if op.Type != "merge" {
			continue
		}
		any = true
		for _, part := range g.Operators {
			if part.Type == "aggregate" && part.Origin != nil && part.Origin.Of == op.Origin.Of {
				ops[op.Origin.Of] = true
			}
		}
	}
	return ops, any
}

// TestCuts: a graph gives the same rows however they are cut into batches and epochs, and with its operators
// in one task or in several.
func TestCuts(t *testing.T) {
	compared := 0
	rapid.Check(t, func(t *rapid.T) {
		q := drawQuery(t, false)
		d := &drawer{t: t}
		want, wantErr := run(q.graph, q.inputs, way{cuts: wholeInput})
		for range 2 {
			w := way{cuts: drawCuts(d, true), tasks: d.chance(2, "tasks")}
			got, err := run(q.graph, q.inputs, w)
			if (wantErr == nil) != (err == nil) {
				if slices.ContainsFunc(q.graph.Operators, cutsMatter) {
					continue
				}
				t.Fatalf("error %v, want %v\n%s\n%s\n%s", err, wantErr, q.text, describeCuts(w.cuts), q.rows)
			}
			if err != nil {
				continue
			}
			for _, name := range slices.Sorted(maps.Keys(want)) {
				o, a, b := inOrder, want[name], got[name]
				if op := q.graph.Operator(name); behind(op, cutsMatter) {
					continue
				} else if behind(op, mixes) {
					o, a, b = anyOrder, a.without("place"), b.without("place")
				}
				compared++
				if diff := difference(a, b, o); diff != "" {
					t.Fatalf("%s, %s: %s\n%s\n%s\n%s\nwant\n%sgot\n%s", name, o, diff, q.text, describeCuts(w.cuts), q.rows, a, b)
				}
			}
		}
	})
	t.Logf("%d writers compared", compared)
}

// mixes tells whether the operator reads rows whose order depends on the epochs: those of a union, and
// the bad rows and bad groups of an aggregate.
func mixes(op *dataflow.Operator) bool {
	return slices.ContainsFunc(op.Inputs, func(in dataflow.Input) bool {
		return in.From.Type == "union" || in.From.Type == "aggregate" && in.From.Outputs[in.Output].Port == "errors"
	})
}

// cutsMatter tells whether what the operator gives depends on the epochs.
func cutsMatter(op *dataflow.Operator) bool { return ordered(op) && behind(op, mixes) }

// ordered tells whether what the operator gives depends on the order of its rows.
func ordered(op *dataflow.Operator) bool {
	p := op.Properties()
	return !p.Stateless && !p.Commutative && !op.Desc.Sink() && !op.Desc.Source()
}

// behind tells whether the condition holds for op or an operator that it reads from, by whatever way.
func behind(op *dataflow.Operator, holds func(*dataflow.Operator) bool) bool {
	return holds(op) || slices.ContainsFunc(op.Inputs, func(in dataflow.Input) bool { return behind(in.From, holds) })
}

// TestTasks: a rewritten graph gives the same rows in the same order in one task and in several.
func TestTasks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		q := drawQuery(t, true)
		d := &drawer{t: t}
		c := drawCuts(d, false)
		for _, v := range drawVariants(d, q.graph, map[string]int{}) {
			want, wantErr := run(v.graph, q.inputs, way{cuts: c})
			got, err := run(v.graph, q.inputs, way{cuts: c, tasks: true})
			if (wantErr == nil) != (err == nil) {
				t.Fatalf("error %v, want %v\n%s%s\n%s", err, wantErr, q.text, v.steps, q.rows)
			}
			if err != nil {
				continue
			}
			for _, name := range slices.Sorted(maps.Keys(want)) {
				if diff := difference(want[name], got[name], inOrder); diff != "" {
					t.Fatalf("%s: %s\n%s%s\n%s\nwant\n%sgot\n%s", name, diff, q.text, v.steps, q.rows, want[name], got[name])
				}
			}
		}
	})
}
