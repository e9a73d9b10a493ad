package window

import "sluice/dataflow/batch"

// counted aggregates, for each key, over windows of a fixed number of rows: window i of a key covers
// its rows i*hop to i*hop+size-1.
type counted struct {
	size, hop int64
	groups    *groups
	accs      *accumulators
	out       *emission
	index     index
	keys      []int32 // by row of the input at work: its key
	order     []int32 // all keys, by first appearance
	state     []keyRows

	ids   ids // of open windows, which are the slots of accs
	ranks ranks
	next  []int32 // by window: 1 + the key's next one
	slots []int32 // by row, or by copied row
	gone  []int32 // windows to be freed once out is drained

	// With overlapping windows a row is copied for each window that it is in.
	copied chunk
	rows   []int32
}

// keyRows is how far a key has got.
type keyRows struct {
	seen       int64 // rows
	closed     int64 // windows that are full
	head, tail int32 // 1 + its first and last open window
}

func newCounted(c config) *counted {
	w := &counted{size: c.spec.Size, hop: c.spec.Hop, groups: newGroups(c.keys)}
	w.accs = newAccumulators(c.calls, &w.ids, false)
	w.out = newEmission(w.groups, w.accs, c.inter, false, c.sink)
	return w
}

func (w *counted) add(in *input) error {
	w.keys = extend(w.keys, in.n)
	w.groups.prepare(in.keys, in.n, in.sel)
	w.order = w.groups.assign(&w.index, in.keys, in.n, in.sel, w.keys, w.order)
	w.state = extend(w.state, w.groups.ids.n)
	w.slots = extend(w.slots, max(in.n, batch.TargetRows))
	for i := range in.rows() {
		r := int32(i)
		if in.sel != nil {
			r = in.sel[i]
		}
		w.row(in, r)
	}
	if w.hop == w.size {
		w.accs.add(in, in.sel, w.slots)
	} else {
		w.flush(in)
	}
	err := w.out.drain()
	w.accs.reset(w.gone)
	w.ids.give(w.gone)
	w.gone = w.gone[:0]
	return err
}

// row puts row r into its windows.
func (w *counted) row(in *input, r int32) {
	key := w.keys[r]
	k := &w.state[key]
	if k.seen%w.hop == 0 {
		w.open(k)
	}
	k.seen++
	for p := k.head; p != 0; p = w.next[p-1] {
		if w.hop == w.size {
			w.slots[r] = p - 1
			break
		}
		w.slots[len(w.rows)] = p - 1
		if w.rows = append(w.rows, r); len(w.rows) == batch.TargetRows {
			w.flush(in)
		}
	}
	if k.seen == k.closed*w.hop+w.size {
		id := k.head - 1
		w.out.add([]int32{key}, []int32{id}, 0, 0, in.rowWatermark(r))
		w.gone = append(w.gone, id)
		k.head = w.next[id]
		k.closed++
	}
}

// open gives a key one more window.
func (w *counted) open(k *keyRows) {
	id := w.ids.take()
	w.next = extend(w.next, w.ids.n)
	w.next[id] = 0
	if k.head == 0 {
		k.head = id + 1
	} else {
		w.next[k.tail-1] = id + 1
	}
	k.tail = id + 1
	w.accs.fresh = append(w.accs.fresh, id)
}

// flush adds the rows that have been noted for overlapping windows.
func (w *counted) flush(in *input) {
	if len(w.rows) == 0 {
		return
	}
	args := *in
	args.keys = nil
	w.copied.copyFrom(&args, w.rows, noWatermark)
	w.accs.add(&w.copied.input, nil, w.slots)
	w.rows = w.rows[:0]
}

func (w *counted) advance(int64) error { return nil }

func (w *counted) end() error {
	for _, key := range w.order {
		for p := w.state[key].head; p != 0; p = w.next[p-1] {
			w.out.add([]int32{key}, []int32{p - 1}, 0, 0, noWatermark)
			if w.out.full() {
				if err := w.out.drain(); err != nil {
					return err
				}
			}
		}
	}
	return w.out.drain()
}
