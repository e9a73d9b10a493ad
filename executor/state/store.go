package state

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"sluice/executor/state/internal/format"
)

// Names in a state directory.
const (
	specFile        = "spec"
	logDir          = "log"
	checkpointsDir  = "checkpoints"
	temporaryPrefix = "tmp-" // of what is being written, in any of the folders
)

// FsyncMode says when what has been written is brought to the disk.
type FsyncMode int

const (
	// FsyncNever leaves it to the operating system. Nothing is lost when processes die, but what was
	// acknowledged may be when the machine does.
	FsyncNever FsyncMode = iota
	// FsyncAlways lets no append, checkpoint or trimming return before the disk has it. Appends that
	// wait at the same time share one fsync.
	FsyncAlways
	// FsyncGrouped lets appends return at once and syncs the log every Interval. When the machine dies,
	// the log ends at most an Interval earlier. A checkpoint is on the disk, with all that came before it,
	// when Complete returns.
	FsyncGrouped
)

// Options are those of Open. The zero value has all defaults.
type Options struct {
	Fsync       FsyncMode
	Interval    time.Duration // of FsyncGrouped; default 10 ms
	SegmentSize int64         // bytes after which the log goes on in another file; default 4 MiB, at least 1 KiB

	create func(path string) (segmentFile, error) // of the log; tests
}

func (o *Options) complete() error {
	if o.Interval == 0 {
		o.Interval = 10 * time.Millisecond
	}
	if o.SegmentSize == 0 {
		o.SegmentSize = 4 << 20
	}
	if o.create == nil {
		o.create = createSegment
	}
	switch {
	case o.Fsync < FsyncNever || o.Fsync > FsyncGrouped:
		return assertion("unknown fsync mode %d", o.Fsync)
	case o.Interval < 0:
		return assertion("fsync interval %v", o.Interval)
	case o.SegmentSize < 1<<10 || o.SegmentSize > format.MaxSegment/4:
		return assertion("segment size of %d bytes", o.SegmentSize)
	}
	return nil
}

// Store is an open state directory. It may be used by several goroutines at the same time.
type Store struct {
	dir  string
	opts Options
	lock *os.File
	cut  Cut

	syncing sync.Mutex // held by who syncs the log; taken before mu

	mu          sync.Mutex
	closed      bool
	kept        *kept
	log         log
	opened      uint64 // records in the log when it was opened
	record      []byte // memory for the next one
	timer       *time.Timer
	armed       bool // the timer runs
	spec        []byte
	checkpoints []int64        // complete ones, ascending
	verified    map[int64]bool // those that have been read, or written, by this Store
	writing     map[int64]bool // those that are begun
}

// Open opens the state directory dir, which it creates if it does not exist, and keeps all others from
// doing so until Close or the end of the process: ErrInUse. A directory with other content is refused.
// What a killed process has left half-written is removed; other damage is ErrDamaged.
func Open(dir string, o Options) (*Store, error) {
	if err := o.complete(); err != nil {
		return nil, err
	}
	if err := create(dir); err != nil {
		return nil, err
	}
	lock, err := format.Acquire(dir)
	if err != nil {
		return nil, err
	}
	s := &Store{dir: dir, opts: o, lock: lock, kept: newKept(), verified: map[int64]bool{}, writing: map[int64]bool{}}
	if err := s.recover(); err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	return s, nil
}

// create makes dir, unless it is there and can be a state directory.
func create(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("state: %w", err)
	}
	files, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("state: %w", err)
	}
	for _, f := range files {
		if f.Name() == format.SharedFile {
			return fmt.Errorf("state: %s is the shared state directory of a query that runs on several processes: run it so, or choose another directory", dir)
		}
	}
	own := func(f fs.DirEntry) bool { return f.Name() == format.LockFile || f.Name() == logDir }
	if len(files) > 0 && !slices.ContainsFunc(files, own) {
		return fmt.Errorf("state: %s is no state directory: it holds other files, such as %s", dir, files[0].Name())
	}
	return nil
}

func (s *Store) recover() (err error) {
	for _, sub := range []string{logDir, checkpointsDir} {
		if err := os.MkdirAll(filepath.Join(s.dir, sub), 0o755); err != nil {
			return fmt.Errorf("state: %w", err)
		}
	}
	for _, sub := range []string{"", logDir, checkpointsDir} {
		if err := removeTemporary(filepath.Join(s.dir, sub)); err != nil {
			return fmt.Errorf("state: %w", err)
		}
	}
	if s.opts.Fsync != FsyncNever {
		if err := errors.Join(format.SyncDir(s.dir), format.SyncDir(filepath.Dir(s.dir))); err != nil {
			return fmt.Errorf("state: %w", err)
		}
	}
	if s.spec, err = readSpec(s.dir); err != nil {
		return err
	}
	if s.checkpoints, err = completeCheckpoints(s.checkpointsPath()); err != nil {
		return err
	}
	s.log = log{
		dir: filepath.Join(s.dir, logDir), create: s.opts.create,
		syncs: s.opts.Fsync != FsyncNever, segmentSize: s.opts.SegmentSize,
	}
	if s.cut, err = s.log.open(s.kept); err != nil {
		return err
	}
	s.opened = s.log.records
	return nil
}

func removeTemporary(dir string) error {
	files, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, f := range files {
		if strings.HasPrefix(f.Name(), temporaryPrefix) {
			if err := os.RemoveAll(filepath.Join(dir, f.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}

// Cut tells what Open has cut off the end of the log. This is nothing that was acknowledged, unless
// the machine died too.
func (s *Store) Cut() Cut { return s.cut }

// Close syncs what must be on the disk and gives the directory free. Checkpoints that have been begun
// come to nothing. All later calls give ErrClosed.
func (s *Store) Close() error {
	s.syncing.Lock()
	defer s.syncing.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	if s.timer != nil {
		s.timer.Stop()
	}
	return errors.Join(s.log.syncNow(), s.log.file.Close(), s.lock.Close())
}

// Syncs reports whether what is kept is to outlive the machine.
func (s *Store) Syncs() bool { return s.opts.Fsync != FsyncNever }

// Sync returns when the disk has all that has been appended. With FsyncNever it does nothing.
func (s *Store) Sync() error {
	if !s.Syncs() {
		return nil
	}
	s.mu.Lock()
	n := s.log.records
	s.mu.Unlock()
	return s.sync(n)
}

// Spec returns the text that SetSpec stored last, nil if there is none. It is the caller's.
func (s *Store) Spec() []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.spec)
}

// SetSpec stores the canonical text of the query that the state belongs to, at most 64 MiB. It replaces
// the one before, or fails and leaves it.
func (s *Store) SetSpec(text []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return ErrClosed
	}
	tmp, sync := filepath.Join(s.dir, temporaryPrefix+specFile), s.opts.Fsync != FsyncNever
	err := format.WriteSealed(tmp, specFile, text, sync)
	if err == nil {
		err = os.Rename(tmp, filepath.Join(s.dir, specFile))
	}
	if err != nil {
		_ = os.Remove(tmp) // the next Open does it otherwise
		return fmt.Errorf("state: %w", err)
	}
	s.spec = slices.Clone(text)
	if sync {
		if err := format.SyncDir(s.dir); err != nil {
			return fmt.Errorf("state: %w", err)
		}
	}
	return nil
}

func readSpec(dir string) ([]byte, error) {
	path := filepath.Join(dir, specFile)
	text, err := format.ReadSealed(path, specFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, damaged(path, "restore it from a copy, or remove the state directory to begin again", err)
	}
	return text, nil
}
