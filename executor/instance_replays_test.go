package executor_test

import (
	"context"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"sluice/executor"
	"sluice/executor/state/shared"
	"sluice/metaquery"
	"sluice/operators"
	"sluice/operators/catalog"
)

// openLone opens the first instance of a task of a query in dir.
func openLone(t *testing.T, dir, spec, task string) *executor.Instance {
	t.Helper()
	store, err := shared.Open(filepath.Join(dir, "state"), shared.Options{Coordinator: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	p := editPlan(t, dir, spec, 1, nil)
	i, err := executor.NewInstance(executor.InstanceConfig{
		Query: p, Task: p.Task(task), Launch: metaquery.Launch{ID: metaquery.TaskID{Task: task, Gen: 1}, Every: 5, Flight: 4}, Store: store, Env: &loneEnv{},
		Build: func(c *operators.Context) (operators.Operator, error) {
			return catalog.Build(c, catalog.Options{Limit: -1})
		},
		OpenSource: catalog.OpenSource,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { i.Close() })
	return i
}

// TestReplays: tasks say whether another instance loses and doubles nothing: not with a source that reads a pipe, nor with
// a sink that writes to one.
func TestReplays(t *testing.T) {
	for _, c := range []struct {
		from, to string
		want     bool
	}{
		{`"in.csv"`, `"in.csv"`, true},
		{`"in.csv"`, `"pipe.csv"`, false},
		{`"out.csv"`, `"out.csv"`, true},
		{`"out.csv"`, `"parts/"`, true},
		{`"out.csv"`, `"pipe.csv"`, false},
	} {
		t.Run(c.from+" "+c.to, func(t *testing.T) {
			dir := editDir(t, 10)
			if err := syscall.Mkfifo(filepath.Join(dir, "pipe.csv"), 0o600); err != nil {
				t.Fatal(err)
			}
			end, err := syscall.Open(filepath.Join(dir, "pipe.csv"), syscall.O_RDWR|syscall.O_NONBLOCK, 0) // the other end
			if err != nil {
				t.Fatal(err)
			}
			defer syscall.Close(end)
			i := openLone(t, dir, strings.Replace(waitsSpec, c.from, c.to, 1), "in")
			if got := i.Report().Replays; got != c.want {
				t.Errorf("%v, want %v", got, c.want)
			}
		})
	}
}

// TestRate: the rate of a source is that of the last orders. At the first one it would take minutes.
func TestRate(t *testing.T) {
	spec := strings.Replace(waitsSpec, `value="10"/>`, `value="10"/><param name="rate" value="0.5"/>`, 1)
	i := openLone(t, editDir(t, 100), spec, "in")
	i.Orders(metaquery.Orders{To: metaquery.TaskID{Task: "in", Gen: 1}, Term: 1, Seq: 1, Now: []metaquery.Tuple{{Operator: "in", Param: metaquery.Rate, Value: "0", Seq: 1}}})
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	rows := func() int64 { return i.Report().Operators[0].Out }
	for rows() < 40 && ctx.Err() == nil { // four epochs: then the first of them have to be part of a checkpoint
		time.Sleep(max(0, i.Cut(ctx)))
	}
	if rows() < 40 {
		t.Errorf("%d rows: %+v", rows(), i.Report())
	}
}
