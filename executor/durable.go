package executor

import (
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"sluice/dataflow/batch"
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
	store *state.Store
	every int64 // epochs from one checkpoint to the next; 0: only at the end
	base  int64 // epoch of the checkpoint that the process started from
	nodes int   // that take part in checkpoints

	mu      sync.Mutex
	pending map[int64]*pendingCheckpoint
	endedAt map[string]int64 // nodes that have had their last epoch, and which
	final   int64            // largest epoch in endedAt
}

// pendingCheckpoint is a checkpoint for which some nodes are still missing.
type pendingCheckpoint struct {
	writer *state.CheckpointWriter
	nodes  map[string]nodeMeta
}

// checkpointMeta is what a checkpoint keeps of the query.
type checkpointMeta struct {
	Nodes    map[string]nodeMeta
	Finished bool // all inputs have ended
}

// ErrFinished says that the state is of a query whose inputs have all ended: there is nothing to do.
var ErrFinished = errors.New("executor: the query has run to its end already")

// openDurable prepares the tasks to go on from the state.
func (q *Query) openDurable(o Options) error {
	d := &durable{store: o.State, every: o.CheckpointEpochs, pending: map[int64]*pendingCheckpoint{}, endedAt: map[string]int64{}}
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
	for _, t := range q.tasks {
		for _, n := range t.nodes {
			if n.op == nil {
				continue
			}
			d.nodes++
			n.keeper = d
			if err := d.restore(n, c, meta.Nodes[n.ctx.Op.Name]); err != nil {
				return n.fail(err)
			}
		}
	}
	return nil
}

// restore brings a node to where it was at checkpoint c, which may be nil, and a sink to what it has
// committed since.
func (d *durable) restore(n *node, c *state.Checkpoint, meta nodeMeta) error {
	name := n.ctx.Op.Name
	n.epoch = d.base
	if c != nil {
		n.watermark, n.over = meta.Watermark, meta.Ended
		if !n.ctx.Op.Desc.Sink() {
			n.ctx.Counters.In.Store(meta.In)
		}
		if n.over {
			d.endedAt[name] = c.Epoch()
		}
	}
	if s, ok := n.op.(operators.Stateful); ok && c != nil {
		if err := c.Pieces(name, s.Restore); err != nil {
			return fmt.Errorf("checkpoint %d: %w", c.Epoch(), err)
		}
	}
	if s, ok := n.op.(operators.Committer); ok {
		epoch, witness := d.store.Sink(name)
		visible, err := s.Recover(epoch, witness)
		if err != nil {
			return err
		}
		n.committed = max(epoch, visible)
		if epoch == 0 && witness == nil {
			return d.commitBeginning(n, s)
		}
	}
	return nil
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
	return m.End || m.Stop || d.every > 0 && m.Epoch%d.every == 0
}

func (d *durable) mayBegin(*node, int64) bool { return true }
func (d *durable) begins(*node, int64) error  { return nil }

// ended commits what the node has written in the epoch, and makes its part of a checkpoint.
func (d *durable) ended(n *node, m operators.Mark) error {
	at := d.boundary(m)
	if s, ok := n.op.(operators.Committer); ok && m.Epoch > n.committed {
		witness, done, err := s.Commit(m.Epoch, at)
		if errors.Is(err, operators.ErrDone) {
			err = nil
		}
		if err == nil && done {
			err = d.store.CommitSink(n.ctx.Op.Name, m.Epoch, witness)
			n.committed = m.Epoch
		}
		if err != nil {
			return n.fail(err)
		}
	}
	if !at {
		return nil
	}
	return n.fail(d.nodePassed(n, m))
}

// nodePassed adds the node's part to the checkpoint at the end of the epoch. A node that has ended has
// no state any more and counts for all later ones; once all have, there is a last one.
func (d *durable) nodePassed(n *node, m operators.Mark) error {
	name := n.ctx.Op.Name
	if m.End {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.endedAt[name] = m.Epoch
		d.final = max(d.final, m.Epoch)
		if len(d.endedAt) == d.nodes {
			if _, err := d.begin(d.final); err != nil {
				return err
			}
		}
		return d.completeReady()
	}
	d.mu.Lock()
	p, err := d.begin(m.Epoch)
	d.mu.Unlock()
	if err != nil {
		return err
	}
	if s, ok := n.op.(operators.Stateful); ok {
		if err := snapshot(p.writer, name, s); err != nil {
			return err
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	p.nodes[name] = nodeMeta{Watermark: m.Watermark, In: n.ctx.Counters.In.Load()}
	return d.completeReady()
}

// begin returns the pending checkpoint of the epoch. d.mu is held.
func (d *durable) begin(epoch int64) (*pendingCheckpoint, error) {
	if p := d.pending[epoch]; p != nil {
		return p, nil
	}
	w, err := d.store.BeginCheckpoint(epoch)
	if err != nil {
		return nil, err
	}
	p := &pendingCheckpoint{writer: w, nodes: map[string]nodeMeta{}}
	d.pending[epoch] = p
	return p, nil
}

func snapshot(w *state.CheckpointWriter, name string, s operators.Stateful) error {
	sw, err := w.Operator(name, s.Fingerprint())
	if err != nil {
		return err
	}
	return errors.Join(s.Snapshot(sw.Piece), sw.Close())
}

// completeReady completes the checkpoints for which no node is missing, oldest first. d.mu is held.
func (d *durable) completeReady() error {
	for {
		epoch := int64(-1)
		for e := range d.pending {
			if epoch < 0 || e < epoch {
				epoch = e
			}
		}
		if epoch < 0 || !d.ready(epoch) {
			return nil
		}
		if err := d.complete(epoch); err != nil {
			return err
		}
	}
}

func (d *durable) ready(epoch int64) bool {
	p := d.pending[epoch]
	n := len(p.nodes)
	for name, e := range d.endedAt {
		if _, here := p.nodes[name]; !here && e <= epoch {
			n++
		}
	}
	return n == d.nodes
}

func (d *durable) complete(epoch int64) error {
	p := d.pending[epoch]
	delete(d.pending, epoch)
	meta := checkpointMeta{Nodes: p.nodes, Finished: true}
	for name, e := range d.endedAt {
		if e <= epoch {
			meta.Nodes[name] = nodeMeta{Watermark: batch.MaxWatermark, Ended: true}
		}
	}
	for _, n := range meta.Nodes {
		meta.Finished = meta.Finished && n.Ended
	}
	text, err := json.Marshal(meta)
	if err != nil {
		return err
	}
	if err := p.writer.Complete(text); err != nil {
		return err
	}
	return d.store.Trim(epoch)
}

// abort drops the checkpoints that are not complete.
func (d *durable) abort() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	var errs []error
	for _, p := range d.pending {
		errs = append(errs, p.writer.Abort())
	}
	d.pending = map[int64]*pendingCheckpoint{}
	return errors.Join(errs...)
}

// meeting is where the sources of a durable query that is told to stop agree on the last epoch: the
// largest that any of them has cut. The others cut empty ones until then.
type meeting struct {
	mu      sync.Mutex
	changed sync.Cond
	missing int // groups of sources that have neither come nor ended
	last    int64
	closed  bool
}

func newMeeting(groups int) *meeting {
	m := &meeting{missing: groups}
	m.changed.L = &m.mu
	return m
}

// come waits for all others and returns the last epoch. ok is false if the query has been aborted.
func (m *meeting) come(epoch int64) (last int64, ok bool) {
	m.leave(epoch)
	m.mu.Lock()
	defer m.mu.Unlock()
	for m.missing > 0 && !m.closed {
		m.changed.Wait()
	}
	return m.last, !m.closed
}

// close ends all waiting.
func (m *meeting) close() {
	m.mu.Lock()
	m.closed = true
	m.mu.Unlock()
	m.changed.Broadcast()
}

// leave says that a group of sources has no epoch after this one.
func (m *meeting) leave(epoch int64) {
	m.mu.Lock()
	m.missing--
	m.last = max(m.last, epoch)
	m.mu.Unlock()
	m.changed.Broadcast()
}
