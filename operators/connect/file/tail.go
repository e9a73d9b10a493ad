package file

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"syscall"
)

// A query that goes on cuts its file to what it has committed. While it stood still something else may have written that
// file, another query or run, and the cut would lose rows of that one. So a commit says how what is committed ends, and which
// file it is, and a file that does not end so there is left as it is. What is behind the committed end says nothing: a process
// that was killed before it could record its commit leaves rows there.

// tailSize is how much of the end of what is committed is compared, bytes.
const tailSize = 4 << 10

// tail keeps the end of what is written.
type tail struct{ b []byte }

func (t *tail) add(p []byte) {
	if len(p) >= tailSize {
		t.b = append(t.b[:0], p[len(p)-tailSize:]...)
		return
	}
	if t.b == nil {
		t.b = make([]byte, 0, 2*tailSize)
	}
	if len(t.b)+len(p) > cap(t.b) {
		t.b = t.b[:copy(t.b, t.b[len(t.b)-tailSize:])]
	}
	t.b = append(t.b, p...)
}

// last is the end of what was added, up to tailSize of it.
func (t *tail) last() []byte { return t.b[max(0, len(t.b)-tailSize):] }

func (t *tail) sum() uint32 { return crc32.Checksum(t.last(), positionCRC) }

// readTail gives the end of the first length bytes of a file.
func readTail(path string, length int64) (tail, error) {
	var t tail
	if length == 0 {
		return t, nil
	}
	f, err := os.Open(path)
	if err != nil {
		return t, fmt.Errorf("output %q is read to see that it is as it was: %w", path, err)
	}
	defer f.Close()
	b := make([]byte, min(length, tailSize))
	if n, err := f.ReadAt(b, length-int64(len(b))); n < len(b) {
		return t, fmt.Errorf("output %q is read to see that it is as it was: %w", path, err)
	}
	t.add(b)
	return t, nil
}

// fileNumber is the number that a file system has given to a file; 0 if it is not known.
func fileNumber(info os.FileInfo) uint64 {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return st.Ino
	}
	return 0
}

// ending is what a commit of one file says of it, beside the length.
type ending struct {
	known  bool   // commits of earlier versions do not say it
	sum    uint32 // of the last bytes that are committed
	number uint64 // of the file
}

func (e ending) encode(dst []byte) []byte {
	return binary.LittleEndian.AppendUint32(binary.AppendUvarint(dst, e.number), e.sum)
}

// parseEnding takes all of src.
func parseEnding(src []byte) (ending, error) {
	number, used := binary.Uvarint(src)
	if used <= 0 || len(src) != used+4 {
		return ending{}, errWitness
	}
	return ending{true, binary.LittleEndian.Uint32(src[used:]), number}, nil
}

// check reports whether a file whose committed bytes end in t is the one that the commit at was of. The number counts only
// where nothing else tells, and something would be lost: copies of a file have others.
func (t *tail) check(path string, info os.FileInfo, at witness) error {
	switch e := at.ending; {
	case !e.known:
		return nil
	case t.sum() != e.sum, at.rows == 0 && info.Size() > at.length && e.number != 0 && e.number != fileNumber(info):
		return fmt.Errorf("output %q: %w", path, errRewritten)
	}
	return nil
}

// errRewritten says that a file does not hold what was committed.
var errRewritten = errors.New("something else has written it since this query has committed rows to it; put it back as it was, " +
	"or start the query anew, after moving the file away or with another path")
