package sim

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"

	"sluice/executor"
	"sluice/executor/state"
	"sluice/executor/state/shared"
	"sluice/internal/protocol"
)

// disk is what all processes share. Each sees it by a store of its own: slow, failing now and then, and
// perhaps the last thing that the process does. It remembers more than a store has to.
type disk struct {
	world   *world
	memory  *shared.Memory
	history map[string][]state.Epoch // all entries that count of each source's log, those that have been trimmed too
	commits map[string]commit        // the last of each sink
	recent  map[string][]commit      // of each sink, those before it that it may go back to, and it
	syncing bool                     // the logs will be synced
	// unsealed are the logs of sources that all generations write to, if no generation seals them.
	unsealed map[string]executor.SourceLog
}

// commit is what the log of a sink has last.
type commit struct {
	epoch   int64
	witness []byte
}

func newDisk(w *world) *disk {
	d := &disk{
		world: w, memory: shared.NewMemory(nil), history: map[string][]state.Epoch{}, commits: map[string]commit{},
		recent: map[string][]commit{}, unsealed: map[string]executor.SourceLog{},
	}
	d.memory.Grouped = w.plan.Fsync == state.FsyncGrouped
	return d
}

var errDisk = fmt.Errorf("sim: the disk is full: %w", syscall.ENOSPC)

// errDead is what a process that has ended is told; nobody hears it.
var errDead = errors.New("sim: the process has ended")

// open gives the store as a worker sees it.
func (d *disk) open(k *worker) executor.Store {
	p, err := d.memory.Open(string(k.id), false)
	if err != nil {
		d.world.fail("%s cannot open the store: %v", k.id, err)
	}
	return &workerStore{Process: p, disk: d, worker: k}
}

// workerStore implements executor.Store for the processes of one worker.
type workerStore struct {
	*shared.Process
	disk   *disk
	worker *worker
}

// write does one operation, or fails without having done it; the process may end before or after.
func (s *workerStore) write(do func() error) error {
	w := s.disk.world
	switch {
	case s.worker.dead:
		return errDead
	case w.chance(w.plan.DiskFails):
		return errDisk
	case w.faults() && w.chance(w.plan.DiesWriting):
		w.fault()
		if w.chance(0.5) {
			_ = do()
		}
		s.worker.kill("in the middle of a write")
		return errDead
	}
	return do()
}

func (s *workerStore) read() error {
	switch w := s.disk.world; {
	case s.worker.dead:
		return errDead
	case w.chance(w.plan.DiskFails):
		return errDisk
	}
	return nil
}

// OpenSource implements executor.Store.
func (s *workerStore) OpenSource(source string, gen int64) (executor.SourceLog, []state.Epoch, error) {
	var log executor.SourceLog
	var entries []state.Epoch
	err := s.write(func() (err error) {
		log, entries, err = s.disk.openSource(s.Process, source, gen)
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	return &sourceLog{SourceLog: log, store: s, source: source}, entries, nil
}

func (d *disk) openSource(p *shared.Process, source string, gen int64) (executor.SourceLog, []state.Epoch, error) {
	if d.world.on(protocol.Seal) {
		return p.OpenSource(source, gen)
	}
	if log := d.unsealed[source]; log != nil {
		return log, slices.Clone(d.history[source]), nil
	}
	all, err := d.memory.Open("all", false)
	if err != nil {
		return nil, nil, err
	}
	log, entries, err := all.OpenSource(source, gen)
	d.unsealed[source] = log
	return log, entries, err
}

// sourceLog is a log as one process has it.
type sourceLog struct {
	executor.SourceLog
	store  *workerStore
	source string
}

// Append implements executor.SourceLog.
func (l *sourceLog) Append(e state.Epoch) error {
	d := l.store.disk
	return l.store.write(func() error {
		if n := len(d.history[l.source]); !d.world.on(protocol.Seal) && n > 0 && d.history[l.source][n-1].Epoch >= e.Epoch {
			return nil // another one has cut the epoch, and nobody is told
		}
		err := l.SourceLog.Append(e)
		if err == nil {
			e.Position = slices.Clone(e.Position)
			d.history[l.source] = append(d.history[l.source], e)
			d.appended()
			d.world.progress()
		}
		return err
	})
}

// Trim implements executor.SourceLog.
func (l *sourceLog) Trim(epoch int64) error {
	return l.store.write(func() error { return l.SourceLog.Trim(epoch) })
}

// Close implements executor.SourceLog.
func (l *sourceLog) Close() error {
	if !l.store.disk.world.on(protocol.Seal) {
		return nil
	}
	return l.SourceLog.Close()
}

// OpenSink implements executor.Store.
func (s *workerStore) OpenSink(sink string, gen int64) (executor.SinkLog, int64, []byte, error) {
	var log executor.SinkLog
	var epoch int64
	var witness []byte
	err := s.write(func() (err error) {
		log, epoch, witness, err = s.Process.OpenSink(sink, gen)
		return err
	})
	if err != nil {
		return nil, 0, nil, err
	}
	return &sinkLog{SinkLog: log, store: s, sink: sink}, epoch, witness, nil
}

// sinkLog is a log as one process has it.
type sinkLog struct {
	executor.SinkLog
	store *workerStore
	sink  string
}

// Commit implements executor.SinkLog.
func (l *sinkLog) Commit(epoch int64, witness []byte) error {
	return l.store.write(func() error {
		err := l.SinkLog.Commit(epoch, witness)
		if err == nil {
			d, c := l.store.disk, commit{epoch, slices.Clone(witness)}
			d.commits[l.sink], d.recent[l.sink] = c, append(d.recent[l.sink], c)
			d.appended()
		}
		return err
	})
}

// WriteSnapshot implements executor.Store.
func (s *workerStore) WriteSnapshot(key string, gen, lo, hi int64, fingerprint string, write func(keep func(group int, piece []byte) error) error) (string, error) {
	var ref string
	err := s.write(func() (err error) {
		ref, err = s.Process.WriteSnapshot(key, gen, lo, hi, fingerprint, write)
		return err
	})
	return ref, err
}

// ReadSnapshot implements executor.Store.
func (s *workerStore) ReadSnapshot(ref string, f func(group int, piece []byte) error) (string, error) {
	if err := s.read(); err != nil {
		return "", err
	}
	return s.Process.ReadSnapshot(ref, f)
}

// Decide implements executor.Store.
func (s *workerStore) Decide(attempt int64, commit bool) (bool, error) {
	var committed bool
	err := s.write(func() (err error) {
		committed, err = s.Process.Decide(attempt, commit)
		return err
	})
	return committed, err
}

// Decided implements executor.Store.
func (s *workerStore) Decided(attempt int64) (committed, known bool, err error) {
	if err := s.read(); err != nil {
		return false, false, err
	}
	return s.Process.Decided(attempt)
}

// diskDelay is how long work in the background takes.
func (w *world) diskDelay() int64 {
	if w.chance(w.plan.DiskSlow) {
		return w.between(100*millisecond, 800*millisecond)
	}
	return w.between(100, 5*millisecond)
}

// Synced implements state.Syncing.
func (l *sourceLog) Synced() int64 { return l.SourceLog.(state.Syncing).Synced() }

// Sync implements state.Syncing.
func (l *sourceLog) Sync() error { return l.store.write(l.SourceLog.(state.Syncing).Sync) }

// Failed implements state.Syncing.
func (l *sourceLog) Failed() error { return l.SourceLog.(state.Syncing).Failed() }

// Synced implements state.Syncing.
func (l *sinkLog) Synced() int64 { return l.SinkLog.(state.Syncing).Synced() }

// Sync implements state.Syncing.
func (l *sinkLog) Sync() error { return l.store.write(l.SinkLog.(state.Syncing).Sync) }

// Failed implements state.Syncing.
func (l *sinkLog) Failed() error { return l.SinkLog.(state.Syncing).Failed() }

// Syncs is what a store says on whose account sinks sync.
func (s *workerStore) Syncs() bool { return s.disk.world.plan.Fsync != state.FsyncNever }

// appended is told of what is new in a log: it is synced at once, some time later, or never.
func (d *disk) appended() {
	switch d.world.plan.Fsync {
	case state.FsyncAlways:
		d.memory.Sync()
	case state.FsyncGrouped:
		if d.syncing {
			return
		}
		d.syncing = true
		d.world.after(d.world.between(5*millisecond, 60*millisecond), func() {
			d.syncing = false
			d.memory.Sync()
		})
	}
}

// crashed ends the store of a process. What has been acknowledged stays, unless the machine goes with it: then logs
// that nobody has opened since, and files, lose what has not been synced, or the last of it.
func (d *disk) crashed(k *worker, machine bool) {
	if !machine {
		d.memory.Crash(string(k.id), nil)
		return
	}
	w := d.world
	w.tracef("the machine of %s dies", k.id)
	w.counts["machines that died"]++
	d.memory.Crash(string(k.id), func(log string, unsynced int) int {
		keep := int(w.between(0, int64(unsynced)))
		gone := unsynced - keep
		if gone == 0 {
			return keep
		}
		kind, name, _ := strings.Cut(log, "/")
		w.tracef("%s loses its last %d entries", log, gone)
		if kind == "sources" {
			w.counts["epochs lost with machines"] += gone
			d.history[name] = d.history[name][:len(d.history[name])-gone]
			return keep
		}
		w.counts["commits lost with machines"] += gone
		d.recent[name] = d.recent[name][:len(d.recent[name])-gone]
		d.commits[name] = commit{}
		if n := len(d.recent[name]); n > 0 {
			d.commits[name] = d.recent[name][n-1]
		}
		return keep
	})
	for _, name := range sorted(w.sinks) {
		w.sinks[name].machineDied(k)
	}
}
