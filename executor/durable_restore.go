package executor

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"sluice/dataflow"
	"sluice/dataflow/batch"
	"sluice/executor/state"
	"sluice/operators"
)

// State is addressed by what it is the state of: the operator of the spec that an operator stands for, its
// fingerprint, and the key groups. So a query may be edited, or divided into other partitions, between
// two processes. An operator goes on with the state that was written under its own name, if that is of
// the same key groups; else the replicas of an operator take over its state by key groups, whatever replicas have
// left it. What nobody takes over is dropped.
//
// Sources and sinks go on by their names.

// stateOrigin says what an operator's state is the state of.
type stateOrigin struct {
	Of     string // operator of the spec
	Key    string // the same for copies of one operator, which have the same state
	Stage  int    // of the operator, 0: all of it
	Groups dataflow.GroupRange
	// Keyed tells that the state is divided by keys; if it is not, it cannot be moved to other replicas.
	Keyed    bool
	Replicas int
}

func originOf(op *dataflow.Operator, key string) stateOrigin {
	o := stateOrigin{Of: op.Name, Key: key, Keyed: op.Properties().Keyed}
	if from := op.Origin; from != nil {
		o.Stage, o.Groups, o.Replicas = from.Stage, from.Groups, from.Replicas
		if len(from.Lineage) > 0 {
			o.Of = from.Lineage[0]
		}
	}
	return o
}

// Change tells how the state fits the operators of a query. The lists are sorted.
type Change struct {
	Kept    []string // operators that go on with their state
	New     []string // operators that begin without one, though there was a query before
	Dropped []Dropped
}

// Dropped is state that no operator goes on with.
type Dropped struct {
	Operator string
	Why      string
}

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
	replicas := map[string]int{}
	for _, name := range c.Operators() {
		if o := meta.Origins[name]; !o.Keyed {
			replicas[o.Of] = max(replicas[o.Of], o.Replicas, 1)
		}
	}
	return replicas, nil
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
	r.d.origins = map[string]stateOrigin{}
	for _, n := range r.nodes {
		if _, ok := n.op.(operators.Stateful); ok {
			r.d.origins[n.ctx.Op.Name] = originOf(n.ctx.Op, r.keys[n.ctx.Op])
		}
	}
	takers := r.takers()
	if changed != nil {
		if err := changed(r.change(takers)); err != nil {
			return err
		}
	}
	for _, old := range slices.Sorted(maps.Keys(takers)) {
		if err := r.pieces(old, takers[old]); err != nil {
			return err
		}
	}
	from := map[*node][]string{}
	for old, ns := range takers {
		for _, n := range ns {
			from[n] = append(from[n], old)
		}
	}
	for _, n := range r.nodes {
		r.progress(n, from[n])
		if err := r.sink(n); err != nil {
			return n.fail(err)
		}
	}
	return nil
}

// takers finds who goes on with the state of each operator of the checkpoint.
func (r *restorer) takers() map[string][]*node {
	takers := map[string][]*node{}
	if r.c == nil {
		return takers
	}
	for _, n := range r.nodes {
		for _, old := range r.sources(n) {
			takers[old] = append(takers[old], n)
		}
	}
	return takers
}

// sources names the operators of the checkpoint whose state the node goes on with.
func (r *restorer) sources(n *node) []string {
	s, ok := n.op.(operators.Stateful)
	if !ok {
		return nil
	}
	name, print := n.ctx.Op.Name, s.Fingerprint()
	own := r.d.origins[name]
	var same []string // they stand for the same operator, and their state fits; one of each set of copies
	var groups []dataflow.GroupRange
	keys := map[string]bool{}
	for _, old := range r.c.Operators() {
		o := r.meta.Origins[old]
		if r.c.Fingerprint(old) != print || o.Of != own.Of || o.Stage != own.Stage {
			continue
		}
		if old == name && o.Groups == own.Groups && (own.Keyed || o.Replicas == own.Replicas) {
			return []string{old}
		}
		if !keys[o.Key] {
			keys[o.Key] = true
			same, groups = append(same, old), append(groups, o.Groups)
		}
	}
	like := r.groupsLike(own, print)
	switch {
	case !own.Keyed && (len(groups) > 1 || len(like) > 1), !disjoint(groups), !disjoint(like):
		return nil
	}
	return same
}

// groupsLike are the key groups of the operators, one of each set of copies, whose state is that of own.
func (r *restorer) groupsLike(own stateOrigin, print string) []dataflow.GroupRange {
	var groups []dataflow.GroupRange
	keys := map[string]bool{}
	for _, n := range r.nodes {
		s, ok := n.op.(operators.Stateful)
		if !ok {
			continue
		}
		o := r.d.origins[n.ctx.Op.Name]
		if o.Of == own.Of && o.Stage == own.Stage && !keys[o.Key] && s.Fingerprint() == print {
			keys[o.Key] = true
			groups = append(groups, o.Groups)
		}
	}
	return groups
}

// disjoint reports whether no key group is in two of the ranges. Replicas that do not divide the keys are
// not told from each other by them.
func disjoint(groups []dataflow.GroupRange) bool {
	for i, a := range groups {
		for _, b := range groups[:i] {
			if !a.Intersect(b).Empty() {
				return false
			}
		}
	}
	return true
}

// pieces hands the state of an operator of the checkpoint to those that go on with it.
func (r *restorer) pieces(old string, to []*node) error {
	return r.c.Pieces(old, func(group int, piece []byte) error {
		for _, n := range to {
			if group != operators.WholeState && !r.has(n, group) {
				continue
			}
			if err := n.op.(operators.Stateful).Restore(group, piece); err != nil {
				return n.fail(fmt.Errorf("checkpoint %d: %w", r.c.Epoch(), err))
			}
		}
		return nil
	})
}

// has reports whether the node works on the key group.
func (r *restorer) has(n *node, group int) bool {
	own := r.d.origins[n.ctx.Op.Name].Groups
	return !own.Intersect(dataflow.GroupRange{First: group, End: group + 1}).Empty()
}

// progress brings the node to where it was, or where those were whose state it has taken over.
func (r *restorer) progress(n *node, from []string) {
	n.epoch = r.d.base
	meta, ok := r.meta.Nodes[n.ctx.Op.Name]
	if !ok && len(from) == 0 {
		return
	}
	if !ok {
		meta = r.meta.Nodes[from[0]]
		for _, old := range from[1:] {
			meta.Watermark = min(meta.Watermark, r.meta.Nodes[old].Watermark)
			meta.Ended = meta.Ended && r.meta.Nodes[old].Ended
		}
	}
	n.watermark, n.over = meta.Watermark, meta.Ended
	if n.over && !r.inputsOver(n.ctx.Op) {
		n.watermark, n.over = batch.MinWatermark, false
	}
	if !n.ctx.Op.Desc.Sink() {
		n.ctx.Counters.In.Store(meta.In)
	}
	if n.over {
		r.d.endedAt[n.ctx.Op.Name] = r.d.base
	}
}

// inputsOver reports whether all sources that the operator's rows come from have ended by the checkpoint.
func (r *restorer) inputsOver(op *dataflow.Operator) bool {
	if len(op.Inputs) == 0 {
		over := false
		for _, e := range r.d.store.Epochs(op.Name) {
			over = over || e.End && e.Epoch <= r.d.base
		}
		return over
	}
	for _, in := range op.Inputs {
		if !r.inputsOver(in.From) {
			return false
		}
	}
	return true
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

// change tells how the state of the checkpoint fits.
func (r *restorer) change(takers map[string][]*node) Change {
	var c Change
	if r.c == nil {
		return c
	}
	kept := map[string]bool{}
	for _, ns := range takers {
		for _, n := range ns {
			kept[n.ctx.Op.Name] = true
		}
	}
	c.Kept = slices.Sorted(maps.Keys(kept))
	for name := range r.d.origins {
		if !kept[name] {
			c.New = append(c.New, name)
		}
	}
	slices.Sort(c.New)
	for _, old := range r.c.Operators() {
		if len(takers[old]) == 0 && !r.copied(old, takers) {
			c.Dropped = append(c.Dropped, Dropped{old, r.why(old)})
		}
	}
	return c
}

// copied reports whether a copy of the operator has passed the same state on.
func (r *restorer) copied(old string, takers map[string][]*node) bool {
	for other := range takers {
		if r.meta.Origins[other].Key == r.meta.Origins[old].Key && r.c.Fingerprint(other) == r.c.Fingerprint(old) {
			return true
		}
	}
	return false
}

// why says why the state of an operator is dropped.
func (r *restorer) why(old string) string {
	of := r.meta.Origins[old].Of
	var like []string
	for _, n := range r.nodes {
		if o, ok := r.d.origins[n.ctx.Op.Name]; ok && o.Of == of {
			like = append(like, n.ctx.Op.Name)
			if difference := differs(r.c.Fingerprint(old), n.op.(operators.Stateful).Fingerprint()); difference != "" {
				return difference
			}
		}
	}
	if len(like) == 0 {
		return "the operator is gone"
	}
	return fmt.Sprintf("it is not divided by keys as that of %s is", strings.Join(like, ", "))
}

// differs tells the first difference of two fingerprints, "" if there is none.
func differs(was, is string) string {
	a, b := strings.Split(was, "\n"), strings.Split(is, "\n")
	for i := range max(len(a), len(b)) {
		x, y := at(a, i), at(b, i)
		if x != y {
			return fmt.Sprintf("it had %s and now has %s", cmp.Or(x, "nothing more"), cmp.Or(y, "nothing more"))
		}
	}
	return ""
}

func at(lines []string, i int) string {
	if i < len(lines) {
		return lines[i]
	}
	return ""
}
