package shared

import (
	"math"
	"slices"

	"sluice/executor/state"
)

// memorySource is the log of a source as all processes have it.
type memorySource struct {
	kept     entries
	rows     map[int64][][]byte // of the entries, by epoch
	own      opening            // the last one
	owner    *Process           // who has opened it
	unsynced int                // how many of the last entries may be lost with the machine
}

// cut leaves so many of the entries that are not synced.
func (s *memorySource) cut(keep int) {
	n := len(s.kept.list) - s.unsynced + min(max(keep, 0), s.unsynced)
	for _, e := range s.kept.list[n:] {
		delete(s.rows, e.Epoch.Epoch)
	}
	s.kept.list = slices.Clone(s.kept.list[:n])
	s.unsynced = 0
}

// memorySourceLog is a memorySource as one opening has it.
type memorySourceLog struct {
	s       *memorySource
	p       *Process
	own     opening
	closed  bool
	epoch   int64 // of pending
	pending [][]byte
}

// checkOpen tells whether a log may be opened by a generation, when last is its last opening.
func checkOpen(what, name string, gen int64, last opening) error {
	switch {
	case gen < 0:
		return assertion("%s %q: generation %d", what, name, gen)
	case gen < last.gen:
		return state.ErrSealed
	}
	return checkName(what, name)
}

// next is the opening after this one, of a generation that is not lower.
func (o opening) next(gen int64) opening {
	if gen == o.gen {
		return opening{gen, o.n + 1}
	}
	return opening{gen, 1}
}

// usable tells why a log cannot be written.
func usable(closed bool, own, last opening) error {
	switch {
	case closed:
		return state.ErrClosed
	case own != last:
		return state.ErrSealed
	}
	return nil
}

// OpenSource is that of state.Together. The log is a state.RowLog.
func (p *Process) OpenSource(source string, gen int64) (state.SourceLog, []state.Epoch, error) {
	var log *memorySourceLog
	var list []state.Epoch
	err := p.do("OpenSource", func() error {
		last := opening{}
		if s := p.m.sources[source]; s != nil {
			last = s.own
		}
		return checkOpen("a source", source, gen, last)
	}, func() {
		s := p.m.sources[source]
		if s == nil {
			s = &memorySource{kept: entries{name: source}, rows: map[int64][][]byte{}}
			p.m.sources[source] = s
		}
		s.own, s.owner, s.unsynced = s.own.next(gen), p, 0
		log, list = &memorySourceLog{s: s, p: p, own: s.own}, s.kept.epochs()
	})
	if err != nil {
		return nil, nil, err
	}
	return log, list, nil
}

var _ state.RowLog = (*memorySourceLog)(nil)

// Append is that of state.SourceLog.
func (l *memorySourceLog) Append(e state.Epoch) error {
	return l.p.do("Append", func() error {
		if err := usable(l.closed, l.own, l.s.own); err != nil {
			return err
		}
		if len(l.pending) > 0 && l.epoch != e.Epoch {
			return assertion("source %q: the entry of epoch %d behind rows of epoch %d", l.s.kept.name, e.Epoch, l.epoch)
		}
		return l.s.kept.check(&e)
	}, func() {
		l.s.kept.add(e, extent{})
		if len(l.pending) > 0 {
			l.s.rows[e.Epoch] = l.pending
			l.pending = nil
		}
		l.s.unsynced++
	})
}

// Trim is that of state.SourceLog.
func (l *memorySourceLog) Trim(epoch int64) error {
	return l.p.do("TrimLog", func() error { return usable(l.closed, l.own, l.s.own) }, func() {
		l.s.kept.trim(epoch)
		l.s.unsynced = min(l.s.unsynced, len(l.s.kept.list))
		for e := range l.s.rows {
			if l.s.kept.find(e) == nil {
				delete(l.s.rows, e)
			}
		}
	})
}

// Synced is that of state.Syncing.
func (l *memorySourceLog) Synced() int64 {
	l.p.m.mu.Lock()
	defer l.p.m.mu.Unlock()
	list := l.s.kept.list
	switch n := len(list) - l.s.unsynced; {
	case !l.p.m.Grouped || l.s.unsynced == 0 || l.own != l.s.own:
		return math.MaxInt64
	case n == 0:
		return list[0].Epoch.Epoch - 1
	default:
		return list[n-1].Epoch.Epoch
	}
}

// Sync is that of state.Syncing.
func (l *memorySourceLog) Sync() error {
	return l.p.do("Sync", func() error { return usable(l.closed, l.own, l.s.own) }, func() {
		if l.p.m.Grouped {
			l.s.unsynced = 0
		}
	})
}

// AppendRows is that of state.RowLog.
func (l *memorySourceLog) AppendRows(epoch int64, rows []byte) error {
	return l.p.do("AppendRows", func() error {
		if err := usable(l.closed, l.own, l.s.own); err != nil {
			return err
		}
		if len(l.pending) > 0 && l.epoch != epoch {
			return assertion("source %q: rows of epoch %d between those of epoch %d and its entry", l.s.kept.name, epoch, l.epoch)
		}
		return checkRows(&l.s.kept, epoch, rows)
	}, func() {
		l.epoch = epoch
		l.pending = append(l.pending, slices.Clone(rows))
	})
}

// Rows is that of state.RowLog.
func (l *memorySourceLog) Rows(epoch int64, f func(rows []byte) error) error {
	var list [][]byte
	err := l.p.do("Rows", func() error {
		switch {
		case l.closed:
			return state.ErrClosed
		case l.s.kept.find(epoch) == nil:
			return assertion("source %q: the rows of epoch %d, which is not kept", l.s.kept.name, epoch)
		}
		return nil
	}, func() { list = l.s.rows[epoch] })
	for _, rows := range list {
		if err := f(slices.Clone(rows)); err != nil {
			return err
		}
	}
	return err
}

// Failed is that of state.Syncing.
func (l *memorySourceLog) Failed() error { return nil }

// Close is that of state.SourceLog.
func (l *memorySourceLog) Close() error {
	l.p.m.mu.Lock()
	defer l.p.m.mu.Unlock()
	l.closed = true
	return nil
}

// memorySink is the log of a sink as all processes have it.
type memorySink struct {
	history []commit // the last one, behind those to which a crash may go back
	own     opening
	owner   *Process
}

func (s *memorySink) last() *commit { return &s.history[len(s.history)-1] }

// cut leaves so many of the commits that are not synced.
func (s *memorySink) cut(keep int) {
	n := 1 + min(max(keep, 0), len(s.history)-1)
	s.history = []commit{s.history[n-1]}
}

// memorySinkLog is a memorySink as one opening has it.
type memorySinkLog struct {
	s      *memorySink
	p      *Process
	own    opening
	closed bool
}

// OpenSink is that of state.Together.
func (p *Process) OpenSink(sink string, gen int64) (state.SinkLog, int64, []byte, error) {
	var log *memorySinkLog
	var epoch int64
	var witness []byte
	err := p.do("OpenSink", func() error {
		last := opening{}
		if s := p.m.sinks[sink]; s != nil {
			last = s.own
		}
		return checkOpen("a sink", sink, gen, last)
	}, func() {
		s := p.m.sinks[sink]
		if s == nil {
			s = &memorySink{history: []commit{{name: sink}}}
			p.m.sinks[sink] = s
		}
		s.own, s.owner, s.history = s.own.next(gen), p, []commit{*s.last()}
		log = &memorySinkLog{s: s, p: p, own: s.own}
		epoch, witness = s.last().last()
	})
	if err != nil {
		return nil, 0, nil, err
	}
	return log, epoch, witness, nil
}

// Commit is that of state.SinkLog.
func (l *memorySinkLog) Commit(epoch int64, witness []byte) error {
	return l.p.do("Commit", func() error {
		if err := usable(l.closed, l.own, l.s.own); err != nil {
			return err
		}
		return l.s.last().check(epoch, witness)
	}, func() {
		next := commit{name: l.s.last().name}
		next.set(epoch, witness)
		l.s.history = append(l.s.history, next)
	})
}

// Synced is that of state.Syncing.
func (l *memorySinkLog) Synced() int64 {
	l.p.m.mu.Lock()
	defer l.p.m.mu.Unlock()
	if !l.p.m.Grouped || len(l.s.history) == 1 || l.own != l.s.own {
		return math.MaxInt64
	}
	epoch, _ := l.s.history[0].last()
	return epoch
}

// Sync is that of state.Syncing.
func (l *memorySinkLog) Sync() error {
	return l.p.do("Sync", func() error { return usable(l.closed, l.own, l.s.own) }, func() {
		if l.p.m.Grouped {
			l.s.history = []commit{*l.s.last()}
		}
	})
}

// Failed is that of state.Syncing.
func (l *memorySinkLog) Failed() error { return nil }

// Close is that of state.SinkLog.
func (l *memorySinkLog) Close() error {
	l.p.m.mu.Lock()
	defer l.p.m.mu.Unlock()
	l.closed = true
	return nil
}
