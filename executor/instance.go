package executor

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"sluice/dataflow"
	"sluice/dataflow/batch"
	"sluice/executor/channel"
	"sluice/executor/state"
	"sluice/metaquery"
	"sluice/operators"
)

// Instance is one generation of a task of a query that runs on several processes: the task, the ends of
// its channels, the logs of its sources and sinks, its snapshots, and how it obeys orders. It is a step
// function: all its methods return at once and are called by one goroutine at a time; it acts through its
// Env. docs/protocol.md says by which rules.
type Instance struct {
	cfg    InstanceConfig
	env    Env
	task   *Task
	keys   map[*dataflow.Operator]string // state keys
	ins    []*inChannel
	outs   []*outChannel
	feeds  []*instanceFeed
	sinks  []*instanceSink
	byNode map[*node]*instanceNode

	orders   metaquery.Orders
	nowSeq   map[parameter]int64 // of the tuples that took effect at once
	plan     *metaquery.Plan     // accepted and not decided
	planned  int64               // when, microseconds since 1970
	vote     *metaquery.Vote
	learnt   []metaquery.Tuple // changes that it found committed before it was told
	complete int64             // last complete checkpoint that it knows

	snapshots []metaquery.Snapshot // durable ones
	early     []metaquery.Snapshot // likewise, of epochs that are not safe yet
	safe      int64                // up to which epoch the logs of its sources outlive the machine
	passed    []metaquery.Passed
	writing   int // snapshots that are being written
	failed    *metaquery.Failure
	retry     string
	trimmed   bool
	dead      bool // does nothing any more
	reports   int64
	pressed   bool
}

// parameter names a parameter of an operator.
type parameter struct{ operator, name string }

// instanceNode is what an instance keeps of a node.
type instanceNode struct {
	*node
	key      string
	keeps    bool              // its snapshots are wanted
	copies   bool              // it reads a copy of a stream, which may be that of a standby
	settings []metaquery.Tuple // changes that have not taken effect, in order
}

// NewInstance makes an instance and brings it to where its launch says. Its error says that the query
// cannot go on (an operators.InputError that it could not begin) or, if it is a RetryError, that another
// try may help.
func NewInstance(cfg InstanceConfig) (*Instance, error) {
	i := &Instance{
		cfg: cfg, env: cfg.Env, keys: dataflow.StateKeys(cfg.Query.Graph), nowSeq: map[parameter]int64{},
		byNode: map[*node]*instanceNode{}, complete: cfg.Launch.Checkpoint, reports: 1, safe: metaquery.LastEpoch,
	}
	i.cfg.Limits.setDefaults()
	var err error
	if i.task, err = NewTask(cfg.Task.Operators, nil, cfg.Query.Graph.Dir, cfg.Build); err != nil {
		return nil, err
	}
	if err := i.begin(); err != nil {
		if err = errors.Join(err, i.Close()); passes(err) {
			err = &RetryError{err}
		}
		return nil, err
	}
	return i, nil
}

// RetryError is a failure that may pass.
type RetryError struct{ Err error }

func (e *RetryError) Error() string { return e.Err.Error() }
func (e *RetryError) Unwrap() error { return e.Err }

func (l *Limits) setDefaults() {
	for _, d := range []struct {
		to    *int64
		usual int64
	}{{&l.Window, 4 << 20}, {&l.Memory, 128 << 20}, {&l.Retained, 4 << 30}, {&l.Backlog, 16 << 20}} {
		if *d.to == 0 {
			*d.to = d.usual
		}
	}
}

// begin restores everything from the launch.
func (i *Instance) begin() error {
	for _, n := range i.task.nodes {
		n.keeper, n.epoch = i, i.cfg.Launch.Checkpoint
		i.byNode[n] = &instanceNode{node: n, key: i.keys[n.ctx.Op], keeps: n.keeps()}
	}
	if err := i.join(); err != nil {
		return err
	}
	for _, n := range i.task.nodes {
		if err := i.restore(n); err != nil {
			return n.fail(err)
		}
	}
	if err := i.openSources(); err != nil {
		return err
	}
	return i.firstOrders(i.cfg.Launch.Orders)
}

// nodeMeta is what is kept of a node beside the state of its operator.
type nodeMeta struct {
	Watermark int64
	Ended     bool
	In        int64      // rows taken so far, by which bad rows are numbered
	Ports     []portMeta `json:",omitempty"`
}

// portMeta is what is kept of an input.
type portMeta struct {
	Watermark   int64
	Idle, Ended bool
}

// keeps reports whether a checkpoint needs a snapshot of the node: its operator has state, or it has
// several inputs, of which it knows how far each one is. A race needs none, for its inputs are equal.
func (n *node) keeps() bool {
	return n.op != nil && !n.race && (len(n.in) > 1 || !n.ctx.Op.Properties().Stateless)
}

// meta is what a snapshot of the node keeps.
func (n *node) meta() nodeMeta {
	m := nodeMeta{Watermark: n.watermark, Ended: n.over, In: n.ctx.Counters.In.Load()}
	for p := range n.in {
		m.Ports = append(m.Ports, portMeta{n.in[p].watermark, n.in[p].idle, n.in[p].ended})
	}
	return m
}

func (n *node) setMeta(m nodeMeta) {
	n.watermark, n.over, n.restored = m.Watermark, m.Ended, m.In
	n.ctx.Counters.In.Store(m.In)
	for p := range min(len(n.in), len(m.Ports)) {
		n.in[p].watermark, n.in[p].idle, n.in[p].ended = m.Ports[p].Watermark, m.Ports[p].Idle, m.Ports[p].Ended
	}
}

// restore brings a node to where it was at the checkpoint, and a sink to what it has committed since.
func (i *Instance) restore(n *node) error {
	if n.op == nil {
		return nil
	}
	if err := i.restoreState(n); err != nil {
		return err
	}
	if s, ok := n.op.(operators.Committer); ok {
		return i.openSink(n, s)
	}
	return nil
}

func (i *Instance) restoreState(n *node) error {
	snap, ok := i.cfg.Launch.State[i.keys[n.ctx.Op]]
	if !ok {
		return nil
	}
	var meta nodeMeta
	if err := json.Unmarshal(snap.Meta, &meta); err != nil {
		return fmt.Errorf("checkpoint %d: state of %q: %w", i.cfg.Launch.Checkpoint, snap.Key, err)
	}
	n.setMeta(meta)
	s, ok := n.op.(operators.Stateful)
	if !ok || snap.Ref == "" {
		return nil
	}
	var refused error // by the operator; all else is the store's trouble
	fingerprint, err := i.cfg.Store.ReadSnapshot(snap.Ref, func(group int, piece []byte) error {
		refused = s.Restore(group, piece)
		return refused
	})
	if refused == nil {
		err = storeError(err)
	}
	if err == nil && fingerprint != s.Fingerprint() {
		err = fmt.Errorf("it is the state of another operator: it was taken with\n%s\nand the operator has\n%s", fingerprint, s.Fingerprint())
	}
	if err != nil {
		return fmt.Errorf("checkpoint %d: state of %q: %w", i.cfg.Launch.Checkpoint, snap.Key, err)
	}
	return nil
}

// fail ends the instance's work. What went wrong is in its next report.
func (i *Instance) fail(err error) {
	if err == nil || i.dead {
		return
	}
	i.dead = true
	i.reports++
	i.env.Changed()
	var input *operators.InputError
	switch {
	case errors.Is(err, state.ErrSealed), errors.Is(err, operators.ErrFenced):
		// A later generation is at work; nobody asks for this one.
	case passes(err):
		i.retry = err.Error()
	default:
		i.failed = &metaquery.Failure{Error: err.Error(), Input: errors.As(err, &input)}
	}
}

// changed says that the report has something new.
func (i *Instance) changed() {
	i.reports++
	i.env.Changed()
}

// progressed says that the report has something new that nobody waits for.
func (i *Instance) progressed() {
	i.reports++
	i.env.Progressed()
}

// Tick is to be called about every 50 ms.
func (i *Instance) Tick() {
	if i.dead {
		return
	}
	now := i.env.Now()
	for _, c := range i.ins {
		c.receiver.Tick(now)
	}
	for _, c := range i.outs {
		c.sender.Tick(now)
		if err := c.sender.Err(); err != nil {
			i.trouble(err)
			return
		}
	}
	for _, s := range i.sinks {
		i.fail(errors.Join(i.confirm(s), i.record(s)))
	}
	i.askDecision(now)
	i.settle()
}

// settle hands on what the last step has left to be sent.
func (i *Instance) settle() {
	if !i.dead {
		i.checkLogs()
	}
	if i.dead {
		return
	}
	i.press()
	for _, c := range i.ins {
		i.reply(c)
	}
	if i.unlogged() {
		return
	}
	i.release()
	for _, c := range i.outs {
		i.flush(c)
	}
}

// counts are those of the node since its launch.
func (n *node) counts() metaquery.OperatorReport {
	c := n.ctx.Counters
	return metaquery.OperatorReport{
		Name: n.ctx.Op.Name, In: c.In.Load() - n.restored, Out: c.Out.Load(), Skipped: c.Skipped.Load(), Dead: c.Dead.Load(),
		Late: c.Late.Load(), Lost: c.Lost.Load(), Gaps: c.Gaps.Load(), Before: n.before,
	}
}

// Report is how the instance is.
func (i *Instance) Report() metaquery.Report {
	r := metaquery.Report{
		From: i.cfg.Launch.ID, Seq: i.reports, Term: i.orders.Term, Obeyed: i.orders.Seq,
		Epoch: metaquery.LastEpoch, Watermark: batch.MaxWatermark, Vote: i.vote, Trimmed: i.trimmed, Retry: i.retry, Failure: i.failed,
	}
	for _, n := range i.task.nodes {
		if !n.over && !i.byNode[n].copies {
			r.Epoch = min(r.Epoch, n.epoch)
		}
		r.Begun = max(r.Begun, n.epoch, n.now)
		r.Operators = append(r.Operators, n.counts())
	}
	r.Base, r.Passed = i.cfg.Launch.Checkpoint, slices.Clone(i.passed)
	r.Snapshots = slices.Clone(i.snapshots)
	i.reportEnds(&r)
	r.CaughtUp = i.caughtUp(r.Epoch)
	r.Replays = i.replays()
	r.Waits = i.waits()
	for _, c := range i.outs {
		r.Retained += c.sender.Retained()
		r.Backlog += c.sender.Unsent()
	}
	for _, c := range i.ins {
		r.Received += c.receiver.Counters().Rows
	}
	return r
}

// reportEnds adds what sources and sinks have to say.
func (i *Instance) reportEnds(r *metaquery.Report) {
	for _, s := range i.sinks {
		if r.Frontiers == nil {
			r.Frontiers, r.Done = map[string]int64{}, true
		}
		r.Frontiers[s.node.ctx.Op.Name] = s.frontier
		r.Done = r.Done && s.node.done
	}
	stop := i.orders.Stop
	stopped, last := stop > 0 && len(i.feeds) > 0, int64(0)
	for _, f := range i.feeds {
		there := stop > 0 && f.stoppedAt == stop // behind it the sources would not all have the same last epoch
		stopped = stopped && (there || f.ended)
		last = max(last, f.highest())
		if !there { // one that has stopped as told has not gone too far while others are on their way
			r.Cut = max(r.Cut, f.highest())
		}
		if !f.ended {
			r.Watermark = min(r.Watermark, f.marker.watermark)
		}
	}
	if stopped {
		r.Stopped, r.Cut = true, last
	}
}

// replays reports whether another instance can go on without loss and without rows that come twice.
func (i *Instance) replays() bool {
	for _, f := range i.feeds {
		if f.log == nil || !f.log.source.Replays() {
			return false
		}
	}
	for _, s := range i.sinks {
		if u, ok := s.node.op.(operators.Undoer); ok && !u.Undoes() {
			return false
		}
	}
	return true
}

// caughtUp reports whether the instance is where its producers are.
func (i *Instance) caughtUp(epoch int64) bool {
	heard := int64(0)
	for _, c := range i.ins {
		at := c.receiver.Position()
		if c.copies != nil {
			continue // that of a standby brings nothing
		}
		if at == channel.After(i.cfg.Launch.Checkpoint) && !c.receiver.Ended() {
			return false
		}
		heard = max(heard, at.Epoch)
	}
	return epoch == metaquery.LastEpoch || heard-epoch <= 2
}

// Close releases what the instance holds. What its sinks have not committed is left as it is, for
// their next generation to undo.
func (i *Instance) Close() error {
	i.dead = true
	var errs []error
	for _, f := range i.feeds {
		errs = append(errs, f.src.Close(), f.logFile.Close())
	}
	for _, c := range i.outs {
		c.sender.Close()
	}
	for _, s := range i.sinks {
		errs = append(errs, s.log.Close())
	}
	for _, n := range i.task.nodes {
		c, closes := n.op.(operators.Closer)
		_, commits := n.op.(operators.Committer)
		if closes && (!commits || n.over) {
			errs = append(errs, n.fail(c.Close(n.over)))
		}
	}
	return errors.Join(errs...)
}
