package local

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sluice/dataflow"
	"sluice/executor"
	"sluice/executor/state/shared"
	"sluice/executor/transport"
	"sluice/executor/worker"
	"sluice/metaquery"
	"sluice/operators"
	"sluice/operators/catalog"
	"sluice/scheduler"
	"sluice/scheduler/shell"
	"sluice/specs/xmlspec"
)

// compileTest is how parent and workers of these tests compile a query.
func compileTest(d *metaquery.Deploy) (*worker.Query, error) {
	if d.File == "refused" {
		return nil, errors.New("this one is refused")
	}
	g, diags := xmlspec.Parse(d.File, strings.NewReader(string(d.Spec)), os.LookupEnv)
	diags = append(diags, dataflow.Resolve(g, catalog.Operators)...)
	if diags.HasErrors() {
		return nil, diags
	}
	g.Dir = d.Dir
	if err := Spread(g, d.Nodes); err != nil {
		return nil, err
	}
	p, err := dataflow.BuildTasks(g, dataflow.TaskOptions{Network: true, Catalog: catalog.Operators})
	if err != nil {
		return nil, err
	}
	store, err := shared.Open(d.State, shared.Options{})
	return &worker.Query{
		Physical: p, Store: store, OpenSource: catalog.OpenSource,
		Build: func(o *operators.Context) (operators.Operator, error) {
			return catalog.Build(o, catalog.Options{Limit: -1, Cluster: true})
		},
	}, err
}

// runTestWorker is the life of a worker process; arg is its name and where the scheduler listens.
func runTestWorker(arg string) {
	id, control, _ := strings.Cut(arg, " ")
	z, err := transport.NewZMQ(transport.Options{})
	if err == nil {
		err = worker.Run(context.Background(), worker.Config{
			ID: id, Control: z, Scheduler: control, Compile: compileTest,
			Data: func(string) (transport.Transport, string, error) {
				data, err := transport.NewZMQ(transport.Options{})
				return data, "tcp://127.0.0.1:*", err
			},
			New: func(c executor.InstanceConfig) (worker.Instance, error) { return executor.NewInstance(c) },
		})
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// testRun is a query of rows rows that is ready to be run.
type testRun struct {
	dir  string
	o    Options
	want string
}

func newTestRun(t *testing.T, rows int) *testRun {
	t.Helper()
	dir := t.TempDir()
	var in, want strings.Builder
	in.WriteString("a\n")
	want.WriteString("a\n")
	for i := range rows {
		fmt.Fprintln(&in, i-5)
		if i > 5 {
			fmt.Fprintln(&want, i-5)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "in.csv"), []byte(in.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	state := filepath.Join(dir, "state")
	store, err := shared.Open(state, shared.Options{Coordinator: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	r := &testRun{dir: dir, want: want.String()}
	r.o = Options{
		Deploy: metaquery.Deploy{
			Spec: []byte(strings.Replace(chainSpec(2), `value="in.csv"/>`, `value="in.csv"/><param name="epoch-rows" value="100"/>`, 1)),
			File: "q.xml", Dir: dir, Partitions: 1, Nodes: 3, Limit: -1, State: state,
		},
		Catalog: catalog.Operators, Store: shell.Recorded(store), Listen: "ipc://" + filepath.Join(dir, "control"), Tag: "t",
		Command: func(id scheduler.WorkerID, control string) *exec.Cmd {
			return child("worker:" + string(id) + " " + control)
		},
		Alert: func(text string) { t.Log(text) },
	}
	q, err := compileTest(&r.o.Deploy)
	if err != nil {
		t.Fatal(err)
	}
	r.o.Config = scheduler.Config{Query: q.Physical, Every: 5, Flight: 3, Checkpoints: true, Workers: 3}
	z, err := transport.NewZMQ(transport.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { z.Close() })
	r.o.Transport = z
	return r
}

// finish runs the query and compares what it writes.
func (r *testRun) finish(t *testing.T) {
	t.Helper()
	outcome, err := Run(t.Context(), r.o)
	if err != nil || !outcome.Finished || outcome.Error != "" {
		t.Fatalf("%+v, error %v", outcome, err)
	}
	got, err := os.ReadFile(filepath.Join(r.dir, "out.csv"))
	if err != nil || string(got) != r.want {
		t.Errorf("%d bytes, want %d, error %v", len(got), len(r.want), err)
	}
}

func TestRun(t *testing.T) {
	r := newTestRun(t, 3000)
	rows := map[string]int64{}
	r.o.Reported = func(_ scheduler.WorkerID, m *metaquery.Report) {
		for _, o := range m.Operators {
			rows[o.Name] = o.Out
		}
	}
	r.finish(t)
	if rows["src"] != 3000 || rows["out"] != 2994 {
		t.Errorf("rows %v", rows)
	}
}

// failing is a Store that often cannot do what it is asked to.
type failing struct {
	shell.Store
	calls, begins int
}

var errFailing = errors.New("disk full")

func (f *failing) fail() error {
	if f.calls++; f.calls%4 == 2 {
		return errFailing
	}
	return nil
}

func (f *failing) Begin() (*scheduler.Record, error) {
	if f.begins++; f.begins%3 == 2 {
		return nil, errFailing
	}
	return f.Store.Begin()
}

func (f *failing) Save(r *scheduler.Record) error {
	if err := f.fail(); err != nil {
		return err
	}
	return f.Store.Save(r)
}

func (f *failing) Decide(attempt int64, commit bool) (bool, error) {
	if err := f.fail(); err != nil {
		return false, err
	}
	return f.Store.Decide(attempt, commit)
}

// TestStoreFails: when the record cannot be saved, another core goes on from what was saved.
func TestStoreFails(t *testing.T) {
	r := newTestRun(t, 3000)
	f := &failing{Store: r.o.Store}
	r.o.Store = f
	r.finish(t)
	if f.begins < 3 {
		t.Errorf("%d cores", f.begins)
	}
}

// TestNoWorker: a query whose workers cannot run ends.
func TestNoWorker(t *testing.T) {
	r := newTestRun(t, 10)
	command := r.o.Command
	r.o.Command = func(scheduler.WorkerID, string) *exec.Cmd { return child("exit") }
	var alerts []string
	r.o.Alert = func(text string) { alerts = append(alerts, text) }
	defer func() {
		want := []string{"t has ended: exit status 3", "t has ended: exit status 3; 2 in a row have ended soon after their start, so the next one waits"}
		if len(alerts) != 5 || !strings.HasSuffix(alerts[0], want[0]) || !strings.HasSuffix(alerts[1], want[1]) {
			t.Errorf("alerts %q", alerts)
		}
	}()
	if _, err := Run(t.Context(), r.o); err == nil || !strings.Contains(err.Error(), `no worker process can run: 5 of them have ended at once, the last with "exit status 3"`) {
		t.Errorf("error %v", err)
	}
	r.o.Command, r.o.Deploy.File = command, "refused"
	if _, err := Run(t.Context(), r.o); err == nil || !strings.Contains(err.Error(), "cannot run the query: this one is refused") {
		t.Errorf("error %v", err)
	}
}

// TestRunRequests: requests are answered, and a run that is cancelled leaves no process.
func TestRunRequests(t *testing.T) {
	r := newTestRun(t, 100000)
	requests := make(chan Request)
	r.o.Requests = requests
	r.o.Deploy.Spec = []byte(strings.Replace(string(r.o.Deploy.Spec), `value="in.csv"/>`, `value="in.csv"/><param name="rate" value="100"/>`, 1))
	q, err := compileTest(&r.o.Deploy)
	if err != nil {
		t.Fatal(err)
	}
	r.o.Config.Query, r.o.Config.Interval = q.Physical, 10_000
	ctx, cancel := context.WithCancel(t.Context())
	over := make(chan error, 1)
	go func() {
		_, err := Run(ctx, r.o)
		over <- err
	}()
	ask := func(q Request) Response {
		answer := make(chan Response, 1)
		q.Answer = answer
		requests <- q
		return <-answer
	}
	text := ""
	for begin := time.Now(); strings.Count(text, ": running") < 3; time.Sleep(10 * time.Millisecond) {
		if text = ask(Request{Query: "chain", Status: true}).Text; time.Since(begin) > time.Minute {
			t.Fatalf("not running:\n%s", text)
		}
	}
	if a := ask(Request{Set: &SetRequest{"f1", "condition", "a > 3"}}); a.Error != "" || a.Epoch == 0 {
		t.Errorf("%+v", a)
	}
	if a := ask(Request{Set: &SetRequest{"src", "rate", "200"}}); a.Error != "" || a.Epoch != 0 {
		t.Errorf("%+v", a)
	}
	for want, q := range map[string]Request{
		"the query that runs here is":    {Query: "other", Status: true},
		"a request is either":            {},
		"the query has no operator":      {Set: &SetRequest{"x", "condition", "a > 3"}},
		"cannot be set while the query ": {Set: &SetRequest{"src", "path", "x"}},
	} {
		if a := ask(q); !strings.Contains(a.Error, want) {
			t.Errorf("%+v, want %s", a, want)
		}
	}
	var workers []int
	for line := range strings.Lines(text) {
		var pid int
		if n, _ := fmt.Sscanf(line, "process %d:", &pid); n == 1 {
			workers = append(workers, pid)
		}
	}
	cancel()
	if err := <-over; !errors.Is(err, context.Canceled) || len(workers) != 3 {
		t.Errorf("workers %v, error %v", workers, err)
	}
	for _, pid := range workers {
		if alive(pid) {
			t.Errorf("process %d is alive", pid)
		}
	}
}
