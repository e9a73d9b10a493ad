package file

import (
	"os"

	"golang.org/x/sys/unix"
)

// tryClaim claims the byte at, if that is not negative, and tells whether somebody else has claimed another one.
func tryClaim(path string, at int64) (c *claim, taken bool) {
	f, err := os.Open(path)
	if err != nil {
		return nil, false
	}
	lock := unix.Flock_t{Type: unix.F_RDLCK, Start: at, Len: 1}
	if at >= 0 && unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLK, &lock) != nil {
		f.Close()
		return nil, false
	}
	first, last := int64(claimBase), int64(claimBase+claimSpan)
	if at >= 0 {
		taken = locked(f, first, at) || locked(f, at+1, last)
	} else {
		taken = locked(f, first, last)
	}
	if taken || at < 0 {
		f.Close()
		return nil, taken
	}
	return &claim{f}, false
}

// locked tells whether others have locked any of the bytes from first to before last.
func locked(f *os.File, first, last int64) bool {
	if first == last {
		return false
	}
	lock := unix.Flock_t{Type: unix.F_WRLCK, Start: first, Len: last - first}
	return unix.FcntlFlock(f.Fd(), unix.F_OFD_GETLK, &lock) == nil && lock.Type != unix.F_UNLCK
}
