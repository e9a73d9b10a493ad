package local

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"
)

// ErrInUse says that another process has a lock.
var ErrInUse = errors.New("in use")

// lockWait is how long Lock waits for the workers of a process that has just ended.
const lockWait = 2 * time.Second

// Lock opens and locks a file, which is made if need be. The lock ends when the file has been closed in
// this process and in all those that got it from this one.
func Lock(path string) (*os.File, error) {
	for begin := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		f, err := TryLock(path)
		if !errors.Is(err, ErrInUse) || time.Since(begin) > lockWait {
			return f, err
		}
	}
}

// TryLock is Lock without waiting.
func TryLock(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if err == nil {
		return f, nil
	}
	if errors.Is(err, syscall.EWOULDBLOCK) {
		err = ErrInUse
	}
	return nil, errors.Join(fmt.Errorf("%s: %w", path, err), f.Close())
}
