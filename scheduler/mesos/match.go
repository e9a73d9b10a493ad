package mesos

import "slices"

// match is a choice of agents, among those of one event, for workers that a query wants: as many workers as can be
// placed at all, each on an agent of its own. A worker that could be elsewhere too makes room for one that
// could not.
type match struct {
	fits  [][]*offered // what is good for each want, the best first
	next  []int        // of each want: what comes before is of agents that are taken
	taken map[*agent]choice
}

// choice is that a worker of a want goes on an offer.
type choice struct {
	want int
	on   *offered
}

// newMatch chooses for n workers of each want. Those that come first choose first.
func newMatch(fits [][]*offered, n []int) *match {
	m := &match{fits: fits, next: make([]int, len(fits)), taken: map[*agent]choice{}}
	for want := range fits {
		for k := 0; k < n[want] && m.add(want); k++ {
		}
	}
	return m
}

// add finds an agent for one more worker. What is taken stays taken, perhaps by another.
func (m *match) add(want int) bool {
	if on := m.free(want); on != nil {
		m.taken[on.agent] = choice{want, on}
		return true
	}
	// Breadth first over the wants: from has who would take an agent from each.
	from := map[int]choice{want: {}}
	for queue := []int{want}; len(queue) > 0; queue = queue[1:] {
		for _, held := range m.held(queue[0]) {
			holder := m.taken[held.agent].want
			if _, seen := from[holder]; seen {
				continue
			}
			from[holder] = choice{queue[0], held}
			if on := m.free(holder); on != nil {
				m.shift(want, holder, on, from)
				return true
			}
			queue = append(queue, holder)
		}
	}
	return false
}

// shift gives a free agent to a want, which gives up one to the want that asked it, and so on to the first.
func (m *match) shift(first, want int, on *offered, from map[int]choice) {
	m.taken[on.agent] = choice{want, on}
	for want != first {
		next := from[want]
		m.taken[next.on.agent] = next
		want = next.want
	}
}

// free is the best for a want of what is not taken, nil if there is none.
func (m *match) free(want int) *offered {
	for ; m.next[want] < len(m.fits[want]); m.next[want]++ {
		on := m.fits[want][m.next[want]]
		if _, taken := m.taken[on.agent]; !taken {
			return on
		}
	}
	return nil
}

// held are offers that would be good for a want and are taken, one for each holder.
func (m *match) held(want int) (out []*offered) {
	seen := map[int]bool{want: true}
	for _, on := range m.fits[want] {
		if t, taken := m.taken[on.agent]; taken && !seen[t.want] {
			seen[t.want] = true
			out = append(out, on)
		}
	}
	return out
}

// chosen are the offers that a want has got, the best first.
func (m *match) chosen(want int) []*offered {
	return slices.DeleteFunc(slices.Clone(m.fits[want]), func(on *offered) bool { return m.taken[on.agent] != choice{want, on} })
}
