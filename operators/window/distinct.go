package window

import (
	"sluice/dataflow"
	"sluice/dataflow/batch"
)

// distinct passes each value of a slot on only once. All values of all slots are in one table; those
// of a slot also form a list.
type distinct struct {
	inner  accumulator
	owner  *accumulators
	index  index
	values column
	slot   []int32 // by entry: the slot that has the value; -1: the entry is dead
	tag    []uint32
	next   []int32 // by entry: 1 + the slot's next entry; 0 at the end
	head   []int32 // by slot: 1 + the slot's first entry; 0: it has none
	dead   int
	hashes []uint64
	kept   []int32
	moved  batch.Vector // values that merge passes on
}

func newDistinct(arg dataflow.Type, inner accumulator, owner *accumulators) *distinct {
	return &distinct{inner: inner, owner: owner, values: column{typ: arg, key: true}, kept: []int32{}}
}

func (a *distinct) force() {
	if p, ok := a.inner.(interface{ force() }); ok {
		p.force()
	}
}

func (a *distinct) grow(n int) {
	a.inner.grow(n)
	a.head = extend(a.head, n)
}

func (a *distinct) update(u *update) {
	a.hashes = extend(a.hashes[:0], u.arg.Len)
	hashColumn(a.hashes, u.arg, u.rows, true)
	kept := a.kept[:0]
	for i := range u.size() {
		r := u.row(i)
		if a.insert(u.slots[r], u.arg, int(r), a.hashes[r]) {
			kept = append(kept, r)
		}
	}
	a.kept = kept
	inner := *u
	inner.rows, inner.partial = kept, true
	a.inner.update(&inner)
}

// insert adds a value to a slot, unless it has it already.
func (a *distinct) insert(slot int32, v *batch.Vector, row int, hash uint64) bool {
	tag := tagOf(combine(hash, hashInt(uint64(slot))))
	if len(a.index.entries) > 0 {
		mask := uint32(len(a.index.entries) - 1)
		for p := tag & mask; a.index.entries[p] != 0; p = (p + 1) & mask {
			e := a.index.entries[p]
			id := int32(uint32(e))
			if uint32(e>>32) == tag && a.slot[id] == slot && a.values.equal(id, v, row) {
				return false
			}
		}
	}
	id := int32(len(a.slot))
	a.values.set(id, v, row)
	a.slot = append(a.slot, slot)
	a.tag = append(a.tag, tag)
	a.next = append(a.next, a.head[slot])
	a.head[slot] = id + 1
	a.index.put(tag, id)
	return true
}

func (a *distinct) merge(dst, src []int32) {
	var entries, slots []int32
	for i, s := range src {
		for e := a.head[s]; e != 0; e = a.next[e-1] {
			entries, slots = append(entries, e-1), append(slots, dst[i])
		}
	}
	a.values.gather(entries, &a.moved)
	u := update{arg: &a.moved, n: len(entries), slots: slots, owner: a.owner}
	a.update(&u)
}

func (a *distinct) reset(slots []int32) {
	a.inner.reset(slots)
	for _, s := range slots {
		for e := a.head[s]; e != 0; e = a.next[e-1] {
			a.slot[e-1] = -1
			a.dead++
		}
		a.head[s] = 0
	}
	if a.dead > len(a.slot)/2 && a.dead > 1024 || a.dead == len(a.slot) {
		a.compact()
	}
}

// compact drops the dead entries.
func (a *distinct) compact() {
	a.index.reset()
	old := *a
	a.values = column{typ: old.values.typ, key: true}
	live := len(old.slot) - old.dead
	a.slot, a.tag, a.next = make([]int32, 0, live), make([]uint32, 0, live), make([]int32, 0, live)
	a.dead = 0
	clear(a.head)
	a.values.grow(live)
	var one [1]int32
	for e, s := range old.slot {
		if s < 0 {
			continue
		}
		id := int32(len(a.slot))
		one[0] = int32(e)
		old.values.gather(one[:], &a.moved)
		a.values.set(id, &a.moved, 0)
		a.slot = append(a.slot, s)
		a.tag = append(a.tag, old.tag[e])
		a.next = append(a.next, a.head[s])
		a.head[s] = id + 1
		a.index.put(old.tag[e], id)
	}
}

func (a *distinct) result(slots []int32, out *batch.Vector, bad *faults) {
	a.inner.result(slots, out, bad)
}
func (a *distinct) size(slot int32) int { return a.inner.size(slot) }
