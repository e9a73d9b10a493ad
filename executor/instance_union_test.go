package executor_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sluice/dataflow"
	"sluice/executor"
	"sluice/executor/channel"
	"sluice/executor/state/shared"
	"sluice/metaquery"
	"sluice/operators"
	"sluice/operators/catalog"
	"sluice/specs/xmlspec"
)

const unionSpec = `<dataflow name="union">
  <type name="Row"><column name="v" type="int"/></type>
  <operator name="a" type="reader"><output name="rowsA" type="Row"/><param name="path" value="in.csv"/></operator>
  <operator name="b" type="reader"><output name="rowsB" type="Row"/><param name="path" value="in.csv"/></operator>
  <operator name="both" type="union"><input name="rowsA"/><input name="rowsB"/><output name="rows"/></operator>
  <operator name="out" type="writer"><input name="rows"/><param name="path" value="out.csv"/></operator>
</dataflow>`

// diamondSpec is a query whose union reads one stream twice.
const diamondSpec = `<dataflow name="diamond">
  <type name="Row"><column name="v" type="int"/></type>
  <operator name="a" type="reader"><output name="rowsA" type="Row"/><param name="path" value="in.csv"/></operator>
  <operator name="x" type="filter"><input name="rowsA"/><param name="condition" value="v &gt;= 0"/><output name="xs"/></operator>
  <operator name="y" type="filter"><input name="rowsA"/><param name="condition" value="v &gt;= 0"/><output name="ys"/></operator>
  <operator name="both" type="union"><input name="xs"/><input name="ys"/><output name="rows"/></operator>
  <operator name="out" type="writer"><input name="rows"/><param name="path" value="out.csv"/></operator>
</dataflow>`

// unionPlan is a spec with a task for each source and one for the rest.
func unionPlan(t *testing.T, dir, spec string) *dataflow.Physical {
	t.Helper()
	g, diags := xmlspec.Parse("union.xml", strings.NewReader(spec), os.LookupEnv)
	g.Dir = dir
	if diags = append(diags, dataflow.Resolve(g, catalog.Operators)...); diags.HasErrors() {
		t.Fatal(diags)
	}
	for _, op := range g.Operators {
		label := "rest"
		if op.Desc.Source() {
			label = op.Name
		}
		op.Placement = []dataflow.Placement{{Group: "nodes", Label: label}}
	}
	p, err := dataflow.BuildTasks(g, dataflow.TaskOptions{Network: true, Catalog: catalog.Operators})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestUnionHoldsCredit: rows that wait at a union for their turn take of the credit of their channel, so the producer
// that is ahead keeps what is more.
func TestUnionHoldsCredit(t *testing.T) {
	const window = 64 << 10
	dir := editDir(t, 1)
	store, err := shared.Open(filepath.Join(dir, "state"), shared.Options{Coordinator: true})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	p := unionPlan(t, dir, unionSpec)
	env, union := &copyEnv{senders: map[string]*channel.Sender{}}, func(op *dataflow.Operator) bool { return op.Name == "both" }
	at := slices.IndexFunc(p.Tasks, func(task *dataflow.Task) bool { return slices.ContainsFunc(task.Operators, union) })
	task := p.Tasks[at]
	i, err := executor.NewInstance(executor.InstanceConfig{
		Query: p, Task: task, Launch: metaquery.Launch{ID: metaquery.TaskID{Task: task.Name, Gen: 1}, Every: 1, Flight: 4}, Store: store, Env: env,
		Build: func(c *operators.Context) (operators.Operator, error) {
			return catalog.Build(c, catalog.Options{Limit: -1})
		},
		OpenSource: catalog.OpenSource, Limits: executor.Limits{Window: window},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer i.Close()
	var slow, fast *channel.Sender
	for _, c := range p.Channels {
		if c.ToTask != task {
			continue
		}
		s := copySender(c, 1, 0)
		env.senders[c.Stream] = s
		if strings.Contains(c.Stream, "rowsA") {
			slow = s
		} else {
			fast = s
		}
	}
	if slow == nil || fast == nil {
		t.Fatalf("the channels of the union are missing:\n%s", p.Text())
	}
	talk := func() (received int) {
		for idle := false; !idle; {
			idle = true
			for name, s := range env.senders {
				for msg, ok := s.Next(); ok; msg, ok = s.Next() {
					i.Receive(name, 1, msg)
					received += len(msg)
					idle = false
				}
			}
		}
		return received
	}
	const epochs = 20
	schema := task.Operators[0].Outputs[0].Schema
	for epoch := int64(1); epoch <= epochs; epoch++ {
		send(t, fast, schema, epoch, false)
	}
	if got := talk(); got > 2*window || got < window/2 {
		t.Errorf("the union took %d bytes that it cannot work on, with a credit of %d", got, window)
	}
	for epoch := int64(1); epoch <= epochs; epoch++ {
		send(t, slow, schema, epoch, false)
	}
	talk()
	if r := i.Report(); r.Epoch != epochs || r.Received != 2*epochs*copyRows || r.Failure != nil {
		t.Errorf("the union is at epoch %d and has received %d rows, %v; want %d and %d", r.Epoch, r.Received, r.Failure, epochs, 2*epochs*copyRows)
	}
}

// TestDiamondBehindAChannel: what waits at a union for rows of the same channel must not take the credit that those
// need, however large the epoch is.
func TestDiamondBehindAChannel(t *testing.T) {
	const window = 64 << 10
	dir := editDir(t, 1)
	store, err := shared.Open(filepath.Join(dir, "state"), shared.Options{Coordinator: true})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	p := unionPlan(t, dir, diamondSpec)
	if len(p.Channels) != 1 {
		t.Fatalf("there is more than one channel:\n%s", p.Text())
	}
	c := p.Channels[0]
	env := &copyEnv{senders: map[string]*channel.Sender{c.Stream: copySender(c, 1, 0)}}
	i, err := executor.NewInstance(executor.InstanceConfig{
		Query: p, Task: c.ToTask, Launch: metaquery.Launch{ID: metaquery.TaskID{Task: c.ToTask.Name, Gen: 1}, Every: 1, Flight: 4}, Store: store, Env: env,
		Build: func(c *operators.Context) (operators.Operator, error) {
			return catalog.Build(c, catalog.Options{Limit: -1})
		},
		OpenSource: catalog.OpenSource, Limits: executor.Limits{Window: window},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer i.Close()
	s := env.senders[c.Stream]
	const batches = 20 // several times the credit
	for range batches {
		send(t, s, c.From.Outputs[0].Schema, 1, true)
	}
	if err := s.Mark(operators.Mark{Epoch: 1, Clock: 1, Watermark: 1}); err != nil {
		t.Fatal(err)
	}
	for msg, ok := s.Next(); ok; msg, ok = s.Next() {
		i.Receive(c.Stream, 1, msg)
	}
	if r := i.Report(); r.Epoch != 1 || r.Received != batches*copyRows || r.Failure != nil {
		t.Errorf("the task is at epoch %d and has received %d rows, %v; want 1 and %d", r.Epoch, r.Received, r.Failure, batches*copyRows)
	}
}
