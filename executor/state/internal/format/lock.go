package format

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
)

// LockFile is the name of the file that is locked.
const LockFile = "lock"

// SharedFile is the name of the file that marks a directory of package shared.
const SharedFile = "shared"

// ErrInUse says that another process has the directory locked.
var ErrInUse = errors.New("state: the directory is in use")

// Acquire locks dir for this process. The lock goes with the process, however it ends; the file stays,
// since whoever removed it could not know that nobody has just opened it.
func Acquire(dir string) (*os.File, error) {
	path := filepath.Join(dir, LockFile)
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, fmt.Errorf("state: %w", err)
	}
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		defer f.Close()
		return nil, fmt.Errorf("%w: %s by process %s", ErrInUse, dir, holder(f))
	}
	if err == nil {
		err = writeHolder(f)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("state: lock of %s: %w", path, err), f.Close())
	}
	return f, nil
}

func writeHolder(f *os.File) error {
	pid := strconv.Itoa(os.Getpid()) + "\n"
	if _, err := f.WriteAt([]byte(pid), 0); err != nil {
		return err
	}
	return f.Truncate(int64(len(pid)))
}

// holder reads which process has locked f.
func holder(f *os.File) string {
	b := make([]byte, 20)
	n, err := f.ReadAt(b, 0)
	if err != nil && err != io.EOF {
		return "unknown"
	}
	pid, err := strconv.Atoi(string(bytes.TrimSpace(b[:n])))
	if err != nil {
		return "unknown"
	}
	return strconv.Itoa(pid)
}

// SyncDir brings the names in dir to the disk.
func SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
