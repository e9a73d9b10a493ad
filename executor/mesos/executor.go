package mesos

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"net"
	"os"
	"sync"
	"time"

	mesostime "github.com/mesos/mesos-go/api/v1/lib/time"

	exec "github.com/mesos/mesos-go/api/v1/lib/executor"

	"sluice/executor/transport"
)

// Launch is what the worker of a task is made of.
type Launch struct {
	Worker string
	// Control carries the control stream to the scheduler, at Scheduler, wherever that moves to.
	Control   transport.Transport
	Scheduler string
	// Host is the agent's address, on which others reach this worker, and Ports are those that it may use: none
	// means any free one.
	Host  string
	Ports []uint64
	// Dir is a folder for files of no lasting use, which Mesos removes some time after the end.
	Dir string
	// Silence is after how long without a word of the scheduler the worker ends.
	Silence time.Duration
}

// Config says what an executor is made of.
type Config struct {
	// Env gives the environment. Default os.Getenv.
	Env func(name string) string
	// Control opens the transport of the control stream.
	Control func() (transport.Transport, error)
	// Work is the worker's life: until ctx is done, or it ends by itself. When it returns, nothing of the worker runs
	// any longer.
	Work func(ctx context.Context, l Launch) error
	// Log takes what may be wanted in the file of standard error. Default: nowhere.
	Log func(text string)
}

// Here reports whether this process was started by an agent of Mesos.
func Here(env func(string) string) bool {
	return env("MESOS_AGENT_ENDPOINT") != "" && env("MESOS_EXECUTOR_ID") != ""
}

// tick is the time between two looks at what is due.
const tick = 20 * time.Millisecond

// readSettings takes what the agent says in the environment.
func readSettings(env func(string) string) (settings, error) {
	s := settings{
		framework: env("MESOS_FRAMEWORK_ID"), executor: env("MESOS_EXECUTOR_ID"), checkpoint: env("MESOS_CHECKPOINT") == "1",
		recovery: 15 * time.Minute, backoffMax: usualBackoff, grace: usualGrace,
	}
	if s.framework == "" || s.executor == "" || env("MESOS_AGENT_ENDPOINT") == "" {
		return s, errors.New("mesos: MESOS_AGENT_ENDPOINT, MESOS_FRAMEWORK_ID and MESOS_EXECUTOR_ID must be set, as an agent does")
	}
	for name, d := range map[string]*time.Duration{
		"MESOS_RECOVERY_TIMEOUT": &s.recovery, "MESOS_SUBSCRIPTION_BACKOFF_MAX": &s.backoffMax,
		"MESOS_EXECUTOR_SHUTDOWN_GRACE_PERIOD": &s.grace,
	} {
		text := env(name)
		if text == "" {
			continue
		}
		value, err := mesostime.ParseDuration(text)
		if err != nil || value < 0 {
			return s, fmt.Errorf("mesos: %s is %q, which is no duration: %w", name, text, errors.Join(err))
		}
		*d = value
	}
	return s, nil
}

// Run is an executor's whole life. It returns the exit status of the process, which must end with it: the worker
// may run still if it did not end in time.
func Run(ctx context.Context, cfg Config) (int, error) {
	if cfg.Env == nil {
		cfg.Env = os.Getenv
	}
	if cfg.Log == nil {
		cfg.Log = func(string) {}
	}
	s, err := readSettings(cfg.Env)
	if err != nil {
		return 1, err
	}
	host, _, err := net.SplitHostPort(cfg.Env("MESOS_AGENT_ENDPOINT"))
	if err != nil {
		return 1, fmt.Errorf("mesos: MESOS_AGENT_ENDPOINT: %w", err)
	}
	scheme := "http"
	if v := cfg.Env("LIBPROCESS_SSL_ENABLED"); v == "1" || v == "true" {
		scheme = "https"
	}
	e := &executor{
		cfg: cfg, host: host, events: make(chan event),
		client: newClient(scheme, cfg.Env("MESOS_AGENT_ENDPOINT"), cfg.Env("MESOS_EXECUTOR_AUTHENTICATION_TOKEN")),
	}
	return e.run(ctx, s)
}

// executor is the shell around a core.
type executor struct {
	cfg    Config
	client *client
	host   string
	ctx    context.Context
	events chan event
	over   sync.WaitGroup // goroutines but that of the worker

	unsubscribe context.CancelFunc // ends the stream

	control *control // nil before the launch
	stop    context.CancelFunc
	ended   chan struct{} // closed when the worker has ended
}

func (e *executor) run(ctx context.Context, s settings) (int, error) {
	ctx, cancel := context.WithCancel(ctx)
	e.ctx = ctx
	defer e.client.http.CloseIdleConnections()
	defer e.over.Wait()
	defer cancel()
	c, actions := newCore(s, newUUID, time.Now())
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	for {
		for _, a := range actions {
			if a.exit != nil {
				e.cfg.Log(a.exit.why)
				return a.exit.code, nil
			}
			e.do(a)
		}
		var ev event
		select {
		case <-ctx.Done():
			e.end()
			return 1, ctx.Err()
		case ev = <-e.events:
		case <-ticker.C:
		}
		ev.now, ev.jitter = time.Now(), mathrand.Float64()
		if e.control != nil {
			ev.heard = e.control.lastHeard()
		}
		actions = c.handle(ev)
	}
}

// end ends the worker and waits for it.
func (e *executor) end() {
	if e.stop != nil {
		e.stop()
		<-e.ended
	}
}

// newUUID makes a random UUID (RFC 9562, version 4).
func newUUID() []byte {
	id := make([]byte, 16)
	_, _ = rand.Read(id) // never fails
	id[6], id[8] = id[6]&0x0f|0x40, id[8]&0x3f|0x80
	return id
}

// send hands an event to run.
func (e *executor) send(ev event) {
	select {
	case e.events <- ev:
	case <-e.ctx.Done():
	}
}

func (e *executor) do(a action) {
	switch {
	case a.subscribe != nil:
		ctx, cancel := context.WithCancel(e.ctx)
		e.unsubscribe = cancel
		e.over.Go(func() {
			defer cancel()
			err := e.client.subscribe(ctx, a.subscribe, func(ev *exec.Event) { e.send(event{received: ev}) })
			e.send(event{lost: err.Error()})
		})
	case a.call != nil:
		// What is lost here is said again: an update at the next subscription, which a failed call brings about.
		if err := e.client.call(e.ctx, a.call); err != nil {
			e.cfg.Log("the agent: " + err.Error())
			e.unsubscribe()
		}
	case a.start != nil:
		e.start(a.start)
	case a.move != "" && e.control != nil:
		if err := e.control.move(a.move); err != nil {
			e.cfg.Log(fmt.Sprintf("the scheduler at %s: %v", a.move, err))
		}
	case a.stop:
		e.stop()
	case a.log != "":
		e.cfg.Log(a.log)
	}
}

// start runs the worker on a goroutine.
func (e *executor) start(w *Work) {
	ctx, stop := context.WithCancel(context.Background())
	e.stop, e.ended = stop, make(chan struct{})
	t, err := e.cfg.Control()
	if err != nil {
		e.over.Go(func() { e.finished(err) })
		return
	}
	e.control = newControl(t, func() { e.send(event{up: true}) })
	dir := e.cfg.Env("MESOS_SANDBOX")
	l := Launch{
		Worker: w.Worker, Control: e.control, Scheduler: w.Control, Host: e.host, Ports: w.Ports, Dir: dir, Silence: w.Silence,
	}
	go func() {
		defer stop()
		err := e.cfg.Work(ctx, l)
		e.finished(errors.Join(err, t.Close()))
	}()
}

// finished takes the end of the worker.
func (e *executor) finished(err error) {
	if err != nil && !errors.Is(err, context.Canceled) {
		e.cfg.Log(fmt.Sprintf("the worker: %v", err))
	}
	close(e.ended)
	e.send(event{over: &over{err}})
}
