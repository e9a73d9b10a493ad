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

// Log is an operators.InputLog in a folder that one process uses at a time.
type Log struct {
	mu     sync.Mutex
	dir    string
	files  []segment // in order
	end    int64     // of the stream
	out    *os.File  // the last file; nil if there is none
	size   int64     // of it, bytes
	full   int64     // of a file that is followed by another one, at least
	cut    bool      // Begin has failed, and is to be tried again
	sync   bool      // Sync is to do something
	dirty  bool      // something has been written since
	closed bool

	in     *os.File // the file that was read last; nil if there is none
	inFrom int64    // offset in the stream of the record that was read last
	inAt   int64    // where it ends in the file
	record []byte
}

// segment is a file of the log.
type segment struct {
	start int64 // offset in the stream
	id    uint64
}

var _ operators.InputLog = (*Log)(nil)

const (
	segmentPrefix = "input-"
	segmentBytes  = 16 << 20
	headerBytes   = 8
	maxRecord     = 1 << 24 // bytes
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func checksum(offset int64, payload []byte) uint32 {
	sum := crc32.Checksum(binary.LittleEndian.AppendUint64(nil, uint64(offset)), castagnoli)
	return crc32.Update(sum, castagnoli, payload)
}

// OpenLog opens the log in a folder, which is made if it is not there. With sync it can survive the death of the machine.
func OpenLog(dir string, sync bool) (*Log, error) {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return nil, err
	}
	l := &Log{dir: dir, full: segmentBytes, sync: sync}
	if err := l.list(); err != nil || len(l.files) == 0 {
		return l, err
	}
	last := l.files[len(l.files)-1]
	var err error
	if l.out, err = os.OpenFile(l.path(last), os.O_RDWR, 0); err != nil {
		return nil, err
	}
	if err := l.findEnd(last); err != nil {
		return nil, errors.Join(err, l.out.Close())
	}
	return l, nil
}

// list finds the files of the log.
func (l *Log) list() error {
	entries, err := os.ReadDir(l.dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), segmentPrefix) {
			continue
		}
		var s segment
		_, err := fmt.Sscanf(e.Name(), segmentPrefix+"%d-%x", &s.start, &s.id)
		if path := filepath.Join(l.dir, e.Name()); err != nil || s.start < 0 || l.path(s) != path {
			return fmt.Errorf("%s is no file of the log of an input", path)
		}
		l.files = append(l.files, s)
	}
	slices.SortFunc(l.files, func(a, b segment) int { return int(min(max(a.start-b.start, -1), 1)) })
	for i := 1; i < len(l.files); i++ {
		if l.files[i].start == l.files[i-1].start {
			return fmt.Errorf("%s and %s begin at the same place", l.path(l.files[i-1]), l.path(l.files[i]))
		}
	}
	return nil
}

func (l *Log) path(s segment) string {
	return filepath.Join(l.dir, fmt.Sprintf("%s%020d-%016x", segmentPrefix, s.start, s.id))
}

// findEnd cuts off what is not whole of the last file.
func (l *Log) findEnd(last segment) error {
	l.end, l.size = last.start, 0
	for {
		payload, err := readRecord(l.out, l.size, l.end, nil)
		if errors.Is(err, errNoRecord) {
			return l.out.Truncate(l.size)
		}
		if err != nil {
			return err
		}
		l.size += headerBytes + int64(len(payload))
		l.end += int64(len(payload))
	}
}

// errNoRecord says that there is no whole record at a place.
var errNoRecord = errors.New("no whole record")

// readRecord reads the record at a place of a file, which has the bytes of the stream from offset on. It may use
// the memory of buf.
func readRecord(f *os.File, at, offset int64, buf []byte) ([]byte, error) {
	var header [headerBytes]byte
	if _, err := f.ReadAt(header[:], at); err != nil {
		return nil, noRecord(err)
	}
	size := int64(binary.LittleEndian.Uint32(header[:]))
	if size == 0 || size > maxRecord {
		return nil, errNoRecord
	}
	payload := slices.Grow(buf[:0], int(size))[:size]
	if _, err := f.ReadAt(payload, at+headerBytes); err != nil {
		return nil, noRecord(err)
	}
	if checksum(offset, payload) != binary.LittleEndian.Uint32(header[4:]) {
		return nil, errNoRecord
	}
	return payload, nil
}

func noRecord(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errNoRecord
	}
	return err
}

// Begin implements operators.InputLog. Whatever becomes of the process meanwhile, the bytes before offset are there, and
// those behind it are, in their order, or are not.
func (l *Log) Begin(id uint64, offset int64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return os.ErrClosed
	}
	if offset > l.end || len(l.files) > 0 && offset < l.files[0].start {
		return fmt.Errorf("a part cannot begin at byte %d of a log that ends at byte %d", offset, l.end)
	}
	l.cut = true
	for len(l.files) > 0 && l.files[len(l.files)-1].start > offset {
		if err := l.drop(); err != nil {
			return err
		}
	}
	if n := len(l.files); n > 0 && l.files[n-1].start == offset {
		if err := l.vacate(segment{offset, id}); err != nil {
			return err
		}
	}
	if err := l.open(segment{offset, id}); err != nil {
		return err
	}
	l.end, l.cut = offset, false
	return nil
}

// drop removes the last file.
func (l *Log) drop() error {
	last := len(l.files) - 1
	if err := os.Remove(l.path(l.files[last])); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	l.files = l.files[:last]
	return l.closeInput()
}

// vacate makes the last file an empty one of another input, which is to be opened.
func (l *Log) vacate(s segment) error {
	last := len(l.files) - 1
	old := l.path(l.files[last])
	if err := os.Truncate(old, 0); err != nil {
		return err
	}
	if err := os.Rename(old, l.path(s)); err != nil {
		return err
	}
	l.files = l.files[:last]
	return nil
}

// open makes a file the last one, which is made if it is not there.
func (l *Log) open(s segment) error {
	f, err := os.OpenFile(l.path(s), os.O_RDWR|os.O_CREATE, 0o666)
	if err != nil {
		return err
	}
	if l.out != nil {
		if err := errors.Join(l.flush(), l.out.Close()); err != nil {
			return errors.Join(err, f.Close())
		}
	}
	l.dirty = true
	l.files = append(l.files, s)
	l.out, l.size = f, 0
	return l.closeInput()
}

// Append implements operators.InputLog.
func (l *Log) Append(p []byte) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.closed:
		return os.ErrClosed
	case len(l.files) == 0 || l.cut:
		return errors.New("nothing can be added before a part has begun")
	case len(p) > maxRecord:
		return fmt.Errorf("%d bytes are too many at a time", len(p))
	case len(p) == 0:
		return nil
	}
	if l.size >= l.full {
		if err := l.open(segment{l.end, l.files[len(l.files)-1].id}); err != nil {
			return err
		}
	}
	record := binary.LittleEndian.AppendUint32(make([]byte, 0, headerBytes+len(p)), uint32(len(p)))
	record = binary.LittleEndian.AppendUint32(record, checksum(l.end, p))
	// At its place, so that what a failed attempt has left there is overwritten.
	n, err := l.out.WriteAt(append(record, p...), l.size)
	if err != nil {
		return err
	}
	l.size += int64(n)
	l.end += int64(len(p))
	l.dirty = true
	return nil
}

// Sync implements operators.InputLog.
func (l *Log) Sync() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed || l.out == nil {
		return nil
	}
	return l.flush()
}

// flush brings the last file to the disk, and the names of files.
func (l *Log) flush() error {
	if !l.sync || !l.dirty {
		return nil
	}
	dir, err := os.Open(l.dir)
	if err != nil {
		return err
	}
	defer dir.Close()
	if err := errors.Join(l.out.Sync(), dir.Sync()); err != nil {
		return err
	}
	l.dirty = false
	return nil
}

// ReadAt implements operators.InputLog.
func (l *Log) ReadAt(p []byte, offset int64) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.closed:
		return 0, os.ErrClosed
	case offset == l.end:
		return 0, io.EOF
	case offset > l.end || offset < l.files[0].start:
		return 0, fmt.Errorf("byte %d is not there, only those from %d to %d", offset, l.files[0].start, l.end)
	}
	i, found := slices.BinarySearchFunc(l.files, offset, func(s segment, at int64) int { return int(min(max(s.start-at, -1), 1)) })
	if !found {
		i--
	}
	if err := l.load(l.files[i], offset); err != nil {
		return 0, fmt.Errorf("%s: %w", l.path(l.files[i]), err)
	}
	n := copy(p, l.record[offset-l.inFrom:])
	if i+1 < len(l.files) { // the file may have more, which has been cut
		n = int(min(int64(n), l.files[i+1].start-offset))
	}
	return int(min(int64(n), l.end-offset)), nil
}

// load reads the record of a file that has the byte at offset.
func (l *Log) load(s segment, offset int64) error {
	if l.in == nil || l.in.Name() != l.path(s) || offset < l.inFrom {
		in, err := os.Open(l.path(s))
		if err != nil {
			return err
		}
		if err := l.closeInput(); err != nil {
			return errors.Join(err, in.Close())
		}
		l.in, l.inFrom, l.inAt, l.record = in, s.start, 0, l.record[:0]
	}
	for offset >= l.inFrom+int64(len(l.record)) {
		l.inFrom += int64(len(l.record))
		payload, err := readRecord(l.in, l.inAt, l.inFrom, l.record)
		if err != nil {
			l.record = l.record[:0]
			return fmt.Errorf("the record of byte %d, at byte %d of the file: %w", l.inFrom, l.inAt, err)
		}
		l.record = payload
		l.inAt += headerBytes + int64(len(payload))
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

// Bounds implements operators.InputLog.
func (l *Log) Bounds() (start, end int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.files) > 0 {
		start = l.files[0].start
	}
	return start, l.end
}

// Input implements operators.InputLog.
func (l *Log) Input() (id uint64, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.files) == 0 {
		return 0, false
	}
	return l.files[len(l.files)-1].id, true
}

// Begins implements operators.InputLog. Where a log has been trimmed it cannot tell, and says that none does.
func (l *Log) Begins(offset int64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, s := range l.files {
		if s.start == offset && (i == 0 && offset == 0 || i > 0 && l.files[i-1].id != s.id) {
			return true
		}
	}
	return false
}

// Trim implements operators.InputLog. Only whole files are removed, and none that would hide where a part begins.
func (l *Log) Trim(offset int64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.files) > 1 && l.files[1].start < offset {
		if err := os.Remove(l.path(l.files[0])); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		l.files = l.files[1:]
	}
	return nil
}

// Close implements operators.InputLog.
func (l *Log) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	err := l.closeInput()
	if l.out != nil {
		err = errors.Join(err, l.out.Close())
		l.out = nil
	}
	return err
}
