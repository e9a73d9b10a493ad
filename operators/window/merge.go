package window

import (
	"slices"

	"sluice/dataflow/batch"
)

// merging joins the slices of a window. The joined states have groups of their own until they have
// been emitted.
type merging struct {
	index index
	slots []int32 // by row of the keys at work
	used  []int32 // groups that hold joined states
}

// merge joins the states of slices and returns the groups that hold them, in order of the first
// appearance of their keys.
func (s *sliced) merge(parts []*slice) []int32 {
	m := &s.merged
	m.index.reset()
	from := len(m.used)
	order := m.used[from:]
	for _, sl := range parts {
		for at := 0; at < len(sl.order); at += batch.TargetRows {
			order = s.mergeRun(order, sl.order[at:min(at+batch.TargetRows, len(sl.order))])
		}
	}
	m.used = append(m.used[:from], order...)
	order = m.used[from:]
	byFirst := func(a, b int32) int { return int(s.first[a] - s.first[b]) }
	if !slices.IsSortedFunc(order, byFirst) {
		slices.SortFunc(order, byFirst)
	}
	return order
}

// mergeRun joins groups of one slice to what order holds.
func (s *sliced) mergeRun(order, groups []int32) []int32 {
	m := &s.merged
	keys := s.groups.keys(groups)
	s.groups.prepare(keys, len(groups), nil)
	m.slots = extend(m.slots, len(groups))
	known := len(order)
	order = s.groups.assign(&m.index, keys, len(groups), nil, m.slots, order)
	s.first = extend(s.first, s.groups.ids.n)
	for _, g := range order[known:] {
		s.first[g] = noFirst
	}
	for i, g := range groups {
		s.first[m.slots[i]] = min(s.first[m.slots[i]], s.first[g])
	}
	s.accs.merge(m.slots[:len(groups)], groups)
	return order
}

// noFirst is the first row of a group that has none.
const noFirst = 1<<62 - 1

// mergeGroup joins the states that one key has in slices.
func (s *sliced) mergeGroup(parts []*slice, group int32) []int32 {
	m := &s.merged
	m.index.reset()
	keys := s.groups.keys([]int32{group})
	s.groups.prepare(keys, 1, nil)
	list := make([]int32, 0, len(parts))
	for _, sl := range parts {
		if len(keys) == 0 {
			list = append(list, sl.order[0])
		} else if g := s.groups.find(&sl.index, keys, 0); g >= 0 {
			list = append(list, g)
		}
	}
	order := s.mergeRun(nil, list)
	m.used = append(m.used, order...)
	return order
}

// release frees the joined states.
func (m *merging) release(s *sliced) {
	if len(m.used) == 0 {
		return
	}
	s.accs.reset(m.used)
	s.groups.give(m.used)
	m.used = m.used[:0]
}
