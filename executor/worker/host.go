package worker

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"sluice/dataflow"
	"sluice/executor"
	"sluice/executor/transport"
	"sluice/metaquery"
	"sluice/operators"
)

// item is something for an instance. What it is follows from which fields are set.
type item struct {
	orders  *metaquery.Orders
	done    func()  // the end of background work
	output  *output // msg comes back from its consumer; without msg: it is connected, or drained
	drained bool
	msg     []byte // from a producer, if there is no output
	back    transport.Conn
	// Of a message from a producer.
	channel    string
	generation int64
}

// host runs an instance on a goroutine, and is its Env. All methods are called by that goroutine unless
// they say otherwise.
type host struct {
	w      *worker
	id     metaquery.TaskID
	task   *dataflow.Task
	launch metaquery.Launch
	box    *mailbox[item]
	ctx    context.Context // done when the instance is to end
	cancel context.CancelFunc
	over   chan struct{} // closed when it has ended

	inst    Instance
	outputs map[string]*output
	inputs  map[string]*input

	changed    bool             // there is something new to report
	urgent     bool             // at once
	progressed bool             // there is something new to report that nobody waits for
	report     metaquery.Report // the last one
	said       time.Time        // when
	ticked     time.Time
	clock      clock
}

func newHost(w *worker, task *dataflow.Task, l metaquery.Launch) *host {
	h := &host{
		w: w, id: l.ID, task: task, launch: l, box: newMailbox[item](), over: make(chan struct{}),
		outputs: map[string]*output{}, inputs: map[string]*input{}, clock: newClock(),
	}
	h.ctx, h.cancel = context.WithCancel(context.Background())
	return h
}

// run is the goroutine.
func (h *host) run() {
	defer close(h.over)
	defer h.w.forget(h)
	defer h.cancel()
	err := guarded(h.open)
	if err == nil {
		err = guarded(h.loop)
	}
	if err != nil {
		h.fail(err)
	}
	if err := guarded(h.close); err != nil {
		h.w.cfg.Log(fmt.Sprintf("task %q: %v", h.id.Task, err))
	}
}

// guarded turns a panic of f into an error.
func guarded(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("a fault in the program: %v\n%s", p, debug.Stack())
		}
	}()
	return f()
}

func (h *host) open() error {
	q := h.w.query
	cfg := executor.InstanceConfig{
		Query: q.Physical, Task: h.task, Launch: h.launch, Store: q.Store, Env: h,
		Build: q.Build, OpenSource: q.OpenSource, Limits: q.Limits, Retention: h.w.retention,
	}
	inst, err := h.w.cfg.New(cfg)
	h.inst = inst
	h.changed = true
	return err
}

// loop drives the instance until it is to end.
func (h *host) loop() error {
	var items []item
	timer := time.NewTimer(0)
	defer timer.Stop()
	for h.ctx.Err() == nil {
		items = h.box.takeAll(items)
		for i := range items {
			h.deliver(&items[i])
		}
		now := time.Now()
		if now.Sub(h.ticked) >= tickInterval {
			h.inst.Tick()
			h.ticked = now
		}
		waiting := h.retry()
		wait := h.inst.Cut(h.ctx)
		now = time.Now()
		h.say(now)
		if wait == 0 {
			continue
		}
		timer.Reset(h.pause(now, wait, waiting))
		select {
		case <-h.box.ready:
		case <-timer.C:
		case <-h.ctx.Done():
		}
	}
	h.changed, h.urgent = true, true
	h.say(time.Now())
	return nil
}

// deliver hands something to the instance.
func (h *host) deliver(m *item) {
	switch {
	case m.orders != nil:
		h.urgent = true
		h.inst.Orders(*m.orders)
	case m.done != nil:
		m.done()
	case m.output != nil:
		h.fromOutput(m)
	case h.inst.Hears(m.channel, m.generation): // answers go only to one that is heard
		in := h.inputs[m.channel]
		if in == nil {
			in = &input{}
			h.inputs[m.channel] = in
		}
		in.from(m.back)
		h.inst.Receive(m.channel, m.generation, m.msg)
	}
}

func (h *host) fromOutput(m *item) {
	channel := m.output.channel
	if h.outputs[channel] != m.output {
		return // it has been dialed to somewhere else since
	}
	switch {
	case m.drained:
		h.inst.Flush(channel)
	case m.msg == nil:
		h.inst.Connected(channel)
	default:
		h.inst.Message(channel, m.msg)
	}
}

// pause is how long there is nothing to do if nothing comes, at most wait unless that is negative.
func (h *host) pause(now time.Time, wait time.Duration, waiting bool) time.Duration {
	pause := tickInterval - now.Sub(h.ticked)
	if wait > 0 {
		pause = min(pause, wait)
	}
	pause = min(pause, h.patience()-now.Sub(h.said))
	if waiting {
		pause = min(pause, retryInterval)
	}
	return max(pause, 0)
}

// patience is how long after a report the next one is due.
func (h *host) patience() time.Duration {
	switch {
	case h.changed && h.urgent:
		return 0
	case h.changed:
		return reportInterval
	case h.progressed:
		return progressInterval
	}
	return repeatInterval
}

// say tells the scheduler how the instance is, if that is due.
func (h *host) say(now time.Time) {
	due := now.Sub(h.said) >= h.patience()
	h.urgent = false
	if !due {
		return
	}
	h.changed, h.progressed = false, false
	h.said = now
	seq := h.report.Seq
	h.report = h.inst.Report()
	h.report.Seq = max(h.report.Seq, seq+1)
	h.w.say(&metaquery.ToScheduler{Report: &h.report})
}

// fail says that the task has failed, again and again until it is ended.
func (h *host) fail(err error) {
	h.report.From = h.id
	h.report.Term = max(h.report.Term, h.launch.Orders.Term)
	var input *operators.InputError
	var again *executor.RetryError
	if errors.As(err, &again) {
		h.report.Retry = err.Error()
	} else {
		h.report.Failure = &metaquery.Failure{Error: err.Error(), Input: errors.As(err, &input)}
	}
	repeat := time.NewTicker(repeatInterval)
	defer repeat.Stop()
	for {
		h.report.Seq++
		h.w.say(&metaquery.ToScheduler{Report: &h.report})
		select {
		case <-repeat.C:
		case <-h.ctx.Done():
			return
		}
	}
}

func (h *host) close() error {
	var err error
	if h.inst != nil {
		err = h.inst.Close()
	}
	for _, out := range h.outputs {
		out.close()
	}
	return err
}

// Background implements executor.Env.
func (h *host) Background(work func() error, done func(error)) {
	h.w.background(h.ctx, work, func(err error) { h.box.put(item{done: func() { done(err) }}) })
}

// Now implements executor.Env.
func (h *host) Now() int64 { return h.clock.micros() }

// Changed implements executor.Env.
func (h *host) Changed() { h.changed = true }

// Progressed implements executor.Env.
func (h *host) Progressed() { h.progressed = true }
