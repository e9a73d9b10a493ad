package sim

import (
	"context"
	"errors"
	"fmt"
	"time"

	"sluice/dataflow"
	"sluice/executor"
	"sluice/metaquery"
	"sluice/operators"
	"sluice/operators/catalog"
	"sluice/operators/route"
	"sluice/scheduler"
)

// host runs one instance of a task; it is the instance's executor.Env.
type host struct {
	worker *worker
	id     metaquery.TaskID
	launch metaquery.Launch
	spec   *dataflow.Task
	task   *executor.Instance // nil until it could be made
	ended  bool

	conns   map[string]*connection // of output channels
	heard   map[string]*connection // of input channels: on which the producer was heard last
	failed  *metaquery.Report      // what it says if it could not begin
	said    int64                  // sequence number of the last report
	busy    bool                   // a call is under way
	changed bool                   // a report is on its way
	further bool                   // one that may take longer is
	cutting int                    // numbers the planned cuts; only the last counts
}

var (
	_ executor.Env   = (*host)(nil)
	_ executor.Timer = (*host)(nil)
)

func (h *host) String() string { return fmt.Sprintf("%s/%d", h.id.Task, h.id.Gen) }

// gone tells that nothing of the instance runs any longer.
func (h *host) gone() bool { return h.ended || h.worker.dead }

// begin makes the instance.
func (h *host) begin() {
	if h.gone() {
		return
	}
	w := h.worker.world
	task, err := executor.NewInstance(executor.InstanceConfig{
		Query: w.query, Task: h.spec, Launch: h.launch, Store: w.disk.open(h.worker), Env: h,
		Retention: h.worker.retained,
		Build:     h.build, OpenSource: h.openSource, Limits: w.plan.Limits, Off: w.plan.Off,
	})
	if h.gone() {
		return
	}
	if err != nil {
		h.cannotBegin(err)
		return
	}
	w.tracef("%s begins at %d on %s", h, h.launch.Checkpoint, h.worker.id)
	h.task = task
	h.call(func() {})
	w.after(w.between(0, 50*millisecond), h.tick)
}

// cannotBegin says why, again and again until the instance is ended.
func (h *host) cannotBegin(err error) {
	h.worker.world.tracef("%s cannot begin: %v", h, err)
	h.dropConnections()
	h.failed = &metaquery.Report{From: h.id, Term: h.launch.Orders.Term}
	var again *executor.RetryError
	if errors.As(err, &again) {
		h.failed.Retry = err.Error()
	} else {
		h.failed.Failure = &metaquery.Failure{Error: err.Error()}
	}
	h.report()
}

func (h *host) build(c *operators.Context) (operators.Operator, error) {
	if c.Op.Type == "writer" {
		return h.worker.world.newSink(h, c), nil
	}
	if c.Op.Type == "failover" {
		return route.NewPass(c) // in a cluster it is its channels that are connected or not
	}
	return catalog.Build(c, catalog.Options{Limit: -1})
}

func (h *host) openSource(c *operators.Context) (operators.Source, error) {
	return h.worker.world.openSource(h, c)
}

// call calls the instance, and looks afterwards when it can be asked to cut an epoch.
func (h *host) call(f func()) {
	if h.gone() || h.task == nil {
		return
	}
	if h.busy {
		h.worker.world.fail("%s is called while another call is under way", h)
		return
	}
	h.busy = true
	f()
	h.busy = false
	if !h.gone() {
		h.cutLater(0)
	}
}

// cutLater plans the next cut of a task with sources.
func (h *host) cutLater(delay int64) {
	if !h.hasSources() {
		return
	}
	h.cutting++
	n := h.cutting
	w := h.worker.world
	w.after(delay+w.between(0, w.plan.CutDelay), func() {
		if h.cutting != n || h.gone() {
			return
		}
		h.busy = true
		ctx, p := newPatience()
		wait := h.task.Cut(ctx)
		p.cancel()
		h.busy = false
		if h.gone() || h.cutting != n || wait < 0 {
			return
		}
		h.cutLater(wait.Microseconds())
	})
}

func (h *host) hasSources() bool {
	for _, op := range h.spec.Operators {
		if len(op.Inputs) == 0 {
			return true
		}
	}
	return false
}

// tick is called about every 50 ms.
func (h *host) tick() {
	if h.gone() {
		return
	}
	h.call(h.task.Tick)
	h.worker.world.after(h.worker.world.between(40*millisecond, 60*millisecond), h.tick)
}

// end closes the instance, in a process that goes on.
func (h *host) end() {
	if h.gone() {
		return
	}
	w := h.worker.world
	w.tracef("%s is ended on %s", h, h.worker.id)
	h.ended = true
	h.dropConnections()
	if h.task != nil {
		if err := h.task.Close(); err != nil {
			w.tracef("%s: close: %v", h, err)
		}
	}
	k := h.worker
	for i := range k.hosts {
		if k.hosts[i] == h {
			k.hosts = append(k.hosts[:i:i], k.hosts[i+1:]...)
			break
		}
	}
}

func (h *host) dropConnections() {
	for _, name := range sorted(h.conns) {
		h.conns[name].close()
	}
	clear(h.conns)
	clear(h.heard)
}

// report sends what the instance has to say.
func (h *host) report() {
	var r metaquery.Report
	switch {
	case h.gone():
		return
	case h.failed != nil:
		r = *h.failed
	case h.task != nil:
		r = h.task.Report()
	default:
		return
	}
	h.said = max(h.said+1, r.Seq)
	r.Seq = h.said
	h.worker.world.checks.reported(h.worker.world, h, r)
	h.worker.tell(fmt.Sprintf("report %d of %s", r.Seq, h), scheduler.Event{Report: &scheduler.TaskReport{Worker: h.worker.id, Report: r}})
}

// Dial implements executor.Env.
func (h *host) Dial(channel, addr string) {
	if h.gone() {
		return
	}
	if c := h.conns[channel]; c != nil {
		c.close()
		delete(h.conns, channel)
	}
	if addr != "" {
		h.conns[channel] = h.worker.world.dial(h, channel, addr)
	}
}

// Send implements executor.Env.
func (h *host) Send(channel string, msg []byte) bool {
	c := h.conns[channel]
	if h.gone() || c == nil {
		return true
	}
	return c.send(msg)
}

// Reply implements executor.Env.
func (h *host) Reply(channel string, msg []byte) {
	if c := h.heard[channel]; c != nil && !h.gone() {
		c.reply(msg)
	}
}

// Background implements executor.Env.
func (h *host) Background(work func() error, done func(error)) {
	w := h.worker.world
	w.after(w.diskDelay(), func() {
		if h.worker.dead {
			return
		}
		err := work()
		if h.worker.dead {
			return
		}
		w.after(w.between(0, 5*millisecond), func() {
			if !h.gone() {
				h.call(func() { done(err) })
			}
		})
	})
}

// Now implements executor.Env. Clocks of workers differ by a little.
func (h *host) Now() int64 { return h.worker.world.now + h.worker.skew }

// WithTimeout implements executor.Timer. Sources end a cut themselves, and reading takes no simulated time.
func (h *host) WithTimeout(ctx context.Context, _ time.Duration) (context.Context, context.CancelFunc) {
	return context.WithCancel(ctx)
}

// Changed implements executor.Env.
func (h *host) Changed() { h.reportWithin(&h.changed, 5*millisecond) }

// Progressed implements executor.Env.
func (h *host) Progressed() { h.reportWithin(&h.further, 20*millisecond) }

// reportWithin reports after a while, unless that is due already.
func (h *host) reportWithin(due *bool, most int64) {
	if *due || h.gone() {
		return
	}
	*due = true
	w := h.worker.world
	w.after(w.between(0, most), func() {
		*due = false
		h.report()
	})
}
