package executor

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"sluice/dataflow"
	"sluice/dataflow/batch"
	"sluice/executor/state"
	"sluice/operators"
)

// Unmovable gives, for each operator of the spec whose state in the last checkpoint is not divided by keys,
// the number of its replicas: only as many can go on with it.
func Unmovable(store *state.Store) (map[string]int, error) {
	c, err := store.Checkpoint()
	if err != nil || c == nil {
		return nil, err
	}
	var meta checkpointMeta
	if err := json.Unmarshal(c.Meta(), &meta); err != nil {
		return nil, fmt.Errorf("checkpoint %d: %w", c.Epoch(), err)
	}
	return unmovable(c, meta.Origins), nil
}

// restorer brings the operators of a query to where the last checkpoint says.
type restorer struct {
	d     *durable
	c     *state.Checkpoint // may be nil
	meta  checkpointMeta
	keys  map[*dataflow.Operator]string
	nodes []*node // with operators
}

// stateful reports whether any operator has state.
func (r *restorer) stateful() bool {
	return slices.ContainsFunc(r.nodes, func(n *node) bool { _, ok := n.op.(operators.Stateful); return ok })
}

func (r *restorer) restore(changed func(Change) error) error {
	m := &matcher{origins: r.meta.Origins}
	if r.c != nil {
		m.past = r.c
	}
	r.d.origins = map[string]stateOrigin{}
	byName := map[string]*node{}
	for _, n := range r.nodes {
		if s, ok := n.op.(operators.Stateful); ok {
			name := n.ctx.Op.Name
			byName[name], r.d.origins[name] = n, originOf(n.ctx.Op, r.keys[n.ctx.Op])
			m.heirs = append(m.heirs, heirOf(name, s, r.d.origins[name]))
		}
	}
	takers := m.takers()
	if changed != nil {
		if err := changed(m.change(takers)); err != nil {
			return err
		}
	}
	from := map[string][]nodeMeta{}
	for _, old := range slices.Sorted(maps.Keys(takers)) {
		var to []*node
		for _, name := range takers[old] {
			to = append(to, byName[name])
			from[name] = append(from[name], r.meta.Nodes[old])
		}
		if err := r.pieces(old, to); err != nil {
			return err
		}
	}
	for _, n := range r.nodes {
		r.progress(n, from[n.ctx.Op.Name])
		if err := r.sink(n); err != nil {
			return n.fail(err)
		}
	}
	return nil
}

// pieces hands the state of an operator of the checkpoint to those that go on with it.
func (r *restorer) pieces(old string, to []*node) error {
	return r.c.Pieces(old, func(group int, piece []byte) error {
		for _, n := range to {
			if group != operators.WholeState && !r.d.origins[n.ctx.Op.Name].has(group) {
				continue
			}
			if err := n.op.(operators.Stateful).Restore(group, piece); err != nil {
				return n.fail(fmt.Errorf("checkpoint %d: %w", r.c.Epoch(), err))
			}
		}
		return nil
	})
}

// progress brings the node to where it was, or where those were whose state it has taken over.
func (r *restorer) progress(n *node, from []nodeMeta) {
	n.epoch = r.d.base
	var own *nodeMeta
	if meta, ok := r.meta.Nodes[n.ctx.Op.Name]; ok {
		own = &meta
	}
	meta, ok := inherit(own, from)
	if !ok {
		return
	}
	n.watermark, n.over = meta.Watermark, meta.Ended
	if n.over && !inputsOver(n.ctx.Op, r.ended) {
		n.watermark, n.over = batch.MinWatermark, false
	}
	if !n.ctx.Op.Desc.Sink() {
		n.ctx.Counters.In.Store(meta.In)
	}
	if n.over {
		r.d.endedAt[n.ctx.Op.Name] = r.d.base
	}
}

// ended reports whether a source has ended by the checkpoint.
func (r *restorer) ended(source string) bool {
	return slices.ContainsFunc(r.d.store.Epochs(source), func(e state.Epoch) bool { return e.End && e.Epoch <= r.d.base })
}

// sink brings a sink to what it has committed.
func (r *restorer) sink(n *node) error {
	s, ok := n.op.(operators.Committer)
	if !ok {
		return nil
	}
	name, store := n.ctx.Op.Name, r.d.store
	if y, ok := n.op.(operators.Syncer); ok && store.Syncs() {
		y.SyncCommits(store.Sync)
	}
	epoch, witness := store.Sink(name)
	visible, err := s.Recover(epoch, witness)
	if err != nil {
		return err
	}
	n.committed = max(epoch, visible)
	if epoch == 0 && witness == nil {
		return r.d.commitBeginning(n, s)
	}
	return nil
}

// visible is the last epoch that a sink has made visible, 0 if it is not above the checkpoint.
func (q *Query) visible() int64 {
	last := q.durable.base
	for _, t := range q.tasks {
		for _, n := range t.nodes {
			last = max(last, n.committed)
		}
	}
	if last == q.durable.base {
		return 0
	}
	return last
}
