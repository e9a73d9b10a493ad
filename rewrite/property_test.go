package rewrite_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"sluice/dataflow"
	"sluice/rewrite"
)

// randomGraph draws a graph of up to 12 operators besides its sinks. Every stream that nobody else reads
// is written; some others are, too.
func randomGraph(t *rapid.T) string {
	var w strings.Builder
	w.WriteString("type T: id int, ref int\n")
	streams := map[string][]string{} // by type
	read := map[string]bool{}
	pick := func(kind string) string {
		s := rapid.SampledFrom(streams[kind]).Draw(t, "stream")
		read[s] = true
		return s
	}
	add := func(name, kind string) string {
		streams[kind] = append(streams[kind], name)
		return name
	}
	for i := range rapid.IntRange(1, 2).Draw(t, "sources") {
		fmt.Fprintf(&w, "r%d = read() -> s%d:T, e%d@errors\n", i, i, i)
		add(fmt.Sprintf("s%d", i), "T")
	}
	for i := range rapid.IntRange(1, 10).Draw(t, "operators") {
		name, out := fmt.Sprintf("o%d", i), fmt.Sprintf("t%d", i)
		kind := "T"
		if len(streams["n"]) > 0 && rapid.Bool().Draw(t, "counts") {
			kind = "n"
		}
		condition := rapid.SampledFrom([]string{"2", "3", "2 AND 3", "2 AND 5 AND 1"}).Draw(t, "condition")
		switch rapid.SampledFrom([]string{"filter", "filter errors", "map", "union", "dedup", "join", "aggregate", "aggregate errors"}).Draw(t, "type") {
		case "filter":
			fmt.Fprintf(&w, "%s = filter(%s) -> %s {condition=%s}\n", name, pick(kind), add(out, kind), condition)
		case "filter errors":
			fmt.Fprintf(&w, "%s = filter(%s) -> %s, %se@errors {condition=%s}\n", name, pick(kind), add(out, kind), out, condition)
			add(out+"e", "e")
		case "map":
			fmt.Fprintf(&w, "%s = map(%s) -> %s\n", name, pick(kind), add(out, kind))
		case "union":
			fmt.Fprintf(&w, "%s = union(%s, %s, %s) -> %s\n", name, pick(kind), pick(kind), pick(kind), add(out, kind))
		case "dedup":
			fmt.Fprintf(&w, "%s = dedup(%s) -> %s\n", name, pick(kind), add(out, kind))
		case "join":
			fmt.Fprintf(&w, "%s = join(%s, %s) -> %s\n", name, pick(kind), pick("T"), add(out, kind))
		case "aggregate":
			fmt.Fprintf(&w, "%s = aggregate(%s) -> %s {%s}\n", name, pick(kind), add(out, "n"), rapid.SampledFrom([]string{"", "group-by=id"}).Draw(t, "key"))
		case "aggregate errors":
			fmt.Fprintf(&w, "%s = aggregate(%s) -> %s, %se@errors {group-by=id}\n", name, pick(kind), add(out, "n"), out)
			add(out+"e", "e")
		}
	}
	for _, kind := range []string{"T", "n", "e"} {
		for _, s := range streams[kind] {
			if !read[s] || rapid.IntRange(0, 3).Draw(t, "written") == 0 {
				fmt.Fprintf(&w, "w%s = write(%s)\n", s, s)
			}
		}
	}
	return w.String()
}

func randomRows(t *rapid.T, g *dataflow.Graph) map[string][]row {
	rows := make(map[string][]row)
	for _, op := range g.Operators {
		if op.Type == "read" {
			rows[op.Name] = rapid.SliceOfN(rapid.Custom(func(t *rapid.T) row {
				return row{rapid.IntRange(0, 40).Draw(t, "id"), rapid.IntRange(-1, 10).Draw(t, "ref")}
			}), 0, 40).Draw(t, "rows")
		}
	}
	return rows
}

// TestMeaningIsKept applies random rules one after the other to random operators: the sinks get the
// same rows, the graph that was rewritten is as it was, and the tasks form no cycle.
func TestMeaningIsKept(t *testing.T) {
	rules := rewrite.Builtin().Rules()
	engine := &rewrite.Engine{Catalog: catalog}
	applied := make(map[string]int)
	rapid.Check(t, func(t *rapid.T) {
		input := randomGraph(t)
		g := parseGraph(t, input)
		if diags := dataflow.Resolve(g, catalog); diags.HasErrors() {
			t.Fatalf("%v in\n%s", diags, input)
		}
		rows := randomRows(t, g)
		want := evaluate(g, rows)
		first := g
		for range rapid.IntRange(1, 6).Draw(t, "steps") {
			before := g
			unchanged := picture(t, before)
			rule := rules[rapid.IntRange(0, len(rules)-1).Draw(t, "rule")]
			args := map[string]string{}
			if rule.Param("k") != nil {
				args["k"] = fmt.Sprint(rapid.IntRange(1, 5).Draw(t, "k"))
			}
			var sites []*dataflow.Operator
			for _, op := range g.Operators {
				if engine.Applies(rule, op, args) == nil {
					sites = append(sites, op)
				}
			}
			if len(sites) == 0 {
				continue
			}
			target := sites[rapid.IntRange(0, len(sites)-1).Draw(t, "target")]
			after, _, err := engine.Apply(g, rule, target, args)
			if err != nil {
				t.Fatalf("%v in\n%s", err, g.Term(dataflow.TermOptions{}))
			}
			applied[rule.Name]++
			g = after
			if diff := cmp.Diff(unchanged, picture(t, before)); diff != "" {
				t.Fatalf("%s on %s changed the graph itself:\n%s", rule.Name, target.Name, diff)
			}
		}
		if diff := cmp.Diff(want, evaluate(g, rows)); diff != "" {
			t.Fatalf("other rows (- as it was, + rewritten):\n%s\n%s\nbecame\n%s", diff, first.Term(dataflow.TermOptions{Params: true}), g.Term(dataflow.TermOptions{Params: true}))
		}
		checkTasks(t, g, want, rows)
		checkMoves(t, first, g)
		checkMoves(t, g, first)
	})
	for _, r := range rules {
		if applied[r.Name] == 0 {
			t.Errorf("rule %s was never applied", r.Name)
		}
	}
	t.Logf("applied: %v", applied)
}

func picture(t *rapid.T, g *dataflow.Graph) string {
	j, err := g.JSON()
	if err != nil {
		t.Fatal(err)
	}
	return string(j)
}

// checkTasks checks that tasks come after those that they read, that every operator is in one, and that
// network operators change nothing.
func checkTasks(t *rapid.T, g *dataflow.Graph, want map[string][]row, rows map[string][]row) {
	for _, network := range []bool{false, true} {
		p, err := dataflow.BuildTasks(g, dataflow.TaskOptions{Network: network, Catalog: catalog})
		if err != nil {
			t.Fatal(err)
		}
		place := make(map[*dataflow.Task]int)
		operators := 0
		for i, task := range p.Tasks {
			place[task] = i
			operators += len(task.Operators)
		}
		if operators != len(p.Graph.Operators) {
			t.Fatalf("%d operators in tasks, %d in the graph", operators, len(p.Graph.Operators))
		}
		for _, ch := range p.Channels {
			if place[ch.FromTask] >= place[ch.ToTask] {
				t.Fatalf("channel %s goes back from task %s to %s:\n%s", ch.Stream, ch.FromTask.Name, ch.ToTask.Name, p.Text())
			}
		}
		if diff := cmp.Diff(want, evaluate(p.Graph, rows)); diff != "" {
			t.Fatalf("other rows with tasks (network %v):\n%s", network, diff)
		}
		if change := dataflow.Compare(p, p); len(change.Stay) != len(p.Tasks) || len(change.Moves)+len(change.Cut)+len(change.Join) > 0 {
			t.Fatalf("a graph differs from itself:\n%s", change.Text())
		}
	}
}

// checkMoves checks that on the way from one graph to another every keyed operator gets the state of each
// of its key groups, from one operator that had it.
func checkMoves(t *rapid.T, from, to *dataflow.Graph) {
	var parts [2]*dataflow.Physical
	for i, g := range []*dataflow.Graph{from, to} {
		p, err := dataflow.BuildTasks(g, dataflow.TaskOptions{})
		if err != nil {
			t.Fatal(err)
		}
		parts[i] = p
	}
	change := dataflow.Compare(parts[0], parts[1])
	has := make(map[*dataflow.Operator][]int) // times that each group is there
	add := func(op *dataflow.Operator, r dataflow.GroupRange) {
		if has[op] == nil {
			has[op] = make([]int, dataflow.KeyGroups)
		}
		for i := range has[op] {
			if !r.Intersect(dataflow.GroupRange{First: i, End: i + 1}).Empty() {
				has[op][i]++
			}
		}
	}
	for _, s := range change.Stay {
		for i, op := range s.New.Operators {
			add(op, groupsOf(s.Old.Operators[i]))
		}
	}
	for _, m := range change.Moves {
		if m.To.Properties().Keyed && groupsOf(m.From).Intersect(m.Groups) != m.Groups {
			t.Fatalf("%s is to give groups %s, but has %s", m.From.Name, m.Groups, groupsOf(m.From))
		}
		add(m.To, m.Groups)
	}
	staged := make(map[string]bool) // operators that are divided into stages in either graph
	for _, g := range []*dataflow.Graph{from, to} {
		for _, op := range g.Operators {
			if op.Origin != nil && op.Origin.Stage > 0 {
				staged[op.Origin.Of] = true
			}
		}
	}
	empty := make(map[*dataflow.Operator]bool)
	for _, op := range change.Empty {
		empty[op] = true
		if !staged[op.Name] && (op.Origin == nil || !staged[op.Origin.Of]) {
			t.Fatalf("%s begins empty:\n%s", op.Name, change.Text())
		}
	}
	for _, op := range to.Operators {
		if empty[op] {
			continue
		}
		for i := range dataflow.KeyGroups {
			needs := !groupsOf(op).Intersect(dataflow.GroupRange{First: i, End: i + 1}).Empty()
			if op.Properties().Keyed && needs && (has[op] == nil || has[op][i] != 1) {
				t.Fatalf("%s does not get group %d once:\n%s\n%s", op.Name, i, change.Text(), to.Statements(dataflow.TermOptions{}))
			}
		}
	}
}

func groupsOf(op *dataflow.Operator) dataflow.GroupRange {
	if op.Origin == nil {
		return dataflow.GroupRange{}
	}
	return op.Origin.Groups
}
