package shared

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"sluice/executor/state/internal/format"
)

// disk is how files appear in the directory: whole, under their names, or not at all.
type disk struct {
	dir  string
	sync bool // whether the disk must have a file before it appears
}

// Names in a shared state directory.
const (
	tmpDir       = "tmp"
	sourcesDir   = "sources"
	sinksDir     = "sinks"
	decisionsDir = "decisions"
	recordDir    = "record"
	specFile     = "spec"
)

func (d disk) path(elem ...string) string { return filepath.Join(append([]string{d.dir}, elem...)...) }

// publish makes a file with what write writes appear at path and returns it, still open. If exclusive is set, a file
// that is there already is fs.ErrExist; otherwise it is replaced. After another error than
// nameError it has not appeared.
func (d disk) publish(path string, exclusive bool, write func(f *os.File) error) (*os.File, error) {
	f, err := d.temporary()
	if err != nil {
		return nil, err
	}
	tmp := f.Name()
	err = write(f)
	if err == nil && d.sync {
		err = f.Sync()
	}
	switch {
	case err != nil:
	case exclusive:
		err = os.Link(tmp, path)
	default:
		err = os.Rename(tmp, path)
	}
	if err != nil || exclusive {
		_ = os.Remove(tmp) // sweep does it otherwise
	}
	if err == nil && d.sync {
		if err = format.SyncDir(filepath.Dir(path)); err != nil {
			err = &nameError{err}
		}
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// nameError says that a file has appeared, but that the disk may not have its name.
type nameError struct{ error }

func (e *nameError) Unwrap() error { return e.error }

// put is publish for a file that is not written any further.
func (d disk) put(path string, exclusive bool, write func(f *os.File) error) error {
	f, err := d.publish(path, exclusive, write)
	if err != nil {
		return err
	}
	return f.Close()
}

// temporary creates a file that is locked for as long as it is being written: sweep removes those of
// processes that have ended.
func (d disk) temporary() (*os.File, error) {
	for {
		f, err := os.CreateTemp(d.path(tmpDir), "tmp-")
		if err != nil {
			return nil, err
		}
		swept, err := lockNew(f)
		if err == nil && !swept {
			return f, nil
		}
		_ = os.Remove(f.Name()) // sweep does it otherwise
		if err := errors.Join(err, f.Close()); err != nil {
			return nil, err
		}
	}
}

// lockNew locks a new file, unless a sweep was faster.
func lockNew(f *os.File) (swept bool, err error) {
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if err == syscall.EWOULDBLOCK {
		return true, nil
	}
	if err == nil {
		err = f.Chmod(0o644)
	}
	var st syscall.Stat_t
	if err == nil {
		err = syscall.Fstat(int(f.Fd()), &st)
	}
	return st.Nlink == 0, err
}

// sweep removes temporary files that nobody writes.
func (d disk) sweep() error {
	files, err := os.ReadDir(d.path(tmpDir))
	for _, file := range files {
		err = errors.Join(err, d.sweepFile(d.path(tmpDir, file.Name())))
	}
	return err
}

func (d disk) sweepFile(path string) error {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ELOOP) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return nil // it is being written
	}
	return remove(path)
}

// remove removes a file that another process may have removed.
func remove(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// folder makes a folder below the directory.
func (d disk) folder(elem ...string) error {
	path := d.path(elem...)
	err := os.Mkdir(path, 0o755)
	if errors.Is(err, fs.ErrExist) {
		err = nil // by another process, which may have ended before the disk had it
	}
	if err == nil && d.sync {
		err = format.SyncDir(filepath.Dir(path))
	}
	return err
}

// names lists a folder below the directory, in any order.
func (d disk) names(elem ...string) ([]string, error) {
	f, err := os.Open(d.path(elem...))
	if err != nil {
		return nil, err
	}
	names, err := f.Readdirnames(-1)
	return names, errors.Join(err, f.Close())
}
