package executor_test

import (
	"context"
	"path/filepath"
	"testing"

	"sluice/executor"
	"sluice/executor/state/shared"
	"sluice/metaquery"
	"sluice/operators"
	"sluice/operators/catalog"
)

const stopSpec = `<dataflow name="stop">
  <type name="Row"><column name="t" type="timestamp" eventtime="true"/><column name="k" type="int"/><column name="v" type="int"/></type>
  <operator name="a" type="reader"><output name="rowsA" type="Row"/><param name="path" value="in.csv"/><param name="epoch-rows" value="10"/></operator>
  <operator name="b" type="reader"><output name="rowsB" type="Row"/><param name="path" value="in.csv"/><param name="epoch-rows" value="10"/></operator>
  <operator name="both" type="union"><input name="rowsA"/><input name="rowsB"/><output name="rows"/></operator>
  <operator name="out" type="writer"><input name="rows"/><param name="path" value="out.csv"/></operator>
</dataflow>`

// TestStopOfTwoSources: while one source of a task has stopped where it was told to and the other one has not yet,
// the report does not look as if the first had gone too far; else the epoch of the stop is moved ahead again and again.
func TestStopOfTwoSources(t *testing.T) {
	dir := editDir(t, 1000)
	store, err := shared.Open(filepath.Join(dir, "state"), shared.Options{Coordinator: true})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	p := editPlan(t, dir, stopSpec, 1, nil)
	task := p.Tasks[0]
	id := metaquery.TaskID{Task: task.Name, Gen: 1}
	i, err := executor.NewInstance(executor.InstanceConfig{
		Query: p, Task: task, Launch: metaquery.Launch{ID: id, Every: 5, Flight: 4}, Store: store, Env: &loneEnv{},
		Build: func(c *operators.Context) (operators.Operator, error) {
			return catalog.Build(c, catalog.Options{Limit: -1})
		},
		OpenSource: catalog.OpenSource,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer i.Close()
	i.Cut(context.Background())
	i.Cut(context.Background())
	const stop = 10
	i.Orders(metaquery.Orders{To: id, Seq: 1, Term: 1, Stop: stop})
	for k, want := range []struct {
		stopped bool
		cut     int64
	}{{false, 1}, {false, 1}, {true, stop}} {
		if k > 0 {
			i.Cut(context.Background())
		}
		if r := i.Report(); r.Stopped != want.stopped || r.Cut != want.cut {
			t.Errorf("after %d sources: stopped %t, cut %d; want %t, %d", k, r.Stopped, r.Cut, want.stopped, want.cut)
		}
	}
}
