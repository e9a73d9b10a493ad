package window

import (
	"cmp"
	"slices"

	"sluice/dataflow"
	"sluice/dataflow/batch"
)

// sessions aggregates over sessions. What becomes of a row depends on the sessions that are open when
// its watermark is reached, so rows wait in the queue, and at the end of an epoch rows, ends and expiries
// are gone through in the order of time. That makes sessions independent of epochs, and of the path
// that rows took.
//
// The sessions of one key that are still kept never overlap. A session is kept until it has been
// emitted and the allowed lateness is over.
type sessions struct {
	gap, lateness int64
	groups        *groups
	keyed         bool
	index         index
	tags          []uint32 // by key
	heads         []int32  // by key: 1 + its first session

	ids     ids // of sessions, which are the slots of accs
	list    []session
	accs    *accumulators
	out     *emission
	sink    sink
	payload []dataflow.Type
	due     schedule
	waiting queue
	reached int64

	all     []int32 // rows of the input at work
	dropped []int32 // those that will be late unless they find a session

	chunk *chunk  // whose rows are being gone through
	rows  []int32 // of chunk: to be added to accs
	slots []int32 // by row of chunk

	ending    []int32 // sessions that end at the same time
	listed    []int32 // sessions in out that are still kept
	gone      []int32 // sessions to be freed once out is drained
	goneKeys  []int32
	lateCols  []batch.Vector
	lateMarks []int64
}

type session struct {
	start, end int64
	first      int64 // place in the stream of its first row
	key        int32
	next       int32 // 1 + the next session of the key
	emitted    bool  // what it holds has been added to out
	listed     bool  // and out has not been drained since
}

func newSessions(c config) *sessions {
	s := &sessions{gap: c.spec.Size, lateness: c.lateness, groups: newGroups(c.keys), keyed: len(c.keys) > 0,
		sink: c.sink, payload: c.payload, reached: noWatermark}
	s.accs = newAccumulators(c.calls, &s.ids, false)
	s.out = newEmission(s.groups, s.accs, c.inter, true, c.sink)
	if !s.keyed {
		s.heads = []int32{0}
	}
	return s
}

func (s *sessions) add(in *input) error {
	s.all, s.dropped = s.all[:0], s.dropped[:0]
	if in.sel != nil {
		s.all = append(s.all, in.sel...)
	} else {
		for r := range int32(in.n) {
			s.all = append(s.all, r)
		}
	}
	if in.payload != nil {
		for _, r := range s.all {
			if s.overdue(in.times[r], max(s.reached, in.rowWatermark(r))) {
				s.dropped = append(s.dropped, r)
			}
		}
	}
	s.waiting.push(in, s.all, s.reached, s.dropped)
	return nil
}

// overdue reports whether a row of time t has come too late for a session of its own.
func (s *sessions) overdue(t, watermark int64) bool {
	return after(after(t, s.gap), s.lateness) <= watermark
}

func (s *sessions) advance(watermark int64) error {
	rows := s.waiting.ready(watermark)
	for _, r := range rows {
		if err := s.pass(r.watermark); err != nil {
			return err
		}
		if err := s.take(r); err != nil {
			return err
		}
	}
	if err := s.pass(watermark); err != nil {
		return err
	}
	if err := s.drain(); err != nil {
		return err
	}
	s.chunk = nil
	s.waiting.done(len(rows))
	s.reached = max(s.reached, watermark)
	return s.passLate()
}

func (s *sessions) end() error { return s.advance(lastWatermark) }

// pass emits the sessions that end up to the watermark and forgets those whose lateness is over.
func (s *sessions) pass(watermark int64) error {
	for {
		now, ok := s.due.earliest()
		if !ok || now > watermark {
			return nil
		}
		s.ending = s.ending[:0]
		for {
			id, ok := s.due.popAt(now)
			if !ok {
				break
			}
			switch x := &s.list[id]; {
			case s.dueTime(x) > now:
				s.due.set(id, s.dueTime(x))
			case x.emitted:
				s.forget(id)
			default:
				s.ending = append(s.ending, id)
			}
		}
		if err := s.finish(); err != nil {
			return err
		}
	}
}

// dueTime is when something happens to the session next.
func (s *sessions) dueTime(x *session) int64 {
	if x.emitted {
		return after(x.end, s.lateness)
	}
	return x.end
}

// finish emits the sessions in ending, which end at the same time.
func (s *sessions) finish() error {
	slices.SortFunc(s.ending, func(a, b int32) int {
		x, y := &s.list[a], &s.list[b]
		if c := cmp.Or(cmp.Compare(x.start, y.start), cmp.Compare(x.first, y.first)); c != 0 {
			return c
		}
		return s.groups.before(x.key, y.key)
	})
	for _, id := range s.ending {
		s.emit(id, s.list[id].end-1)
		if s.lateness == 0 {
			s.forget(id)
		} else {
			s.due.set(id, s.dueTime(&s.list[id]))
		}
	}
	if s.out.full() {
		return s.drain()
	}
	return nil
}

// emit adds a session to what is to be emitted.
func (s *sessions) emit(id int32, watermark int64) {
	x := &s.list[id]
	s.out.add([]int32{x.key}, []int32{id}, x.start, x.end, watermark)
	x.emitted, x.listed = true, true
	s.listed = append(s.listed, id)
}

// forget takes a session away from its key.
func (s *sessions) forget(id int32) {
	x := &s.list[id]
	p := &s.heads[x.key]
	for *p != id+1 {
		p = &s.list[*p-1].next
	}
	*p = x.next
	s.gone = append(s.gone, id)
	if s.heads[x.key] == 0 && s.keyed {
		s.index.remove(s.tags[x.key], x.key)
		s.goneKeys = append(s.goneKeys, x.key)
	}
}

// flush adds the rows that have found their session.
func (s *sessions) flush() {
	if len(s.rows) > 0 {
		s.accs.add(&s.chunk.input, s.rows, s.slots)
		s.rows = s.rows[:0]
	}
}

// drain passes on what is to be emitted and frees what is gone.
func (s *sessions) drain() error {
	s.flush()
	if err := s.out.drain(); err != nil {
		return err
	}
	for _, id := range s.listed {
		s.list[id].listed = false
	}
	s.accs.reset(s.gone)
	s.ids.give(s.gone)
	s.groups.give(s.goneKeys)
	s.listed, s.gone, s.goneKeys = s.listed[:0], s.gone[:0], s.goneKeys[:0]
	return nil
}

// take finds a row's session.
func (s *sessions) take(r ref) error {
	if r.chunk != s.chunk {
		s.flush()
		s.chunk = r.chunk
		s.slots = extend(s.slots, r.chunk.n)
		r.chunk.hash()
	}
	s.groups.hashes = r.chunk.hashes
	c := r.chunk
	start, end, seq := c.times[r.row], after(c.times[r.row], s.gap), c.seqs[r.row]
	key := s.key(c, r.row)
	id, err := s.join(key, start, end)
	if err != nil {
		return err
	}
	if id < 0 {
		if s.overdue(start, r.watermark) {
			s.lose(r)
			return nil
		}
		id = s.open(key, r, session{start: start, end: end, first: seq})
	}
	x := &s.list[id]
	x.start, x.end, x.first = min(x.start, start), max(x.end, end), min(x.first, seq)
	s.rows = append(s.rows, r.row)
	s.slots[r.row] = id
	if x.end <= r.watermark {
		s.emit(id, r.watermark)
	} else {
		x.emitted = false
	}
	s.due.set(id, s.dueTime(x))
	return nil
}

// key is the id of the row's key, or -1.
func (s *sessions) key(c *chunk, row int32) int32 {
	if !s.keyed {
		return 0
	}
	return s.groups.find(&s.index, c.keys, row)
}

// join makes the sessions of the key that overlap [start, end) one, which is then free to be changed.
// It returns -1 if there is none.
func (s *sessions) join(key int32, start, end int64) (int32, error) {
	if key < 0 {
		return -1, nil
	}
	found := int32(-1)
	for p := s.heads[key]; p != 0; {
		id := p - 1
		x := &s.list[id]
		p = x.next
		if x.start >= end || x.end <= start {
			continue
		}
		if x.listed {
			if err := s.drain(); err != nil {
				return -1, err
			}
		}
		if found < 0 {
			found = id
			continue
		}
		s.merge(found, id)
	}
	return found, nil
}

// merge adds the second session to the first.
func (s *sessions) merge(id, other int32) {
	s.flush()
	x, y := &s.list[id], &s.list[other]
	x.start, x.end, x.first = min(x.start, y.start), max(x.end, y.end), min(x.first, y.first)
	s.accs.merge([]int32{id}, []int32{other})
	s.due.remove(other)
	s.forget(other)
}

// open makes a new session of a key; key is -1 if the key has none yet.
func (s *sessions) open(key int32, r ref, x session) int32 {
	if key < 0 {
		key = s.groups.add(&s.index, r.chunk.keys, r.row)
		s.tags, s.heads = extend(s.tags, s.groups.ids.n), extend(s.heads, s.groups.ids.n)
		s.tags[key] = tagOf(s.groups.hash(r.chunk.keys, r.row))
	}
	id := s.ids.take()
	s.list = extend(s.list, s.ids.n)
	x.key, x.next = key, s.heads[key]
	s.list[id] = x
	s.heads[key] = id + 1
	s.accs.fresh = append(s.accs.fresh, id)
	return id
}

// lose drops a row that is late.
func (s *sessions) lose(r ref) {
	s.sink.countLate(1)
	c := r.chunk
	at := int(c.payloadAt(r.row))
	if at < 0 {
		return
	}
	if s.lateCols == nil {
		s.lateCols = make([]batch.Vector, len(c.payload))
		for i, v := range c.payload {
			s.lateCols[i].Reset(v.Type, 0)
		}
	}
	for i, v := range c.payload {
		s.lateCols[i].Append(v, at)
	}
	s.lateMarks = append(s.lateMarks, r.watermark)
}

// passLate passes on the rows that were late in this epoch.
func (s *sessions) passLate() error {
	if len(s.lateMarks) == 0 {
		return nil
	}
	err := s.sink.lateCopies(s.lateCols, s.lateMarks)
	for i := range s.lateCols {
		s.lateCols[i].Reset(s.lateCols[i].Type, 0)
	}
	s.lateMarks = s.lateMarks[:0]
	return err
}
