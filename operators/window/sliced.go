package window

import (
	"cmp"
	"slices"
)

// sliced aggregates over windows of a fixed length that start at multiples of a hop. Time is cut where
// a window starts or ends; what lies between two cuts is a slice, and a row is added to its slice
// alone. A window's result is merged from its slices when it is emitted. A tumbling window is one slice.
//
// A row that is late for some window of its slice waits in the queue, so that the slice does not hold
// it before these windows are emitted.
type sliced struct {
	size, hop int64
	lateness  int64
	groups    *groups
	accs      *accumulators // slots are the ids of groups
	out       *emission
	sink      sink

	live    []*slice // by start
	recent  [recentSlices]*slice
	pool    []spare
	waiting queue
	reached int64 // all windows that end at or before it have been emitted, if they had rows

	slots  []int32 // by row of the input at work: its group
	onTime []int32
	runs   []run
	queued []int32
	lost   []int32

	// first is, by group, the place in the stream of its first row; only with hops.
	first  []int64
	ranks  ranks
	merged merging
}

// slice is what has been seen of one slice of time, [start, end).
type slice struct {
	start, end int64
	// firstEnd and lastEnd are the ends of the first and the last window that it is part of.
	firstEnd, lastEnd int64
	entered           bool // it is one of live
	index             index
	order             []int32 // its groups, by first appearance
}

// run is a part of onTime that belongs to one slice.
type run struct {
	slice    *slice
	from, to int
}

// recentSlices is the number of slices that are found without a search; a power of two.
const recentSlices = 64

func newSliced(c config) *sliced {
	g := newGroups(c.keys)
	s := &sliced{size: c.spec.Size, hop: c.spec.Hop, lateness: c.lateness, groups: g, sink: c.sink,
		accs: newAccumulators(c.calls, &g.ids, false), reached: noWatermark}
	s.out = newEmission(g, s.accs, c.inter, true, c.sink)
	return s
}

func (s *sliced) add(in *input) error {
	if in.rows() == 0 {
		return nil
	}
	s.slots = extend(s.slots, in.n)
	s.groups.prepare(in.keys, in.n, in.sel)
	low, high, watermark := in.bounds.Low, in.bounds.High, max(s.reached, in.bounds.Watermark)
	if !in.bounded {
		in.gatherTimes()
		low, high, watermark = s.bounds(in)
	}
	sl := s.slice(low)
	if high < sl.end && watermark < sl.firstEnd {
		s.assign(sl, in, in.sel)
		s.accs.add(in, in.sel, s.slots)
		return nil
	}
	in.gatherTimes()
	s.sort(in)
	if len(s.onTime) > 0 {
		for _, r := range s.runs {
			s.assign(r.slice, in, s.onTime[r.from:r.to])
		}
		s.accs.add(in, s.onTime, s.slots)
	}
	s.waiting.push(in, s.queued, s.reached, nil)
	if len(s.lost) > 0 {
		return s.sink.lateRows(s.lost)
	}
	return nil
}

// bounds gives the least and the greatest time, and the greatest watermark, of the rows of in, of which there is at
// least one.
func (s *sliced) bounds(in *input) (low, high, watermark int64) {
	times, marks := in.times[:in.n], in.watermarks
	if marks == nil {
		low, high = timeBounds(times, in.sel)
		return low, high, max(s.reached, in.watermark)
	}
	watermark = s.reached
	if in.sel == nil {
		marks = marks[:len(times)]
		low, high = times[0], times[0]
		for i, t := range times {
			low, high, watermark = min(low, t), max(high, t), max(watermark, marks[i])
		}
		return low, high, watermark
	}
	low, high = times[in.sel[0]], times[in.sel[0]]
	for _, r := range in.sel {
		low, high, watermark = min(low, times[r]), max(high, times[r]), max(watermark, marks[r])
	}
	return low, high, watermark
}

func timeBounds(times []int64, rows []int32) (low, high int64) {
	if rows == nil {
		low, high = times[0], times[0]
		for _, t := range times {
			low, high = min(low, t), max(high, t)
		}
		return low, high
	}
	low, high = times[rows[0]], times[rows[0]]
	for _, r := range rows {
		low, high = min(low, times[r]), max(high, times[r])
	}
	return low, high
}

// sort parts the rows of in into onTime with its runs, queued and lost.
func (s *sliced) sort(in *input) {
	s.onTime, s.runs, s.queued, s.lost = s.onTime[:0], s.runs[:0], s.queued[:0], s.lost[:0]
	var sl *slice
	for i := range in.rows() {
		r := int32(i)
		if in.sel != nil {
			r = in.sel[i]
		}
		t := in.times[r]
		if sl == nil || t < sl.start || t >= sl.end {
			sl = s.slice(t)
			s.closeRun()
			s.runs = append(s.runs, run{slice: sl, from: len(s.onTime)})
		}
		if w := max(s.reached, in.rowWatermark(r)); w >= sl.firstEnd {
			s.overdue(sl, r, w)
			continue
		}
		s.enter(sl)
		s.onTime = append(s.onTime, r)
	}
	s.closeRun()
}

func (s *sliced) closeRun() {
	k := len(s.runs) - 1
	if k < 0 {
		return
	}
	if s.runs[k].to = len(s.onTime); s.runs[k].to == s.runs[k].from {
		s.runs = s.runs[:k]
	}
}

// overdue deals with row r, which is late for the first window of its slice.
func (s *sliced) overdue(sl *slice, r int32, w int64) {
	// Windows that end at or before limit drop the row.
	limit := before(w, s.lateness)
	if limit >= sl.firstEnd {
		s.sink.countLate((min(limit, sl.lastEnd)-sl.firstEnd)/s.hop + 1)
	}
	if limit >= sl.lastEnd {
		s.lost = append(s.lost, r)
		return
	}
	s.queued = append(s.queued, r)
}

// assign finds the groups of rows of one slice.
func (s *sliced) assign(sl *slice, in *input, rows []int32) {
	s.enter(sl)
	known := len(sl.order)
	sl.order = s.groups.assign(&sl.index, in.keys, in.n, rows, s.slots, sl.order)
	if len(sl.order) == known {
		return
	}
	s.accs.fresh = append(s.accs.fresh, sl.order[known:]...)
	if s.hop < s.size {
		s.noteFirst(in, rows, sl.order[known:])
	}
}

// noteFirst notes the first rows of new groups.
func (s *sliced) noteFirst(in *input, rows, groups []int32) {
	s.first = extend(s.first, s.groups.ids.n)
	for _, g := range groups {
		s.first[g] = -1
	}
	missing := len(groups)
	for i := 0; missing > 0; i++ {
		r := int32(i)
		if rows != nil {
			r = rows[i]
		}
		if g := s.slots[r]; s.first[g] < 0 {
			s.first[g] = in.rowSeq(r)
			missing--
		}
	}
}

// slice returns the slice of time t. If it has no groups yet, it may not be one of live.
func (s *sliced) slice(t int64) *slice {
	base := floorDiv(t, s.hop)
	place := &s.recent[uint64(base)%recentSlices]
	if sl := *place; sl != nil && sl.start <= t && t < sl.end {
		return sl
	}
	at, found := s.search(t)
	if found {
		*place = s.live[at]
		return s.live[at]
	}
	*place = s.newSlice(t, base)
	return *place
}

// search finds the live slice of time t, or the place where it would be.
func (s *sliced) search(t int64) (int, bool) {
	at, found := slices.BinarySearchFunc(s.live, t, func(sl *slice, t int64) int { return cmp.Compare(sl.start, t) })
	if found {
		return at, true
	}
	if at > 0 && t < s.live[at-1].end {
		return at - 1, true
	}
	return at, false
}

// newSlice makes the slice of time t, of which base is the number of its hop.
func (s *sliced) newSlice(t, base int64) *slice {
	start := before(t, t-base*s.hop)
	cut := after(start, s.size%s.hop)
	sl := &slice{start: start, end: after(start, s.hop), lastEnd: after(start, s.size)}
	firstStart := after(before(start, s.size), s.hop)
	if cut > start {
		// The slices of a hop differ in the windows that end at the cut.
		firstStart = before(start, s.size-s.size%s.hop)
		if t < cut {
			sl.end = cut
		} else {
			sl.start = cut
			firstStart = after(firstStart, s.hop)
		}
	}
	sl.firstEnd = after(firstStart, s.size)
	return sl
}

// enter makes a slice that is about to get rows one of live.
func (s *sliced) enter(sl *slice) {
	if sl.entered {
		return
	}
	sl.entered = true
	at, _ := s.search(sl.start)
	s.live = slices.Insert(s.live, at, sl)
	if k := len(s.pool) - 1; k >= 0 {
		sl.index, sl.order = s.pool[k].index, s.pool[k].order
		s.pool = s.pool[:k]
	}
}

func (s *sliced) advance(watermark int64) error {
	rows := s.waiting.ready(watermark)
	done := 0
	for {
		end, ok := s.nextEnd()
		ok = ok && end <= watermark
		switch {
		case ok && (done == len(rows) || end <= rows[done].watermark):
			s.reached = end
			if err := s.emit(end); err != nil {
				return err
			}
		case done < len(rows):
			s.reached = max(s.reached, rows[done].watermark)
			if err := s.correct(rows[done]); err != nil {
				return err
			}
			done++
		default:
			s.reached = max(s.reached, watermark)
			s.waiting.done(done)
			return s.settle()
		}
	}
}

func (s *sliced) end() error { return s.advance(lastWatermark) }

// nextEnd is the end of the next window to be emitted.
func (s *sliced) nextEnd() (int64, bool) {
	at, _ := slices.BinarySearchFunc(s.live, s.reached, func(sl *slice, w int64) int {
		if sl.lastEnd <= w {
			return -1
		}
		return 1
	})
	if at == len(s.live) {
		return 0, false
	}
	sl := s.live[at]
	if sl.firstEnd > s.reached {
		return sl.firstEnd, true
	}
	return after(sl.firstEnd, ((s.reached-sl.firstEnd)/s.hop+1)*s.hop), true
}

// window gives the live slices of the window that ends at end.
func (s *sliced) window(end int64) (start int64, parts []*slice) {
	start = before(end, s.size)
	from, _ := s.search(start)
	to := from
	for to < len(s.live) && s.live[to].end <= end {
		to++
	}
	return start, s.live[from:to]
}

// emit adds the window that ends at end to what is to be emitted.
func (s *sliced) emit(end int64) error {
	start, parts := s.window(end)
	if len(parts) == 1 && s.hop == s.size {
		s.out.add(parts[0].order, parts[0].order, start, end, end-1)
	} else {
		list := s.merge(parts)
		s.out.add(list, list, start, end, end-1)
	}
	if s.out.full() {
		return s.settleOutput()
	}
	return nil
}

// correct adds a row that was late to its slice and emits the windows that it changes.
func (s *sliced) correct(r ref) error {
	if err := s.settleOutput(); err != nil {
		return err
	}
	c := r.chunk
	t := c.times[r.row]
	sl := s.slice(t)
	row := []int32{r.row}
	s.groups.prepare(c.keys, c.n, row)
	s.slots = extend(s.slots, c.n)
	s.assign(sl, &c.input, row)
	group := s.slots[r.row]
	if s.hop < s.size {
		s.first[group] = min(s.first[group], c.seqs[r.row])
	}
	s.accs.add(&c.input, row, s.slots)
	last := min(r.watermark, sl.lastEnd)
	for k := range (last-sl.firstEnd)/s.hop + 1 {
		end := sl.firstEnd + k*s.hop
		if after(end, s.lateness) <= r.watermark {
			continue
		}
		if err := s.reemit(end, group, r.watermark); err != nil {
			return err
		}
	}
	return nil
}

// reemit emits the corrected row of one group.
func (s *sliced) reemit(end int64, group int32, watermark int64) error {
	start, parts := s.window(end)
	list := []int32{group}
	if s.hop < s.size {
		list = s.mergeGroup(parts, group)
	}
	s.out.add(list, list, start, end, watermark)
	return s.settleOutput()
}

// settleOutput passes on what is to be emitted.
func (s *sliced) settleOutput() error {
	err := s.out.drain()
	s.merged.release(s)
	return err
}

// settle passes on what is to be emitted and drops the slices that no row can change any more.
func (s *sliced) settle() error {
	if err := s.settleOutput(); err != nil {
		return err
	}
	n := 0
	for n < len(s.live) && after(s.live[n].lastEnd, s.lateness) <= s.reached {
		s.drop(s.live[n])
		n++
	}
	if n > 0 {
		k := copy(s.live, s.live[n:])
		clear(s.live[k:])
		s.live = s.live[:k]
		s.recent = [recentSlices]*slice{}
	}
	return nil
}

func (s *sliced) drop(sl *slice) {
	s.accs.reset(sl.order)
	s.groups.give(sl.order)
	sl.index.reset()
	if len(s.pool) < maxPool {
		s.pool = append(s.pool, spare{sl.index, sl.order[:0]})
	}
}

// spare is the memory of a slice that is gone, for a new one.
type spare struct {
	index index
	order []int32
}

// maxPool is how many of them are kept.
const maxPool = 8
