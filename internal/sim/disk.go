package sim

import (
	"errors"
	"fmt"
	"slices"
	"syscall"

	"sluice/executor"
	"sluice/executor/state"
)

// disk is a store as each process sees it: slow, failing now and then, and perhaps the last thing that
// the process does. What it does is done by the store that all processes share.
type disk struct {
	world *world
	store *memory
}

var errDisk = fmt.Errorf("sim: the disk is full: %w", syscall.ENOSPC)

// errDead is what a process that has ended is told; nobody hears it.
var errDead = errors.New("sim: the process has ended")

// open gives the store as a worker sees it.
func (d *disk) open(k *worker) executor.Store { return &workerStore{d, k} }

// workerStore implements executor.Store for the processes of one worker.
type workerStore struct {
	*disk
	worker *worker
}

// write does one operation, or fails without having done it; the process may end before or after.
func (s *workerStore) write(do func() error) error {
	w := s.world
	switch {
	case s.worker.dead:
		return errDead
	case w.chance(w.plan.DiskFails):
		return errDisk
	case w.faults() && w.chance(w.plan.DiesWriting):
		if w.chance(0.5) {
			_ = do()
		}
		w.tracef("while %s writes:", s.worker.id)
		s.worker.kill("in the middle of a write")
		return errDead
	}
	return do()
}

func (s *workerStore) read() error {
	switch {
	case s.worker.dead:
		return errDead
	case s.world.chance(s.world.plan.DiskFails):
		return errDisk
	}
	return nil
}

// OpenSource implements executor.Store.
func (s *workerStore) OpenSource(source string, gen int64) (executor.SourceLog, []state.Epoch, error) {
	var log executor.SourceLog
	var entries []state.Epoch
	err := s.write(func() (err error) {
		log, entries, err = s.store.OpenSource(source, gen)
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	return &sourceLog{s, log, source}, entries, nil
}

type sourceLog struct {
	store  *workerStore
	log    executor.SourceLog
	source string
}

// Append implements executor.SourceLog.
func (l *sourceLog) Append(e state.Epoch) error {
	return l.store.write(func() error {
		err := l.log.Append(e)
		if err == nil {
			l.store.world.progress()
		}
		return err
	})
}

// Trim implements executor.SourceLog.
func (l *sourceLog) Trim(epoch int64) error {
	return l.store.write(func() error { return l.log.Trim(epoch) })
}

// Close implements executor.SourceLog.
func (l *sourceLog) Close() error { return l.log.Close() }

// OpenSink implements executor.Store.
func (s *workerStore) OpenSink(sink string, gen int64) (executor.SinkLog, int64, []byte, error) {
	var log executor.SinkLog
	var epoch int64
	var witness []byte
	err := s.write(func() (err error) {
		log, epoch, witness, err = s.store.OpenSink(sink, gen)
		return err
	})
	if err != nil {
		return nil, 0, nil, err
	}
	return &sinkLog{s, log}, epoch, witness, nil
}

type sinkLog struct {
	store *workerStore
	log   executor.SinkLog
}

// Commit implements executor.SinkLog.
func (l *sinkLog) Commit(epoch int64, witness []byte) error {
	return l.store.write(func() error { return l.log.Commit(epoch, witness) })
}

// Close implements executor.SinkLog.
func (l *sinkLog) Close() error { return l.log.Close() }

// WriteSnapshot implements executor.Store.
func (s *workerStore) WriteSnapshot(key string, gen, lo, hi int64, fingerprint string, write func(keep func(group int, piece []byte) error) error) (string, error) {
	var ref string
	err := s.write(func() (err error) {
		ref, err = s.store.WriteSnapshot(key, gen, lo, hi, fingerprint, write)
		return err
	})
	return ref, err
}

// ReadSnapshot implements executor.Store.
func (s *workerStore) ReadSnapshot(ref string, f func(group int, piece []byte) error) (string, error) {
	if err := s.read(); err != nil {
		return "", err
	}
	return s.store.ReadSnapshot(ref, f)
}

// Decide implements executor.Store.
func (s *workerStore) Decide(attempt int64, commit bool) (bool, error) {
	var committed bool
	err := s.write(func() (err error) {
		committed, err = s.store.Decide(attempt, commit)
		return err
	})
	return committed, err
}

// Decided implements executor.Store.
func (s *workerStore) Decided(attempt int64) (committed, known bool, err error) {
	if err := s.read(); err != nil {
		return false, false, err
	}
	return s.store.Decided(attempt)
}

// diskDelay is how long work in the background takes.
func (w *world) diskDelay() int64 {
	if w.chance(w.plan.DiskSlow) {
		return w.between(100*millisecond, 800*millisecond)
	}
	return w.between(100, 5*millisecond)
}

// crashed drops what only the process had.
func (d *disk) crashed(*worker) {}

// epochs gives the whole log of a source, trimmed entries too.
func (d *disk) epochs(source string) []state.Epoch { return slices.Clone(d.store.history[source]) }
