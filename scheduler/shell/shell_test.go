package shell

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
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
	"sluice/scheduler"
	"sluice/specs/xmlspec"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// threads is a Cluster of workers inside this process. They outlive the shells.
type threads struct {
	t       *testing.T
	compile func(*metaquery.Deploy) (*worker.Query, error)
	alerts  chan string
	ended   chan Ended
	hold    chan struct{} // if not nil, workers begin when it is closed
	over    sync.WaitGroup

	mu      sync.Mutex
	control string
	workers map[scheduler.WorkerID]context.CancelFunc
	has     map[scheduler.WorkerID]dataflow.Resources
	next    int
}

func newThreads(t *testing.T, compile func(*metaquery.Deploy) (*worker.Query, error)) *threads {
	c := &threads{
		t: t, compile: compile, alerts: make(chan string, 100), ended: make(chan Ended, 100), workers: map[scheduler.WorkerID]context.CancelFunc{},
		has: map[scheduler.WorkerID]dataflow.Resources{},
	}
	t.Cleanup(func() { c.Close(0) })
	return c
}

func (c *threads) Start(capacities []dataflow.Resources) {
	for _, capacity := range capacities {
		c.mu.Lock()
		c.next++
		id := scheduler.WorkerID(fmt.Sprintf("w%d", c.next))
		ctx, cancel := context.WithCancel(context.Background())
		c.workers[id], c.has[id] = cancel, capacity
		control := c.control
		c.mu.Unlock()
		c.over.Go(func() { c.run(ctx, id, control) })
	}
}

// run is the life of a worker.
func (c *threads) run(ctx context.Context, id scheduler.WorkerID, control string) {
	if c.hold != nil {
		<-c.hold
	}
	z, err := transport.NewZMQ(transport.Options{})
	if err == nil {
		err = worker.Run(ctx, worker.Config{
			ID: string(id), Control: z, Scheduler: control, Compile: c.compile,
			Data: func(string) (transport.Transport, string, error) {
				data, err := transport.NewZMQ(transport.Options{})
				return data, "tcp://127.0.0.1:*", err
			},
			New: func(cfg executor.InstanceConfig) (worker.Instance, error) { return executor.NewInstance(cfg) },
		})
		err = errors.Join(err, z.Close())
	}
	c.mu.Lock()
	delete(c.workers, id)
	capacity := c.has[id]
	c.mu.Unlock()
	c.ended <- Ended{ID: id, Status: fmt.Sprint(err), Capacity: capacity}
}

func (c *threads) Kill(id scheduler.WorkerID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if cancel := c.workers[id]; cancel != nil {
		cancel()
		return
	}
	c.ended <- Ended{ID: id, Status: "has ended before"}
}

func (c *threads) Unable(id scheduler.WorkerID, why string) {
	c.alerts <- fmt.Sprintf("%s cannot run the query: %s", id, why)
	c.Kill(id)
}

func (c *threads) Capacity(id scheduler.WorkerID) dataflow.Resources {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.has[id]
}

func (c *threads) Known(id scheduler.WorkerID) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.workers[id] != nil
}

func (c *threads) Running() []scheduler.WorkerID {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Sorted(maps.Keys(c.workers))
}

func (c *threads) Ended() <-chan Ended                { return c.ended }
func (c *threads) Alerts() <-chan string              { return c.alerts }
func (c *threads) About(id scheduler.WorkerID) string { return "thread " + string(id) }

func (c *threads) Close(grace time.Duration) {
	late := time.AfterFunc(grace, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, cancel := range c.workers {
			cancel()
		}
	})
	c.over.Wait()
	late.Stop()
}

// bench is a query on threads.
type bench struct {
	t        *testing.T
	dir      string
	cluster  *threads
	requests chan Request
	over     chan error // of the last shell
	stop     chan scheduler.StopRequest
	o        Options

	mu       sync.Mutex
	refuse   int   // workers that cannot compile
	refusal  error // theirs, if it is not the usual one
	alerts   []string
	launched int
}

const testSpec = `<dataflow name="q"><type name="R"><column name="a" type="int"/></type>
  <operator name="src" type="reader"><output name="s" type="R"/><param name="path" value="in.csv"/><param name="follow" value="true"/></operator>
  <operator name="f" type="filter"><resources mem="1MB"/><input name="s"/><param name="condition" value="a &gt; 7"/><output name="o"/></operator>
  <operator name="out" type="writer"><input name="o"/><param name="path" value="out.csv"/></operator></dataflow>`

func newBench(t *testing.T) *bench {
	t.Helper()
	b := &bench{t: t, dir: t.TempDir(), requests: make(chan Request), stop: make(chan scheduler.StopRequest, 1)}
	if err := os.WriteFile(filepath.Join(b.dir, "in.csv"), []byte("a\n5\n50\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	b.cluster = newThreads(t, b.compile)
	b.o = Options{
		Deploy:  metaquery.Deploy{Spec: []byte(testSpec), File: "q.xml", Dir: b.dir, Partitions: 1, Nodes: 2, Limit: -1, State: filepath.Join(b.dir, "state"), Transport: "tcp"},
		Catalog: catalog.Operators, Listen: "ipc://" + filepath.Join(b.dir, "control"), Requests: b.requests, Stop: b.stop,
		Cluster: func(control string) (Cluster, error) {
			b.cluster.control = control
			return b.cluster, nil
		},
		Observer: Observer{
			Alert: func(text string) {
				b.mu.Lock()
				defer b.mu.Unlock()
				b.alerts = append(b.alerts, text)
			},
			Launched: func(*scheduler.TaskLaunch) {
				b.mu.Lock()
				defer b.mu.Unlock()
				b.launched++
			},
		},
	}
	kept, err := shared.Open(b.o.Deploy.State, shared.Options{Coordinator: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { kept.Close() })
	b.o.Store = Recorded(kept)
	q, err := b.compile(&b.o.Deploy)
	if err != nil {
		t.Fatal(err)
	}
	b.o.Config = scheduler.Config{Query: q.Physical, Every: 5, Flight: 4, Interval: 10_000, Checkpoints: true, Workers: 2}
	return b
}

func (b *bench) compile(d *metaquery.Deploy) (*worker.Query, error) {
	b.mu.Lock()
	refused := b.refuse > 0
	if refused {
		b.refuse--
	}
	b.mu.Unlock()
	if refused {
		return nil, cmp.Or(b.refusal, errors.New("this one is refused"))
	}
	g, diags := xmlspec.Parse(d.File, strings.NewReader(string(d.Spec)), os.LookupEnv)
	diags = append(diags, dataflow.Resolve(g, catalog.Operators)...)
	if diags.HasErrors() {
		return nil, diags
	}
	g.Dir = d.Dir
	for _, op := range g.Operators {
		op.Placement = []dataflow.Placement{{Group: "test", Label: op.Name, Spread: true}}
	}
	p, err := dataflow.BuildTasks(g, dataflow.TaskOptions{Network: true, Catalog: catalog.Operators})
	if err != nil {
		return nil, err
	}
	tasks, err := shared.Open(d.State, shared.Options{})
	return &worker.Query{
		Physical: p, Store: tasks, OpenSource: catalog.OpenSource,
		Build: func(o *operators.Context) (operators.Operator, error) {
			return catalog.Build(o, catalog.Options{Limit: -1, Cluster: true})
		},
	}, err
}

// run runs the shell; its end is told on the channel.
func (b *bench) run(ctx context.Context) <-chan error {
	over := make(chan error, 1)
	b.over = over
	o := b.o
	go func() {
		z, err := transport.NewZMQ(transport.Options{})
		if err != nil {
			over <- err
			return
		}
		o.Transport = z
		outcome, err := Run(ctx, o)
		if err == nil && (!outcome.Finished || outcome.Error != "") {
			err = fmt.Errorf("%+v", outcome)
		}
		over <- errors.Join(err, z.Close())
	}()
	return over
}

func (b *bench) ask(set *metaquery.Tuple) Response {
	b.t.Helper()
	answer := make(chan Response, 1)
	select {
	case b.requests <- Request{Set: set, Answer: answer}:
		return <-answer
	case err := <-b.over:
		b.t.Fatalf("the shell has ended: %v", err)
		return Response{}
	}
}

// running waits until all tasks run.
func (b *bench) running() *Status {
	b.t.Helper()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		s := b.ask(nil).Status
		n := 0
		for i := 0; s != nil && i < len(s.Tasks); i++ {
			if s.Tasks[i].State == scheduler.Running {
				n++
			}
		}
		if n == 3 {
			return s
		}
	}
	b.t.Fatal("the tasks do not run")
	return nil
}

// finish drains the query and looks at what it has written.
func (b *bench) finish(over <-chan error) {
	b.t.Helper()
	b.stop <- scheduler.StopRequest{End: true}
	if err := <-over; err != nil {
		b.t.Fatal(err)
	}
	if got, err := os.ReadFile(filepath.Join(b.dir, "out.csv")); err != nil || string(got) != "a\n50\n" {
		b.t.Errorf("output %q, error %v", got, err)
	}
}

// TestLeave: workers that are left run on, and the next shell goes on with them as they are.
func TestLeave(t *testing.T) {
	b := newBench(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	over := b.run(ctx)
	s := b.running()
	if s.About["w1"] != "thread w1" || len(s.About) != 2 {
		t.Errorf("%+v", s.About)
	}
	cancel(ErrLeave)
	if err := <-over; !errors.Is(err, ErrLeave) {
		t.Errorf("error %v", err)
	}
	if !b.cluster.Known("w1") || !b.cluster.Known("w2") {
		t.Fatal("the workers have ended")
	}
	b.launched, b.o.Adopt = 0, true
	over = b.run(t.Context())
	if next := b.running(); next.Term != s.Term+1 || next.Workers[0].Addr != s.Workers[0].Addr {
		t.Errorf("%+v after %+v", next, s)
	}
	b.finish(over)
	if b.launched > 0 || b.cluster.next != 2 {
		t.Errorf("%d launches, %d workers", b.launched, b.cluster.next)
	}
}

// TestAdoptNobody: if no worker of an earlier shell is left, others are started at once, and a wish that comes
// meanwhile is not forgotten.
func TestAdoptNobody(t *testing.T) {
	b := newBench(t)
	ctx, cancel := context.WithCancel(t.Context())
	over := b.run(ctx)
	b.running()
	cancel()
	if err := <-over; !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	waitForEver(t)
	b.o.Adopt = true
	over = b.run(t.Context())
	b.running()
	b.finish(over)
}

// waitForEver lets shells wait without end for workers of earlier ones.
func waitForEver(t *testing.T) {
	was := adoptTime
	adoptTime = time.Hour
	t.Cleanup(func() { adoptTime = was })
}

// TestAdoptTheRest: a worker that has ended together with the earlier shell is not waited for.
func TestAdoptTheRest(t *testing.T) {
	b := newBench(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	over := b.run(ctx)
	b.running()
	cancel(ErrLeave)
	if err := <-over; !errors.Is(err, ErrLeave) {
		t.Errorf("error %v", err)
	}
	b.cluster.Kill("w1")
	for b.cluster.Known("w1") {
		time.Sleep(time.Millisecond)
	}
	waitForEver(t)
	b.o.Adopt = true
	over = b.run(t.Context())
	s := b.running()
	if len(s.Workers) != 2 || s.Workers[0].ID != "w2" || s.Workers[1].ID != "w3" {
		t.Errorf("%+v", s.Workers)
	}
	b.finish(over)
}

// TestAdoptLate: if a worker that may run is not heard, the shell begins without it after some time.
func TestAdoptLate(t *testing.T) {
	b := newBench(t)
	was := adoptTime
	adoptTime = 300 * time.Millisecond
	t.Cleanup(func() { adoptTime = was })
	b.cluster.workers["w0"] = func() { b.cluster.ended <- Ended{ID: "w0"} }
	b.o.Adopt = true
	over := b.run(t.Context())
	if a := b.ask(nil); !errors.Is(a.Err, ErrUnsaved) {
		t.Errorf("%+v", a)
	}
	b.running()
	b.cluster.mu.Lock()
	delete(b.cluster.workers, "w0")
	b.cluster.mu.Unlock()
	b.finish(over)
}

// failingStore cannot save for a moment.
type failingStore struct {
	Store
	mu    sync.Mutex
	fails int
}

func (s *failingStore) Save(r *scheduler.Record) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fails > 0 {
		s.fails--
		return errors.New("no room")
	}
	return s.Store.Save(r)
}

// TestUnsaved: a core that is made again, since something could not be saved, is told of the workers that are there, and
// of what they have: it needs no others.
func TestUnsaved(t *testing.T) {
	b := newBench(t)
	store := &failingStore{Store: b.o.Store}
	b.o.Store = store
	over := b.run(t.Context())
	s := b.running()
	store.mu.Lock()
	store.fails = 2
	store.mu.Unlock()
	for end := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		if next := b.running(); next.Term > s.Term {
			break
		} else if time.Now().After(end) {
			t.Fatal("no other core is made")
		}
		b.ask(&metaquery.Tuple{Operator: "f", Param: "condition", Value: "a > 9"})
	}
	b.finish(over)
	if b.cluster.next != 2 {
		t.Errorf("%d workers were started", b.cluster.next)
	}
}

// TestUnsavedAtTheBeginning: a core that is made again while workers are being started does not ask for others.
func TestUnsavedAtTheBeginning(t *testing.T) {
	b := newBench(t)
	store := &failingStore{Store: b.o.Store}
	b.o.Store = store
	b.cluster.hold = make(chan struct{})
	over := b.run(t.Context())
	b.ask(nil)
	store.mu.Lock()
	store.fails = 1
	store.mu.Unlock()
	b.stop <- scheduler.StopRequest{End: true} // which is to be saved
	for end := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		if a := b.ask(nil); a.Err == nil && a.Status.Term > 1 {
			break
		} else if time.Now().After(end) {
			t.Fatal("no other core is made")
		}
	}
	time.Sleep(1500 * time.Millisecond) // it looks for workers for a second
	b.ask(nil)
	close(b.cluster.hold)
	if err := <-over; err != nil {
		t.Fatal(err)
	}
	if b.cluster.next != 2 {
		t.Errorf("%d workers were started", b.cluster.next)
	}
}

// TestEndIsTold: users are told how a worker has ended that nobody has killed.
func TestEndIsTold(t *testing.T) {
	b := newBench(t)
	over := b.run(t.Context())
	b.running()
	b.cluster.mu.Lock()
	end := b.cluster.workers["w2"]
	b.cluster.mu.Unlock()
	end() // its error is how it has ended
	for end := time.Now().Add(time.Minute); !b.cluster.Known("w3"); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the worker is not replaced")
		}
	}
	b.finish(over)
	if all, want := strings.Join(b.alerts, "\n"), "worker w2 has ended: context canceled"; strings.Count(all, want) != 1 {
		t.Errorf("not once %q in:\n%s", want, all)
	}
}

// TestSettings: they are checked before the core gets them.
func TestSettings(t *testing.T) {
	b := newBench(t)
	over := b.run(t.Context())
	b.running()
	if a := b.ask(&metaquery.Tuple{Operator: "f", Param: "condition", Value: "a > 9"}); a.Err != nil || a.Epoch == 0 {
		t.Errorf("%+v", a)
	}
	if a := b.ask(&metaquery.Tuple{Operator: "f", Param: "condition", Value: "b > 9"}); a.Err == nil || errors.Is(a.Err, ErrUnsaved) {
		t.Errorf("%+v", a)
	}
	b.finish(over)
}
