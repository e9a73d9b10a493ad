package shell

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"sluice/executor/transport"
	"sluice/executor/worker"
	"sluice/scheduler"
)

// TestUnableWorker: a worker that cannot run the query is replaced if another one can, as often as that takes, and the
// user is told once.
func TestUnableWorker(t *testing.T) {
	b := newBench(t)
	over := b.run(t.Context())
	b.running()
	b.mu.Lock()
	b.refuse = 4
	b.mu.Unlock()
	b.cluster.alerts <- "no agent has enough"
	b.cluster.Kill("w1")
	for end := time.Now().Add(time.Minute); !b.cluster.Known("w7"); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the worker is not replaced")
		}
	}
	b.running()
	b.finish(over)
	all := strings.Join(b.alerts, "\n")
	for _, want := range []string{"no agent has enough", "w3 cannot run the query: this one is refused", "w6 cannot run the query: this one is refused"} {
		if strings.Count(all, want) != 1 {
			t.Errorf("not one alert %q in:\n%s", want, all)
		}
	}
	if n := strings.Count(all, "cannot run the query"); n != 4 {
		t.Errorf("%d alerts, but the cluster has told of 4:\n%s", n, all)
	}
}

// TestFirstUnable: if the first workers cannot run the query others are tried for as long as the shell may, unless one says
// that no other one could either.
func TestFirstUnable(t *testing.T) {
	b := newBench(t)
	b.refuse, b.o.StartLimit = 6, time.Hour
	over := b.run(t.Context())
	b.running()
	b.finish(over)
	all := strings.Join(b.alerts, "\n")
	if b.cluster.next != 8 || !strings.Contains(all, `no worker process can run so far: 5 of them have failed, the last with "this one is refused"`) {
		t.Errorf("%d workers, and:\n%s", b.cluster.next, all)
	}

	for name, x := range map[string]struct {
		limit time.Duration
		err   error
		want  string
	}{
		"nobody can":  {time.Hour, &worker.EverywhereError{Err: errors.New("it is no query")}, "cannot run the query: it is no query"},
		"no time":     {0, nil, "cannot run the query: this one is refused"},
		"little time": {time.Nanosecond, nil, "no worker process can run: "},
	} {
		b := newBench(t)
		b.refuse, b.refusal, b.o.StartLimit = 1000, x.err, x.limit
		if err := <-b.run(t.Context()); err == nil || !strings.Contains(err.Error(), x.want) {
			t.Errorf("%s: error %v", name, err)
		}
	}
}

// foreign is a worker of another release: it says what its version has.
func (c *threads) foreign(id scheduler.WorkerID, text string) {
	ctx, cancel := context.WithCancel(context.Background())
	c.mu.Lock()
	c.workers[id] = cancel
	control := c.control
	c.mu.Unlock()
	c.over.Go(func() {
		z, err := transport.NewZMQ(transport.Options{})
		if err != nil {
			c.t.Error(err)
			return
		}
		conn, err := z.Dial(control, worker.ControlChannel(string(id)), 0, deaf{})
		for ; err == nil && ctx.Err() == nil; time.Sleep(20 * time.Millisecond) {
			_ = conn.Send([]byte(text)) // again and again
		}
		c.mu.Lock()
		delete(c.workers, id)
		c.mu.Unlock()
		c.ended <- Ended{ID: id, Status: fmt.Sprint(errors.Join(err, z.Close()))}
	})
}

type deaf struct{}

func (deaf) Connected()     {}
func (deaf) Message([]byte) {}

// TestAnotherRelease: workers whose messages are of another version are not misread. Those of an earlier scheduler are
// replaced; if those that come then are such too, the query cannot run.
func TestAnotherRelease(t *testing.T) {
	b := newBench(t)
	b.o.Adopt = true
	open := b.o.Cluster
	b.o.Cluster = func(control string) (Cluster, error) {
		c, err := open(control)
		b.cluster.foreign("old", `v0 {"alive":{"worker":"old","pid":1,"addr":"tcp://127.0.0.1:1"}}`)
		return c, err
	}
	over := b.run(t.Context())
	b.running()
	b.finish(over)
	all := strings.Join(b.alerts, "\n")
	if want := "worker old, which an earlier scheduler has started, speaks version 0 of the control stream, and this program version"; strings.Count(all, want) != 1 {
		t.Errorf("not once %q in:\n%s", want, all)
	}

	b = newBench(t)
	b.o.Adopt = true
	open = b.o.Cluster
	b.o.Cluster = func(control string) (Cluster, error) {
		c, err := open(control)
		for i := range 3 {
			b.cluster.foreign(scheduler.WorkerID(fmt.Sprintf("old%d", i)), "{}")
		}
		return c, err
	}
	if err := <-b.run(t.Context()); err == nil || !strings.Contains(err.Error(), "cannot run the query: it speaks version 0 of the control stream") {
		t.Errorf("error %v", err)
	}
}
