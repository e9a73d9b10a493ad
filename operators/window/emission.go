package window

import (
	"slices"

	"sluice/dataflow"
	"sluice/dataflow/batch"
)

// sink takes what a window core makes.
type sink interface {
	// results takes a batch of the intermediate schema, one row for each emitted group. bad lists the
	// rows that have no result, in rising order. The batch may be used until the next call.
	results(b *batch.Batch, bad []fault) error
	// lateRows takes the rows of the current input that were late for all of their windows.
	lateRows(rows []int32) error
	// lateCopies is lateRows for rows that had been kept: their columns and watermarks.
	lateCopies(cols []batch.Vector, watermarks []int64) error
	// countLate is told how many times a row was dropped from a window.
	countLate(n int64)
}

// emission collects the groups that are to be emitted, in order, and makes batches of them. What it
// has been given must not change until drain is called.
type emission struct {
	groups *groups
	accs   *accumulators
	sink   sink
	timed  bool // there are columns window_start, window_end and window_time

	keys       []int32 // id of the key in groups
	slots      []int32 // where its state is
	starts     []int64
	ends       []int64
	watermarks []int64

	out   batch.Batch
	bad   faults
	keyed bool // some key or result is text
}

func newEmission(g *groups, a *accumulators, inter *dataflow.Schema, timed bool, s sink) *emission {
	e := &emission{groups: g, accs: a, sink: s, timed: timed, out: *batch.New(inter)}
	for _, c := range inter.Columns {
		e.keyed = e.keyed || c.Type.Kind == dataflow.String || c.Type.Kind == dataflow.Bytes
	}
	return e
}

// add appends groups of the window [start, end), whose rows are to carry the watermark.
func (e *emission) add(keys, slots []int32, start, end, watermark int64) {
	e.keys = append(e.keys, keys...)
	e.slots = append(e.slots, slots...)
	e.watermarks = appendRun(e.watermarks, watermark, len(slots))
	if e.timed {
		e.starts = appendRun(e.starts, start, len(slots))
		e.ends = appendRun(e.ends, end, len(slots))
	}
}

// appendRun appends n times v.
func appendRun(s []int64, v int64, n int) []int64 {
	s = slices.Grow(s, n)
	run := s[len(s) : len(s)+n]
	for i := range run {
		run[i] = v
	}
	return s[:len(s)+n]
}

// full says that it is time to drain.
func (e *emission) full() bool { return len(e.slots) >= batch.TargetRows }

// drain passes on everything collected.
func (e *emission) drain() error {
	for from := 0; from < len(e.slots); {
		to := e.limit(from)
		if err := e.pass(from, to); err != nil {
			return err
		}
		from = to
	}
	e.keys, e.slots = e.keys[:0], e.slots[:0]
	e.starts, e.ends, e.watermarks = e.starts[:0], e.ends[:0], e.watermarks[:0]
	return nil
}

// limit is the end of the batch that starts with group from: bounded in rows and in bytes of text.
func (e *emission) limit(from int) int {
	to := min(len(e.slots), from+batch.TargetRows)
	if !e.keyed {
		return to
	}
	bytes := 0
	for i := from; i < to; i++ {
		for c := range e.groups.cols {
			bytes += e.groups.cols[c].size(e.keys[i])
		}
		for _, acc := range e.accs.list {
			bytes += acc.size(e.slots[i])
		}
		if bytes > batch.MaxDataBytes && i > from {
			return i
		}
	}
	return to
}

func (e *emission) pass(from, to int) error {
	b := &e.out
	b.Len = to - from
	col := 0
	for c := range e.groups.cols {
		e.groups.cols[c].gather(e.keys[from:to], &b.Cols[col])
		col++
	}
	e.bad.list = e.bad.list[:0]
	e.accs.grow()
	for i, acc := range e.accs.list {
		e.bad.text = e.accs.calls[i].text
		acc.result(e.slots[from:to], &b.Cols[col], &e.bad)
		col++
	}
	if e.timed {
		e.times(from, to, b.Cols[col:])
	}
	b.Watermark, b.RowWatermarks = e.watermarks[from], nil
	for _, w := range e.watermarks[from:to] {
		if w != b.Watermark {
			b.RowWatermarks = e.watermarks[from:to]
			break
		}
	}
	return e.sink.results(b, e.bad.sorted())
}

func (e *emission) times(from, to int, cols []batch.Vector) {
	for i := range 3 {
		cols[i].Reset(dataflow.TimestampType, to-from)
	}
	copy(cols[0].Ints, e.starts[from:to])
	copy(cols[1].Ints, e.ends[from:to])
	for i, end := range e.ends[from:to] {
		cols[2].Ints[i] = end - 1
	}
}

// sorted gives the faults by row, the first of each row.
func (f *faults) sorted() []fault {
	if len(f.list) < 2 {
		return f.list
	}
	return sortFaults(f.list)
}
