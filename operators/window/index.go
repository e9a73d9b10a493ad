package window

import "slices"

// index finds the id of a key: an open-addressing hash table with linear probing. It holds ids alone;
// the keys stand in columns (groups) that many indexes share. An entry is 0 where it is free, else the
// tag of the key, which is half of its hash and never 0, and below it the id. The place of an entry follows
// from its tag, so the table grows without looking at keys.
type index struct {
	entries []uint64 // length a power of two, or 0
	n       int
}

// minEntries is the length of the smallest table.
const minEntries = 8

// reserve makes room for one more entry. A table is at most half full, so that most keys are found at
// the first look.
func (x *index) reserve() {
	if 2*(x.n+1) <= len(x.entries) {
		return
	}
	old := x.entries
	x.entries = make([]uint64, max(minEntries, 2*len(old)))
	mask := uint32(len(x.entries) - 1)
	for _, e := range old {
		if e == 0 {
			continue
		}
		p := uint32(e>>32) & mask
		for x.entries[p] != 0 {
			p = (p + 1) & mask
		}
		x.entries[p] = e
	}
}

// put adds an id that is not there yet.
func (x *index) put(tag uint32, id int32) {
	x.reserve()
	mask := uint32(len(x.entries) - 1)
	p := tag & mask
	for x.entries[p] != 0 {
		p = (p + 1) & mask
	}
	x.entries[p] = uint64(tag)<<32 | uint64(uint32(id))
	x.n++
}

// remove takes out an id that is there. Entries that had to give way to it move up, so that no search
// ends early.
func (x *index) remove(tag uint32, id int32) {
	mask := uint32(len(x.entries) - 1)
	p := tag & mask
	for uint32(x.entries[p]) != uint32(id) {
		p = (p + 1) & mask
	}
	for q := (p + 1) & mask; x.entries[q] != 0; q = (q + 1) & mask {
		home := uint32(x.entries[q]>>32) & mask
		if (q-home)&mask >= (q-p)&mask {
			x.entries[p] = x.entries[q]
			p = q
		}
	}
	x.entries[p] = 0
	x.n--
}

// reset empties the table. It keeps its memory unless that is far more than was needed.
func (x *index) reset() {
	if len(x.entries) > 8*max(x.n, minEntries) {
		x.entries = nil
	}
	clear(x.entries)
	x.n = 0
}

// ids hands out small numbers and takes them back.
type ids struct {
	n    int // all numbers handed out so far are below n
	free []int32
}

// take returns a number that nobody has.
func (a *ids) take() int32 {
	if k := len(a.free) - 1; k >= 0 {
		id := a.free[k]
		a.free = a.free[:k]
		return id
	}
	a.n++
	return int32(a.n - 1)
}

// give takes numbers back. They are handed out again in the same order, which keeps the groups of a
// window close together.
func (a *ids) give(list []int32) {
	k := len(a.free)
	a.free = append(a.free, list...)
	slices.Reverse(a.free[k:])
}

// extend returns s with length n. What is added is zero. Large slices grow by a quarter only, which
// bounds what a big state wastes.
func extend[T any](s []T, n int) []T {
	if n <= len(s) {
		return s
	}
	if n <= cap(s) {
		return s[:n]
	}
	c := max(n, 2*cap(s), 16)
	if cap(s) > 1<<16 {
		c = max(n, cap(s)+cap(s)/4)
	}
	grown := make([]T, n, c)
	copy(grown, s)
	return grown
}
