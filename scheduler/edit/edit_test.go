package edit

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sluice/dataflow"
	"sluice/executor"
	"sluice/executor/state"
	"sluice/executor/state/shared"
	"sluice/metaquery"
	"sluice/operators"
	"sluice/operators/catalog"
	"sluice/scheduler"
	"sluice/specs/xmlspec"
)

const spec = `<dataflow name="q"><type name="R"><column name="a" type="int"/></type>
  <operator name="src" type="reader"><output name="s" type="R"/><param name="path" value="in.csv"/></operator>
  <operator name="f" type="filter"><input name="s"/><param name="condition" value="a &gt; 7"/><output name="o"/></operator>
  <operator name="g" type="filter"><input name="o"/><param name="condition" value="a &gt; 8"/><output name="p"/></operator>
  <operator name="out" type="writer"><input name="p"/><param name="path" value="out.csv"/></operator></dataflow>`

// compile gives a spec its tasks.
func compile(t *testing.T, dir, text string) *dataflow.Physical {
	t.Helper()
	g, diags := xmlspec.Parse("q.xml", strings.NewReader(text), os.LookupEnv)
	diags = append(diags, dataflow.Resolve(g, catalog.Operators)...)
	if diags.HasErrors() {
		t.Fatal(diags)
	}
	g.Dir = dir
	p, err := dataflow.BuildTasks(g, dataflow.TaskOptions{Network: true, Catalog: catalog.Operators})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// stopped is the query of the spec, stopped at epoch 7, in a directory with its input.
func stopped(t *testing.T) (*Stopped, *dataflow.Physical, string) {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "in.csv"), []byte("a\n1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	store, err := shared.NewMemory(nil).Open("test", true)
	if err != nil {
		t.Fatal(err)
	}
	p := compile(t, dir, spec)
	generations := map[string]int64{}
	for _, task := range p.Tasks {
		generations[task.Name] = 3
	}
	return &Stopped{
		Was: executor.ShapeOf(p), Store: store, OpenSource: catalog.OpenSource,
		Build: func(o *operators.Context) (operators.Operator, error) {
			return catalog.Build(o, catalog.Options{Limit: -1, Cluster: true})
		},
		Record: &scheduler.Record{Term: 4, Checkpoint: 7, Attempt: 9, Generations: generations, Params: []metaquery.Tuple{
			{Operator: "f", Param: "condition", Value: "a > 70", Seq: 1}, {Operator: "g", Param: "condition", Value: "a > 80", Seq: 2},
			{Operator: "src.o", Param: metaquery.TargetAddr, Value: "x", Seq: 3},
		}, Changes: []metaquery.Tuple{{Operator: "f", Param: "condition", Value: "a > 71", Epoch: 8, Seq: 4}}},
	}, p, dir
}

// TestSettings: what users have set holds on where the edited query can have it, and is named where it cannot.
func TestSettings(t *testing.T) {
	without := strings.Replace(strings.Replace(spec, `name="g"`, `name="h"`, 1), "a &gt; 8", "a &gt; 9", 1)
	for name, c := range map[string]struct {
		spec    string
		catalog dataflow.Catalog
		params  string
		unset   []string
	}{
		"the same":         {spec, catalog.Operators, "[{g condition a > 80 0 2} {f condition a > 71 0 4}]", nil},
		"another operator": {without, catalog.Operators, "[{f condition a > 71 0 4}]", []string{"g.condition"}},
		"the spec counts":  {spec, nil, "[]", []string{"f.condition", "g.condition"}},
	} {
		s, _, dir := stopped(t)
		r, err := s.Convert(Target{Query: compile(t, dir, c.spec), Catalog: c.catalog, Changed: func(executor.Change) error { return nil }})
		if err != nil {
			t.Fatal(err)
		}
		params := []string{}
		for _, p := range r.Record.Params {
			params = append(params, fmt.Sprintf("{%s %s %s %d %d}", p.Operator, p.Param, p.Value, p.Epoch, p.Seq))
		}
		if got := fmt.Sprint(params); got != c.params || !cmp.Equal(r.Unset, c.unset) {
			t.Errorf("%s: %s, unset %v; want %s, %v", name, got, r.Unset, c.params, c.unset)
		}
		if r.Record.Term != 4 || r.Record.Checkpoint != 7 || r.Record.Attempt != 9 || r.Record.Generations["src"] != 3 || len(r.Record.Changes) > 0 {
			t.Errorf("%s: %+v", name, r.Record)
		}
	}
}

// TestWorkers: it is known on where sinks were launched last, whatever their tasks are called now, and of nothing else.
func TestWorkers(t *testing.T) {
	s, p, dir := stopped(t)
	was := s.Was
	s.Was.Operators = nil
	for _, op := range was.Operators {
		if op.Sink {
			op.Task = "before"
		}
		s.Was.Operators = append(s.Was.Operators, op)
	}
	s.Record.Workers = map[string]scheduler.WorkerID{"before": "w3", "src": "w4"}
	r, err := s.Convert(Target{Query: compile(t, dir, spec), Changed: func(executor.Change) error { return nil }})
	if err != nil {
		t.Fatal(err)
	}
	task := ""
	for _, x := range p.Tasks {
		for _, op := range x.Operators {
			if op.Name == "out" {
				task = x.Name
			}
		}
	}
	if want := map[string]scheduler.WorkerID{task: "w3"}; task == "" || !cmp.Equal(r.Record.Workers, want) {
		t.Errorf("%v, want %v", r.Record.Workers, want)
	}
}

// TestRefused: an error of the one who consents ends the edit, and so does a source that has another input.
func TestRefused(t *testing.T) {
	s, p, dir := stopped(t)
	no := errors.New("no")
	if _, err := s.Convert(Target{Query: p, Changed: func(executor.Change) error { return no }}); !errors.Is(err, no) {
		t.Errorf("error %v", err)
	}
	s, p, _ = stopped(t)
	src, err := catalog.OpenSource(&operators.Context{Op: p.Graph.Operator("src"), Dir: dir, Counters: &operators.Counters{}})
	if err != nil {
		t.Fatal(err)
	}
	_, err = src.Next(t.Context(), 10)
	position := src.(operators.Replayable).Position()
	if err = errors.Join(err, src.Close()); err != nil {
		t.Fatal(err)
	}
	log, _, err := s.Store.OpenSource("src", 3)
	if err == nil {
		err = errors.Join(log.Append(state.Epoch{Source: "src", Epoch: 7, Position: position}), log.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	if left, err := s.Left(p); left || err != nil {
		t.Errorf("left %v, error %v", left, err)
	}
	if err := os.WriteFile(filepath.Join(dir, "other.csv"), []byte("a\n2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	other := compile(t, dir, strings.Replace(spec, "in.csv", "other.csv", 1))
	var at *executor.OperatorError
	if _, err := s.Convert(Target{Query: other, Changed: func(executor.Change) error { return nil }}); !errors.As(err, &at) || at.Op.Name != "src" {
		t.Errorf("error %v", err)
	}
}

// TestCatchUp: a query that was to run to its end is not stopped before.
func TestCatchUp(t *testing.T) {
	s, _, _ := stopped(t)
	s.sources = map[string]state.Epoch{"src": {Epoch: 12}}
	got, err := json.Marshal(s.CatchUp())
	if want := `{"End":false,"CatchUp":true,"Logged":12}`; err != nil || string(got) != want {
		t.Errorf("%s, want %s, error %v", got, want, err)
	}
	s.Record.Stop = -1
	if s.CatchUp() != nil {
		t.Error("it is stopped")
	}
}
