package local

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"sluice/dataflow"
	"sluice/operators/catalog"
	"sluice/specs/xmlspec"
)

// chainSpec is a reader, filters f1 to fn and a writer.
func chainSpec(filters int) string {
	var b strings.Builder
	b.WriteString(`<dataflow name="chain"><type name="R"><column name="a" type="int"/></type>
  <operator name="src" type="reader"><output name="s0" type="R"/><param name="path" value="in.csv"/></operator>`)
	for i := range filters {
		fmt.Fprintf(&b, `<operator name="f%d" type="filter"><input name="s%d"/><param name="condition" value="a &gt; 0"/><output name="s%d"/></operator>`, i+1, i, i+1)
	}
	fmt.Fprintf(&b, `<operator name="out" type="writer"><input name="s%d"/><param name="path" value="out.csv"/></operator></dataflow>`, filters)
	return b.String()
}

func graph(t *testing.T, spec string) *dataflow.Graph {
	t.Helper()
	g, diags := xmlspec.Parse("q.xml", strings.NewReader(spec), os.LookupEnv)
	diags = append(diags, dataflow.Resolve(g, catalog.Operators)...)
	if diags.HasErrors() {
		t.Fatal(diags)
	}
	return g
}

func physical(t *testing.T, g *dataflow.Graph) *dataflow.Physical {
	t.Helper()
	p, err := dataflow.BuildTasks(g, dataflow.TaskOptions{Network: true, Catalog: catalog.Operators})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// tasksOf lists the operators of each task, without those that carry streams between them.
func tasksOf(p *dataflow.Physical) string {
	var tasks []string
	for _, t := range p.Tasks {
		var names []string
		for _, op := range t.Operators {
			if op.Type != dataflow.NetReader && op.Type != dataflow.NetWriter {
				names = append(names, op.Name)
			}
		}
		tasks = append(tasks, strings.Join(names, " "))
	}
	return strings.Join(tasks, " | ")
}

func TestSpread(t *testing.T) {
	for n, want := range map[int]string{
		1: "src f1 f2 f3 out",
		2: "src f1 f2 | f3 out",
		3: "src f1 | f2 f3 | out",
		4: "src f1 | f2 | f3 | out",
		5: "src | f1 | f2 | f3 | out",
		9: "src | f1 | f2 | f3 | out",
	} {
		for range 3 {
			g := graph(t, chainSpec(3))
			if err := Spread(g, n); err != nil {
				t.Fatal(err)
			}
			if got := tasksOf(physical(t, g)); got != want {
				t.Errorf("over %d nodes: %s, want %s", n, got, want)
			}
		}
	}
}

// TestSpreadLeavesPlacements: what a rule has placed stays there, and counts.
func TestSpreadLeavesPlacements(t *testing.T) {
	g := graph(t, chainSpec(3))
	p1 := []dataflow.Placement{{Group: "r#1", Label: "p1"}}
	g.Operator("f2").Placement = p1
	if err := Spread(g, 3); err != nil {
		t.Fatal(err)
	}
	if got, want := tasksOf(physical(t, g)), "src f1 | f2 | f3 out"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if err := Spread(g, 3); err != nil || g.Operator("f2").Placement[0] != p1[0] || len(g.Operator("f1").Placement) != 0 {
		t.Errorf("the operator has moved, or one without need: %v", err)
	}
}
