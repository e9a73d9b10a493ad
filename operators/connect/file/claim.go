package file

import (
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"
)

// Two queries that write one file would overwrite each other's rows, and both would say that all is written. So a writer
// that makes rows visible while it runs claims its output, the file or the folder of parts, for as long as its process has it
// open; a run that gives a file its name when it has ended looks whether somebody has.
//
// A claim is an advisory lock of the open file on one byte far behind what any file has: which one, the owner says, the
// state of the query and the operator. Claims of one owner so never meet. They need not: that a writer's predecessor writes
// no more is for those who launch it (generations, and work folders for parts), and one that stands still, or that a file
// system does not know to be dead yet, must not keep its successor from going on. Claims of others are found by asking for the
// bytes beside one's own. A claim goes with its process, and there is nothing to clean up.
//
// Where the file system or the operating system knows no such locks nothing is claimed, and nothing found: claim_other.go.

// claimBase is the first of the bytes that owners have, claimSpan how many there are.
const (
	claimBase = 1 << 61
	claimSpan = 1 << 60
)

// claimTime is how long a claim of somebody else may last that is about to end, as of a query that has just been cancelled.
var claimTime = 3 * time.Second

// claimPause is the least time between two looks at it. Twice that is the most: two that have met each other, and both
// given way, do not meet at the next look too.
const claimPause = 20 * time.Millisecond

// errTaken says that somebody else has claimed an output.
var errTaken = errors.New("another query or run is writing it; choose another path, or end that one first")

// claim is an output that is claimed; nil where that is not possible.
type claim struct{ f *os.File }

func (c *claim) release() error {
	if c == nil {
		return nil
	}
	return c.f.Close()
}

// claimByte is the byte of an owner.
func claimByte(owner string) int64 {
	h := fnv.New64a()
	_, _ = io.WriteString(h, owner)
	return claimBase + int64(h.Sum64()%claimSpan)
}

// claimOutput claims a file or folder that is there. Without an owner it only looks whether somebody else has.
func claimOutput(path, owner string) (*claim, error) {
	at := int64(-1)
	if owner != "" {
		at = claimByte(owner)
	}
	for end := time.Now().Add(claimTime); ; time.Sleep(claimPause + rand.N(claimPause)) {
		c, taken := tryClaim(path, at)
		switch {
		case !taken:
			return c, nil
		case time.Now().After(end):
			return nil, fmt.Errorf("output %q: %w", path, errTaken)
		}
	}
}

// of tells whether the claim is that of a file, and not of one that has taken or lost its name meanwhile.
func (c *claim) of(f *os.File) bool {
	if c == nil {
		return true
	}
	a, err := c.f.Stat()
	if err != nil {
		return false
	}
	b, err := f.Stat()
	return err == nil && os.SameFile(a, b)
}

// OutputPlace is the file or folder that a writer with this path writes, by the one path that it has however it is named; ""
// if that is standard output, a device or a pipe, to which several may write. Relative paths are taken against dir.
func OutputPlace(path, dir string) string {
	if path == "-" || path == "" {
		return ""
	}
	full, err := filepath.Abs(resolvePath(dir, path))
	if err != nil {
		return ""
	}
	full = realPath(full, mostLinks)
	if info, err := os.Stat(full); err == nil && !info.Mode().IsRegular() && !info.IsDir() {
		return ""
	}
	return full
}

// mostLinks is how many symbolic links to what is not there are followed.
const mostLinks = 40

// realPath follows the symbolic links of a path, the last part of which, or several, may not be there yet.
func realPath(path string, links int) string {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		return real
	}
	if to, err := os.Readlink(path); err == nil && links > 0 {
		if !filepath.IsAbs(to) {
			to = filepath.Join(filepath.Dir(path), to)
		}
		return realPath(to, links-1)
	}
	parent := filepath.Dir(path)
	if parent == path {
		return path
	}
	if _, err := os.Lstat(path); err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrPermission) {
		return path
	}
	return filepath.Join(realPath(parent, links), filepath.Base(path))
}
