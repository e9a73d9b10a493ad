package service

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

	"go.uber.org/goleak"

	"sluice/dataflow"
	"sluice/executor"
	"sluice/executor/state/shared"
	"sluice/executor/transport"
	"sluice/executor/worker"
	"sluice/metaquery"
	"sluice/operators"
	"sluice/operators/catalog"
	"sluice/operators/connect/file"
	"sluice/scheduler"
	"sluice/scheduler/api"
	"sluice/scheduler/local"
	"sluice/scheduler/store"
	"sluice/specs/xmlspec"
)

// workerVariable says in a child process of a test that it is a worker, with its name and where the scheduler
// listens.
const workerVariable = "SLUICE_TEST_WORKER"

func TestMain(m *testing.M) {
	if arg := os.Getenv(workerVariable); arg != "" {
		runWorker(arg)
		return
	}
	goleak.VerifyTestMain(m)
}

func runWorker(arg string) {
	id, control, _ := strings.Cut(arg, " ")
	z, err := transport.NewZMQ(transport.Options{})
	if err == nil {
		err = worker.Run(context.Background(), worker.Config{
			ID: id, Control: z, Scheduler: control, Compile: compileForWorker,
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

func compileForWorker(d *metaquery.Deploy) (*worker.Query, error) {
	p, diags, err := physical(string(d.Spec), d.Dir, d.Nodes)
	if err != nil || diags.HasErrors() {
		return nil, errors.Join(err, errors.New(diags.Error()))
	}
	tasks, err := shared.Open(d.State, shared.Options{})
	return &worker.Query{
		Physical: p, Store: tasks, OpenSource: catalog.OpenSource, Build: build,
	}, err
}

func build(o *operators.Context) (operators.Operator, error) {
	return catalog.Build(o, catalog.Options{Limit: -1, Cluster: true})
}

func physical(spec, dir string, nodes int) (*dataflow.Physical, dataflow.Diagnostics, error) {
	g, diags := xmlspec.Parse("q.xml", strings.NewReader(spec), os.LookupEnv)
	diags = append(diags, dataflow.Resolve(g, catalog.Operators)...)
	if diags.HasErrors() {
		return nil, diags, nil
	}
	g.Dir = dir
	if err := local.Spread(g, nodes); err != nil {
		return nil, nil, err
	}
	p, err := dataflow.BuildTasks(g, dataflow.TaskOptions{Network: true, Catalog: catalog.Operators})
	return p, diags, err
}

// bench is a service that runs queries on processes of this test.
type bench struct {
	*Service
	t     *testing.T
	kept  store.Store
	stop  context.CancelFunc // at once
	leave context.CancelFunc // in order
	over  chan struct{}
}

// newBench starts a service with the store and the states in root.
func newBench(t *testing.T, root string, change func(o *Options)) *bench {
	t.Helper()
	b := &bench{t: t, over: make(chan struct{})}
	kept, err := store.OpenDir(filepath.Join(root, "store"))
	if err != nil {
		t.Fatal(err)
	}
	b.kept = kept
	z, err := transport.NewZMQ(transport.Options{})
	if err != nil {
		t.Fatal(err)
	}
	sockets, err := os.MkdirTemp("", "sluice-test-")
	if err != nil {
		t.Fatal(err)
	}
	o := Options{
		Store: kept, StateRoot: filepath.Join(root, "queries"), Transport: z, Compile: b.compile, Catalog: catalog.Operators,
		URL: fmt.Sprintf("http://%p", b),
		Clusters: Local{Usual: 2, Most: 4, Dir: sockets, Command: func(id scheduler.WorkerID, control string) *exec.Cmd {
			cmd := exec.Command(os.Args[0])
			cmd.Env = append(os.Environ(), workerVariable+"="+string(id)+" "+control)
			cmd.Stderr = os.Stderr
			return cmd
		}}.Open,
	}
	if change != nil {
		change(&o)
	}
	b.Service = New(o)
	ctx, leave := context.WithCancel(context.Background())
	now, stop := context.WithCancel(context.Background())
	b.leave = leave
	b.stop = func() {
		stop()
		leave()
	}
	go func() {
		b.Run(ctx, now)
		close(b.over)
	}()
	t.Cleanup(func() {
		b.end()
		if err := errors.Join(kept.Close(), z.Close(), os.RemoveAll(sockets)); err != nil {
			t.Error(err)
		}
	})
	return b
}

// end ends the service at once.
func (b *bench) end() {
	b.stop()
	<-b.over
}

func (b *bench) compile(s *api.Submission, _ map[string]int) (*Compiled, dataflow.Diagnostics, error) {
	p, diags, err := physical(s.Spec, s.Dir, s.Workers)
	if err != nil || diags.HasErrors() {
		return nil, diags, err
	}
	var outputs []Output
	for _, op := range p.Graph.Operators {
		if op.Type == file.Writer.Name {
			outputs = append(outputs, Output{op.Name, file.OutputPlace(op.Value("path"), s.Dir)})
		}
	}
	return &Compiled{
		Outputs: outputs, Build: build, OpenSource: func(string) func(*operators.Context) (operators.Source, error) { return catalog.OpenSource },
		Config: scheduler.Config{Query: p, Every: 5, Flight: 3, Interval: 10_000, Checkpoints: true, Workers: s.Workers},
		Deploy: metaquery.Deploy{
			Spec: []byte(s.Spec), File: s.File, Dir: s.Dir, Partitions: 1, Nodes: s.Workers, Graph: p.Graph.Statements(dataflow.TermOptions{Params: true}) + p.Text(), Limit: -1,
			Fsync: s.Fsync, Transport: "tcp",
		},
	}, diags, err
}

// leads waits until this service leads.
func (b *bench) leads() {
	b.t.Helper()
	b.until("it leads", func() bool { return b.Lead() != nil })
}

func (b *bench) until(what string, so func() bool) {
	b.t.Helper()
	for end := time.Now().Add(time.Minute); !so(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			b.t.Fatalf("it never was so: %s", what)
		}
	}
}

// state waits until a query has a state.
func (b *bench) state(name, state string) *api.Query {
	b.t.Helper()
	var q *api.Query
	b.until(name+" is "+state, func() bool {
		var err error
		q, err = b.Query(b.t.Context(), name)
		return err == nil && q.State == state
	})
	return q
}

// chain is a query that reads 600 rows slowly, or follows its input, and what it writes.
func chain(t *testing.T, option string) (s *api.Submission, want string) {
	t.Helper()
	dir := t.TempDir()
	var in, out strings.Builder
	in.WriteString("a\n")
	out.WriteString("a\n")
	for i := range 600 {
		fmt.Fprintln(&in, i)
		if i > 7 {
			fmt.Fprintln(&out, i)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "in.csv"), []byte(in.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return &api.Submission{Dir: dir, Spec: `<dataflow name="chain"><type name="R"><column name="a" type="int"/></type>
  <operator name="src" type="reader"><output name="s" type="R"/><param name="path" value="in.csv"/>` + option + `</operator>
  <operator name="f" type="filter"><input name="s"/><param name="condition" value="a &gt; 7"/><output name="o"/></operator>
  <operator name="out" type="writer"><input name="o"/><param name="path" value="out.csv"/></operator></dataflow>`}, out.String()
}

const (
	slow    = `<param name="rate" value="300"/>`
	follows = `<param name="follow" value="true"/>`
)

func (b *bench) submit(s *api.Submission) *api.Query {
	b.t.Helper()
	q, err := b.Submit(b.t.Context(), s)
	if err != nil {
		b.t.Fatal(err)
	}
	return q
}

// code is the code of an error.
func code(err error) api.Code {
	var e *api.Error
	if errors.As(err, &e) {
		return e.Code
	}
	return ""
}

func compare(t *testing.T, s *api.Submission, want string) {
	t.Helper()
	got, err := os.ReadFile(filepath.Join(s.Dir, "out.csv"))
	if err != nil || string(got) != want {
		t.Errorf("%d bytes, want %d, error %v", len(got), len(want), err)
	}
}

// TestLeadershipLost: who leads no longer stops all work at once, and the other one goes on.
func TestLeadershipLost(t *testing.T) {
	root := t.TempDir()
	first := newBench(t, root, nil)
	first.leads()
	second := newBench(t, root, nil)
	s, want := chain(t, slow)
	first.submit(s)
	q := first.state("chain", api.Running)
	if _, err := second.Query(t.Context(), "chain"); code(err) != api.NoLeader {
		t.Errorf("error %v", err)
	}
	over := first.Lead()
	if err := os.Remove(filepath.Join(root, "store", "leader")); err != nil {
		t.Fatal(err)
	}
	<-over
	begin := time.Now()
	second.until("one leads", func() bool { return second.Lead() != nil || first.Lead() != nil })
	t.Logf("another leader after %v", time.Since(begin))
	leader := second
	if first.Lead() != nil {
		leader = first // it was quicker to stand again
	}
	if next := leader.state("chain", api.Running); next.Term <= q.Term {
		t.Errorf("term %d after %d", next.Term, q.Term)
	}
	leader.state("chain", api.Finished)
	compare(t, s, want)
}

// TestServiceEnds: a service that ends leaves no process, and the next one goes on.
func TestServiceEnds(t *testing.T) {
	root := t.TempDir()
	s, want := chain(t, slow)
	b := newBench(t, root, nil)
	b.leads()
	b.submit(s)
	for range 2 {
		b.state("chain", api.Running)
		b.end()
		b = newBench(t, root, nil)
		b.leads()
	}
	b.state("chain", api.Finished)
	compare(t, s, want)
}

// TestDrainIsRemembered: a query that is drained ends, also under another scheduler.
func TestDrainIsRemembered(t *testing.T) {
	root := t.TempDir()
	s, want := chain(t, follows)
	b := newBench(t, root, nil)
	b.leads()
	b.submit(s)
	b.state("chain", api.Running)
	b.until("all is written", func() bool {
		got, err := os.ReadFile(filepath.Join(s.Dir, "out.csv"))
		return err == nil && string(got) == want
	})
	q, err := b.find("chain")
	if err != nil {
		t.Fatal(err)
	}
	// As if this scheduler had ended between storing the wish and telling the shell.
	if err := q.change(t.Context(), func(r *record) { r.State = api.Draining }); err != nil {
		t.Fatal(err)
	}
	b.end()
	b = newBench(t, root, nil)
	b.leads()
	b.state("chain", api.Finished)
	compare(t, s, want)
	if _, err := b.Drain(t.Context(), "chain"); code(err) != api.QueryEnded {
		t.Errorf("error %v", err)
	}
	if _, err := b.Set(t.Context(), "chain", api.Setting{Operator: "f", Param: "condition", Value: "a > 1"}); code(err) != api.QueryEnded {
		t.Errorf("error %v", err)
	}
}

// TestCancelIsRemembered: a query that was being cancelled does not run again.
func TestCancelIsRemembered(t *testing.T) {
	root := t.TempDir()
	s, _ := chain(t, follows)
	b := newBench(t, root, nil)
	b.leads()
	b.submit(s)
	b.state("chain", api.Running)
	q, err := b.find("chain")
	if err != nil {
		t.Fatal(err)
	}
	if err := q.change(t.Context(), func(r *record) { r.State = api.Cancelling }); err != nil {
		t.Fatal(err)
	}
	b.end()
	b = newBench(t, root, nil)
	b.leads()
	b.state("chain", api.Cancelled)
	b.until("its state is removed", func() bool {
		_, err := os.Stat(q.rec.Dir)
		return errors.Is(err, os.ErrNotExist)
	})
	if _, err := b.Cancel(t.Context(), "chain"); err != nil {
		t.Error(err)
	}
	if _, err := b.Cancel(t.Context(), "chain"); code(err) != api.UnknownQuery {
		t.Errorf("error %v", err)
	}
	if left, err := b.kept.List(t.Context(), queriesPath); err != nil || len(left) > 0 {
		t.Errorf("%v, error %v", left, err)
	}
}

// TestGraphChanges: a query whose submission has another graph than it had goes on with that one. If it cannot, it
// waits, tells why, and goes on when the graph is put back.
func TestGraphChanges(t *testing.T) {
	root := t.TempDir()
	s, want := chain(t, slow)
	b := newBench(t, root, nil)
	b.leads()
	b.submit(s)
	b.state("chain", api.Running)
	b.leave()
	<-b.over
	refuses := true
	change := func(o *Options) {
		compile := o.Compile
		o.Compile = func(s *api.Submission, replicas map[string]int) (*Compiled, dataflow.Diagnostics, error) {
			other := *s
			other.Spec = strings.Replace(s.Spec, `"f"`, `"g"`, 1)
			if refuses {
				other.Spec = strings.Replace(s.Spec, "in.csv", "other.csv", 1)
			}
			return compile(&other, replicas)
		}
	}
	if err := os.WriteFile(filepath.Join(s.Dir, "other.csv"), []byte("a\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	b = newBench(t, root, change)
	b.leads()
	b.until("it tells why it waits", func() bool {
		q, err := b.Query(t.Context(), "chain")
		return err == nil && q.State == api.Starting && strings.Contains(q.Error, "is not what it was") && strings.Contains(q.Error, "another input") && len(q.Alerts) > 0
	})
	b.end()
	refuses = false
	b = newBench(t, root, change)
	b.leads()
	q := b.state("chain", api.Finished)
	compare(t, s, want)
	if e := q.Edit; e == nil || e.State != api.EditDone || !strings.Contains(e.Reason, "release has changed") {
		t.Errorf("%+v", e)
	}
}

// TestFirstFailure: a query that has never run fails if its workers cannot run; it can be forgotten.
func TestFirstFailure(t *testing.T) {
	b := newBench(t, t.TempDir(), func(o *Options) {
		o.MaxQueries = 1
		o.Clusters = Local{Usual: 1, Most: 1, Dir: t.TempDir(), Command: func(scheduler.WorkerID, string) *exec.Cmd { return exec.Command("/bin/false") }}.Open
	})
	b.leads()
	s, _ := chain(t, follows)
	b.submit(s)
	other := *s
	other.Name = "other"
	if _, err := b.Submit(t.Context(), &other); code(err) != api.TooMany {
		t.Errorf("error %v", err)
	}
	if _, err := b.Submit(t.Context(), s); code(err) != api.QueryExists {
		t.Errorf("error %v", err)
	}
	if q := b.state("chain", api.Failed); !strings.Contains(q.Error, "no worker process can run") {
		t.Errorf("%+v", q)
	}
	b.submit(&other)
	if _, err := b.Cancel(t.Context(), "other"); err != nil {
		t.Error(err)
	}
	if _, err := b.Cancel(t.Context(), "chain"); err != nil {
		t.Error(err)
	}
}

// TestPrune: of the queries that have ended the last ones are kept.
func TestPrune(t *testing.T) {
	root := t.TempDir()
	kept, err := store.OpenDir(filepath.Join(root, "store"))
	if err != nil {
		t.Fatal(err)
	}
	defer kept.Close()
	l, err := kept.Lead(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	r := newReign(t.Context(), t.Context(), New(Options{Store: kept}), l)
	for i := range mostEnded + 3 {
		q := newQuery(r, r.newID("q"))
		q.rec = record{Name: fmt.Sprint("q", i), Submission: &api.Submission{}, State: api.Finished, Ended: time.Unix(int64(1000-i), 0), Dir: filepath.Join(root, "none")}
		if err := q.change(t.Context(), func(*record) {}); err != nil {
			t.Fatal(err)
		}
		r.queries[q.rec.Name] = q
	}
	r.prune()
	ids, err := kept.List(t.Context(), queriesPath)
	if err != nil || len(ids) != mostEnded || len(r.queries) != mostEnded || r.queries["q0"] == nil || r.queries[fmt.Sprint("q", mostEnded)] != nil {
		t.Errorf("%d are stored, %d known, error %v", len(ids), len(r.queries), err)
	}
	r.end()
	if err := l.Resign(); err != nil {
		t.Error(err)
	}
}

// TestPanic: a fault that a query meets is its own.
func TestPanic(t *testing.T) {
	var none *query
	if err := guarded(func() error { return errors.New(none.id) }); err == nil || !strings.Contains(err.Error(), "a fault in the program") {
		t.Errorf("error %v", err)
	}
}
