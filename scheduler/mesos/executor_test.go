package mesos

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"sluice/dataflow"
	"sluice/executor/mesos"
	"sluice/executor/transport"
	"sluice/internal/fakemesos"
)

// host runs executors inside the test's process. Its workers connect to the control stream and do nothing.
type host struct {
	t       *testing.T
	carrier transport.Transport

	mu    sync.Mutex
	heard []string // channels on which the scheduler was spoken to, with its address
	fail  map[string]chan error
}

func newHost(t *testing.T) *host {
	m := transport.NewMemory()
	t.Cleanup(func() { m.Close() })
	return &host{t: t, carrier: m, fail: map[string]chan error{}}
}

// listen is a scheduler's control stream, which answers everything.
func (h *host) listen(addr string) {
	l, err := h.carrier.Listen(addr, answering{h, addr})
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() { l.Close() })
}

type answering struct {
	h    *host
	addr string
}

// Message implements transport.Handler.
func (a answering) Message(channel string, _ int64, _ []byte, back transport.Conn) {
	a.h.mu.Lock()
	a.h.heard = append(a.h.heard, channel+" at "+a.addr)
	a.h.mu.Unlock()
	_ = back.Send([]byte("yes"))
}

func (h *host) was(what string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, x := range h.heard {
		if x == what {
			return true
		}
	}
	return false
}

// die makes a worker fail.
func (h *host) die(id, why string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.fail[id] <- errors.New(why)
}

type quiet struct{}

// Connected implements transport.DialHandler.
func (quiet) Connected() {}

// Message implements transport.DialHandler.
func (quiet) Message([]byte) {}

func (h *host) work(ctx context.Context, l mesos.Launch) error {
	fail := make(chan error, 1)
	h.mu.Lock()
	h.fail[l.Worker] = fail
	h.mu.Unlock()
	conn, err := l.Control.Dial(l.Scheduler, l.Worker, 0, quiet{})
	if err != nil {
		return err
	}
	defer conn.Close()
	beat := time.NewTicker(20 * time.Millisecond)
	defer beat.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case err := <-fail:
			return err
		case <-beat.C:
			_ = conn.Send([]byte("alive"))
		}
	}
}

// kept is a transport that is not closed with those who use it.
type kept struct{ transport.Transport }

// Close implements transport.Transport.
func (kept) Close() error { return nil }

// run is an executor.
func (h *host) run(p fakemesos.Process) int {
	env := map[string]string{}
	for _, v := range p.Env {
		name, value, _ := strings.Cut(v, "=")
		env[name] = value
	}
	code, _ := mesos.Run(p, mesos.Config{
		Env:     func(name string) string { return env[name] },
		Control: func() (transport.Transport, error) { return kept{h.carrier}, nil },
		Work:    h.work,
	})
	return code
}

func (h *host) agents(n int) fakemesos.Options {
	o := simulated(n)
	for i := range o.Agents {
		o.Agents[i].Simulate, o.Agents[i].Run = false, h.run
	}
	return o
}

// newHostBench is a bench of real executors, which wait for their scheduler as long as a busy machine may take.
func newHostBench(t *testing.T, o fakemesos.Options) *bench {
	t.Helper()
	b := newBench(t, o)
	b.Framework.Close()
	b.begin(patient)
	return b
}

// patient has executors wait for a scheduler, and schedulers for workers to end.
func patient(o *Options) {
	o.Silence, o.Margin, o.KillGrace = time.Minute, time.Minute, 20*time.Second
}

const controlAddr = "memory://control"

var onHost = ExecutorSpec{Command: "sluice executor", Control: controlAddr}

func TestExecutorRunsAWorkerUntilItIsKilled(t *testing.T) {
	h := newHost(t)
	h.listen(controlAddr)
	b := newHostBench(t, h.agents(2))
	c := b.query("q", small, onHost)
	c.Start(make([]dataflow.Resources, 2))
	ws := b.running(2)
	for _, w := range ws {
		eventually(t, "the scheduler hears it", func() bool { return h.was(string(w.ID) + " at " + controlAddr) })
	}
	c.Kill(ws[0].ID)
	if e := b.end(c); e.ID != ws[0].ID || !strings.Contains(e.Status, "killed") {
		t.Fatalf("%+v", e)
	}
	h.die(string(ws[1].ID), "no more disk")
	if e := b.end(c); e.ID != ws[1].ID || !strings.Contains(e.Status, "failed: no more disk") {
		t.Fatalf("%+v", e)
	}
}

func TestAnAgentThatRestartsKeepsItsWorker(t *testing.T) {
	h := newHost(t)
	h.listen(controlAddr)
	o := h.agents(1)
	o.Times.Reregister = 2 * time.Second
	b := newHostBench(t, o)
	c := b.query("q", small, onHost)
	c.Start(make([]dataflow.Resources, 1))
	w := b.running(1)[0]
	// up tells whether the agent is registered, and its executor with it.
	up := func() bool {
		a := b.mesos.Agents()[0]
		return a.Running && a.Registered && len(a.Executors) == 1 && a.Executors[0].Subscribed
	}
	eventually(t, "the executor is registered", up)
	b.mesos.StopAgent(w.Agent)
	eventually(t, "the agent is away", func() bool { return !up() })
	b.mesos.StartAgent(w.Agent)
	eventually(t, "the executor is registered again", up)
	h.die(string(w.ID), "after all")
	if e := b.end(c); e.ID != w.ID || !strings.Contains(e.Status, "after all") {
		t.Fatalf("%+v", e)
	}
}

func TestANewSchedulerTakesWorkersOver(t *testing.T) {
	h := newHost(t)
	h.listen(controlAddr)
	h.listen("memory://elsewhere")
	b := newHostBench(t, h.agents(2))
	b.query("q", small, onHost).Start(make([]dataflow.Resources, 2))
	ws := b.running(2)
	id, _ := b.ID()
	b.Framework.Close()
	b.begin(patient)
	e := onHost
	e.Control = "memory://elsewhere"
	c := b.query("q", small, e)
	for _, w := range ws {
		if !c.Known(w.ID) {
			t.Errorf("%s is not known", w.ID)
		}
		eventually(t, "the worker turns to the new scheduler", func() bool { return h.was(string(w.ID) + " at memory://elsewhere") })
	}
	if again, _ := b.ID(); again != id || len(b.mesos.Frameworks()) != 1 {
		t.Errorf("framework %s became %s, and there are %+v", id, again, b.mesos.Frameworks())
	}
	b.Retain()
	ended := map[string]bool{}
	for range ws {
		ended[string(b.end(c).ID)] = true
	}
	if len(ended) != 2 || !ended[string(ws[0].ID)] {
		t.Errorf("ended: %v", ended)
	}
}
