package persist

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"sluice/operators"
)

// Log is a RowLog in a folder that one process uses at a time. Its files, rows-NUMBER, each hold the entries from
// that number on: length and checksum (four bytes each, little endian, the latter CRC32C of the entry's number and its
// payload), payload. An entry at the end of the last file that is not whole was being written when the
// process died, and is overwritten.
type Log struct {
	mu       sync.Mutex // Trim may come from another goroutine
	dir      string
	segments []int64 // numbers of their first entries, in order
	next     int64   // number of the next entry
	out      *os.File
	end      int64 // of the last file, bytes
	size     int64 // of a file that is followed by another one, at least

	in   *os.File // the file that is being read, and what comes next in it
	read int64
	at   int64
}

var _ operators.RowLog = (*Log)(nil)

const (
	segmentPrefix = "rows-"
	segmentBytes  = 16 << 20
	headerBytes   = 8
	maxEntry      = 1 << 30 // bytes
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func checksum(number int64, payload []byte) uint32 {
	sum := crc32.Checksum(binary.LittleEndian.AppendUint64(nil, uint64(number)), castagnoli)
	return crc32.Update(sum, castagnoli, payload)
}

// OpenLog opens the log in a folder, which is made if it is not there.
func OpenLog(dir string) (*Log, error) {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return nil, err
	}
	l := &Log{dir: dir, next: 1, size: segmentBytes}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		n := int64(0)
		if _, err := fmt.Sscanf(e.Name(), segmentPrefix+"%d", &n); err != nil || l.path(n) != filepath.Join(dir, e.Name()) || n < 1 {
			if strings.HasPrefix(e.Name(), segmentPrefix) {
				return nil, fmt.Errorf("%s is no file of a log of rows", filepath.Join(dir, e.Name()))
			}
			continue
		}
		l.segments = append(l.segments, n)
	}
	slices.Sort(l.segments)
	if len(l.segments) == 0 {
		return l, l.begin()
	}
	last := l.segments[len(l.segments)-1]
	if l.out, err = os.OpenFile(l.path(last), os.O_RDWR, 0); err != nil {
		return nil, err
	}
	if err := l.findEnd(last); err != nil {
		return nil, errors.Join(err, l.out.Close())
	}
	return l, nil
}

func (l *Log) path(first int64) string {
	return filepath.Join(l.dir, fmt.Sprintf("%s%020d", segmentPrefix, first))
}

// begin makes a new file for the entries from next on.
func (l *Log) begin() error {
	f, err := os.OpenFile(l.path(l.next), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return err
	}
	if l.out != nil {
		if err := l.out.Close(); err != nil {
			return errors.Join(err, f.Close(), os.Remove(f.Name()))
		}
	}
	l.out, l.end = f, 0
	l.segments = append(l.segments, l.next)
	return nil
}

// findEnd looks how many entries of the last file are whole.
func (l *Log) findEnd(first int64) error {
	l.next, l.end = first, 0
	for {
		payload, err := readEntry(l.out, l.end, l.next)
		if errors.Is(err, errNoEntry) {
			return nil
		}
		if err != nil {
			return err
		}
		l.end += headerBytes + int64(len(payload))
		l.next++
	}
}

// errNoEntry says that there is no whole entry at a place.
var errNoEntry = errors.New("no whole entry")

func readEntry(f *os.File, at, number int64) ([]byte, error) {
	var header [headerBytes]byte
	if _, err := f.ReadAt(header[:], at); err != nil {
		return nil, noEntry(err)
	}
	size := int64(binary.LittleEndian.Uint32(header[:]))
	if info, err := f.Stat(); err != nil || size > maxEntry || at+headerBytes+size > info.Size() {
		return nil, errors.Join(errNoEntry, err)
	}
	payload := make([]byte, size)
	if _, err := f.ReadAt(payload, at+headerBytes); err != nil {
		return nil, noEntry(err)
	}
	if checksum(number, payload) != binary.LittleEndian.Uint32(header[4:]) {
		return nil, errNoEntry
	}
	return payload, nil
}

func noEntry(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errNoEntry
	}
	return err
}

// AppendRows implements operators.RowLog.
func (l *Log) AppendRows(number int64, payload []byte) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if number != l.next {
		return fmt.Errorf("entry %d cannot be written where entry %d is due", number, l.next)
	}
	if len(payload) > maxEntry {
		return fmt.Errorf("an entry of %d bytes is too large", len(payload))
	}
	if l.end >= l.size {
		if err := l.begin(); err != nil {
			return err
		}
	}
	record := binary.LittleEndian.AppendUint32(nil, uint32(len(payload)))
	record = binary.LittleEndian.AppendUint32(record, checksum(number, payload))
	// At its place, so that what a failed attempt has left there is overwritten.
	n, err := l.out.WriteAt(append(record, payload...), l.end)
	if err != nil {
		return err
	}
	l.end += int64(n)
	l.next++
	return nil
}

// Rows implements operators.RowLog.
func (l *Log) Rows(number int64, f func(payload []byte) error) error {
	payload, err := l.entry(number)
	if err != nil || payload == nil {
		return err
	}
	return f(payload)
}

// entry reads an entry; it is nil if there is none.
func (l *Log) entry(number int64) ([]byte, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if number >= l.next {
		return nil, nil
	}
	if number < l.segments[0] {
		return nil, fmt.Errorf("it has been given up; the first one that is kept is %d", l.segments[0])
	}
	if err := l.seek(number); err != nil {
		return nil, err
	}
	payload, err := readEntry(l.in, l.at, l.read)
	if err != nil {
		return nil, fmt.Errorf("%s at byte %d: %w", l.in.Name(), l.at, err)
	}
	l.at += headerBytes + int64(len(payload))
	l.read++
	return payload, nil
}

// seek goes to an entry that is there.
func (l *Log) seek(number int64) error {
	i, found := slices.BinarySearch(l.segments, number)
	if !found {
		i--
	}
	first := l.segments[i]
	if l.in == nil || l.in.Name() != l.path(first) || l.read > number {
		in, err := os.Open(l.path(first))
		if err != nil {
			return err
		}
		if err := l.closeInput(); err != nil {
			return errors.Join(err, in.Close())
		}
		l.in, l.read, l.at = in, first, 0
	}
	var size [4]byte
	for l.read < number {
		if _, err := l.in.ReadAt(size[:], l.at); err != nil {
			return fmt.Errorf("%s at byte %d: %w", l.in.Name(), l.at, err)
		}
		l.at += headerBytes + int64(binary.LittleEndian.Uint32(size[:]))
		l.read++
	}
	return nil
}

func (l *Log) closeInput() error {
	if l.in == nil {
		return nil
	}
	err := l.in.Close()
	l.in = nil
	return err
}

// Trim implements operators.RowLog. Only whole files are removed.
func (l *Log) Trim(number int64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.segments) > 1 && l.segments[1] <= number {
		if err := os.Remove(l.path(l.segments[0])); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		l.segments = l.segments[1:]
	}
	return nil
}

// Close closes the files.
func (l *Log) Close() error { return errors.Join(l.out.Close(), l.closeInput()) }
