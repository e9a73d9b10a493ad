package window

import (
	"slices"
	"sort"
)

func (s *sliced) clone() core {
	c := &sliced{size: s.size, hop: s.hop, groups: s.groups.clone(), accs: s.accs.clone(), first: slices.Clone(s.first),
		waiting: s.waiting.clone()}
	for _, sl := range s.live {
		c.live = append(c.live, &slice{start: sl.start, order: slices.Clone(sl.order)})
	}
	return c
}

// write writes the groups of all slices: their places in order of first appearance; of each slice the
// start and the number of its groups; with hops the places of the first rows; keys, aggregates.
func (s *sliced) write(p *pieces) error {
	s.accs.grow()
	var all []int32
	var begin []int32 // by slice: its first entry
	for _, sl := range s.live {
		begin = append(begin, int32(len(all)))
		all = append(all, sl.order...)
	}
	size := func(entry int32) int { return s.groups.size(all[entry]) + s.accs.size(all[entry]) }
	err := p.entries(partEntries, len(all), s.groups.keyGroups(all), sizeOf(s.groups, s.accs, size), func(e *encoder, entries []int32) {
		list := idsOf(all, entries)
		s.writePlaces(e, entries, begin)
		if s.hop < s.size {
			gatherInts(e, s.first, list)
		}
		s.groups.save(e, list)
		s.accs.save(e, list)
	})
	if err != nil {
		return err
	}
	return s.waiting.write(p)
}

// writePlaces writes to which slices entries belong, and their places in these.
func (s *sliced) writePlaces(e *encoder, entries, begin []int32) {
	at := make([]int64, len(entries))
	var starts, counts []int64
	current := -1
	for i, entry := range entries {
		k := sort.Search(len(begin), func(k int) bool { return begin[k] > entry }) - 1
		if k != current {
			current = k
			starts, counts = append(starts, s.live[k].start), append(counts, 0)
		}
		counts[len(counts)-1]++
		at[i] = int64(entry - begin[k])
	}
	e.count(at)
	e.uvarint(uint64(len(starts)))
	e.ints(starts)
	e.ints(counts)
}

func (s *sliced) load(d *decoder, group int) {
	at := d.check(d.count(), 0, maxPlace, "a place")
	n := d.uvarint(len(at))
	starts, counts := d.ints(n), d.within(n, 1, int64(len(at)), "a number of groups")
	var first []int64
	if s.hop < s.size {
		first = d.within(len(at), 0, maxSeq, "a place in the stream")
	}
	keys := s.groups.loadKeys(d, len(at), group)
	list := make([]int32, 0, len(at))
	for k, start := range starts {
		end := len(list) + int(counts[k])
		if d.err != nil || end > len(at) || k > 0 && start <= starts[k-1] {
			d.failf("its slices are not in order")
			return
		}
		sl := s.loadSlice(d, start)
		for i := len(list); i < end && d.err == nil; i++ {
			if len(keys) == 0 && len(sl.order) > 0 {
				d.fail(errTwice)
			}
			id := s.groups.insert(d, &sl.index, keys, i)
			s.ranks.set(id, at[i], group)
			sl.order = append(sl.order, id)
			list = append(list, id)
		}
	}
	if len(list) != len(at) {
		d.failf("it has groups of no slice")
	}
	if d.err != nil {
		return
	}
	if first != nil {
		s.first = extend(s.first, s.groups.ids.n)
		scatter(s.first, list, first)
	}
	s.accs.load(d, list)
}

// loadSlice gives the slice that starts at start.
func (s *sliced) loadSlice(d *decoder, start int64) *slice {
	sl := s.slice(start)
	if sl.start != start {
		d.failf("it has a slice that starts at %d", start)
	}
	s.enter(sl)
	return sl
}

func (s *sliced) loadWaiting(d *decoder, group int) {
	c := s.waiting.load(d, group, s.groups, s.accs.calls, nil)
	if c == nil {
		return
	}
	for i, t := range c.times {
		if c.watermarks[i] < s.slice(t).firstEnd {
			d.failf("it has a row that waits and is not late")
			return
		}
	}
}

func (s *sliced) loaded(reached int64) {
	s.reached = reached
	for _, sl := range s.live {
		s.ranks.sort(sl.order)
	}
	s.ranks = nil
	s.waiting.loaded()
}
