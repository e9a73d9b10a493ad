package main

import (
	"sluice/dataflow"
	"sluice/dataflow/batch"
)

// These are the loops that a programmer would write for one job, with everything known in advance:
// column types, no NULLs, no expressions to choose from.

// filterLoop fills a selection vector without branches.
func filterLoop(rows []*batch.Batch, emit func(*batch.Batch)) {
	sel := make([]int32, batch.TargetRows)
	for _, b := range rows {
		delays, values := b.Cols[delayColumn].Ints[:b.Len], b.Cols[valueColumn].Floats[:b.Len]
		n := 0
		for i, d := range delays {
			sel[n] = int32(i)
			var late, small int
			if d > 60 {
				late = 1
			}
			if values[i] < 50 {
				small = 1
			}
			n += late & small
		}
		emit(selected(b, sel[:n]))
	}
}

// filterBranches is filterLoop as one writes it without thinking of the processor.
func filterBranches(rows []*batch.Batch, emit func(*batch.Batch)) {
	sel := make([]int32, 0, batch.TargetRows)
	for _, b := range rows {
		delays, values := b.Cols[delayColumn].Ints[:b.Len], b.Cols[valueColumn].Floats[:b.Len]
		sel = sel[:0]
		for i, d := range delays {
			if d > 60 && values[i] < 50 {
				sel = append(sel, int32(i))
			}
		}
		emit(selected(b, sel))
	}
}

func selected(b *batch.Batch, sel []int32) *batch.Batch {
	out := *b
	out.Sel = sel
	return &out
}

func mapFloatLoop(rows []*batch.Batch, emit func(*batch.Batch)) {
	out := make([]float64, batch.TargetRows)
	for _, b := range rows {
		values, weights, xs := b.Cols[valueColumn].Floats[:b.Len], b.Cols[weightColumn].Floats[:b.Len], out[:b.Len]
		for i, v := range values {
			xs[i] = v*2 + weights[i]
		}
		emit(&batch.Batch{Len: b.Len, Cols: []batch.Vector{{Type: dataflow.FloatType, Len: b.Len, Floats: xs}}})
	}
}

func mapIntLoop(rows []*batch.Batch, emit func(*batch.Batch)) {
	out := make([]int64, batch.TargetRows)
	for _, b := range rows {
		delays, keys, xs := b.Cols[delayColumn].Ints[:b.Len], b.Cols[keyColumn].Ints[:b.Len], out[:b.Len]
		for i, d := range delays {
			xs[i] = d*2 + keys[i]
		}
		emit(ints(xs))
	}
}

// mapIntChecked also finds out whether anything overflowed, as Sluice does.
func mapIntChecked(rows []*batch.Batch, emit func(*batch.Batch)) {
	out := make([]int64, batch.TargetRows)
	for _, b := range rows {
		delays, keys, xs := b.Cols[delayColumn].Ints[:b.Len], b.Cols[keyColumn].Ints[:b.Len], out[:b.Len]
		var overflow int64
		for i, d := range delays {
			double := d * 2
			x := double + keys[i]
			overflow |= (d ^ double) | (double^x)&(keys[i]^x)
			xs[i] = x
		}
		if overflow < 0 {
			panic("the data does not overflow")
		}
		emit(ints(xs))
	}
}

func ints(xs []int64) *batch.Batch {
	return &batch.Batch{Len: len(xs), Cols: []batch.Vector{{Type: dataflow.IntType, Len: len(xs), Ints: xs}}}
}

const (
	minute = 60e6            // microseconds
	delay  = maxJitter * 1e6 // of the watermark, microseconds
)

// group is what is kept of one key in one window.
type group struct {
	key, count int64
	sum, top   float64
}

func (g *group) update(value float64) {
	g.count++
	g.sum += value
	g.top = max(g.top, value)
}

// groups are the groups of one window, in order of first appearance.
type groups struct {
	start int64
	list  []group
	out   columns
}

// columns are memory for emitting.
type columns struct {
	starts, keys, counts []int64
	sums, tops           []float64
}

func (w *groups) reset(start int64) { w.start, w.list = start, w.list[:0] }

// add makes a new group and returns its place.
func (w *groups) add(key int64, value float64) int {
	w.list = append(w.list, group{key: key, top: value})
	return len(w.list) - 1
}

func (w *groups) emit(emit func(*batch.Batch)) {
	c := &w.out
	c.starts, c.keys, c.counts, c.sums, c.tops = c.starts[:0], c.keys[:0], c.counts[:0], c.sums[:0], c.tops[:0]
	for i := range w.list {
		g := &w.list[i]
		c.starts, c.keys, c.counts = append(c.starts, w.start), append(c.keys, g.key), append(c.counts, g.count)
		c.sums, c.tops = append(c.sums, g.sum), append(c.tops, g.top)
	}
	n := len(w.list)
	emit(&batch.Batch{Len: n, Cols: []batch.Vector{
		{Type: dataflow.TimestampType, Len: n, Ints: c.starts},
		{Type: dataflow.IntType, Len: n, Ints: c.keys},
		{Type: dataflow.IntType, Len: n, Ints: c.counts},
		{Type: dataflow.FloatType, Len: n, Floats: c.sums},
		{Type: dataflow.FloatType, Len: n, Floats: c.tops},
	}})
}

// windowMap keeps all groups in one Go map. A window's groups are emitted once no row can belong to it.
func windowMap(rows []*batch.Batch, emit func(*batch.Batch)) {
	type windowKey struct{ key, start int64 }
	places := map[windowKey]int{}
	var open windows[groups]
	for _, b := range rows {
		keys, values, times := b.Cols[keyColumn].Ints[:b.Len], b.Cols[valueColumn].Floats[:b.Len], b.Cols[timeColumn].Ints[:b.Len]
		for i, t := range times {
			start := t - t%minute
			w := open.get(start, (*groups).reset)
			place, ok := places[windowKey{keys[i], start}]
			if !ok {
				place = w.add(keys[i], values[i])
				places[windowKey{keys[i], start}] = place
			}
			w.list[place].update(values[i])
			open.latest = max(open.latest, t)
		}
		open.close(open.latest-delay, func(w *groups) {
			w.emit(emit)
			for _, g := range w.list {
				delete(places, windowKey{g.key, w.start})
			}
		})
	}
	open.close(batch.MaxWatermark, func(w *groups) { w.emit(emit) })
}

// table is the groups of one window behind an open-addressing table from key to place.
type table struct {
	groups
	slots []int32 // place plus one; 0: free; a power of two
}

func (t *table) resetTable(start int64) {
	t.reset(start)
	if t.slots == nil {
		t.slots = make([]int32, 1024)
	}
	clear(t.slots)
}

// place finds the group of a key, or makes it.
func (t *table) place(key int64, value float64) int {
	mask := len(t.slots) - 1
	at := hashKey(key) & mask
	for ; t.slots[at] != 0; at = (at + 1) & mask {
		if place := int(t.slots[at] - 1); t.list[place].key == key {
			return place
		}
	}
	place := t.add(key, value)
	t.slots[at] = int32(place + 1)
	if 2*len(t.list) > len(t.slots) {
		t.grow()
	}
	return place
}

func (t *table) grow() {
	t.slots = make([]int32, 2*len(t.slots))
	mask := len(t.slots) - 1
	for place := range t.list {
		at := hashKey(t.list[place].key) & mask
		for t.slots[at] != 0 {
			at = (at + 1) & mask
		}
		t.slots[at] = int32(place + 1)
	}
}

func hashKey(key int64) int { return int(uint64(key) * 0x9e3779b97f4a7c15 >> 32) }

// windowTable keeps a table for each window, of which two are open at most of the time.
func windowTable(rows []*batch.Batch, emit func(*batch.Batch)) {
	var open windows[table]
	var w *table
	for _, b := range rows {
		keys, values, times := b.Cols[keyColumn].Ints[:b.Len], b.Cols[valueColumn].Floats[:b.Len], b.Cols[timeColumn].Ints[:b.Len]
		for i, t := range times {
			if w == nil || t < w.start || t >= w.start+minute {
				w = open.get(t-t%minute, (*table).resetTable)
			}
			w.list[w.place(keys[i], values[i])].update(values[i])
			open.latest = max(open.latest, t)
		}
		open.close(open.latest-delay, func(w *table) { w.emit(emit) })
		w = nil // it may be closed
	}
	open.close(batch.MaxWatermark, func(w *table) { w.emit(emit) })
}

// windows are the open windows, oldest first, and the memory of closed ones.
type windows[W any] struct {
	latest int64 // event time so far, microseconds
	starts []int64
	open   []*W
	free   []*W
}

// get returns the window that begins at start; reset makes a new one out of old memory.
func (ws *windows[W]) get(start int64, reset func(*W, int64)) *W {
	for i := len(ws.starts) - 1; i >= 0; i-- {
		if ws.starts[i] == start {
			return ws.open[i]
		}
	}
	w := new(W)
	if n := len(ws.free); n > 0 {
		w, ws.free = ws.free[n-1], ws.free[:n-1]
	}
	reset(w, start)
	ws.starts, ws.open = append(ws.starts, start), append(ws.open, w)
	return w
}

// close hands on and forgets the windows that end at the watermark or before.
func (ws *windows[W]) close(watermark int64, done func(*W)) {
	for len(ws.starts) > 0 && ws.starts[0]+minute <= watermark {
		done(ws.open[0])
		ws.free = append(ws.free, ws.open[0])
		ws.starts, ws.open = ws.starts[1:], ws.open[1:]
	}
}
