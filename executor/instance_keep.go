package executor

import (
	"encoding/json"
	"errors"
	"slices"
	"syscall"

	"sluice/executor/state"
	"sluice/internal/protocol"
	"sluice/metaquery"
	"sluice/operators"
)

// passes reports whether an error may be gone when the same is tried again.
func passes(err error) bool {
	var retry *RetryError
	return errors.As(err, &retry) || errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

// crossed reports whether there is a boundary between two epochs, the first of which may be one.
func (i *Instance) crossed(last, next int64) bool {
	every := i.cfg.Launch.Every
	if every <= 0 {
		return false
	}
	on := last%every == 0 && last > i.cfg.Launch.Checkpoint
	if !i.cfg.Off.On(protocol.Cross) {
		return on
	}
	return on || (next-1)/every > last/every
}

// boundary reports whether an epoch is a checkpoint boundary.
func (i *Instance) boundary(epoch int64) bool {
	every := i.cfg.Launch.Every
	return every > 0 && epoch%every == 0
}

// pass notes what the counts of an operator are at the end of every epoch from lo to hi.
func (i *Instance) pass(o metaquery.OperatorReport, lo, hi int64) {
	if hi < i.complete {
		return
	}
	i.passed = slices.DeleteFunc(i.passed, func(p metaquery.Passed) bool {
		return p.Operator == o.Name && p.Lo >= lo && p.Hi <= hi
	})
	i.passed = append(i.passed, metaquery.PassedOf(o, lo, hi))
	i.changed()
}

// passEnd is for a node that has ended the epoch of mark m.
func (i *Instance) passEnd(n *node, m operators.Mark) {
	switch {
	case m.End:
		i.pass(n.counts(), m.Epoch, metaquery.LastEpoch)
	case m.Stop || i.boundary(m.Epoch):
		i.pass(n.counts(), m.Epoch, m.Epoch)
	}
}

// passSource is for a source that has read the epoch of mark m.
func (i *Instance) passSource(f *instanceFeed, m operators.Mark) {
	if m.Epoch > f.last && i.crossed(f.last, m.Epoch) {
		before := f.counts
		before.Name = f.ctx.Op.Name
		i.pass(before, f.last, m.Epoch-1)
	}
	n := i.task.sources[f.index]
	f.counts = n.counts()
	i.passEnd(n, m)
}

// mayBegin implements keeper: who has accepted a plan waits for the decision.
func (i *Instance) mayBegin(n *node, epoch int64) bool {
	return i.plan == nil || epoch < i.plan.Epoch || !i.concerns(n, i.plan) || !i.cfg.Off.On(protocol.Hold)
}

// begins implements keeper.
func (i *Instance) begins(n *node, epoch int64) error {
	if i.crossed(n.epoch, epoch) {
		if err := i.cross(n, epoch); err != nil {
			return err
		}
	}
	return i.apply(i.byNode[n], epoch)
}

// cross takes the node over a checkpoint boundary.
func (i *Instance) cross(n *node, next int64) error {
	if s := i.sink(n); s != nil && i.cfg.Off.On(protocol.Flush) {
		if err := i.commit(s, n.epoch, true); err != nil {
			return err
		}
		if n.committed >= n.epoch {
			i.aim(s, next)
		}
		if err := i.record(s); err != nil {
			return err
		}
	}
	hi := next - 1
	switch every := i.cfg.Launch.Every; {
	case !i.cfg.Off.On(protocol.Cross):
		hi = n.epoch
	case !i.cfg.Off.On(protocol.Ranges):
		hi = (n.epoch + every - 1) / every * every
	}
	i.pass(n.counts(), n.epoch, hi)
	return i.snapshot(i.byNode[n], n.meta(), n.epoch, hi)
}

// ended implements keeper.
func (i *Instance) ended(n *node, m operators.Mark) error {
	last := m.End || m.Stop
	i.passEnd(n, m)
	if s := i.sink(n); s != nil {
		if err := i.commit(s, m.Epoch, last); err != nil {
			return n.fail(err)
		}
		switch {
		case m.End:
			s.target = metaquery.LastEpoch
		case n.committed >= m.Epoch:
			s.target = max(s.target, m.Epoch)
		}
		if err := i.record(s); err != nil {
			return n.fail(err)
		}
	}
	if !last {
		return nil
	}
	meta := n.meta()
	meta.Watermark, meta.Ended = m.Watermark, m.End
	if m.End {
		return n.fail(i.snapshot(i.byNode[n], meta, m.Epoch, metaquery.LastEpoch))
	}
	return n.fail(i.snapshot(i.byNode[n], meta, m.Epoch, m.Epoch))
}

// snapshot makes a snapshot of the node as it is, which is its state from epoch lo to hi.
func (i *Instance) snapshot(n *instanceNode, meta nodeMeta, lo, hi int64) error {
	if !n.keeps {
		return nil
	}
	text, err := json.Marshal(meta)
	if err != nil {
		return err
	}
	snap := metaquery.Snapshot{Key: n.key, Lo: lo, Hi: hi, Meta: text}
	s, stateful := n.op.(operators.Stateful)
	if !stateful || meta.Ended || i.cfg.Launch.NoSnapshots {
		i.durable(snap)
		return nil
	}
	frozen, err := freeze(s)
	if err != nil {
		return err
	}
	i.write(snap, s.Fingerprint(), frozen)
	return nil
}

// write writes a snapshot in the background. It tries again until it succeeds.
func (i *Instance) write(snap metaquery.Snapshot, fingerprint string, frozen operators.Frozen) {
	i.writing++
	gen, store := i.cfg.Launch.ID.Gen, i.cfg.Store
	i.env.Background(func() error {
		ref, err := store.WriteSnapshot(snap.Key, gen, snap.Lo, snap.Hi, fingerprint, frozen.Write)
		snap.Ref = ref
		return err
	}, func(err error) {
		i.writing--
		switch {
		case i.dead:
		case err == nil:
			i.durable(snap)
		default:
			// The operator has gone on and the copy may be used up: another boundary will do.
			i.trouble(err)
		}
		i.settle()
	})
}

// durable is told of each snapshot that has been stored.
func (i *Instance) durable(snap metaquery.Snapshot) {
	switch {
	case snap.Hi < i.complete:
		return
	case follows(snap) > i.safeUpTo():
		i.early = append(i.early, snap)
		return
	}
	i.snapshots = slices.DeleteFunc(i.snapshots, func(s metaquery.Snapshot) bool {
		return s.Hi < i.complete || s.Key == snap.Key && s.Lo >= snap.Lo && s.Hi <= snap.Hi
	})
	i.snapshots = append(i.snapshots, snap)
	i.changed()
}

// trouble ends the instance so that another generation tries again from the last checkpoint.
func (i *Instance) trouble(err error) { i.fail(&RetryError{err}) }

// freeze copies an operator's state.
func freeze(s operators.Stateful) (operators.Frozen, error) {
	if f, ok := s.(operators.Freezer); ok {
		return f.Freeze()
	}
	var p pieces
	err := s.Snapshot(func(group int, data []byte) error {
		p = append(p, piece{group, slices.Clone(data)})
		return nil
	})
	return p, err
}

// pieces are a copy of a state.
type pieces []piece

type piece struct {
	group int
	data  []byte
}

// Write implements operators.Frozen.
func (p pieces) Write(keep func(group int, piece []byte) error) error {
	for _, x := range p {
		if err := keep(x.group, x.data); err != nil {
			return err
		}
	}
	return nil
}

// instanceSink is a sink of an instance.
type instanceSink struct {
	node       *node
	committer  operators.Committer
	log        state.SinkLog
	pending    operators.Pending // nil if its commits count at once
	confirmed  int64             // up to which they have been confirmed
	frontier   int64             // up to which everything is committed, recorded and confirmed
	target     int64             // the frontier when all has been
	goal       int64             // the target once the epoch behind it is safe
	unrecorded *commit           // the last commit, if it could not be recorded yet
}

// commit is what a sink has made visible.
type commit struct {
	epoch   int64
	witness []byte
}

func (i *Instance) sink(n *node) *instanceSink {
	for _, s := range i.sinks {
		if s.node == n {
			return s
		}
	}
	return nil
}

// openSink brings a sink to what it has committed.
func (i *Instance) openSink(n *node, c operators.Committer) error {
	log, epoch, witness, err := i.cfg.Store.OpenSink(n.ctx.Op.Name, i.cfg.Launch.ID.Gen)
	if err != nil {
		return storeError(err)
	}
	s := &instanceSink{node: n, committer: c, log: log, confirmed: operators.Everything}
	i.sinks = append(i.sinks, s)
	if y, ok := c.(operators.Syncer); ok && i.syncs() {
		y.SyncCommits(func() error { return nil }) // the logs of sources are on the disk before (makeSafe)
	}
	visible, err := c.Recover(epoch, witness)
	if err != nil {
		return err
	}
	n.committed = max(epoch, visible)
	if k, ok := c.(operators.Counting); ok {
		n.before = k.Written()
	}
	if epoch == 0 && witness == nil {
		if witness, _, err = c.Commit(0, true); err != nil {
			return err
		}
		if err := log.Commit(0, witness); err != nil {
			return storeError(err)
		}
	}
	if p, ok := c.(operators.Pending); ok {
		s.pending = p
		if err := i.confirm(s); err != nil {
			return err
		}
	}
	if i.cfg.Off.On(protocol.Restate) {
		s.target = n.committed
		s.frontier = s.reached()
	}
	return nil
}

// syncs reports whether what the store keeps is to outlive the machine.
func (i *Instance) syncs() bool {
	s, ok := i.cfg.Store.(interface{ Syncs() bool })
	return ok && s.Syncs()
}

// confirm looks which commits of the sink have been confirmed.
func (i *Instance) confirm(s *instanceSink) error {
	if s.pending == nil {
		return nil
	}
	confirmed, witness, err := s.pending.Confirm()
	if err != nil {
		return s.node.fail(err)
	}
	s.confirmed = confirmed
	if witness != nil {
		s.unrecorded = &commit{s.node.committed, witness}
	}
	return nil
}

// reached is the frontier that everything that is known so far allows.
func (s *instanceSink) reached() int64 {
	if s.confirmed >= s.node.committed {
		return s.target
	}
	return min(s.target, s.confirmed)
}

// storeError is an error of the store, which may pass unless it is that a later generation is at work.
func storeError(err error) error {
	if err == nil || errors.Is(err, state.ErrSealed) || errors.Is(err, state.ErrDamaged) {
		return err
	}
	return &RetryError{err}
}

// commit lets the sink make its rows up to epoch visible; now says that it must.
func (i *Instance) commit(s *instanceSink, epoch int64, now bool) error {
	if epoch <= s.node.committed {
		return nil
	}
	if safe, err := i.makeSafe(epoch, now); err != nil || !safe {
		return err
	}
	witness, done, err := s.committer.Commit(epoch, now)
	if errors.Is(err, operators.ErrDone) {
		err = nil
	}
	if err != nil || !done {
		return err
	}
	s.node.committed = epoch
	s.unrecorded = &commit{epoch, witness}
	return nil
}

// record records the sink's last commit. What cannot be recorded now is tried again with the next tick.
func (i *Instance) record(s *instanceSink) error {
	if c := s.unrecorded; c != nil {
		if err := s.log.Commit(c.epoch, c.witness); errors.Is(err, state.ErrSealed) {
			return err
		} else if err != nil {
			return nil
		}
		s.unrecorded = nil
	}
	if f := s.reached(); f > s.frontier {
		before := s.frontier
		awaited := i.awaited(before, f)
		if l := i.syncing(s.log); l != nil && awaited {
			// Producers forget what a complete checkpoint has: the commit must not be lost with the machine.
			if err := l.Sync(); err != nil {
				return storeError(err)
			}
		}
		s.frontier = f
		if awaited {
			i.changed()
		} else {
			i.progressed()
		}
	}
	return nil
}

// awaited reports whether somebody waits for a frontier that has gone from one epoch to another: a checkpoint, a plan
// or the end of the query does, and nothing does at each epoch.
func (i *Instance) awaited(from, to int64) bool {
	every := i.cfg.Launch.Every
	return to == metaquery.LastEpoch || i.orders.Stop != 0 || i.plan != nil || every > 0 && to/every > max(from, 0)/every
}
