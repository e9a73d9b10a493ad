package executor

import (
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"sluice/dataflow"
	"sluice/executor/state"
	"sluice/operators"
)

// A durable query keeps its epoch log, its checkpoints and the commits of its sinks in a state
// directory. All tasks are in one process, so they fail together: the next process starts every
// operator from the last complete checkpoint c, sources cut the epochs after c again as the log has
// them, and a sink passes over the epochs that it has committed.
//
// An epoch is logged before its mark is sent, and nothing of it becomes visible before its mark.

// durable is what a durable query has beside a query.
type durable struct {
	store   *state.Store
	every   int64 // epochs from one checkpoint to the next
	base    int64 // epoch of the checkpoint that the process started from
	nodes   int   // that take part in checkpoints
	origins map[string]stateOrigin
	waiting func(error)

	trimmers map[string]operators.Trimmer // sources that keep their rows, by name

	closing chan struct{}  // closed when the query has failed
	writers sync.WaitGroup // of snapshots

	mu       sync.Mutex
	written  sync.Cond // a snapshot has been written, or has failed
	pending  []*pendingCheckpoint
	decided  int64            // last boundary for which it is known whether there is a checkpoint
	writing  map[string]bool  // nodes whose state is being written
	endedAt  map[string]int64 // nodes that have had their last epoch, and which
	final    int64            // largest epoch in endedAt
	failed   error            // of a writer: the query cannot go on
	warned   bool             // waiting has been called
	complete bool             // the last checkpoint is
}

// checkpointMeta is what a checkpoint keeps of the query.
type checkpointMeta struct {
	Nodes    map[string]nodeMeta
	Origins  map[string]stateOrigin // of the operators with state
	Finished bool                   // all inputs have ended
}

// ErrFinished says that the state is of a query whose inputs have all ended: there is nothing to do.
var ErrFinished = errors.New("executor: the query has run to its end already")

// openDurable prepares the tasks to go on from the state.
func (q *Query) openDurable(g *dataflow.Graph, o Options) error {
	d := &durable{
		store: o.State, every: o.CheckpointEpochs, waiting: o.Waiting, closing: make(chan struct{}),
		writing: map[string]bool{}, endedAt: map[string]int64{}, trimmers: map[string]operators.Trimmer{},
	}
	d.written.L = &d.mu
	q.durable = d
	c, err := d.store.Checkpoint()
	if err != nil {
		return err
	}
	meta := checkpointMeta{}
	if c != nil {
		d.base = c.Epoch()
		if err := json.Unmarshal(c.Meta(), &meta); err != nil {
			return fmt.Errorf("checkpoint %d: %w", c.Epoch(), err)
		}
		if meta.Finished {
			return ErrFinished
		}
	}
	d.decided = d.base
	r := &restorer{d: d, c: c, meta: meta, keys: dataflow.StateKeys(g)}
	for _, t := range q.tasks {
		for _, n := range t.nodes {
			if n.op != nil {
				d.nodes++
				n.keeper = d
				r.nodes = append(r.nodes, n)
			}
		}
	}
	if d.every == 0 {
		d.every = seldom(r.stateful())
	}
	return r.restore(o.Changed)
}

// How many epochs lie between two checkpoints where none are asked for. They keep the epoch log short, which is
// in memory too. Those of a query that has no state to be written down cost nothing; the others come so
// seldom that they cost next to nothing, and bound the log by some hundred bytes for each of these epochs.
const (
	emptyCheckpoints  = 1000
	seldomCheckpoints = 1_000_000
)

func seldom(stateful bool) int64 {
	if stateful {
		return seldomCheckpoints
	}
	return emptyCheckpoints
}

// commitBeginning records what a sink finds at the very beginning, so that what it writes can be told
// from that even if the process ends between the first commit and its recording.
func (d *durable) commitBeginning(n *node, s operators.Committer) error {
	witness, _, err := s.Commit(0, true)
	if err != nil {
		return err
	}
	return d.store.CommitSink(n.ctx.Op.Name, 0, witness)
}

// boundary reports whether there is a checkpoint at the end of the epoch.
func (d *durable) boundary(m operators.Mark) bool {
	return m.End || m.Stop || m.Epoch%d.every == 0
}

func (d *durable) mayBegin(*node, int64) bool { return true }
func (d *durable) begins(*node, int64) error  { return nil }

// ended commits what the node has written in the epoch, and makes its part of a checkpoint.
func (d *durable) ended(n *node, m operators.Mark) error {
	at := d.boundary(m)
	if s, ok := n.op.(operators.Committer); ok && m.Epoch > n.committed {
		if err := d.commit(n, s, m.Epoch, at); err != nil {
			return n.fail(err)
		}
	}
	if !at {
		return nil
	}
	return n.fail(d.passed(n, m))
}

// commit commits the epoch of a sink, which at a boundary cannot be put off.
func (d *durable) commit(n *node, s operators.Committer, epoch int64, now bool) error {
	witness, done, err := s.Commit(epoch, now)
	if err != nil && !errors.Is(err, operators.ErrDone) || !done {
		return err
	}
	n.committed = epoch
	return d.patiently(func() error { return d.store.CommitSink(n.ctx.Op.Name, epoch, witness) })
}

// retryPause is how long a query waits for room on a full disk before it tries again.
const retryPause = 200 * time.Millisecond

// patiently calls f again for as long as it fails because the disk is full.
func (d *durable) patiently(f func() error) error {
	for {
		err := f()
		if err == nil || !passes(err) {
			return err
		}
		d.warn(err)
		select {
		case <-d.closing:
			return err
		case <-time.After(retryPause):
		}
	}
}

// warn tells, once, that the query waits.
func (d *durable) warn(err error) {
	d.mu.Lock()
	first := !d.warned
	d.warned = true
	d.mu.Unlock()
	if first && d.waiting != nil {
		d.waiting(err)
	}
}
