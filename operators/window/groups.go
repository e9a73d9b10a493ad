package window

import (
	"sluice/dataflow"
	"sluice/dataflow/batch"
)

// input is a run of rows whose expressions have been evaluated. Its vectors have n rows each, and only
// those that sel lists (nil: all) count.
type input struct {
	n     int
	sel   []int32
	keys  []*batch.Vector
	args  []*batch.Vector // one for each call; nil for count(*)
	masks []batch.Bitmap  // one for each call: the rows that its FILTER lets pass; nil: all
	times []int64         // event times; nil if the window needs none

	watermark  int64
	watermarks []int64 // one for each row, or nil

	bounds  batch.Bounds // of times and watermarks
	bounded bool         // bounds are known

	origin                  origin
	timesOwn, watermarksOwn []int64 // memory

	seq  int64   // place in the stream of row 0; the others follow
	seqs []int64 // place in the stream of each row; nil: seq + row

	payload []*batch.Vector // the columns of the operator's input, where late rows are wanted
}

func (in *input) rowWatermark(r int32) int64 {
	if in.watermarks != nil {
		return in.watermarks[r]
	}
	return in.watermark
}

func (in *input) rowSeq(r int32) int64 {
	if in.seqs != nil {
		return in.seqs[r]
	}
	return in.seq + int64(r)
}

// rows is how many rows count.
func (in *input) rows() int {
	if in.sel != nil {
		return len(in.sel)
	}
	return in.n
}

// groups keeps the keys of all groups, column by column, and gives each group its id. Which of them
// belong together (to one slice of time, say) an index tells.
type groups struct {
	ids    ids
	cols   []column
	hashes []uint64 // of the rows of the current input; not with a single int key
	single bool     // the key is one column of int, timestamp or duration
	tags   []uint32 // of the rows of the current input
	misses []int32  // rows of the current input that a first look did not find
	vecs   []batch.Vector
}

func newGroups(types []dataflow.Type) *groups {
	g := &groups{cols: make([]column, len(types)), vecs: make([]batch.Vector, len(types))}
	for i, t := range types {
		g.cols[i] = column{typ: t, key: true}
	}
	if len(types) == 1 {
		switch types[0].Kind {
		case dataflow.Int, dataflow.Timestamp, dataflow.Duration:
			g.single = true
		}
	}
	return g
}

// prepare is called once for an input, before assign and find.
func (g *groups) prepare(keys []*batch.Vector, n int, sel []int32) {
	if len(keys) == 0 {
		return
	}
	if cap(g.hashes) < n {
		g.hashes = make([]uint64, n, n+n/4)
	}
	g.hashes = g.hashes[:n]
	if g.fast(keys) {
		return
	}
	hashColumns(g.hashes, keys, sel)
}

// fast reports whether the keys are plain 64-bit values without any NULL.
func (g *groups) fast(keys []*batch.Vector) bool {
	return g.single && keys[0].Valid == nil && g.cols[0].nulls == nil
}

// assign finds in x the group of each listed row (nil: all n), making those that are missing, and
// writes their ids to slots at the row's place. Ids of new groups are added to order, in order of
// appearance.
func (g *groups) assign(x *index, keys []*batch.Vector, n int, rows, slots, order []int32) []int32 {
	switch {
	case len(keys) == 0:
		return g.assignOnly(n, rows, slots, order)
	case g.fast(keys):
		return g.assignInts(x, keys[0], n, rows, slots, order)
	}
	if rows == nil {
		for r := range int32(n) {
			slots[r], order = g.lookup(x, keys, r, order)
		}
		return order
	}
	for _, r := range rows {
		slots[r], order = g.lookup(x, keys, r, order)
	}
	return order
}

// assignOnly is assign without keys: there is one group.
func (g *groups) assignOnly(n int, rows, slots, order []int32) []int32 {
	if len(order) == 0 {
		order = append(order, g.ids.take())
	}
	id := order[0]
	if rows == nil {
		for i := range slots[:n] {
			slots[i] = id
		}
		return order
	}
	for _, r := range rows {
		slots[r] = id
	}
	return order
}

// assignInts is assign for one key that is a plain 64-bit value. Most keys stand where their hash
// points, so a first pass without branches looks there alone and notes the rows for which it fails.
func (g *groups) assignInts(x *index, key *batch.Vector, n int, rows, slots, order []int32) []int32 {
	g.cols[0].grow(1)
	x.reserve()
	if rows != nil {
		n = len(rows)
	}
	g.tags, g.misses = extend(g.tags, n), extend(g.misses, n)
	tags := g.tags[:n]
	if rows == nil {
		tagInts(tags, key.Ints[:n])
	} else {
		tagIntRows(tags, key.Ints, rows)
	}
	// In short runs, so that the keys that one brings are there for the next.
	for from := 0; from < n; from += probeRun {
		to := min(from+probeRun, n)
		missed := 0
		if rows == nil {
			missed = probeInts(g.misses[:to-from], slots[from:to], x.entries, g.cols[0].ints, key.Ints[from:to], tags[from:to])
		} else {
			missed = probeIntRows(g.misses[:to-from], slots, x.entries, g.cols[0].ints, key.Ints, tags[from:to], rows[from:to])
		}
		order = g.resolveInts(x, key.Ints, tags, from, g.misses[:missed], rows, slots, order)
	}
	return order
}

// probeRun is how many rows are looked up at a time.
const probeRun = 512

func tagInts(tags []uint32, vals []int64) {
	vals = vals[:len(tags)]
	for i := range tags {
		tags[i] = tagOf(hashInt(uint64(vals[i])))
	}
}

func tagIntRows(tags []uint32, vals []int64, rows []int32) {
	rows = rows[:len(tags)]
	for i := range tags {
		tags[i] = tagOf(hashInt(uint64(vals[rows[i]])))
	}
}

// probeInts writes to slots the ids that stand where the tags point, to misses where in tags that is
// another key's place or nobody's, and returns how many these are. A free entry reads as id 0 with a
// tag that nothing has.
func probeInts(misses, slots []int32, entries, stored []uint64, vals []int64, tags []uint32) int {
	mask := uint32(len(entries) - 1)
	missed := 0
	slots, vals, misses = slots[:len(tags)], vals[:len(tags)], misses[:len(tags)]
	for i, tag := range tags {
		e := entries[tag&mask]
		slots[i] = int32(e)
		d := stored[uint32(e)] ^ uint64(vals[i])
		misses[missed] = int32(i)
		if d|uint64(uint32(e>>32)^tag) != 0 {
			missed++
		}
	}
	return missed
}

// probeIntRows is probeInts for some rows, whose tags are in the order of rows.
func probeIntRows(misses, slots []int32, entries, stored []uint64, vals []int64, tags []uint32, rows []int32) int {
	mask := uint32(len(entries) - 1)
	missed := 0
	rows, misses = rows[:len(tags)], misses[:len(tags)]
	for i, tag := range tags {
		r := rows[i]
		e := entries[tag&mask]
		slots[r] = int32(e)
		d := stored[uint32(e)] ^ uint64(vals[r])
		misses[missed] = int32(i)
		if d|uint64(uint32(e>>32)^tag) != 0 {
			missed++
		}
	}
	return missed
}

// resolveInts finds the groups of rows that the first look did not find, making those that are missing.
// misses count from from in tags and rows.
func (g *groups) resolveInts(x *index, vals []int64, tags []uint32, from int, misses, rows, slots, order []int32) []int32 {
	stored, entries := g.cols[0].ints, x.entries
	mask := uint32(len(entries) - 1)
next:
	for _, i := range misses {
		at := from + int(i)
		r := at
		if rows != nil {
			r = int(rows[at])
		}
		v, tag := uint64(vals[r]), tags[at]
		p := tag & mask
		for e := entries[p]; e != 0; e = entries[p] {
			if uint32(e>>32) == tag && stored[uint32(e)] == v {
				slots[r] = int32(e)
				continue next
			}
			p = (p + 1) & mask
		}
		id := g.ids.take()
		if int(id) >= len(stored) {
			g.cols[0].grow(int(id) + 1)
			stored = g.cols[0].ints
		}
		stored[id], slots[r] = v, id
		order = append(order, id)
		entries[p] = uint64(tag)<<32 | uint64(uint32(id))
		x.n++
		if 2*(x.n+1) > len(entries) {
			x.reserve()
			entries, mask = x.entries, uint32(len(x.entries)-1)
		}
	}
	return order
}

// lookup finds the group of row r, making it if it is missing.
func (g *groups) lookup(x *index, keys []*batch.Vector, r int32, order []int32) (int32, []int32) {
	if len(keys) == 0 {
		if len(order) == 0 {
			order = append(order, g.ids.take())
		}
		return order[0], order
	}
	if id := g.find(x, keys, r); id >= 0 {
		return id, order
	}
	id := g.add(x, keys, r)
	return id, append(order, id)
}

// hash is the hash of the key of row r.
func (g *groups) hash(keys []*batch.Vector, r int32) uint64 {
	if g.fast(keys) {
		return hashInt(uint64(keys[0].Ints[r]))
	}
	return g.hashes[r]
}

// find returns the group of row r, or -1. There must be keys.
func (g *groups) find(x *index, keys []*batch.Vector, r int32) int32 {
	if len(x.entries) == 0 {
		return -1
	}
	mask := uint32(len(x.entries) - 1)
	tag := tagOf(g.hash(keys, r))
probe:
	for p := tag & mask; ; p = (p + 1) & mask {
		e := x.entries[p]
		if e == 0 {
			return -1
		}
		if uint32(e>>32) != tag {
			continue
		}
		id := int32(uint32(e))
		for c := range g.cols {
			if !g.cols[c].equal(id, keys[c], int(r)) {
				continue probe
			}
		}
		return id
	}
}

// add makes a group with the key of row r, which must not be in x.
func (g *groups) add(x *index, keys []*batch.Vector, r int32) int32 {
	tag := tagOf(g.hash(keys, r))
	id := g.ids.take()
	for c := range g.cols {
		g.cols[c].set(id, keys[c], int(r))
	}
	x.put(tag, id)
	return id
}

// keys returns the keys of the groups as vectors, valid until the next call.
func (g *groups) keys(list []int32) []*batch.Vector {
	out := make([]*batch.Vector, len(g.cols))
	for c := range g.cols {
		g.cols[c].gather(list, &g.vecs[c])
		out[c] = &g.vecs[c]
	}
	return out
}

// give frees groups that are in no index any more.
func (g *groups) give(list []int32) {
	for c := range g.cols {
		g.cols[c].release(list)
	}
	g.ids.give(list)
}
