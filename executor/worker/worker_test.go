package worker

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"sluice/dataflow"
	"sluice/executor"
	"sluice/executor/transport"
	"sluice/metaquery"
	"sluice/operators"
	"sluice/operators/catalog"
	"sluice/specs/xmlspec"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const twoTasks = `<dataflow name="q">
  <type name="R"><column name="a" type="int"/></type>
  <operator name="src" type="reader"><output name="rows" type="R"/><param name="path" value="in.csv"/></operator>
  <operator name="out" type="writer"><input name="rows"/><param name="path" value="out.csv"/></operator>
</dataflow>`

// twoTaskQuery has the tasks src and out and one channel.
func twoTaskQuery(t *testing.T) *dataflow.Physical {
	t.Helper()
	g, diags := xmlspec.Parse("q.xml", strings.NewReader(twoTasks), os.LookupEnv)
	diags = append(diags, dataflow.Resolve(g, catalog.Operators)...)
	if diags.HasErrors() {
		t.Fatal(diags)
	}
	for _, op := range g.Operators {
		op.Placement = []dataflow.Placement{{Group: "g", Label: op.Name}}
	}
	p, err := dataflow.BuildTasks(g, dataflow.TaskOptions{Network: true, Catalog: catalog.Operators})
	if err != nil || len(p.Tasks) != 2 || len(p.Channels) != 1 {
		t.Fatalf("%+v, error %v", p, err)
	}
	return p
}

// fake is an instance that says what happens to it. As src it sends "hello" at each tick to where orders
// say; as out it answers.
type fake struct {
	r      *rig
	env    executor.Env
	id     metaquery.TaskID
	orders metaquery.Orders
}

func (f *fake) note(format string, args ...any) {
	f.r.note(fmt.Sprintf("%s/%d ", f.id.Task, f.id.Gen) + fmt.Sprintf(format, args...))
}

func (f *fake) Hears(string, int64) bool { return true }

func (f *fake) Receive(channel string, gen int64, msg []byte) {
	f.note("received %s from generation %d", msg, gen)
	if string(msg) == "poison" {
		var none *fake
		none.env = nil
	}
	f.env.Reply(channel, []byte("welcome"))
}

func (f *fake) Message(_ string, msg []byte) { f.note("answered %s", msg) }
func (f *fake) Connected(string)             { f.note("connected") }
func (f *fake) Flush(string)                 { f.note("flush") }

func (f *fake) Orders(o metaquery.Orders) {
	f.orders = o
	for _, t := range o.Now {
		switch t.Param {
		case metaquery.TargetAddr:
			f.env.Dial(f.r.channel, t.Value)
		case "send":
			f.env.Send(f.r.channel, []byte(t.Value))
		case "work":
			f.env.Background(func() error { <-f.r.work; return errors.New(t.Value) }, func(err error) { f.note("worked: %v", err) })
		}
	}
	f.env.Changed()
}

func (f *fake) Tick() {
	f.note("tick")
	if f.id.Task == "src" {
		f.env.Send(f.r.channel, []byte("hello"))
	}
}

func (f *fake) Cut(context.Context) time.Duration { return -1 }
func (f *fake) Close() error                      { f.note("closed"); return nil }

func (f *fake) Report() metaquery.Report {
	return metaquery.Report{From: f.id, Term: f.orders.Term, Obeyed: f.orders.Seq}
}

// rig is a scheduler in a test's hands.
type rig struct {
	t       *testing.T
	query   *dataflow.Physical
	channel string
	control *transport.ZMQ
	addr    string
	work    chan struct{}
	compile error
	launch  func(metaquery.TaskID) error

	mu    sync.Mutex
	notes []string
	alive map[string]metaquery.Alive
	hello map[string]metaquery.Hello
	last  map[metaquery.TaskID]metaquery.Report
	conns map[string]transport.Conn
}

func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{
		t: t, query: twoTaskQuery(t), work: make(chan struct{}),
		alive: map[string]metaquery.Alive{}, hello: map[string]metaquery.Hello{},
		last: map[metaquery.TaskID]metaquery.Report{}, conns: map[string]transport.Conn{},
	}
	r.channel = r.query.Channels[0].Stream
	var err error
	if r.control, err = transport.NewZMQ(transport.Options{}); err != nil {
		t.Fatal(err)
	}
	l, err := r.control.Listen("tcp://127.0.0.1:*", r)
	if err != nil {
		t.Fatal(err)
	}
	r.addr = l.Addr()
	t.Cleanup(func() { r.control.Close() })
	return r
}

// Message implements transport.Handler.
func (r *rig) Message(channel string, _ int64, msg []byte, back transport.Conn) {
	m, err := metaquery.DecodeToScheduler(msg)
	if err != nil {
		r.t.Error(err)
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	id, _ := ControlWorker(channel)
	r.conns[id] = back
	switch {
	case m.Hello != nil:
		r.hello[m.Hello.Worker] = *m.Hello
	case m.Alive != nil:
		r.alive[m.Alive.Worker] = *m.Alive
	case m.Report.Seq <= r.last[m.Report.From].Seq:
		r.t.Errorf("report %d of %v after %d", m.Report.Seq, m.Report.From, r.last[m.Report.From].Seq)
	default:
		r.last[m.Report.From] = *m.Report
	}
}

func (r *rig) note(text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.notes = append(r.notes, text)
}

// count is how often something has happened.
func (r *rig) count(text string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := 0
	for _, have := range r.notes {
		if have == text {
			n++
		}
	}
	return n
}

func (r *rig) wait(what string, is func() bool) {
	r.t.Helper()
	for begin := time.Now(); time.Since(begin) < 10*time.Second; time.Sleep(2 * time.Millisecond) {
		r.mu.Lock()
		ok := is()
		r.mu.Unlock()
		if ok {
			return
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.t.Fatalf("no %s; alive %v, hello %v, reports %v, notes %q", what, r.alive, r.hello, r.last, r.notes)
}

func (r *rig) waitFor(text string) {
	r.t.Helper()
	r.wait(text, func() bool { return slices.Contains(r.notes, text) })
}

func (r *rig) tell(worker string, m metaquery.ToWorker) {
	r.t.Helper()
	text, err := m.Encode()
	if err != nil {
		r.t.Fatal(err)
	}
	r.mu.Lock()
	back := r.conns[worker]
	r.mu.Unlock()
	if err := back.Send(text); err != nil {
		r.t.Fatal(err)
	}
}

// start runs a worker; its error comes on the channel.
func (r *rig) start(ctx context.Context, id string, silence time.Duration) chan error {
	r.t.Helper()
	control, err := transport.NewZMQ(transport.Options{})
	if err != nil {
		r.t.Fatal(err)
	}
	over := make(chan error, 1)
	go func() {
		err := Run(ctx, Config{
			ID: id, Control: control, Scheduler: r.addr, Silence: silence, Log: func(text string) { r.note(text) },
			Data: func(name string) (transport.Transport, string, error) {
				z, err := transport.NewZMQ(transport.Options{})
				return z, name, err
			},
			Compile: func(*metaquery.Deploy) (*Query, error) {
				return &Query{Physical: r.query, Limits: executor.Limits{SpillDir: r.t.TempDir()}}, r.compile
			},
			New: func(c executor.InstanceConfig) (Instance, error) {
				f := &fake{r: r, env: c.Env, id: c.Launch.ID}
				if r.launch != nil {
					return f, r.launch(f.id)
				}
				f.Orders(c.Launch.Orders)
				return f, nil
			},
		})
		over <- errors.Join(err, control.Close())
	}()
	return over
}

// ready starts a worker and deploys to it.
func (r *rig) ready(ctx context.Context, id string) chan error {
	r.t.Helper()
	over := r.start(ctx, id, 0)
	r.wait("hello of "+id, func() bool { return r.hello[id].PID == os.Getpid() })
	r.deploy(id)
	r.wait(id+" alive", func() bool { return r.alive[id].Addr != "" })
	return over
}

func (r *rig) deploy(id string) {
	r.t.Helper()
	r.tell(id, metaquery.ToWorker{Deploy: &metaquery.Deploy{Partitions: 1, Nodes: 1, Transport: "tcp://127.0.0.1:*"}})
}

func (r *rig) run(worker, task string, gen int64, now ...metaquery.Tuple) metaquery.TaskID {
	r.t.Helper()
	id := metaquery.TaskID{Task: task, Gen: gen}
	r.tell(worker, metaquery.ToWorker{Launch: &metaquery.Launch{ID: id, Every: 1, Orders: metaquery.Orders{To: id, Now: now}}})
	return id
}

func (r *rig) order(worker string, id metaquery.TaskID, seq int64, now ...metaquery.Tuple) {
	r.t.Helper()
	r.tell(worker, metaquery.ToWorker{Orders: &metaquery.Orders{To: id, Seq: seq, Term: 1, Now: now}})
}

func set(param, value string) metaquery.Tuple {
	return metaquery.Tuple{Operator: "netwriter.rows", Param: param, Value: value}
}

// stop ends a worker as the scheduler does.
func (r *rig) stop(worker string, over chan error) {
	r.t.Helper()
	r.tell(worker, metaquery.ToWorker{Exit: true})
	for {
		select {
		case err := <-over:
			if err != nil {
				r.t.Error(err)
			}
			return
		case <-time.After(10 * time.Millisecond):
			r.tell(worker, metaquery.ToWorker{Exit: true})
		}
	}
}

// TestChannels: what a task sends gets to the consumer, wherever that runs, and the answer comes back.
func TestChannels(t *testing.T) {
	for _, there := range []string{"w1", "w2"} {
		r := newRig(t)
		w1, w2 := r.ready(t.Context(), "w1"), r.ready(t.Context(), "w2")
		r.run("w1", "src", 3, set(metaquery.TargetAddr, r.alive[there].Addr))
		r.waitFor("src/3 connected")
		if r.count("src/3 answered welcome") > 0 {
			t.Error("there is an answer before there is a consumer")
		}
		r.run(there, "out", 1)
		r.waitFor("out/1 received hello from generation 3")
		r.waitFor("src/3 answered welcome")
		r.stop("w1", w1)
		r.stop("w2", w2)
		for _, text := range []string{"src/3 closed", "out/1 closed"} {
			if r.count(text) != 1 {
				t.Errorf("%s %d times", text, r.count(text))
			}
		}
	}
}

// TestHighestGeneration: messages go to the highest generation, and after its end to the one below. An
// instance that has ended is not launched again.
func TestHighestGeneration(t *testing.T) {
	r := newRig(t)
	over := r.ready(t.Context(), "w")
	r.run("w", "src", 1, set(metaquery.TargetAddr, r.alive["w"].Addr))
	old := r.run("w", "out", 5)
	r.waitFor("out/5 received hello from generation 1")
	next := r.run("w", "out", 6)
	r.run("w", "out", 6) // comes twice
	r.waitFor("out/6 received hello from generation 1")
	r.tell("w", metaquery.ToWorker{End: &next})
	r.waitFor("out/6 closed")
	r.run("w", "out", 6)
	was := r.count("out/5 received hello from generation 1")
	r.wait("more for the old one", func() bool {
		n := 0
		for _, text := range r.notes {
			if text == "out/5 received hello from generation 1" {
				n++
			}
		}
		return n > was
	})
	r.wait("what is alive", func() bool {
		return len(r.alive["w"].Tasks) == 2 && slices.Contains(r.alive["w"].Tasks, old) && !slices.Contains(r.alive["w"].Tasks, next)
	})
	r.stop("w", over)
	if r.count("out/6 closed") != 1 {
		t.Error("an instance that had ended was launched again")
	}
}

// TestReports: obeyed orders are reported at once, and everything is repeated.
func TestReports(t *testing.T) {
	r := newRig(t)
	over := r.ready(t.Context(), "w")
	id := r.run("w", "out", 1)
	for seq := range int64(20) {
		r.order("w", id, seq+1)
		r.wait("report", func() bool { return r.last[id].Obeyed == seq+1 && r.last[id].Term == 1 })
	}
	seq := r.last[id].Seq
	r.wait("repetition", func() bool { return r.last[id].Seq >= seq+2 })
	r.stop("w", over)
}

// TestPanic: a fault in one instance is its task's failure.
func TestPanic(t *testing.T) {
	r := newRig(t)
	over := r.ready(t.Context(), "w")
	src := r.run("w", "src", 1, set(metaquery.TargetAddr, r.alive["w"].Addr))
	out := r.run("w", "out", 1)
	r.waitFor("src/1 answered welcome")
	r.order("w", src, 1, set("send", "poison"))
	r.wait("failure", func() bool {
		f := r.last[out].Failure
		return f != nil && !f.Input && strings.Contains(f.Error, "nil pointer") && strings.Contains(f.Error, "worker_test.go")
	})
	seq := r.last[out].Seq
	r.wait("repetition", func() bool { return r.last[out].Seq > seq })
	r.order("w", src, 2)
	r.wait("report of the other task", func() bool { return r.last[src].Obeyed == 2 })
	r.tell("w", metaquery.ToWorker{End: &out})
	r.waitFor("out/1 closed")
	r.stop("w", over)
}

// TestLaunchFails: why an instance could not begin is reported until it is ended.
func TestLaunchFails(t *testing.T) {
	r := newRig(t)
	r.launch = func(id metaquery.TaskID) error {
		switch id.Gen {
		case 1:
			return &operators.InputError{Err: errors.New("no such file")}
		case 2:
			return &executor.RetryError{Err: errors.New("disk full")}
		}
		return errors.New("bad state")
	}
	over := r.ready(t.Context(), "w")
	one, two, three := r.run("w", "out", 1), r.run("w", "out", 2), r.run("w", "out", 3)
	r.wait("reports", func() bool {
		f, g := r.last[one].Failure, r.last[three].Failure
		return f != nil && f.Input && f.Error == "no such file" && g != nil && !g.Input && g.Error == "bad state" && r.last[two].Retry == "disk full"
	})
	r.stop("w", over)
}

// TestBackground: an instance does not wait for its background work, nor for that of others.
func TestBackground(t *testing.T) {
	r := newRig(t)
	over := r.ready(t.Context(), "w")
	id := r.run("w", "out", 1)
	many := slices.Repeat([]metaquery.Tuple{set("work", "done")}, 3*backgroundWork)
	r.order("w", id, 1, many...)
	r.wait("report", func() bool { return r.last[id].Obeyed == 1 })
	ticks := r.count("out/1 tick")
	r.wait("ticks meanwhile", func() bool {
		n := 0
		for _, text := range r.notes {
			if text == "out/1 tick" {
				n++
			}
		}
		return n > ticks+2
	})
	if r.count("out/1 worked: done") > 0 {
		t.Error("work is done before it is")
	}
	close(r.work)
	r.wait("end of all work", func() bool {
		n := 0
		for _, text := range r.notes {
			if text == "out/1 worked: done" {
				n++
			}
		}
		return n == len(many)
	})
	r.stop("w", over)
}

// TestEnds: a worker ends without its scheduler, and when it is told to; a query that it cannot compile is
// told.
func TestEnds(t *testing.T) {
	r := newRig(t)
	if err := <-r.start(t.Context(), "silent", 300*time.Millisecond); !errors.Is(err, ErrSilent) {
		t.Errorf("a worker that hears nothing: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	over := r.ready(ctx, "cancelled")
	r.run("cancelled", "out", 1)
	r.waitFor("out/1 tick")
	cancel()
	if err := <-over; !errors.Is(err, context.Canceled) || r.count("out/1 closed") != 1 {
		t.Errorf("a cancelled worker: %v", err)
	}
	r.compile = errors.New("no such rule")
	over = r.start(t.Context(), "bad", 0)
	r.wait("hello", func() bool { return r.hello["bad"].Worker != "" })
	r.deploy("bad")
	r.wait("error", func() bool { return r.hello["bad"].Error == "no such rule" && !r.hello["bad"].Final })
	r.run("bad", "out", 1)
	r.stop("bad", over)
	r.compile = fmt.Errorf("compiling: %w", &EverywhereError{errors.New("no spec")})
	over = r.start(t.Context(), "worse", 0)
	r.wait("hello", func() bool { return r.hello["worse"].Worker != "" })
	r.deploy("worse")
	r.wait("error", func() bool { return r.hello["worse"].Error == "compiling: no spec" && r.hello["worse"].Final })
	r.stop("worse", over)
}

// TestAnotherRelease: a scheduler of another release is not obeyed, and what it says is no sign of life. The worker says why
// it ends, and logs it once.
func TestAnotherRelease(t *testing.T) {
	r := newRig(t)
	over := r.start(t.Context(), "w", time.Second)
	r.wait("hello", func() bool { return r.hello["w"].Worker != "" })
	r.mu.Lock()
	back := r.conns["w"]
	r.mu.Unlock()
	for begin := time.Now(); time.Since(begin) < 10*time.Second; time.Sleep(20 * time.Millisecond) {
		_ = back.Send([]byte(`v0 {"exit":true}`)) // it may have ended
		select {
		case err := <-over:
			var other *metaquery.VersionError
			if !errors.Is(err, ErrSilent) || !errors.As(err, &other) {
				t.Errorf("error %v", err)
			}
			if len(r.notes) != 1 || !strings.Contains(r.notes[0], "version 0 of the control stream") {
				t.Errorf("notes %q", r.notes)
			}
			return
		default:
		}
	}
	t.Error("a scheduler of another release keeps the worker alive")
}

// refusing takes as many messages as it is told.
type refusing struct {
	takes int
	sent  []string
}

func (c *refusing) Send(msg []byte) error {
	if c.takes == 0 {
		return transport.ErrFull
	}
	c.takes--
	c.sent = append(c.sent, string(msg))
	return nil
}

func (c *refusing) Close() error { return nil }

// TestReplies: replies that are not taken wait, in order, for as long as their connection is the last one.
func TestReplies(t *testing.T) {
	first, second := &refusing{takes: 1}, &refusing{takes: 1}
	h := &host{inputs: map[string]*input{"c": {}}}
	h.Reply("unheard", []byte("x"))
	h.inputs["c"].from(first)
	for _, text := range []string{"a", "b", "c"} {
		h.Reply("c", []byte(text))
	}
	first.takes = 1
	if !h.retry() || !slices.Equal(first.sent, []string{"a", "b"}) {
		t.Errorf("sent %q", first.sent)
	}
	h.inputs["c"].from(second)
	h.Reply("c", []byte("d"))
	if h.retry() || !slices.Equal(second.sent, []string{"d"}) {
		t.Errorf("sent %q", second.sent)
	}
	for i := range maxReplies + 10 {
		h.Reply("c", fmt.Append(nil, i))
	}
	second.takes = 1000
	if h.retry() || len(second.sent) != 1+maxReplies || second.sent[1] != "10" {
		t.Errorf("sent %d, the first %q", len(second.sent), second.sent[1])
	}
}
