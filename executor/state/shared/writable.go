package shared

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// Writable tells whether this process can change what is in the directory, as a disk that is full at the moment may
// be too: Open only reads.
func (s *Store) Writable() error {
	f, err := s.disk.temporary()
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return nil
	}
	if err != nil {
		return wrap(err)
	}
	link := f.Name() + "-link"
	if err = os.Link(f.Name(), link); err == nil {
		err = os.Remove(link)
	} else if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		err = nil
	} else {
		err = fmt.Errorf("%w; a file system with hard links is needed", err)
	}
	return wrap(errors.Join(err, os.Remove(f.Name()), f.Close()))
}
