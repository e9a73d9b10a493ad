package state

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"sluice/executor/state/internal/format"
)

// segmentFile is what the log writes to: an *os.File, or what a test puts in its place.
type segmentFile interface {
	WriteAt(b []byte, at int64) (int, error)
	Truncate(size int64) error
	Sync() error
	Close() error
}

func createSegment(path string) (segmentFile, error) {
	return os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o644)
}

// log is the write-ahead log: segments, of which the last one is written. It is not safe for
// concurrent use.
type log struct {
	dir         string
	create      func(path string) (segmentFile, error)
	syncs       bool // whether the disk must have a segment before the next one begins
	segmentSize int64

	number  uint64 // of the last segment
	file    segmentFile
	size    int64  // bytes of the last segment that are good
	before  int64  // bytes of the segments before it
	first   uint64 // the oldest segment
	dirty   bool   // whether there may be bytes behind size
	records uint64 // in the log, since it was begun
	synced  uint64 // of which the disk has these
	failed  error  // the log cannot be trusted any more
}

func (l *log) path(number uint64) string { return filepath.Join(l.dir, segmentName(number)) }

func (l *log) wrap(err error) error { return fmt.Errorf("state: %w", err) }

// append writes a record at the end of the log, with one call. After an error the record is not in the log,
// and append may be called again.
func (l *log) append(record []byte) error {
	if l.failed != nil {
		return l.failed
	}
	if err := l.clean(); err != nil {
		return err
	}
	if l.size+int64(len(record)) > l.segmentSize && l.size > segmentHead {
		if err := l.roll(); err != nil {
			return err
		}
	}
	if _, err := l.file.WriteAt(record, l.size); err != nil {
		l.dirty = true
		return errors.Join(l.wrap(err), l.clean())
	}
	l.size += int64(len(record))
	l.records++
	return nil
}

// clean removes what a failed write has left.
func (l *log) clean() error {
	if !l.dirty {
		return nil
	}
	if err := l.file.Truncate(l.size); err != nil {
		return l.wrap(err)
	}
	l.dirty = false
	return nil
}

// roll begins the next segment.
func (l *log) roll() error {
	if err := l.syncNow(); err != nil {
		return err
	}
	next, err := l.begin(segmentHeader{number: l.number + 1, first: l.records}, nil)
	if err != nil {
		return err
	}
	old := l.file
	l.before += l.size
	l.file, l.size, l.number = next, segmentHead, l.number+1
	// What the old segment has to hold has been written, and synced if it must be.
	_ = old.Close()
	return nil
}

// begin creates a segment. One with a base appears whole or not at all.
func (l *log) begin(h segmentHeader, base []byte) (segmentFile, error) {
	path, final := l.path(h.number), l.path(h.number)
	if h.base > 0 {
		path = filepath.Join(l.dir, temporaryPrefix+segmentName(h.number))
	}
	f, err := l.create(path)
	if err != nil {
		return nil, l.wrap(err)
	}
	_, err = f.WriteAt(append(h.append(make([]byte, 0, segmentHead+len(base))), base...), 0)
	if err == nil && l.syncs {
		err = f.Sync()
	}
	if err == nil && path != final {
		err = os.Rename(path, final)
	}
	if err == nil && l.syncs {
		err = format.SyncDir(l.dir)
	}
	if err == nil {
		return f, nil
	}
	// Were the file left behind, a later process would take it for the last segment.
	err = errors.Join(l.wrap(err), f.Close())
	for _, p := range []string{path, final} {
		if gone := os.Remove(p); gone != nil && !errors.Is(gone, fs.ErrNotExist) {
			l.failed = fmt.Errorf("state: %s could not be removed: %w", p, gone)
			err = errors.Join(err, l.failed)
		}
	}
	return nil, err
}

// compact begins a segment with a base and removes all others.
func (l *log) compact(base []byte, records int) error {
	if l.failed != nil {
		return l.failed
	}
	h := segmentHeader{number: l.number + 1, first: l.records, base: uint64(len(base))}
	next, err := l.begin(h, base)
	if err != nil {
		return err
	}
	// The disk need not have the old segments: the base says all that they do.
	old, from, to := l.file, l.first, l.number
	l.records += uint64(records)
	l.synced = l.records
	l.file, l.size, l.before, l.dirty = next, int64(segmentHead+len(base)), 0, false
	l.number, l.first = h.number, h.number
	_ = old.Close()
	// Segments that stay are removed by the next Open.
	for n := from; n <= to; n++ {
		_ = os.Remove(l.path(n))
	}
	return nil
}

// syncNow brings the last segment to the disk, if it must be there.
func (l *log) syncNow() error {
	if !l.syncs || l.synced == l.records {
		return l.failed
	}
	return l.syncedUpTo(l.records, l.file.Sync())
}

// syncedUpTo notes the result of a sync, after which the disk has the first n records if err is nil.
// Whether a page that could not be written will ever be is not known, so there is no
// second attempt.
func (l *log) syncedUpTo(n uint64, err error) error {
	switch {
	case err == nil && l.synced >= n:
		return nil
	case l.failed != nil:
		return l.failed
	case err != nil:
		l.failed = fmt.Errorf("state: the log could not be brought to the disk: %w; what was written since is uncertain", err)
		return l.failed
	}
	l.synced = n
	return nil
}

func (l *log) bytes() int64 { return l.before + l.size }
