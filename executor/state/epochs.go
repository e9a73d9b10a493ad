package state

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"sluice/executor/state/internal/format"
)

// AppendEpoch logs an epoch of a source. When it returns nil, Epochs of this and of all later processes
// has it. After another error than AssertionError or ErrClosed the epoch is not logged, and the call may be
// repeated, unless the disk failed to sync. e.Position is not kept.
func (s *Store) AppendEpoch(e Epoch) error {
	s.mu.Lock()
	n, err := s.appendEpoch(&e)
	s.mu.Unlock()
	return s.settle(n, err)
}

func (s *Store) appendEpoch(e *Epoch) (uint64, error) {
	if s.closed {
		return 0, ErrClosed
	}
	if err := s.kept.checkEpoch(e); err != nil {
		return 0, err
	}
	if len(e.Position) > maxBlob {
		return 0, assertion("source %q: a position of %d bytes, %d are possible", e.Source, len(e.Position), maxBlob)
	}
	s.record = format.AppendEpoch(s.record[:0], (*format.Epoch)(e))
	if err := s.log.append(s.record); err != nil {
		return 0, err
	}
	s.kept.addEpoch(e)
	return s.log.records, nil
}

// maxBlob bounds a position and a witness, in bytes.
const maxBlob = format.MaxPayload / 2

// Epochs returns all entries of a source that are kept, in order: those above the epoch of the last
// Trim, and the last one at or below it. The slice is the caller's; the positions must not be changed.
func (s *Store) Epochs(source string) []Epoch {
	s.mu.Lock()
	defer s.mu.Unlock()
	if src := s.kept.sources[source]; src != nil {
		return slices.Clone(src.entries)
	}
	return nil
}

// CommitSink records that a sink has made its rows up to epoch visible, and what it needs to find them
// again: at most 8 MiB, not kept. The epoch must not be below that of the sink's last commit; if it is
// the same, the witness takes the place of the one before. That of the first may be 0, for what the sink
// finds at the very beginning. Errors are those of AppendEpoch.
func (s *Store) CommitSink(sink string, epoch int64, witness []byte) error {
	s.mu.Lock()
	n, err := s.commitSink(sink, epoch, witness)
	s.mu.Unlock()
	return s.settle(n, err)
}

func (s *Store) commitSink(sink string, epoch int64, witness []byte) (uint64, error) {
	if s.closed {
		return 0, ErrClosed
	}
	if err := s.kept.checkCommit(sink, epoch); err != nil {
		return 0, err
	}
	if len(witness) > maxBlob {
		return 0, assertion("sink %q: a witness of %d bytes, %d are possible", sink, len(witness), maxBlob)
	}
	s.record = format.AppendCommit(s.record[:0], sink, epoch, witness)
	if err := s.log.append(s.record); err != nil {
		return 0, err
	}
	s.kept.addCommit(sink, epoch, witness)
	return s.log.records, nil
}

// Sink returns a sink's last commit, or 0 and nil. The witness is the caller's; an empty one is nil.
func (s *Store) Sink(sink string) (epoch int64, witness []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.kept.sinks[sink]
	if c == nil {
		return 0, nil
	}
	if len(c.witness) == 0 {
		return c.epoch, nil
	}
	return c.epoch, slices.Clone(c.witness)
}

// settle waits until the disk has the first n records, if appends do.
func (s *Store) settle(n uint64, err error) error {
	if err != nil || s.opts.Fsync == FsyncNever {
		return err
	}
	if s.opts.Fsync == FsyncAlways {
		return s.sync(n)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.armed || s.closed:
		return nil
	case s.timer == nil:
		s.timer = time.AfterFunc(s.opts.Interval, s.syncLater)
	default:
		s.timer.Reset(s.opts.Interval)
	}
	s.armed = true
	return nil
}

// syncLater is what the timer of FsyncGrouped does. A failure shows at the next append.
func (s *Store) syncLater() {
	s.mu.Lock()
	s.armed = false
	n, closed := s.log.records, s.closed
	s.mu.Unlock()
	if !closed {
		_ = s.sync(n)
	}
}

// sync brings the first n records to the disk. The records of others that have been written by then
// come along, so whoever waits meanwhile finds nothing left to do.
func (s *Store) sync(n uint64) error {
	s.syncing.Lock()
	defer s.syncing.Unlock()
	s.mu.Lock()
	if s.log.synced >= n || s.log.failed != nil {
		err := s.log.syncedUpTo(n, nil)
		s.mu.Unlock()
		return err
	}
	f, all := s.log.file, s.log.records
	s.mu.Unlock()
	err := f.Sync()
	s.mu.Lock()
	defer s.mu.Unlock()
	if errors.Is(err, os.ErrClosed) && s.log.synced >= n {
		return nil // the log went on in another segment, and synced this one first
	}
	return s.log.syncedUpTo(all, err)
}

// Trim forgets what a restart from epoch does not need: entries of the log before the last one at or
// below epoch of each source, and checkpoints below epoch. A restart then begins from the complete
// checkpoint of this epoch or of a later one. In a query that keeps no checkpoints, the epoch is one that all sinks
// have committed. An epoch that is not above that of an earlier call has no effect. Trim may be repeated after
// an error.
func (s *Store) Trim(epoch int64) error {
	// Checkpoints first: on a full disk they make the room that the log needs. Appends need not wait for
	// the removal of large files.
	gone, err := s.retireCheckpoints(epoch)
	for _, dir := range gone {
		if gone := os.RemoveAll(dir); gone != nil && err == nil {
			err = fmt.Errorf("state: %w", gone)
		}
	}
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return ErrClosed
	}
	if epoch > s.kept.trimmed {
		s.record = format.AppendTrim(s.record[:0], epoch)
		if err := s.log.append(s.record); err != nil {
			return err
		}
		s.kept.trim(epoch)
	}
	return s.compact()
}

// compact writes the log anew if most of it is of no use any more.
func (s *Store) compact() error {
	size := s.log.bytes()
	if size <= s.opts.SegmentSize {
		return nil
	}
	if live := s.kept.size(); 2*live > size || live > format.MaxSegment/2 {
		return nil
	}
	base, records := s.kept.appendTo(nil)
	return s.log.compact(base, records)
}
