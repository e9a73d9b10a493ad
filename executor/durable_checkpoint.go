package executor

import (
	"encoding/json"
	"errors"
	"slices"

	"sluice/dataflow/batch"
	"sluice/executor/state"
	"sluice/operators"
)

// Checkpoints are written in the background. A node that comes to a boundary makes a copy of its state and
// goes on; the checkpoint is complete when all copies have been written.
//
// One checkpoint is being written at a time. The first node that comes to a boundary decides for all: if
// there is an earlier checkpoint that is not complete, this boundary makes none. So a slow disk makes
// checkpoints rarer; it neither stops the query nor lets copies pile up. The one with which a query stops or
// ends is never left out.
//
// A checkpoint that fails because the disk is full is given up, and the next boundary makes another one.
// Only the last one ends the query then, with an error: the next process reads again what came after the
// checkpoint before.

// pendingCheckpoint is a checkpoint for which something is missing.
type pendingCheckpoint struct {
	epoch      int64
	last       bool // the query stops here
	writer     *state.CheckpointWriter
	nodes      map[string]nodeMeta // that have no part in it missing
	completing bool
}

// passed adds the node's part to the checkpoint at the end of the epoch. A node that has ended has no
// state any more and counts for all later ones; once all have, there is a last one.
func (d *durable) passed(n *node, m operators.Mark) error {
	if m.End {
		return d.nodeOver(n, m.Epoch)
	}
	p, err := d.join(m.Epoch, m.Stop)
	if p == nil || err != nil {
		return err
	}
	meta := n.meta()
	meta.Watermark = m.Watermark
	s, ok := n.op.(operators.Stateful)
	if !ok {
		return d.add(p, n.ctx.Op.Name, meta)
	}
	d.waitForWriter(n.ctx.Op.Name)
	frozen, err := freeze(s)
	if err != nil {
		return err
	}
	d.write(p, n.ctx.Op.Name, s.Fingerprint(), meta, frozen)
	return nil
}

func (d *durable) nodeOver(n *node, epoch int64) error {
	d.mu.Lock()
	d.endedAt[n.ctx.Op.Name] = epoch
	d.final = max(d.final, epoch)
	final, all := d.final, len(d.endedAt) == d.nodes
	d.mu.Unlock()
	if all {
		if _, err := d.join(final, true); err != nil {
			return err
		}
	}
	return d.completeReady()
}

// join returns the pending checkpoint of the epoch; nil if there is to be none. It also tells of what
// writers have run into.
func (d *durable) join(epoch int64, last bool) (*pendingCheckpoint, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.failed != nil {
		return nil, d.failed
	}
	for _, p := range d.pending {
		if p.epoch == epoch {
			return p, nil
		}
	}
	if !last && (epoch <= d.decided || len(d.pending) > 0) {
		d.decided = max(d.decided, epoch)
		return nil, nil
	}
	d.decided = max(d.decided, epoch)
	w, err := d.store.BeginCheckpoint(epoch)
	if err != nil && passes(err) && !last {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	p := &pendingCheckpoint{epoch: epoch, last: last, writer: w, nodes: map[string]nodeMeta{}}
	d.pending = append(d.pending, p)
	return p, nil
}

// waitForWriter waits until no copy of the node's state is being written.
func (d *durable) waitForWriter(name string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for d.writing[name] {
		d.written.Wait()
	}
}

// write writes a copy of a node's state in the background.
func (d *durable) write(p *pendingCheckpoint, name, fingerprint string, meta nodeMeta, frozen operators.Frozen) {
	d.mu.Lock()
	d.writing[name] = true
	d.mu.Unlock()
	d.writers.Go(func() {
		err := d.snapshot(p.writer, name, fingerprint, frozen)
		d.mu.Lock()
		d.writing[name] = false
		d.written.Broadcast()
		d.mu.Unlock()
		if err == nil {
			err = d.add(p, name, meta)
		}
		d.writerFailed(p, err)
	})
}

// snapshot writes a copy of a state, until the query fails.
func (d *durable) snapshot(w *state.CheckpointWriter, name, fingerprint string, frozen operators.Frozen) error {
	sw, err := w.Operator(name, fingerprint)
	if err != nil {
		return err
	}
	err = frozen.Write(func(group int, piece []byte) error {
		select {
		case <-d.closing:
			return state.ErrAborted
		default:
			return sw.Piece(group, piece)
		}
	})
	return errors.Join(err, sw.Close())
}

// writerFailed gives a checkpoint up, and the query unless another boundary may do.
func (d *durable) writerFailed(p *pendingCheckpoint, err error) {
	if err == nil || errors.Is(err, state.ErrAborted) {
		return
	}
	passing := passes(err) && !p.last
	d.mu.Lock()
	d.pending = slices.DeleteFunc(d.pending, func(x *pendingCheckpoint) bool { return x == p })
	if !passing && d.failed == nil && !d.complete {
		d.failed = err
	}
	d.mu.Unlock()
	// What cannot be removed now is removed by the next process.
	_ = p.writer.Abort()
	if passing {
		d.warn(err)
	}
}

// add notes that nothing of the node is missing any more.
func (d *durable) add(p *pendingCheckpoint, name string, meta nodeMeta) error {
	d.mu.Lock()
	p.nodes[name] = meta
	d.mu.Unlock()
	return d.completeReady()
}

// completeReady completes the checkpoints for which nothing is missing, oldest first.
func (d *durable) completeReady() error {
	for {
		p, meta, err := d.nextReady()
		if p == nil || err != nil {
			return err
		}
		err = p.writer.Complete(meta)
		if err == nil {
			if err = d.trim(p.epoch); err != nil && passes(err) {
				err = nil // the next one trims that too
			}
		}
		if err != nil {
			d.writerFailed(p, err)
			continue
		}
		d.mu.Lock()
		d.pending = slices.DeleteFunc(d.pending, func(x *pendingCheckpoint) bool { return x == p })
		if p.last {
			d.failed, d.complete = nil, true // what an earlier one lacks makes no difference any more
		}
		d.mu.Unlock()
	}
}

// trim forgets what is not needed once the checkpoint of an epoch is complete.
func (d *durable) trim(epoch int64) error {
	if err := d.store.Trim(epoch); err != nil {
		return err
	}
	for name, t := range d.trimmers {
		if entries := d.store.Epochs(name); len(entries) > 0 {
			if err := t.Trim(entries[0].Position); err != nil {
				return err
			}
		}
	}
	return nil
}

// nextReady gives the oldest pending checkpoint if nothing is missing for it, once.
func (d *durable) nextReady() (*pendingCheckpoint, []byte, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.pending) == 0 {
		return nil, nil, nil
	}
	p := d.pending[0]
	n := len(p.nodes)
	for name, e := range d.endedAt {
		if _, here := p.nodes[name]; !here && e <= p.epoch {
			n++
		}
	}
	if p.completing || n < d.nodes {
		return nil, nil, nil
	}
	p.completing = true
	text, err := json.Marshal(d.metaOf(p))
	return p, text, err
}

func (d *durable) metaOf(p *pendingCheckpoint) checkpointMeta {
	meta := checkpointMeta{Nodes: p.nodes, Origins: d.origins, Finished: true}
	for name, e := range d.endedAt {
		if e <= p.epoch {
			meta.Nodes[name] = nodeMeta{Watermark: batch.MaxWatermark, Ended: true}
		}
	}
	for _, n := range meta.Nodes {
		meta.Finished = meta.Finished && n.Ended
	}
	return meta
}

// fail is called when the query has failed: nothing is waited for any more.
func (d *durable) fail() { close(d.closing) }

// finish waits until nothing is written any more, and drops the checkpoints that are not complete.
func (d *durable) finish() error {
	d.writers.Wait()
	d.mu.Lock()
	defer d.mu.Unlock()
	errs := []error{d.failed}
	for _, p := range d.pending {
		errs = append(errs, p.writer.Abort())
	}
	d.pending = nil
	return errors.Join(errs...)
}
