package executor

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"sluice/dataflow"
	"sluice/operators"
)

// State is addressed by what it is the state of: the operator of the spec that an operator stands for, its
// fingerprint, and the key groups. So a query may be edited, or divided into other partitions or tasks, between
// two runs. An operator goes on with the state that was written under its own name, if that is of
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

// has reports whether an operator with this state works on the key group.
func (o stateOrigin) has(group int) bool {
	return !o.Groups.Intersect(dataflow.GroupRange{First: group, End: group + 1}).Empty()
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

// pastState is the checkpoint that a query goes on from.
type pastState interface {
	// Operators names those of which there is state, sorted.
	Operators() []string
	Fingerprint(operator string) string
}

// unmovable gives, for each operator of the spec whose state is not divided by keys, the number of its
// replicas: only as many can go on with it.
func unmovable(past pastState, origins map[string]stateOrigin) map[string]int {
	replicas := map[string]int{}
	for _, name := range past.Operators() {
		if o := origins[name]; !o.Keyed {
			replicas[o.Of] = max(replicas[o.Of], o.Replicas, 1)
		}
	}
	return replicas
}

// heir is an operator that may go on with state.
type heir struct {
	name   string
	print  string // its fingerprint
	origin stateOrigin
}

func heirOf(name string, s operators.Stateful, origin stateOrigin) heir {
	return heir{name: name, print: s.Fingerprint(), origin: origin}
}

// matcher finds who goes on with what state.
type matcher struct {
	past    pastState              // nil if there is none
	origins map[string]stateOrigin // of its operators
	heirs   []heir
}

// takers finds who goes on with the state of each operator of the checkpoint.
func (m *matcher) takers() map[string][]string {
	takers := map[string][]string{}
	if m.past == nil {
		return takers
	}
	for _, h := range m.heirs {
		for _, old := range m.sources(h) {
			takers[old] = append(takers[old], h.name)
		}
	}
	return takers
}

// sources names the operators of the checkpoint whose state the operator goes on with.
func (m *matcher) sources(own heir) []string {
	var same []string // they stand for the same operator, and their state fits; one of each set of copies
	var groups []dataflow.GroupRange
	keys := map[string]bool{}
	for _, old := range m.past.Operators() {
		o := m.origins[old]
		if m.past.Fingerprint(old) != own.print || o.Of != own.origin.Of || o.Stage != own.origin.Stage {
			continue
		}
		if old == own.name && o.Groups == own.origin.Groups && (own.origin.Keyed || o.Replicas == own.origin.Replicas) {
			return []string{old}
		}
		if !keys[o.Key] {
			keys[o.Key] = true
			same, groups = append(same, old), append(groups, o.Groups)
		}
	}
	like := m.groupsLike(own)
	switch {
	case !own.origin.Keyed && (len(groups) > 1 || len(like) > 1), !disjoint(groups), !disjoint(like):
		return nil
	}
	return same
}

// groupsLike are the key groups of the operators, one of each set of copies, whose state is that of own.
func (m *matcher) groupsLike(own heir) []dataflow.GroupRange {
	var groups []dataflow.GroupRange
	keys := map[string]bool{}
	for _, h := range m.heirs {
		if o := h.origin; o.Of == own.origin.Of && o.Stage == own.origin.Stage && !keys[o.Key] && h.print == own.print {
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

// change tells how the state of the checkpoint fits.
func (m *matcher) change(takers map[string][]string) Change {
	var c Change
	if m.past == nil {
		return c
	}
	kept := map[string]bool{}
	for _, names := range takers {
		for _, name := range names {
			kept[name] = true
		}
	}
	for _, h := range m.heirs {
		if kept[h.name] {
			c.Kept = append(c.Kept, h.name)
		} else {
			c.New = append(c.New, h.name)
		}
	}
	slices.Sort(c.Kept)
	slices.Sort(c.New)
	for _, old := range m.past.Operators() {
		if len(takers[old]) == 0 && !m.copied(old, takers) {
			c.Dropped = append(c.Dropped, Dropped{old, m.why(old)})
		}
	}
	return c
}

// copied reports whether a copy of the operator has passed the same state on.
func (m *matcher) copied(old string, takers map[string][]string) bool {
	for other := range takers {
		if m.origins[other].Key == m.origins[old].Key && m.past.Fingerprint(other) == m.past.Fingerprint(old) {
			return true
		}
	}
	return false
}

// why says why the state of an operator is dropped.
func (m *matcher) why(old string) string {
	of := m.origins[old].Of
	var like []string
	for _, h := range m.heirs {
		if h.origin.Of == of {
			like = append(like, h.name)
			if difference := differs(m.past.Fingerprint(old), h.print); difference != "" {
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

// inherit is what an operator keeps beside its state: what it had itself, or else what those had whose state it
// has taken over. own is nil if it had nothing.
func inherit(own *nodeMeta, from []nodeMeta) (nodeMeta, bool) {
	switch {
	case own != nil:
		return *own, true
	case len(from) == 0:
		return nodeMeta{}, false
	}
	meta := from[0]
	meta.Ports = nil
	for _, other := range from[1:] {
		meta.Watermark = min(meta.Watermark, other.Watermark)
		meta.Ended = meta.Ended && other.Ended
	}
	return meta, true
}

// inputsOver reports whether all sources that the operator's rows come from have ended.
func inputsOver(op *dataflow.Operator, ended func(source string) bool) bool {
	if len(op.Inputs) == 0 {
		return ended(op.Name)
	}
	for _, in := range op.Inputs {
		if !inputsOver(in.From, ended) {
			return false
		}
	}
	return true
}
