package dataflow_test

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"sluice/dataflow"
)

// taskCatalog has an operator that passes its input on, beside those of catalog.
var taskCatalog = func() fakeCatalog {
	c := fakeCatalog{"pass": {
		Name: "pass", MinInputs: 1, MaxInputs: 1, Output: true,
		Check: func(c *dataflow.Check) []*dataflow.Schema { return []*dataflow.Schema{c.Inputs[0].Schema} },
	}}
	for name, d := range catalog {
		c[name] = d
	}
	return c
}()

func TestGroupRange(t *testing.T) {
	all := dataflow.GroupRange{}
	for _, c := range []struct{ got, want string }{
		{all.String(), "0-719"},
		{all.Part(1, 3).String(), "0-239"},
		{all.Part(3, 7).String(), "205-307"},
		{all.Part(1, 2).Part(1, 2).String(), "0-359"},
		{all.Part(1, 2).Part(2, 2).String(), "none"},
		{all.Part(1, 2).Part(2, 2).Intersect(all).String(), "none"},
		{all.Part(1, 2).Intersect(all.Part(2, 3)).String(), "240-359"},
	} {
		if c.got != c.want {
			t.Errorf("%s, not %s", c.got, c.want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		k := rapid.IntRange(1, dataflow.KeyGroups).Draw(t, "k")
		end := 0
		for i := 1; i <= k; i++ {
			p := all.Part(i, k)
			if p.First != end || p.Empty() {
				t.Fatalf("part %d of %d is %s", i, k, p)
			}
			end = p.End
		}
		if end != dataflow.KeyGroups {
			t.Fatalf("the parts end at %d", end)
		}
	})
}

func TestApart(t *testing.T) {
	task := func(labels ...string) *dataflow.Task {
		var t dataflow.Task
		for _, l := range labels {
			group, label, _ := strings.Cut(l, ":")
			label, spread := strings.CutSuffix(label, "*")
			t.Placement = append(t.Placement, dataflow.Placement{Group: group, Label: label, Spread: spread})
		}
		return &t
	}
	for _, c := range []struct {
		a, b *dataflow.Task
		want bool
	}{
		{task("r#1:p1"), task("r#1:p2"), true},
		{task("r#1:p1"), task("r#1:p1"), false},
		{task("r#1:p1"), task("r#2:p2"), false},
		{task("r#1:p.1*"), task("r#1:p.2*"), false},
		{task("r#1:p.1*"), task("r#1:q"), true},
		{task("r#1:p1", "r#2:p.1*"), task("r#1:p1", "r#2:p.2*"), false},
		{task("r#1:p1", "r#2:p.1*"), task("r#1:p2", "r#2:p.1*"), true},
		{task(), task("r#1:p2"), false},
	} {
		if got := c.a.Apart(c.b); got != c.want || c.b.Apart(c.a) != c.want {
			t.Errorf("%v and %v: apart is %v", c.a.Placement, c.b.Placement, got)
		}
	}
}

func TestNamed(t *testing.T) {
	g := &dataflow.Graph{Operators: []*dataflow.Operator{
		{Name: "a.1.1", Origin: &dataflow.Origin{Of: "a", Lineage: []string{"a", "a.1"}}},
		{Name: "a.1.2", Origin: &dataflow.Origin{Of: "a", Lineage: []string{"a", "a.1"}}},
		{Name: "a.2", Origin: &dataflow.Origin{Of: "a", Lineage: []string{"a"}}},
		{Name: "a.merge", Origin: &dataflow.Origin{Of: "a"}},
		{Name: "b"},
	}}
	for name, want := range map[string]string{
		"a": "a.1.1 a.1.2 a.2", "a.1": "a.1.1 a.1.2", "a.2": "a.2", "a.merge": "a.merge", "b": "b", "c": "",
	} {
		var names []string
		for _, op := range g.Named(name) {
			names = append(names, op.Name)
		}
		if got := strings.Join(names, " "); got != want {
			t.Errorf("%s means %q, not %q", name, got, want)
		}
	}
}

// TestStreamAroundATask has a stream that leaves a task and comes back by another one, over several
// operators: no task may both send to another one and read from it.
func TestStreamAroundATask(t *testing.T) {
	g := parseGraph(t, `
type T: a int
s = read() -> s1:T {path=x}
f = pass(s1) -> s2
p = pass(s2) -> s3
g = pass(s3) -> s4
u = union(s2, s4) -> s5
q = pass(s5) -> s6
v = union(s6, s1) -> s7
w = write(s7)`)
	if diags := dataflow.Resolve(g, taskCatalog); diags.HasErrors() {
		t.Fatal(diags)
	}
	for _, name := range []string{"p", "q"} {
		g.Operator(name).Placement = []dataflow.Placement{{Group: "r#1", Label: "p1"}}
	}
	p, err := dataflow.BuildTasks(g, dataflow.TaskOptions{})
	if err != nil {
		t.Fatal(err)
	}
	const want = `task s: s, f
task p: p @{r#1:p1}
task g: g, u
task q: q @{r#1:p1}
task v: v, w
channel s -> v: s1
channel s -> p: s2
channel s -> g: s2
channel p -> g: s3
channel g -> q: s5
channel q -> v: s6
`
	if got := p.Text(); got != want {
		t.Errorf("got\n%s\nnot\n%s", got, want)
	}
}

// TestLongChain divides a chain of many operators, every second one placed, and compares it with itself.
func TestLongChain(t *testing.T) {
	const n = 20_000
	var w strings.Builder
	w.WriteString("type T: a int\ns = read() -> s0:T {path=x}\n")
	for i := range n {
		fmt.Fprintf(&w, "f%d = pass(s%d) -> s%d\n", i, i, i+1)
	}
	fmt.Fprintf(&w, "w = write(s%d)", n)
	g := parseGraph(t, w.String())
	if diags := dataflow.Resolve(g, taskCatalog); diags.HasErrors() {
		t.Fatal(diags)
	}
	for i := 0; i < n; i += 2 {
		g.Operators[i+1].Placement = []dataflow.Placement{{Group: fmt.Sprintf("r#%d", i), Label: "p1"}}
	}
	p, err := dataflow.BuildTasks(g, dataflow.TaskOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if len(p.Tasks) != n+1 || len(p.Channels) != n {
		t.Errorf("%d tasks, %d channels", len(p.Tasks), len(p.Channels))
	}
	if c := dataflow.Compare(p, p); len(c.Stay) != n+1 || len(c.Cut)+len(c.Join)+len(c.Moves) > 0 {
		t.Errorf("%d of %d tasks stay", len(c.Stay), len(p.Tasks))
	}
}
