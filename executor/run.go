package executor

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"sluice/dataflow"
	"sluice/dataflow/batch"
	"sluice/executor/state"
	"sluice/operators"
)

// Options say how a query runs.
type Options struct {
	// Build makes the operators that have inputs, OpenSource the sources.
	Build      Builder
	OpenSource func(ctx *operators.Context) (operators.Source, error)
	// Tasks divides the operators of the graph into tasks, each on a goroutine of its own. nil: one task.
	// Standbys, and what reads from nothing else, do not run.
	Tasks [][]*dataflow.Operator
	// State, if not nil, makes the query durable: it goes on from the state, and another process can go on
	// from it. The query may be another one than that of the process before if that one has been stopped, or
	// run with CatchUp since. Run does not close State.
	State *state.Store
	// CheckpointEpochs is how many epochs of a durable query lie between two checkpoints, at least; 0: so many
	// that they only keep the epoch log from growing without bound.
	CheckpointEpochs int64
	// CatchUp makes a durable query go no further than to the last epoch that a sink has made visible. The
	// state is then as if the query had been stopped there, and fits an edited one.
	CatchUp bool
	// Changed, if not nil, is told before anything else what the state holds for the operators, some of
	// which may not be those that have left it. An error of it ends Run.
	Changed func(Change) error
	// Restored, if not nil, is called when everything is where the state says, and the query is about to go
	// on from there. An error of it ends Run.
	Restored func() error
	// Waiting, if not nil, is told once that a durable query waits for room on a full disk, or makes no
	// checkpoint meanwhile. It may be called by any goroutine.
	Waiting func(error)
	// Now is the clock that epochs log; time.Now if nil.
	Now func() time.Time
	// Started is called once all operators are there and before the first row, if not nil.
	Started func(*Query)
}

// Query is a query that Run runs in this process.
type Query struct {
	tasks []*runningTask
	flow  *flow
	now   func() time.Time

	durable  *durable // nil for a query without state
	stopping atomic.Bool
	meeting  *meeting
	until    int64 // of a query that is to catch up, its last epoch; 0: none

	watermark atomic.Int64 // least over the sources
	marks     sync.Mutex   // guards the feeds' reported
}

// runningTask is a task with what feeds it.
type runningTask struct {
	*Task
	mailbox *mailbox
	feeds   []*feed
}

// stopGrace is how long a stopped source gets to hand over what it has read.
const stopGrace = 200 * time.Millisecond

// errGraceOver is why reading ends after stopGrace, errAborted after a failure elsewhere.
var (
	errGraceOver = errors.New("executor: stopped")
	errAborted   = errors.New("executor: aborted")
)

// Run runs the query that g describes until its inputs end, or until ctx is done, which counts as their
// end: what has been read is finished and written. A durable query stops there, and the next process
// goes on. The error tells of a failure, an operators.InputError that the query could not begin,
// ErrFinished that its state is of one that has run to its end.
func Run(ctx context.Context, g *dataflow.Graph, o Options) (*Query, error) {
	q := &Query{now: o.Now}
	if q.now == nil {
		q.now = time.Now
	}
	q.watermark.Store(batch.MinWatermark)
	err := q.build(g, o)
	if err == nil && o.State != nil {
		err = q.restore(g, o)
	}
	if err == nil && o.Restored != nil {
		err = o.Restored()
	}
	if err == nil && !(o.CatchUp && q.until == 0) {
		if o.Started != nil {
			o.Started(q)
		}
		err = q.run(ctx)
	}
	return q, q.close(err)
}

// build makes the tasks, joins them by channels and opens the sources.
func (q *Query) build(g *dataflow.Graph, o Options) error {
	groups := o.Tasks
	if groups == nil {
		groups = [][]*dataflow.Operator{g.Topological()}
	}
	absent := notRunning(g)
	var tasks []*Task
	for _, ops := range groups {
		ops = slices.DeleteFunc(slices.Clone(ops), func(op *dataflow.Operator) bool { return absent[op] })
		if len(ops) == 0 {
			continue
		}
		t, err := NewTask(ops, absent, g.Dir, o.Build)
		if err != nil {
			return err
		}
		tasks = append(tasks, t)
		q.tasks = append(q.tasks, &runningTask{Task: t, mailbox: newMailbox()})
	}
	q.link()
	q.flow = newFlow(tasks)
	var errs []error
	for _, t := range q.tasks {
		errs = append(errs, q.openSources(t, o.OpenSource))
	}
	return errors.Join(errs...)
}

// notRunning are the standbys and the operators that read from nothing else.
func notRunning(g *dataflow.Graph) map[*dataflow.Operator]bool {
	absent := map[*dataflow.Operator]bool{}
	for _, op := range g.Topological() {
		absent[op] = op.Standby || len(op.Inputs) > 0 &&
			!slices.ContainsFunc(op.Inputs, func(in dataflow.Input) bool { return !absent[in.From] })
	}
	return absent
}

// link makes a channel for each inlet of each task.
func (q *Query) link() {
	byOp := map[*dataflow.Operator]*node{}
	for _, t := range q.tasks {
		for _, n := range t.nodes {
			byOp[n.ctx.Op] = n
		}
	}
	for _, t := range q.tasks {
		for i, in := range t.inlets {
			from := in.node.ctx.Op.Inputs[in.port]
			e := byOp[from.From].out[from.Output]
			e.remote = append(e.remote, &localChannel{from: byOp[from.From], to: t.mailbox, inlet: i})
		}
	}
}

func (q *Query) openSources(t *runningTask, open func(*operators.Context) (operators.Source, error)) error {
	var errs []error
	for i, c := range t.Sources() {
		src, err := open(c)
		if err != nil {
			errs = append(errs, &OperatorError{Op: c.Op, Err: err})
			continue
		}
		t.feeds = append(t.feeds, newFeed(src, c, i, q.now()))
	}
	return errors.Join(errs...)
}

// close releases everything; the sinks commit if there has been no error.
func (q *Query) close(err error) error {
	if q.durable != nil {
		err = errors.Join(err, q.durable.finish())
	}
	for _, t := range q.tasks {
		for _, f := range t.feeds {
			err = errors.Join(err, f.src.Close())
		}
	}
	for _, t := range q.tasks {
		err = errors.Join(err, t.Close(err == nil))
	}
	return err
}

// restore brings everything to where the state says.
func (q *Query) restore(g *dataflow.Graph, o Options) error {
	if err := q.openDurable(g, o); err != nil {
		return err
	}
	if o.CatchUp {
		q.until = q.visible()
	}
	add := func(e state.Epoch) error {
		return q.durable.patiently(func() error { return o.State.AppendEpoch(e) })
	}
	q.flow.begin(q.durable.base)
	for _, t := range q.tasks {
		for _, f := range t.feeds {
			if err := f.openLog(o.State.Epochs(f.ctx.Op.Name), add, q.durable.base); err != nil {
				return &OperatorError{Op: f.ctx.Op, Err: err}
			}
			if t, ok := f.src.(operators.Trimmer); ok {
				q.durable.trimmers[f.ctx.Op.Name] = t
			}
		}
	}
	return nil
}

// run runs all tasks until they end.
func (q *Query) run(ctx context.Context) error {
	reading, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	defer context.AfterFunc(ctx, func() {
		q.stopping.Store(true)
		q.flow.release()
		if q.stopSources(false) {
			time.AfterFunc(stopGrace, func() { cancel(errGraceOver) })
		}
	})()

	q.meeting = newMeeting(q.feedGroups())
	errs := make(chan error)
	running := 0
	start := func(f func() error) {
		running++
		go func() { errs <- f() }()
	}
	for _, t := range q.tasks {
		switch {
		case len(t.inlets) == 0:
			start(func() error { return q.feed(reading, t, t.Task) })
		case len(t.feeds) > 0:
			start(func() error { return q.feed(reading, t, &sourceRelay{to: t.mailbox}) })
			fallthrough
		default:
			start(t.work)
		}
	}
	var first error
	for ; running > 0; running-- {
		if err := <-errs; err != nil && first == nil {
			first = err
			if q.durable != nil {
				q.durable.fail()
			}
			q.meeting.close()
			cancel(errAborted)
			q.stopSources(true)
			q.flow.close()
			for _, t := range q.tasks {
				t.mailbox.close()
			}
		}
	}
	if errors.Is(first, operators.ErrStopped) {
		return nil // a durable query, while it was reading again what it had read before
	}
	return first
}

// feedGroups is how many tasks have sources.
func (q *Query) feedGroups() int {
	n := 0
	for _, t := range q.tasks {
		if len(t.feeds) > 0 {
			n++
		}
	}
	return n
}

// stopSources tells sources to stop, and whether there were any to be told. Those that another process
// can go on with need not be told unless all: they stop at the end of an epoch of the usual length, so
// that all epochs are those of a query that has not been stopped.
func (q *Query) stopSources(all bool) bool {
	told := false
	for _, t := range q.tasks {
		for _, f := range t.feeds {
			if all || f.log == nil || !f.log.source.Replays() {
				f.src.Stop()
				told = true
			}
		}
	}
	return told
}

// work handles messages until all inputs have ended.
func (t *runningTask) work() error {
	open := len(t.inlets) + len(t.feeds)
	var messages []message
	for open > 0 {
		var ok bool
		if messages, ok = t.mailbox.takeAll(messages); !ok {
			return nil
		}
		for _, m := range messages {
			if err := t.deliver(m); err != nil {
				return err
			}
			if m.rows == nil && (m.mark.End || m.mark.Stop) {
				open--
			}
		}
	}
	return nil
}

// feed is the epoch loop of a task's sources.
func (q *Query) feed(ctx context.Context, t *runningTask, to feeder) error {
	interval := t.interval()
	epoch := int64(1)
	if q.durable != nil {
		epoch += q.durable.base
	}
	for ; q.flow.wait(epoch, interval); epoch++ {
		m := q.newMark(epoch)
		m.Stop = epoch == q.until
		if err := q.feedEpoch(ctx, t, to, m, interval); err != nil {
			return err
		}
		switch {
		case t.ended():
			q.meeting.leave(epoch)
			return nil
		case m.Stop:
			return nil
		case q.durable != nil && q.stopping.Load() && t.replayed():
			return q.stopFeed(ctx, t, to, epoch, interval)
		}
	}
	return nil
}

func (q *Query) newMark(epoch int64) operators.Mark {
	return operators.Mark{Epoch: epoch, Prev: epoch - 1, Clock: q.now().UnixMicro()}
}

// stopFeed cuts epochs until the one at which all sources stop.
func (q *Query) stopFeed(ctx context.Context, t *runningTask, to feeder, epoch int64, interval time.Duration) error {
	last, ok := q.meeting.come(epoch)
	if !ok {
		return nil
	}
	// The last epoch must still be to come, for its mark says that it is the last.
	for last++; epoch < last; {
		epoch++
		m := q.newMark(epoch)
		m.Stop = epoch == last
		if err := q.feedEpoch(ctx, t, to, m, interval); err != nil {
			return err
		}
	}
	return nil
}

func (q *Query) feedEpoch(ctx context.Context, t *runningTask, to feeder, m operators.Mark, interval time.Duration) error {
	if interval > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, interval)
		defer cancel()
	}
	for _, f := range t.feeds {
		if f.ended {
			continue
		}
		if err := f.epoch(ctx, to, m, q.flow.done); err != nil {
			return err
		}
	}
	q.report(t)
	return nil
}

// replayed reports whether no epoch has to be cut again.
func (t *runningTask) replayed() bool {
	for _, f := range t.feeds {
		if f.log.replays() {
			return false
		}
	}
	return true
}

// report brings the query's watermark up to date.
func (q *Query) report(t *runningTask) {
	q.marks.Lock()
	defer q.marks.Unlock()
	least := batch.MaxWatermark
	for _, f := range t.feeds {
		f.reported = f.marker.watermark
		if f.ended {
			f.reported = batch.MaxWatermark
		}
	}
	for _, t := range q.tasks {
		for _, f := range t.feeds {
			least = min(least, f.reported)
		}
	}
	q.watermark.Store(least)
}

// interval is the shortest over the sources that have one.
func (t *runningTask) interval() time.Duration {
	var d time.Duration
	for _, f := range t.feeds {
		if i := f.opts.Interval; i > 0 && (d == 0 || i < d) {
			d = i
		}
	}
	return d
}

func (t *runningTask) ended() bool {
	for _, f := range t.feeds {
		if !f.ended {
			return false
		}
	}
	return true
}

// OperatorStats is what an operator has done so far.
type OperatorStats struct {
	Op *dataflow.Operator
	// Rows taken, rows emitted on the main output, bad rows skipped, bad rows sent to the output "errors",
	// rows that were late, rows lost in a restart, inputs with a gap.
	In, Out, Skipped, Dead, Late, Lost, Gaps int64
}

// Stats is what a query has done so far.
type Stats struct {
	Watermark int64 // least over the sources; batch.MinWatermark if there is none yet
	Operators []OperatorStats
}

// Stats may be called at any time, from any goroutine.
func (q *Query) Stats() Stats {
	s := Stats{Watermark: q.watermark.Load()}
	for _, t := range q.tasks {
		for _, n := range t.nodes {
			c := n.ctx.Counters
			s.Operators = append(s.Operators, OperatorStats{n.ctx.Op, c.In.Load(), c.Out.Load(), c.Skipped.Load(), c.Dead.Load(), c.Late.Load(), c.Lost.Load(), c.Gaps.Load()})
		}
	}
	return s
}
