package window

import "slices"

// places gives the places of entries in order of first appearance.
func places(entries []int32) []int64 {
	list := make([]int64, len(entries))
	for i, entry := range entries {
		list[i] = int64(entry)
	}
	return list
}

// idsOf gives the ids that entries stand for.
func idsOf(order, entries []int32) []int32 {
	list := make([]int32, len(entries))
	for i, entry := range entries {
		list[i] = order[entry]
	}
	return list
}

func (w *whole) clone() core {
	return &whole{groups: w.groups.clone(), accs: w.accs.clone(), order: slices.Clone(w.order)}
}

// write writes the groups: their places in order of first appearance, keys, aggregates.
func (w *whole) write(p *pieces) error {
	size := func(entry int32) int { return w.groups.size(w.order[entry]) + w.accs.size(w.order[entry]) }
	w.accs.grow()
	return p.entries(partEntries, len(w.order), w.groups.keyGroups(w.order), sizeOf(w.groups, w.accs, size), func(e *encoder, entries []int32) {
		e.count(places(entries))
		list := idsOf(w.order, entries)
		w.groups.save(e, list)
		w.accs.save(e, list)
	})
}

func (w *whole) load(d *decoder, group int) {
	at := d.check(d.count(), 0, maxPlace, "a place")
	keys := w.groups.loadKeys(d, len(at), group)
	if d.err != nil {
		return
	}
	list := make([]int32, len(at))
	switch {
	case len(keys) > 0:
		for i := range at {
			list[i] = w.groups.insert(d, &w.index, keys, i)
			w.ranks.set(list[i], at[i], group)
		}
		w.order = append(w.order, list...)
	case len(at) != 1 || w.ranks != nil:
		d.fail(errTwice)
	default:
		w.ranks.set(w.order[0], 0, group)
		list[0] = w.order[0]
	}
	if d.err == nil {
		w.accs.load(d, list)
	}
}

func (w *whole) loadWaiting(d *decoder, _ int) { d.fail(errWaiting) }

func (w *whole) loaded(int64) {
	w.ranks.sort(w.order)
	w.ranks = nil
}

// maxPlace is the last place that a group can have in an order.
const maxPlace = 1<<31 - 1

func (w *counted) clone() core {
	return &counted{size: w.size, hop: w.hop, groups: w.groups.clone(), accs: w.accs.clone(),
		order: slices.Clone(w.order), state: slices.Clone(w.state), next: slices.Clone(w.next)}
}

// write writes the keys: their places in order of first appearance, keys, how many rows they have had;
// and of all their open windows, from the first to the last, how many rows they hold, and the aggregates.
func (w *counted) write(p *pieces) error {
	w.accs.grow()
	size := func(entry int32) int {
		n := w.groups.size(w.order[entry])
		for p := w.state[w.order[entry]].head; p != 0; p = w.next[p-1] {
			n += w.accs.size(p - 1)
		}
		return n
	}
	return p.entries(partEntries, len(w.order), w.groups.keyGroups(w.order), sizeOf(w.groups, w.accs, size), func(e *encoder, entries []int32) {
		e.count(places(entries))
		list := idsOf(w.order, entries)
		w.groups.save(e, list)
		var seen, held []int64
		var slots []int32
		for _, id := range list {
			k := &w.state[id]
			seen = append(seen, k.seen)
			for p, i := k.head, k.closed; p != 0; p, i = w.next[p-1], i+1 {
				held = append(held, k.seen-i*w.hop)
				slots = append(slots, p-1)
			}
		}
		e.ints(seen)
		e.count(held)
		w.accs.save(e, slots)
	})
}

func (w *counted) load(d *decoder, group int) {
	at := d.check(d.count(), 0, maxPlace, "a place")
	keys := w.groups.loadKeys(d, len(at), group)
	seen := d.within(len(at), 1, maxSeq, "a number of rows")
	held := d.check(d.count(), 1, w.size, "a number of rows")
	if len(keys) == 0 && (len(at) != 1 || len(w.order) > 0) {
		d.fail(errTwice)
	}
	var slots []int32
	for i := 0; i < len(at) && d.err == nil; i++ {
		id := w.groups.insert(d, &w.index, keys, i)
		w.ranks.set(id, at[i], group)
		w.order = append(w.order, id)
		w.state = extend(w.state, w.groups.ids.n)
		k := &w.state[id]
		k.seen = seen[i]
		if k.seen >= w.size {
			k.closed = (k.seen-w.size)/w.hop + 1
		}
		from := len(slots)
		for start := k.closed * w.hop; start < k.seen; start += w.hop {
			if n := len(slots); n == len(held) || held[n] != k.seen-start {
				d.failf("its windows of rows do not fit to the number of rows")
				return
			}
			slots = append(slots, w.ids.take())
		}
		w.chain(k, slots[from:])
	}
	if len(slots) != len(held) {
		d.failf("it has windows of no key")
	}
	if d.err == nil {
		w.accs.load(d, slots)
	}
}

// chain makes windows those of a key.
func (w *counted) chain(k *keyRows, slots []int32) {
	w.next = extend(w.next, w.ids.n)
	for i, s := range slots {
		w.next[s] = 0
		if i == 0 {
			k.head = s + 1
		} else {
			w.next[slots[i-1]] = s + 1
		}
		k.tail = s + 1
	}
}

func (w *counted) loadWaiting(d *decoder, _ int) { d.fail(errWaiting) }

func (w *counted) loaded(int64) {
	w.ranks.sort(w.order)
	w.ranks = nil
}
