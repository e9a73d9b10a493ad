package shared

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"sluice/executor/state"
)

// Memory is a shared state directory without a directory, for simulations: it depends on nothing but the
// calls. Each process of a simulation opens it under a name of its own.
type Memory struct {
	// Grouped says that logs are as those of state.FsyncGrouped: what has been appended since Sync may be lost with
	// the machine, and they say so (state.Syncing). It is set before anything is opened.
	Grouped bool
	faults  Faults

	mu          sync.Mutex
	processes   map[string]*Process // that run
	coordinator *Process            // who has the lock
	sources     map[string]*memorySource
	sinks       map[string]*memorySink
	snapshots   map[string]memorySnapshot // by ref
	decisions   map[int64]bool
	attempts    []int64 // that are decided, in order
	record      version
	spec        []byte
}

// Faults decides what goes wrong in an operation of a process, as a disk or the end of the process would
// have it. The operations are the names of methods: "OpenSource", "Append", "AppendRows", "TrimLog", "Sync", "OpenSink",
// "Commit", "Rows", "WriteSnapshot", "ReadSnapshot", "Decide", "Decided", "Load", "Claim", "Save", "SetSpec", "Spec" and "Trim".
// It is not called by several goroutines at the same time, and must not use the Memory.
type Faults func(process, op string) Fault

// Fault is what goes wrong.
type Fault int

const (
	// NoFault lets the operation be.
	NoFault Fault = iota
	// Fail gives ErrFault, and nothing has happened.
	Fail
	// Torn ends the process amid the operation. What it was writing is not whole, so that nothing has
	// happened.
	Torn
	// Crash ends the process when the operation has happened, before it knows.
	Crash
)

// ErrFault is the error of Fail.
var ErrFault = errors.New("state: injected fault")

// NewMemory makes an empty one. faults may be nil.
func NewMemory(faults Faults) *Memory {
	if faults == nil {
		faults = func(string, string) Fault { return NoFault }
	}
	return &Memory{
		faults: faults, processes: map[string]*Process{},
		sources: map[string]*memorySource{}, sinks: map[string]*memorySink{},
		snapshots: map[string]memorySnapshot{}, decisions: map[int64]bool{},
	}
}

// Process is a Memory as one process has it.
type Process struct {
	m    *Memory
	name string
	term int64
	over bool
}

var _ State = (*Process)(nil)

// Open is what Open is for a directory: the coordinator's lock is state.ErrInUse while another process has it. A
// process that runs already under the name stays, and Crash ends both.
func (m *Memory) Open(process string, coordinator bool) (*Process, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if coordinator && m.coordinator != nil {
		return nil, fmt.Errorf("%w: by process %s", state.ErrInUse, m.coordinator.name)
	}
	p := m.processes[process]
	if p == nil {
		p = &Process{m: m, name: process}
		m.processes[process] = p
	}
	if coordinator {
		m.coordinator = p
	}
	return p, nil
}

// Crash ends a process: all its calls give state.ErrClosed from then on. keep says how many of the
// appends to a log, which it alone could write and nobody has synced, outlive it: 0 to unsynced. nil keeps all, as when
// the machine goes on.
func (m *Memory) Crash(process string, keep func(log string, unsynced int) int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	p := m.processes[process]
	if p == nil {
		return
	}
	m.end(p)
	if keep == nil {
		return
	}
	for _, name := range sortedNames(m.sources) {
		if s := m.sources[name]; s.owner == p && s.unsynced > 0 {
			s.cut(keep(sourcesDir+"/"+name, s.unsynced))
		}
	}
	for _, name := range sortedNames(m.sinks) {
		if s := m.sinks[name]; s.owner == p && len(s.history) > 1 {
			s.cut(keep(sinksDir+"/"+name, len(s.history)-1))
		}
	}
}

// Sync brings all logs to the disk, as the timer of state.FsyncGrouped does.
func (m *Memory) Sync() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, s := range m.sources {
		s.unsynced = 0
	}
	for _, s := range m.sinks {
		s.history = s.history[len(s.history)-1:]
	}
}

func (m *Memory) end(p *Process) {
	p.over = true
	delete(m.processes, p.name)
	if m.coordinator == p {
		m.coordinator = nil
	}
}

// do carries out an operation of a process: check tells why it cannot be, and apply does it.
func (p *Process) do(op string, check func() error, apply func()) error {
	p.m.mu.Lock()
	defer p.m.mu.Unlock()
	if p.over {
		return state.ErrClosed
	}
	if err := check(); err != nil {
		return err
	}
	fault := p.m.faults(p.name, op)
	switch fault {
	case Fail:
		return fmt.Errorf("%w: %s of process %s", ErrFault, op, p.name)
	case Torn:
		p.m.end(p)
		return state.ErrClosed
	}
	apply()
	if fault == Crash {
		p.m.end(p)
		return state.ErrClosed
	}
	return nil
}

func possible() error { return nil }

// Close is that of State.
func (p *Process) Close() error {
	p.m.mu.Lock()
	defer p.m.mu.Unlock()
	if !p.over {
		p.m.end(p)
	}
	return nil
}

// SetSpec is that of State.
func (p *Process) SetSpec(text []byte) error {
	return p.do("SetSpec", possible, func() { p.m.spec = append([]byte{}, text...) })
}

// Spec is that of State.
func (p *Process) Spec() (text []byte, err error) {
	err = p.do("Spec", possible, func() { text = slices.Clone(p.m.spec) })
	return text, err
}

// Load is that of State.
func (p *Process) Load() (record []byte, number int64, err error) {
	err = p.do("Load", possible, func() { record, number = slices.Clone(p.m.record.record), p.m.record.number })
	return record, number, err
}

// Claim is that of State.
func (p *Process) Claim(term int64) error {
	return p.do("Claim", func() error {
		if term <= p.m.record.term {
			return fmt.Errorf("%w: term %d is claimed, and %d is not above it", ErrSuperseded, p.m.record.term, term)
		}
		return nil
	}, func() {
		p.term, p.m.record.term = term, term
		p.m.record.number++
	})
}

// Save is that of State.
func (p *Process) Save(record []byte, number int64) (newVersion int64, err error) {
	err = p.do("Save", func() error {
		return checkSave(p.m.record, p.term, number)
	}, func() {
		p.m.record.number++
		p.m.record.record = slices.Clone(record)
		newVersion = p.m.record.number
	})
	return newVersion, err
}

// Decide is that of state.Together.
func (p *Process) Decide(attempt int64, commit bool) (committed bool, err error) {
	err = p.do("Decide", func() error { return p.m.checkAttempt(attempt) }, func() {
		if was, known := p.m.decisions[attempt]; known {
			committed = was
			return
		}
		committed = commit
		p.m.decisions[attempt] = commit
		p.m.attempts = append(p.m.attempts, attempt)
		slices.Sort(p.m.attempts)
		if len(p.m.attempts) > keptDecisions {
			delete(p.m.decisions, p.m.attempts[0])
			p.m.attempts = slices.Clone(p.m.attempts[1:])
		}
	})
	return committed, err
}

// Decided is that of state.Together.
func (p *Process) Decided(attempt int64) (committed, known bool, err error) {
	err = p.do("Decided", func() error { return p.m.checkAttempt(attempt) }, func() {
		committed, known = p.m.decisions[attempt]
	})
	return committed, known, err
}

func (m *Memory) checkAttempt(attempt int64) error {
	_, known := m.decisions[attempt]
	switch {
	case attempt < 0:
		return assertion("attempt %d", attempt)
	case !known && len(m.attempts) >= keptDecisions && attempt < m.attempts[0]:
		return fmt.Errorf("%w: attempt %d", ErrForgotten, attempt)
	}
	return nil
}

// memorySnapshot is a stored snapshot.
type memorySnapshot struct {
	about       snapshot
	fingerprint string
	pieces      []memoryPiece
}

type memoryPiece struct {
	group int
	bytes []byte
}

// WriteSnapshot is that of state.Together.
func (p *Process) WriteSnapshot(key string, gen, lo, hi int64, fingerprint string, write func(keep func(group int, piece []byte) error) error) (ref string, err error) {
	about, err := newSnapshot(key, gen, lo, hi, fingerprint)
	if err != nil {
		return "", err
	}
	s := memorySnapshot{about: about, fingerprint: fingerprint}
	err = write(func(group int, piece []byte) error {
		s.pieces = append(s.pieces, memoryPiece{group, slices.Clone(piece)})
		return checkPiece(key, group, piece)
	})
	if err != nil {
		return "", fmt.Errorf("state: snapshot of %q: %w", key, err)
	}
	err = p.do("WriteSnapshot", possible, func() {
		for taken := true; taken; {
			s.about.n++
			_, taken = p.m.snapshots[s.about.ref()]
		}
		ref = s.about.ref()
		p.m.snapshots[ref] = s
	})
	return ref, err
}

// ReadSnapshot is that of state.Together.
func (p *Process) ReadSnapshot(ref string, f func(group int, piece []byte) error) (fingerprint string, err error) {
	var s memorySnapshot
	err = p.do("ReadSnapshot", func() error {
		if _, ok := p.m.snapshots[ref]; !ok {
			return fmt.Errorf("state: there is no snapshot %q", ref)
		}
		return nil
	}, func() { s = p.m.snapshots[ref] })
	if err != nil {
		return "", err
	}
	for _, piece := range s.pieces {
		if err := f(piece.group, slices.Clone(piece.bytes)); err != nil {
			return "", err
		}
	}
	return s.fingerprint, nil
}

// Trim is that of State.
func (p *Process) Trim(epoch int64, refs []string) error {
	return p.do("Trim", possible, func() {
		for ref, s := range p.m.snapshots {
			if s.about.hi <= epoch && !slices.Contains(refs, ref) {
				delete(p.m.snapshots, ref)
			}
		}
	})
}

func sortedNames[V any](m map[string]V) []string {
	names := make([]string, 0, len(m))
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
