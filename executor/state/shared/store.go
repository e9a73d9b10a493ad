package shared

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"time"

	"sluice/executor/state"
	"sluice/executor/state/internal/format"
)

// State is what a query that runs on several processes keeps: what its tasks need, and what only its
// coordinator does. Store and Process are such.
type State interface {
	state.Together

	// Load returns the coordinator's record with its version; nil and 0 if nothing has been saved or
	// claimed yet. The record is the caller's.
	Load() (record []byte, version int64, err error)
	// Claim makes a higher term than all before the current one. From then on Save of those who have
	// claimed lower ones gives ErrSuperseded, as does Claim of a term that is not higher. The record
	// stays what it is, under a new version.
	Claim(term int64) error
	// Save replaces the record of this version, if it still is the last one and nobody else has claimed a
	// term: otherwise ErrSuperseded. Claim comes first. After another error the record may be the old or
	// the new one: whoever goes on calls Load.
	Save(record []byte, version int64) (newVersion int64, err error)
	// SetSpec stores the canonical text of the query, and Spec returns it, nil if there is none.
	SetSpec(text []byte) error
	Spec() ([]byte, error)
	// Trim removes the snapshots that are of no use once the checkpoint of epoch is complete: those that
	// count for no later epoch and are not in refs. Only the coordinator calls it.
	Trim(epoch int64, refs []string) error
	// Close gives back what the State holds. Logs are closed by those who have opened them.
	Close() error
}

// Options are those of Open. The zero value has all defaults.
type Options struct {
	// Coordinator takes the lock that only one process has, and creates the directory if it is not there.
	Coordinator bool
	Fsync       state.FsyncMode
	Interval    time.Duration // of state.FsyncGrouped; default 10 ms
	SegmentSize int64         // bytes after which a log is written anew if that pays; default 4 MiB, at least 1 KiB

	wrapFile func(logFile) logFile // of logs; tests
}

func (o *Options) complete() error {
	if o.Interval == 0 {
		o.Interval = 10 * time.Millisecond
	}
	if o.SegmentSize == 0 {
		o.SegmentSize = 4 << 20
	}
	switch {
	case o.Fsync < state.FsyncNever || o.Fsync > state.FsyncGrouped:
		return assertion("unknown fsync mode %d", o.Fsync)
	case o.Interval < 0:
		return assertion("fsync interval %v", o.Interval)
	case o.SegmentSize < 1<<10 || o.SegmentSize > format.MaxSegment/4:
		return assertion("segment size of %d bytes", o.SegmentSize)
	}
	return nil
}

// Store is an open shared state directory. Several goroutines may use it at the same time.
type Store struct {
	disk   disk
	opts   Options
	lock   *os.File // of the coordinator
	term   atomic.Int64
	closed atomic.Bool
}

var _ State = (*Store)(nil)

// Syncs reports whether what is kept is to outlive the machine.
func (s *Store) Syncs() bool { return s.opts.Fsync != state.FsyncNever }

// Open opens the shared state directory dir. Another coordinator's is state.ErrInUse; without
// Options.Coordinator the directory must be there already.
func Open(dir string, o Options) (*Store, error) {
	if err := o.complete(); err != nil {
		return nil, err
	}
	s := &Store{disk: disk{dir, o.Fsync != state.FsyncNever}, opts: o}
	if !o.Coordinator {
		if err := s.checkMark(); err != nil {
			return nil, err
		}
		return s, nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, wrap(err)
	}
	if err := checkEmpty(dir); err != nil {
		return nil, err
	}
	lock, err := format.Acquire(dir)
	if err != nil {
		return nil, err
	}
	s.lock = lock
	if err := s.create(); err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	return s, nil
}

// checkEmpty tells whether dir is a shared state directory, or can become one.
func checkEmpty(dir string) error {
	files, err := os.ReadDir(dir)
	if err != nil {
		return wrap(err)
	}
	named := func(names ...string) bool {
		return slices.ContainsFunc(files, func(f fs.DirEntry) bool { return slices.Contains(names, f.Name()) })
	}
	switch {
	case named(format.SharedFile):
		return nil
	case named("log", "checkpoints"):
		return fmt.Errorf("state: %s is the state directory of a query that runs in a single process: run it so, or choose another directory", dir)
	case len(files) > 0 && !named(format.LockFile):
		return fmt.Errorf("state: %s is no state directory: it holds other files, such as %s", dir, files[0].Name())
	}
	return nil
}

// create makes what is missing. The mark comes last: where it is, all is there.
func (s *Store) create() error {
	for _, sub := range []string{tmpDir, sourcesDir, sinksDir, snapshotsDir, decisionsDir, recordDir} {
		if err := s.disk.folder(sub); err != nil {
			return wrap(err)
		}
	}
	if err := s.disk.sweep(); err != nil {
		return wrap(err)
	}
	err := s.disk.putSealed(s.disk.path(format.SharedFile), format.SharedFile, []byte("several processes\n"), true)
	if errors.Is(err, fs.ErrExist) {
		err = s.checkMark()
	}
	if err == nil && s.disk.sync {
		err = format.SyncDir(filepath.Dir(s.disk.dir))
	}
	return wrap(err)
}

// checkMark tells whether the directory is a shared one.
func (s *Store) checkMark() error {
	path := s.disk.path(format.SharedFile)
	_, err := format.ReadSealed(path, format.SharedFile)
	if errors.Is(err, fs.ErrNotExist) {
		if err := checkEmpty(s.disk.dir); err != nil {
			return err
		}
		return fmt.Errorf("state: %s is no shared state directory yet: its coordinator has not begun", s.disk.dir)
	}
	if err != nil {
		return damaged(path, err)
	}
	return nil
}

// ready tells whether a log of this name and generation may be opened.
func (s *Store) ready(what, name string, gen int64) error {
	if s.closed.Load() {
		return state.ErrClosed
	}
	if gen < 0 {
		return assertion("%s %q: generation %d", what, name, gen)
	}
	return checkName(what, name)
}

func (s *Store) prepare(l *log, kind, name string) {
	l.disk, l.folder = s.disk, filepath.Join(kind, escape(name))
	l.mode, l.interval, l.segmentSize, l.wrapFile = s.opts.Fsync, s.opts.Interval, s.opts.SegmentSize, s.opts.wrapFile
}

// SetSpec is that of State.
func (s *Store) SetSpec(text []byte) error {
	if s.closed.Load() {
		return state.ErrClosed
	}
	return wrap(s.disk.putSealed(s.disk.path(specFile), specFile, text, false))
}

// Spec is that of State.
func (s *Store) Spec() ([]byte, error) {
	if s.closed.Load() {
		return nil, state.ErrClosed
	}
	text, err := format.ReadSealed(s.disk.path(specFile), specFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, damaged(s.disk.path(specFile), err)
	}
	return text, nil
}

// Close is that of State.
func (s *Store) Close() error {
	if s.closed.Swap(true) || s.lock == nil {
		return nil
	}
	return wrap(s.lock.Close())
}

// putSealed publishes a sealed file.
func (d disk) putSealed(path, kind string, text []byte, exclusive bool) error {
	b, err := format.Sealed(kind, text)
	if err != nil {
		return err
	}
	return d.put(path, exclusive, func(f *os.File) error {
		_, err := f.Write(b)
		return err
	})
}
