package window

import (
	"slices"

	"sluice/dataflow/batch"
)

func (s *sessions) clone() core {
	return &sessions{gap: s.gap, lateness: s.lateness, groups: s.groups.clone(), keyed: s.keyed, heads: slices.Clone(s.heads),
		list: slices.Clone(s.list), accs: s.accs.clone(), waiting: s.waiting.clone()}
}

// write writes the keys that have sessions: how many they have; keys; and of all their sessions the
// starts, the lengths, the places of the first rows, whether they have been emitted, the aggregates.
// The sessions of a key are in the order in which they are joined.
func (s *sessions) write(p *pieces) error {
	s.accs.grow()
	var all []int32
	for key, head := range s.heads {
		if head != 0 {
			all = append(all, int32(key))
		}
	}
	size := func(entry int32) int {
		n := s.groups.size(all[entry])
		for p := s.heads[all[entry]]; p != 0; p = s.list[p-1].next {
			n += s.accs.size(p - 1)
		}
		return n
	}
	err := p.entries(partEntries, len(all), s.groups.keyGroups(all), sizeOf(s.groups, s.accs, size), func(e *encoder, entries []int32) {
		s.writeKeys(e, idsOf(all, entries))
	})
	if err != nil {
		return err
	}
	return s.waiting.write(p)
}

func (s *sessions) writeKeys(e *encoder, keys []int32) {
	counts := make([]int64, len(keys))
	var slots []int32
	for i, key := range keys {
		for p := s.heads[key]; p != 0; p = s.list[p-1].next {
			slots = append(slots, p-1)
			counts[i]++
		}
	}
	e.count(counts)
	s.groups.save(e, keys)
	starts, rest, emitted := make([]int64, len(slots)), make([]int64, len(slots)), make([]bool, len(slots))
	for i, id := range slots {
		starts[i], emitted[i] = s.list[id].start, s.list[id].emitted
	}
	e.count(starts)
	for i, id := range slots {
		rest[i] = s.list[id].end - s.list[id].start
	}
	e.ints(rest)
	for i, id := range slots {
		rest[i] = s.list[id].first
	}
	e.ints(rest)
	e.bools(emitted)
	s.accs.save(e, slots)
}

func (s *sessions) load(d *decoder, group int) {
	counts := d.count()
	keys := s.groups.loadKeys(d, len(counts), group)
	starts := d.count()
	n := len(starts)
	d.check(counts, 1, int64(n), "a number of sessions")
	lengths, first := d.ints(n), d.within(n, 0, maxSeq, "a place in the stream")
	emitted := d.bools(n)
	slots := make([]int32, 0, n)
	for i, count := range counts {
		if d.err != nil || int64(len(slots))+count > int64(n) {
			d.failf("it has a key without sessions")
			return
		}
		key := s.loadKey(d, keys, i)
		from := len(slots)
		for range count {
			at := len(slots)
			x := session{start: starts[at], end: starts[at] + lengths[at], first: first[at], key: key, emitted: emitted[at]}
			if x.end <= x.start {
				d.failf("it has a session that ends before it starts")
				return
			}
			slots = append(slots, s.ids.take())
			s.list = extend(s.list, s.ids.n)
			s.list[slots[at]] = x
			s.due.set(slots[at], s.dueTime(&x))
		}
		s.chain(key, slots[from:])
	}
	if len(slots) != n {
		d.failf("it has sessions of no key")
	}
	if d.err == nil {
		s.accs.load(d, slots)
	}
}

// loadKey makes a key that has sessions only.
func (s *sessions) loadKey(d *decoder, keys []*batch.Vector, i int) int32 {
	if !s.keyed {
		if s.heads[0] != 0 {
			d.fail(errTwice)
		}
		return 0
	}
	key := s.groups.insert(d, &s.index, keys, i)
	s.tags, s.heads = extend(s.tags, s.groups.ids.n), extend(s.heads, s.groups.ids.n)
	s.tags[key], s.heads[key] = tagOf(s.groups.hash(keys, int32(i))), 0
	return key
}

// chain makes sessions those of a key.
func (s *sessions) chain(key int32, slots []int32) {
	p := &s.heads[key]
	for _, id := range slots {
		*p = id + 1
		p = &s.list[id].next
	}
}

func (s *sessions) loadWaiting(d *decoder, group int) {
	s.waiting.load(d, group, s.groups, s.accs.calls, s.payload)
}

func (s *sessions) loaded(reached int64) {
	s.reached = reached
	s.waiting.loaded()
}
