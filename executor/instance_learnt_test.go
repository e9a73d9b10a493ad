package executor_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sluice/executor"
	"sluice/executor/state/shared"
	"sluice/metaquery"
	"sluice/operators"
	"sluice/operators/catalog"
)

const learntSpec = `<dataflow name="learnt">
  <type name="Row"><column name="t" type="timestamp" eventtime="true"/><column name="k" type="int"/><column name="v" type="int"/></type>
  <operator name="in" type="reader"><output name="rows" type="Row"/><param name="path" value="in.csv"/><param name="epoch-rows" value="10"/></operator>
  <operator name="keep" type="filter"><input name="rows"/><output name="kept"/><param name="condition">v &lt; 0</param></operator>
  <operator name="out" type="writer"><input name="kept"/><param name="path" value="out.csv"/></operator>
</dataflow>`

// laterEnv is a loneEnv whose clock is set by hand.
type laterEnv struct {
	loneEnv
	now int64
}

func (e *laterEnv) Now() int64 { return e.now }

// TestLearntChange: a change that a task has found committed in the store takes effect before one of the same epoch
// that was decided later, of which it hears in its orders.
func TestLearntChange(t *testing.T) {
	dir := editDir(t, 100)
	store, err := shared.Open(filepath.Join(dir, "state"), shared.Options{Coordinator: true})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	p := editPlan(t, dir, learntSpec, 1, nil)
	task := p.Tasks[0]
	id := metaquery.TaskID{Task: task.Name, Gen: 1}
	env := &laterEnv{now: 1_000_000}
	i, err := executor.NewInstance(executor.InstanceConfig{
		Query: p, Task: task, Launch: metaquery.Launch{ID: id, Every: 5, Flight: 4}, Store: store, Env: env,
		Build: func(c *operators.Context) (operators.Operator, error) {
			return catalog.Build(c, catalog.Options{Limit: -1})
		},
		OpenSource: catalog.OpenSource,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer i.Close()
	none := metaquery.Tuple{Operator: "keep", Param: "condition", Value: "v < -1", Epoch: 2, Seq: 1}
	all := metaquery.Tuple{Operator: "keep", Param: "condition", Value: "v >= 0", Epoch: 2, Seq: 2}
	i.Orders(metaquery.Orders{To: id, Seq: 1, Term: 1, Plan: &metaquery.Plan{Attempt: 1, Epoch: 2, Tuples: []metaquery.Tuple{none}}})
	if _, err := store.Decide(1, true); err != nil {
		t.Fatal(err)
	}
	env.now += 10_000_000
	i.Tick() // it has waited for long, and looks for the decision
	i.Orders(metaquery.Orders{To: id, Seq: 2, Term: 1, Changes: []metaquery.Tuple{none, all}})
	for i.Report().Epoch != metaquery.LastEpoch {
		if i.Cut(context.Background()); i.Report().Failure != nil {
			t.Fatal(i.Report().Failure)
		}
	}
	text, err := os.ReadFile(filepath.Join(dir, "out.csv"))
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(text), "\n"); n != 91 { // a header, and what comes behind epoch 1 of 10 rows
		t.Errorf("%d lines, want 91", n)
	}
}
