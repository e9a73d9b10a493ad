package executor

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"sluice/dataflow"
	"sluice/dataflow/batch"
	"sluice/metaquery"
	"sluice/operators"
)

// A query that runs on several processes is edited, or divided into other partitions or tasks, at a checkpoint at
// which nothing of it runs. Convert makes a checkpoint of the same epoch for the query as it is to be: each
// operator is built, given what it goes on with, and writes that under its own state key. The snapshots that
// there were are not touched, so that the query as it was can go on until the new checkpoint counts.

// ConvertConfig says what is to be converted.
type ConvertConfig struct {
	Was   Shape              // the query that has left the state
	Query *dataflow.Physical // that is to go on with it
	Store Store
	// Checkpoint is the epoch at which all sources of Was have stopped, and State what its checkpoint has.
	Checkpoint int64
	State      map[string]metaquery.Snapshot
	// Gen is that of the snapshots that are written.
	Gen int64
	// Ended tells whether the source of this name had ended by the checkpoint.
	Ended func(source string) bool
	Build Builder
	// Changed is told before anything is written how the state fits. An error of it ends Convert.
	Changed func(Change) error
}

// Convert returns the state of the checkpoint as Query is to begin with it.
func Convert(cfg ConvertConfig) (state map[string]metaquery.Snapshot, err error) {
	past, err := newSharedPast(cfg.Was, cfg.Store, cfg.Checkpoint, cfg.State)
	if err != nil {
		return nil, err
	}
	if err := past.readFingerprints(); err != nil {
		return nil, err
	}
	c := &converter{cfg: cfg, past: past, matcher: matcher{origins: past.origins}}
	if cfg.Checkpoint > 0 {
		c.matcher.past = past
	}
	defer func() { err = errors.Join(err, c.close()) }()
	if err := c.build(); err != nil {
		return nil, err
	}
	return c.convert()
}

// UnmovableOf is Unmovable for a query that runs on several processes: was has left the state.
func UnmovableOf(was Shape, store Store, state map[string]metaquery.Snapshot) (map[string]int, error) {
	past, err := newSharedPast(was, store, 0, state)
	if err != nil {
		return nil, err
	}
	return unmovable(past, past.origins), nil
}

// converter makes the checkpoint.
type converter struct {
	cfg     ConvertConfig
	past    *sharedPast
	matcher matcher
	nodes   []*node // that a checkpoint needs; those with state are built
}

// build builds the operators with state, one of each set of copies.
func (c *converter) build() error {
	g := c.cfg.Query.Graph
	keys := dataflow.StateKeys(g)
	for _, op := range g.Topological() {
		if keys[op] != op.Name || !inCheckpoint(op) {
			continue
		}
		n := newNode(op, g.Dir)
		c.nodes = append(c.nodes, n)
		if op.Properties().Stateless {
			continue
		}
		var err error
		if n.op, err = c.cfg.Build(&n.ctx); err != nil {
			return n.fail(err)
		}
		if s, ok := n.op.(operators.Stateful); ok {
			c.matcher.heirs = append(c.matcher.heirs, heirOf(op.Name, s, originOf(op, keys[op])))
		}
	}
	return nil
}

// inCheckpoint reports whether a checkpoint needs a snapshot of the operator: it has state, or several inputs. What
// sources and sinks keep is in their logs.
func inCheckpoint(op *dataflow.Operator) bool {
	switch {
	case op.Desc.Source(), op.Desc.Sink(), op.Desc.Races, op.Type == dataflow.NetReader, op.Type == dataflow.NetWriter:
		return false
	}
	return len(op.Inputs) > 1 || !op.Properties().Stateless
}

func (c *converter) convert() (map[string]metaquery.Snapshot, error) {
	takers := c.matcher.takers()
	if err := c.cfg.Changed(c.matcher.change(takers)); err != nil {
		return nil, err
	}
	from := map[string][]string{}
	for _, old := range slices.Sorted(maps.Keys(takers)) {
		for _, name := range takers[old] {
			from[name] = append(from[name], old)
		}
	}
	state := map[string]metaquery.Snapshot{}
	for _, n := range c.nodes {
		snap, ok, err := c.snapshot(n, from[n.ctx.Op.Name])
		if err != nil {
			return nil, n.fail(err)
		}
		if ok {
			state[snap.Key] = snap
		}
		if err := closeNode(n); err != nil { // the next one may need the memory
			return nil, err
		}
	}
	return state, nil
}

// snapshot is what the node begins with; ok is false if that is nothing.
func (c *converter) snapshot(n *node, from []string) (snap metaquery.Snapshot, ok bool, err error) {
	meta, ok := c.meta(n.ctx.Op, from)
	if !ok {
		return snap, false, nil
	}
	snap = metaquery.Snapshot{Key: n.ctx.Op.Name, Lo: c.cfg.Checkpoint, Hi: c.cfg.Checkpoint}
	if meta.Ended {
		snap.Hi = metaquery.LastEpoch
	}
	if snap.Meta, err = json.Marshal(meta); err != nil || len(from) == 0 {
		return snap, err == nil, err
	}
	s := n.op.(operators.Stateful) // only such take over state
	origin := originOf(n.ctx.Op, snap.Key)
	for _, old := range from {
		err := c.past.pieces(old, func(group int, piece []byte) error {
			if group != operators.WholeState && !origin.has(group) {
				return nil
			}
			return s.Restore(group, piece)
		})
		if err != nil {
			return snap, false, fmt.Errorf("checkpoint %d: state of %q: %w", c.cfg.Checkpoint, old, err)
		}
	}
	snap.Ref, err = c.cfg.Store.WriteSnapshot(snap.Key, c.cfg.Gen, snap.Lo, snap.Hi, s.Fingerprint(), s.Snapshot)
	return snap, err == nil, err
}

// meta is what the operator keeps beside its state. What it says of the inputs holds only if they are what they
// were; without it the inputs say anew how far they are.
func (c *converter) meta(op *dataflow.Operator, from []string) (nodeMeta, bool) {
	var own *nodeMeta
	if meta, ok := c.past.metas[op.Name]; ok {
		own = &meta
	}
	var others []nodeMeta
	for _, old := range from {
		others = append(others, c.past.metas[old])
	}
	meta, ok := inherit(own, others)
	if !ok {
		return meta, false
	}
	if meta.Ended && !inputsOver(op, c.cfg.Ended) {
		meta.Watermark, meta.Ended = batch.MinWatermark, false
	}
	if len(meta.Ports) != len(op.Inputs) || !slices.Equal(feeders(op), c.past.feeders[op.Name]) {
		meta.Ports = nil
	}
	for i := range meta.Ports {
		meta.Ports[i].Ended = meta.Ports[i].Ended && inputsOver(op.Inputs[i].From, c.cfg.Ended)
	}
	return meta, true
}

// feeders says where the operator's inputs come from, whatever channels lie between.
func feeders(op *dataflow.Operator) []string {
	var list []string
	for _, in := range op.Inputs {
		for in.From.Type == dataflow.NetReader || in.From.Type == dataflow.NetWriter {
			in = in.From.Inputs[0]
		}
		list = append(list, fmt.Sprintf("%s %d", in.From.Name, in.Output))
	}
	return list
}

func closeNode(n *node) error {
	closer, ok := n.op.(operators.Closer)
	n.op = nil
	if !ok {
		return nil
	}
	return n.fail(closer.Close(false))
}

func (c *converter) close() error {
	var errs []error
	for _, n := range c.nodes {
		errs = append(errs, closeNode(n))
	}
	return errors.Join(errs...)
}

// sharedPast is the checkpoint of a query that ran on several processes. Of copies it has the first.
type sharedPast struct {
	epoch   int64
	store   Store
	names   []string                      // of the operators with state, sorted
	snaps   map[string]metaquery.Snapshot // by operator
	prints  map[string]string
	origins map[string]stateOrigin
	metas   map[string]nodeMeta // also of operators without state
	feeders map[string][]string
}

func newSharedPast(was Shape, store Store, epoch int64, state map[string]metaquery.Snapshot) (*sharedPast, error) {
	p := &sharedPast{
		epoch: epoch, store: store, snaps: map[string]metaquery.Snapshot{}, prints: map[string]string{},
		origins: map[string]stateOrigin{}, metas: map[string]nodeMeta{}, feeders: map[string][]string{},
	}
	for _, op := range was.Operators {
		snap, ok := state[op.Name]
		if !ok || op.Key != op.Name {
			continue
		}
		var meta nodeMeta
		if err := json.Unmarshal(snap.Meta, &meta); err != nil {
			return nil, fmt.Errorf("checkpoint %d: state of %q: %w", epoch, op.Name, err)
		}
		p.metas[op.Name], p.feeders[op.Name], p.origins[op.Name] = meta, op.Feeders, op.origin()
		if snap.Ref != "" {
			p.names, p.snaps[op.Name] = append(p.names, op.Name), snap
		}
	}
	slices.Sort(p.names)
	return p, nil
}

// readFingerprints reads all snapshots once.
func (p *sharedPast) readFingerprints() error {
	for _, name := range p.names {
		print, err := p.store.ReadSnapshot(p.snaps[name].Ref, func(int, []byte) error { return nil })
		if err != nil {
			return fmt.Errorf("checkpoint %d: state of %q: %w", p.epoch, name, err)
		}
		p.prints[name] = print
	}
	return nil
}

// Operators implements pastState.
func (p *sharedPast) Operators() []string { return p.names }

// Fingerprint implements pastState.
func (p *sharedPast) Fingerprint(operator string) string { return p.prints[operator] }

func (p *sharedPast) pieces(operator string, f func(group int, piece []byte) error) error {
	_, err := p.store.ReadSnapshot(p.snaps[operator].Ref, f)
	return err
}
