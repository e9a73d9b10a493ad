package rewrite_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sluice/dataflow"
	"sluice/rewrite"
)

func TestBuiltinRulesAreRight(t *testing.T) {
	set := rewrite.Builtin()
	files, err := filepath.Glob("rules/*.rules")
	if err != nil {
		t.Fatal(err)
	}
	if len(set.Rules()) != len(files) || len(files) == 0 {
		t.Fatalf("%d rules of %d files", len(set.Rules()), len(files))
	}
	if diags := set.Check(catalog); len(diags) > 0 {
		t.Fatal(diags)
	}
	for _, r := range set.Rules() {
		if want := "rules/" + r.Name + ".rules"; r.Pos.File != want {
			t.Errorf("rule %s is in %s", r.Name, r.Pos.File)
		}
		for _, part := range []string{"Why:", "When it would be wrong:", "Order:"} {
			if !strings.Contains(r.Doc, part) {
				t.Errorf("the comment of rule %s has no %q", r.Name, part)
			}
		}
		text, err := os.ReadFile(r.Pos.File)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasSuffix(strings.TrimSpace(string(text)), r.Source) {
			t.Errorf("the source of rule %s is not what stands in its file:\n%s", r.Name, r.Source)
		}
	}
}

// sampleGraphs have operators of all kinds, so that each built-in rule applies to some.
var sampleGraphs = []string{`
type T: id int, ref int
r = read() -> rows:T
a = filter(rows) -> as {condition=2 AND 3}
b = map(as) -> bs
g = aggregate(bs) -> counts {group-by=id}
w = write(counts)`, `
type T: id int, ref int
r0 = read() -> rows0:T, bad@errors
r1 = read() -> rows1:T
a = filter(rows0) -> as, es@errors {condition=2}
j = join(as, rows1) -> js
g = aggregate(js) -> counts
w = write(counts)
w2 = write(es)
w3 = write(as)
w4 = write(bad)`,
}

// TestPairs applies all ordered pairs of built-in rules, the second one to all that the operator has
// become, to each operator of the sample graphs: no pair makes a result that does not fit.
func TestPairs(t *testing.T) {
	engine := &rewrite.Engine{Catalog: catalog}
	rows := map[string][]row{}
	for i := range 60 {
		for _, r := range []string{"r", "r0", "r1"} {
			rows[r] = append(rows[r], row{i * 7 % 40, i%13 - 1})
		}
	}
	both := make(map[string]bool)
	for _, input := range sampleGraphs {
		g := resolved(t, input)
		want := evaluate(g, rows)
		for _, first := range rewrite.Builtin().Rules() {
			for _, second := range rewrite.Builtin().Rules() {
				for _, op := range g.Operators {
					out := applyAll(t, engine, g, first, op.Name)
					if out == nil {
						continue
					}
					if twice := applyAll(t, engine, out, second, op.Name); twice != nil {
						both[first.Name+" "+second.Name] = true
						if first == second {
							t.Errorf("%s was applied to what it made of %s", first.Name, op.Name)
						}
						out = twice
					}
					if diff := cmp.Diff(want, evaluate(out, rows)); diff != "" {
						t.Errorf("%s, then %s on %s:\n%s", first.Name, second.Name, op.Name, diff)
					}
				}
			}
		}
	}
	for _, pair := range []string{"hot-standby partition", "partition hot-standby", "partition checkpoint", "pipeline-stages partition",
		"aggregation-tree hot-standby", "standby partition", "checkpoint partition", "pipeline hot-standby"} {
		if !both[pair] {
			t.Errorf("the pair %q was never applied", pair)
		}
	}
}

// applyAll applies a rule to all operators of a name, and returns nil if it applies to none.
func applyAll(t *testing.T, e *rewrite.Engine, g *dataflow.Graph, rule *rewrite.Rule, name string) *dataflow.Graph {
	t.Helper()
	var out *dataflow.Graph
	for _, op := range g.Named(name) {
		target := g.Operator(op.Name)
		if target == nil {
			continue
		}
		next, _, err := e.Apply(g, rule, target, nil)
		var mismatch *rewrite.MismatchError
		switch {
		case err == nil:
			g, out = next, next
		case !errors.As(err, &mismatch) || mismatch.Result:
			t.Errorf("%v", err)
		}
	}
	return out
}

// TestNamesOfRulesMeanNothing copies each built-in rule under another name and gets the same graph.
func TestNamesOfRulesMeanNothing(t *testing.T) {
	engine := &rewrite.Engine{Catalog: catalog}
	for _, rule := range rewrite.Builtin().Rules() {
		renamed := regexp.MustCompile(`^rule \S+?([ (])`).ReplaceAllString(rule.Source, "rule other-name$1")
		set, diags := rewrite.ParseRules("other.rules", []byte(renamed), catalog)
		if len(diags) > 0 {
			t.Fatal(diags)
		}
		applied := 0
		for _, input := range sampleGraphs {
			g := resolved(t, input)
			for _, op := range g.Operators {
				one, step, err1 := engine.Apply(g, rule, op, nil)
				two, other, err2 := engine.Apply(g, set.Rule("other-name"), op, nil)
				if (err1 == nil) != (err2 == nil) {
					t.Fatalf("%v and %v", err1, err2)
				}
				if err1 != nil {
					continue
				}
				applied++
				first := strings.ReplaceAll(describeAll(t, one), rule.Name+"#", "other-name#")
				first = strings.ReplaceAll(first, `"rule": "`+rule.Name+`"`, `"rule": "other-name"`)
				if diff := cmp.Diff(first, describeAll(t, two)); diff != "" {
					t.Errorf("%s under another name:\n%s", rule.Name, diff)
				}
				if strings.ReplaceAll(step.Diff, rule.Name+"#", "other-name#") != other.Diff {
					t.Errorf("%s under another name has another step:\n%s\n%s", rule.Name, step.Diff, other.Diff)
				}
			}
		}
		if applied == 0 {
			t.Errorf("%s was never applied", rule.Name)
		}
	}
}

func describeAll(t *testing.T, g *dataflow.Graph) string {
	j, err := g.JSON()
	if err != nil {
		t.Fatal(err)
	}
	p, err := dataflow.BuildTasks(g, dataflow.TaskOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return string(j) + g.Term(dataflow.TermOptions{Params: true}) + p.Text()
}

type measures map[string]float64

func (m measures) Measure(operator, measure string) (float64, bool) {
	v, ok := m[measure+" "+operator]
	return v, ok
}

func TestTriggersAndMeasures(t *testing.T) {
	set, diags := rewrite.ParseRules("my.rules", []byte(`
rule widen(k = 2) {
  a2 := any(g := aggregate(f := any(a1 := any*))) [utilisation(g) > 0.8]
  when bottleneck(g) [not rate(g) < 100], failed(f)
  => a2(merge(g[1..k](s))) where s := splitter(f(a1)){key = key(g)}
}`), catalog)
	if len(diags) > 0 {
		t.Fatal(diags)
	}
	rule := set.Rule("widen")
	g := resolved(t, sampleGraphs[0])
	engine := &rewrite.Engine{Catalog: catalog}
	for _, c := range []struct {
		measures rewrite.Measures
		event    string
		operator string
		want     string
	}{
		{measures{"utilisation g": 0.9, "rate g": 200}, "bottleneck", "g", "b"},
		{measures{"utilisation g": 0.9}, "failed", "b", "b"},
		{measures{"utilisation g": 0.9}, "bottleneck", "g", `the constraint not rate(g) < 100 fails: rate of operator "g" (aggregate) is not known`},
		{measures{"utilisation g": 0.9, "rate g": 50}, "bottleneck", "g", `the constraint not rate(g) < 100 fails: rate(g) < 100 holds`},
		{measures{"utilisation g": 0.5, "rate g": 200}, "bottleneck", "g", `the constraint utilisation(g) > 0.8 fails: it is 0.5`},
		{nil, "bottleneck", "g", `utilisation of operator "g" (aggregate) is not known`},
		{nil, "idle", "g", `it has no trigger "idle"`},
		{nil, "bottleneck", "a", `operator "a" is a filter, not an aggregate`},
	} {
		engine.Measures = c.measures
		target, err := engine.Triggered(rule, c.event, g.Operator(c.operator), nil)
		if err != nil {
			if !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s of %s: %v, not %s", c.event, c.operator, err, c.want)
			}
			continue
		}
		if target.Name != c.want {
			t.Errorf("%s of %s: the target is %s, not %s", c.event, c.operator, target.Name, c.want)
		}
	}
}

func TestParallel(t *testing.T) {
	engine := &rewrite.Engine{Catalog: catalog}
	g := resolved(t, sampleGraphs[0])
	result, refused := engine.Parallel(g, rewrite.Builtin(), 3)
	var steps []string
	for _, s := range result.Steps {
		steps = append(steps, fmt.Sprintf("%s %s %s", s.Rule.Name, s.Target, s.Args["k"]))
	}
	if diff := cmp.Diff([]string{"partition a 3", "partition b 3", "partition g 3"}, steps); diff != "" {
		t.Error(diff)
	}
	if len(refused) != 2 {
		t.Errorf("refused: %v", refused)
	}
	stands, diags := engine.Run(resolved(t, sampleGraphs[0]+"\nrewrite hot-standby() on g"), rewrite.Builtin())
	if diags.HasErrors() {
		t.Fatal(diags)
	}
	copies, _ := engine.Parallel(stands.Graph, rewrite.Builtin(), 2)
	steps = nil
	for _, s := range copies.Steps {
		steps = append(steps, s.Target)
	}
	if diff := cmp.Diff([]string{"a", "b", "g.1", "g.2"}, steps); diff != "" {
		t.Error(diff)
	}
	again, _ := engine.Parallel(result.Graph, rewrite.Builtin(), 3)
	if len(again.Steps) > 0 {
		t.Errorf("applied again: %v", again.Steps)
	}
	result, _ = engine.Parallel(resolved(t, sampleGraphs[1]), rewrite.Builtin(), 2)
	last := result.Steps[len(result.Steps)-1]
	if last.Rule.Name != "aggregation-tree" || last.Target != "g" {
		t.Errorf("the aggregate without a key is left to %s on %s", last.Rule.Name, last.Target)
	}
}

func TestHooks(t *testing.T) {
	var events []string
	engine := &rewrite.Engine{
		Catalog: catalog,
		Matched: func(m rewrite.Match) {
			events = append(events, fmt.Sprintf("matched %s: f is %s", m.Rule.Name, m.Bound["f"].Name))
		},
		Applied: func(s *rewrite.Step) { events = append(events, fmt.Sprintf("applied %d", s.Number)) },
	}
	g := resolved(t, sampleGraphs[0]+"\nrewrite hot-standby() on a\nrewrite partition(k=2) on a.2\nrewrite standby() on g")
	result, diags := engine.Run(g, rewrite.Builtin())
	want := []string{"matched hot-standby: f is a", "applied 1", "matched partition: f is a.2", "applied 2"}
	if diff := cmp.Diff(want, events); diff != "" {
		t.Error(diff)
	}
	if !diags.HasErrors() || len(result.Steps) != 2 || len(g.Operators) == len(result.Graph.Operators) {
		t.Errorf("%v, %d steps", diags, len(result.Steps))
	}
	if o := result.Graph.Operator("a.2.1").Origin; o.Of != "a" || strings.Join(o.Lineage, " ") != "a a.2" || o.Rule != "partition" || o.Step != 2 || o.Replica != 1 {
		t.Errorf("%+v", o)
	}
}

func TestForeignTarget(t *testing.T) {
	rule := rewrite.Builtin().Rule("hot-standby")
	g, other := resolved(t, sampleGraphs[0]), resolved(t, sampleGraphs[0])
	engine := &rewrite.Engine{Catalog: catalog}
	if _, _, err := engine.Apply(g, rule, other.Operator("a"), nil); err == nil || !strings.Contains(err.Error(), "is not of the graph") {
		t.Error(err)
	}
	raw := parseGraph(t, sampleGraphs[0])
	if _, _, err := engine.Apply(raw, rewrite.Builtin().Rule("pipeline"), raw.Operator("a"), nil); err == nil {
		t.Error("a graph that is not resolved was rewritten")
	}
}

func TestTooLargeRules(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{strings.Repeat("# x\n", rewrite.MaxFile/4+1), "a file of rules has at most"},
		{"rule r { a2 := any(f := any(a1 := any*)) => a2(f(" + strings.Repeat("map(", rewrite.MaxDepth) + "a1))", "nested more than"},
		{"rule r { a2 := any(f := any(a1 := any*)) => a2(f(merge(" + strings.Repeat("a1,", rewrite.MaxTokens/2) + "a1)))", "too long"},
		{strings.Repeat("rule r{}", rewrite.MaxRules+1), "at most 1000 rules"},
		{"rule r { \xff }", "not UTF-8"},
	} {
		_, diags := rewrite.ParseRules("large.rules", []byte(c.text), catalog)
		if !strings.Contains(diags.Error(), c.want) {
			t.Errorf("%.200s, not %s", diags.Error(), c.want)
		}
	}
}

// TestPatternOfAThousand matches a chain of 1,000 operators and puts a node between each two.
func TestPatternOfAThousand(t *testing.T) {
	const n = 1000
	pattern, result := "a1 := any*", "a1"
	for i := range n {
		name := fmt.Sprintf("f%d", i)
		pattern = fmt.Sprintf("%s := map(%s)", name, pattern)
		result = fmt.Sprintf("%s(filter(%s))", name, result)
	}
	text := fmt.Sprintf("rule long on f0 { a2 := any(%s) => a2(%s) }", pattern, result)
	set, diags := rewrite.ParseRules("long.rules", []byte(text), catalog)
	if len(diags) > 0 {
		t.Fatal(diags)
	}
	g := chain(t, n)
	out, step, err := (&rewrite.Engine{Catalog: catalog}).Apply(g, set.Rule("long"), g.Operator("m1"), nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(out.Operators) != len(g.Operators)+n || strings.Count(step.Diff, "\n") != 3*n {
		t.Errorf("%d operators, %d lines", len(out.Operators), strings.Count(step.Diff, "\n"))
	}
}

// chain is a chain of n maps, m1, m2 and so on.
func chain(t tester, n int) *dataflow.Graph {
	var w strings.Builder
	w.WriteString("type T: id int, ref int\nr = read() -> s0:T\n")
	for i := range n {
		fmt.Fprintf(&w, "m%d = map(s%d) -> s%d\n", i+1, i, i+1)
	}
	fmt.Fprintf(&w, "w = write(s%d)\n", n)
	return resolved(t, w.String())
}

// TestManyWays has a pattern that can match in very many ways and does in none: the search gives up.
func TestManyWays(t *testing.T) {
	set, diags := rewrite.ParseRules("many.rules", []byte(`
rule many on u {
  a2 := any(u := union(a := any*, b := any*, c := any*, d := any*, e := any*, h := any*, x := write))
  => a2(u(a, b, c, d, e, h, x))
}`), catalog)
	if len(diags) > 0 {
		t.Fatal(diags)
	}
	var inputs []string
	for range 100 {
		inputs = append(inputs, "s0")
	}
	g := resolved(t, "type T: id int, ref int\nr = read() -> s0:T\nu = union("+strings.Join(inputs, ", ")+") -> s1\nw = write(s1)")
	_, _, err := (&rewrite.Engine{Catalog: catalog}).Apply(g, set.Rule("many"), g.Operator("u"), nil)
	if err == nil || !strings.Contains(err.Error(), "too many ways") {
		t.Error(err)
	}
}

func FuzzParseRules(f *testing.F) {
	for _, r := range rewrite.Builtin().Rules() {
		f.Add([]byte(r.Source))
	}
	for _, name := range []string{"bad", "engine"} {
		text, err := os.ReadFile("testdata/rules/" + name)
		if err != nil {
			f.Fatal(err)
		}
		for _, part := range strings.Split(string(text), "\n----\n") {
			if i := strings.Index(part, "rule "); i >= 0 {
				f.Add([]byte(part[i:]))
			}
		}
	}
	engine := &rewrite.Engine{Catalog: catalog}
	f.Fuzz(func(t *testing.T, text []byte) {
		set, diags := rewrite.ParseRules("fuzz.rules", text, catalog)
		for _, d := range diags {
			if d.Message == "" || d.Pos.File != "fuzz.rules" {
				t.Fatalf("%+v", d)
			}
		}
		for _, rule := range set.Rules() {
			for _, input := range sampleGraphs {
				g := resolved(t, input)
				for _, op := range g.Operators {
					if out, _, err := engine.Apply(g, rule, op, nil); err == nil {
						if diags := dataflow.Resolve(out, catalog); diags.HasErrors() {
							t.Fatal(diags)
						}
					}
				}
			}
		}
	})
}

// BenchmarkMatch matches each built-in rule with every operator of a graph.
func BenchmarkMatch(b *testing.B) {
	engine := &rewrite.Engine{Catalog: catalog}
	rules := rewrite.Builtin().Rules()
	for _, n := range []int{100, 1000, 10_000} {
		g := chain(b, n)
		b.Run(fmt.Sprintf("operators=%d", n), func(b *testing.B) {
			for b.Loop() {
				for _, op := range g.Operators {
					for _, r := range rules {
						_ = engine.Applies(r, op, nil)
					}
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(g.Operators)), "ns/operator")
		})
	}
}

// BenchmarkApply applies one rule to one operator of a graph.
func BenchmarkApply(b *testing.B) {
	engine := &rewrite.Engine{Catalog: catalog}
	rule := rewrite.Builtin().Rule("hot-standby")
	for _, n := range []int{100, 1000, 10_000} {
		g := chain(b, n)
		target := g.Operator("m50")
		b.Run(fmt.Sprintf("operators=%d", n), func(b *testing.B) {
			for b.Loop() {
				if _, _, err := engine.Apply(g, rule, target, nil); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(g.Operators)), "ns/operator")
		})
	}
}

// TestScopes follows the names by which expressions call their inputs.
func TestScopes(t *testing.T) {
	g := resolved(t, sampleGraphs[1]+"\nrewrite hot-standby() on j\nrewrite partition() on j\nrewrite pipeline-stages() on g\nrewrite partition() on a")
	result, diags := (&rewrite.Engine{Catalog: catalog}).Run(g, rewrite.Builtin())
	if diags.HasErrors() {
		t.Fatal(diags)
	}
	for operator, want := range map[string]string{
		"j.multicast.1": "as", "j.multicast.2": "rows1", "j.1.splitter.1": "as", "j.1.1": "as rows1", "j.2.1": "as rows1", "g.stage1": "js",
		"a.splitter": "rows0", "a.1": "rows0", "w3": "as", "w2": "es",
	} {
		var scopes []string
		for _, in := range result.Graph.Operator(operator).Inputs {
			scopes = append(scopes, in.Scope())
		}
		if got := strings.Join(scopes, " "); got != want {
			t.Errorf("%s calls its inputs %s, not %s", operator, got, want)
		}
	}
}
