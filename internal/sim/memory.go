package sim

import (
	"fmt"
	"slices"

	"sluice/executor"
	"sluice/executor/state"
	"sluice/internal/protocol"
)

// memory is a store in memory that fails never; it remembers more than a store has to.
type memory struct {
	off       protocol.Off
	sources   map[string]*segments
	history   map[string][]state.Epoch // all entries that count, those that have been trimmed too
	sinks     map[string]*commits
	snapshots map[string]*snapshot
	decisions map[int64]bool
	written   int
}

func newMemory(off protocol.Off) *memory {
	return &memory{
		off: off, sources: map[string]*segments{}, history: map[string][]state.Epoch{}, sinks: map[string]*commits{},
		snapshots: map[string]*snapshot{}, decisions: map[int64]bool{},
	}
}

// segments is the log of a source; what sealed generations append is not in it.
type segments struct {
	gen     int64
	entries []state.Epoch
}

type commits struct {
	gen     int64
	epoch   int64
	witness []byte
}

type snapshot struct {
	key         string
	hi          int64
	fingerprint string
	groups      []int
	pieces      [][]byte
}

// OpenSource implements executor.Store.
func (m *memory) OpenSource(source string, gen int64) (executor.SourceLog, []state.Epoch, error) {
	s := m.sources[source]
	if s == nil {
		s = &segments{}
		m.sources[source] = s
	}
	if m.off.On(protocol.Seal) {
		if gen < s.gen {
			return nil, nil, state.ErrSealed
		}
		s.gen = gen
	}
	return &memorySource{m, source, gen}, slices.Clone(s.entries), nil
}

type memorySource struct {
	memory *memory
	source string
	gen    int64
}

// Append implements executor.SourceLog.
func (l *memorySource) Append(e state.Epoch) error {
	s := l.memory.sources[l.source]
	if l.gen < s.gen {
		return state.ErrSealed
	}
	e.Position = slices.Clone(e.Position)
	if n := len(s.entries); n > 0 && s.entries[n-1].Epoch >= e.Epoch {
		if l.memory.off.On(protocol.Seal) {
			return fmt.Errorf("sim: epoch %d of %s is appended behind epoch %d", e.Epoch, l.source, s.entries[n-1].Epoch)
		}
		return nil
	}
	s.entries = append(s.entries, e)
	l.memory.history[l.source] = append(l.memory.history[l.source], e)
	return nil
}

// Trim implements executor.SourceLog.
func (l *memorySource) Trim(epoch int64) error {
	s := l.memory.sources[l.source]
	if l.gen < s.gen {
		return state.ErrSealed
	}
	keep := 0
	for i, e := range s.entries {
		if e.Epoch <= epoch {
			keep = i
		}
	}
	s.entries = slices.Clone(s.entries[keep:])
	return nil
}

// Close implements executor.SourceLog.
func (l *memorySource) Close() error { return nil }

// OpenSink implements executor.Store.
func (m *memory) OpenSink(sink string, gen int64) (executor.SinkLog, int64, []byte, error) {
	c := m.sinks[sink]
	if c == nil {
		c = &commits{}
		m.sinks[sink] = c
	}
	if gen < c.gen {
		return nil, 0, nil, state.ErrSealed
	}
	c.gen = gen
	return &memorySink{m, sink, gen}, c.epoch, slices.Clone(c.witness), nil
}

type memorySink struct {
	memory *memory
	sink   string
	gen    int64
}

// Commit implements executor.SinkLog.
func (l *memorySink) Commit(epoch int64, witness []byte) error {
	c := l.memory.sinks[l.sink]
	if l.gen < c.gen {
		return state.ErrSealed
	}
	if epoch < c.epoch {
		return fmt.Errorf("sim: commit %d of %s behind commit %d", epoch, l.sink, c.epoch)
	}
	c.epoch, c.witness = epoch, slices.Clone(witness)
	return nil
}

// Close implements executor.SinkLog.
func (l *memorySink) Close() error { return nil }

// WriteSnapshot implements executor.Store.
func (m *memory) WriteSnapshot(key string, gen, lo, hi int64, fingerprint string, write func(keep func(group int, piece []byte) error) error) (string, error) {
	s := &snapshot{key: key, hi: hi, fingerprint: fingerprint}
	err := write(func(group int, piece []byte) error {
		s.groups, s.pieces = append(s.groups, group), append(s.pieces, slices.Clone(piece))
		return nil
	})
	if err != nil {
		return "", err
	}
	m.written++
	ref := fmt.Sprintf("%s/%d/%d-%d/%d", key, gen, lo, hi, m.written)
	m.snapshots[ref] = s
	return ref, nil
}

// ReadSnapshot implements executor.Store.
func (m *memory) ReadSnapshot(ref string, f func(group int, piece []byte) error) (string, error) {
	s := m.snapshots[ref]
	if s == nil {
		return "", fmt.Errorf("sim: there is no snapshot %q", ref)
	}
	for i, p := range s.pieces {
		if err := f(s.groups[i], slices.Clone(p)); err != nil {
			return "", err
		}
	}
	return s.fingerprint, nil
}

// Decide implements executor.Store.
func (m *memory) Decide(attempt int64, commit bool) (bool, error) {
	if d, ok := m.decisions[attempt]; ok {
		return d, nil
	}
	m.decisions[attempt] = commit
	return commit, nil
}

// Decided implements executor.Store.
func (m *memory) Decided(attempt int64) (committed, known bool, err error) {
	committed, known = m.decisions[attempt]
	return committed, known, nil
}

// trim forgets the snapshots that a complete checkpoint and later ones do not need.
func (m *memory) trim(epoch int64, refs []string) {
	for ref, s := range m.snapshots {
		if s.hi <= epoch && !slices.Contains(refs, ref) {
			delete(m.snapshots, ref)
		}
	}
}
