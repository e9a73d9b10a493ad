package shared

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"math"
	"os"
	"sync"
	"syscall"
	"time"

	"sluice/executor/state"
	"sluice/executor/state/internal/format"
)

const (
	logMagic   = "sluicegl"
	logVersion = 1
	logHead    = 40
	logSuffix  = ".log"
	openSuffix = ".open"
)

// logFile is what a log is written to: an *os.File, or what a test puts in its place.
type logFile interface {
	WriteAt(b []byte, at int64) (int, error)
	Truncate(size int64) error
	Sync() error
	Close() error
}

// log is the log of a source or a sink as one opening of it has it.
type log struct {
	disk        disk
	folder      string // below the directory
	own         opening
	claimed     string // path of the file that is there until the log is sealed
	mode        state.FsyncMode
	interval    time.Duration
	segmentSize int64
	wrapFile    func(logFile) logFile // tests; may be nil

	mu               sync.Mutex
	file             logFile
	size             int64 // bytes that are good
	dirty            bool  // there may be bytes behind size
	closed           bool
	failed           error // the log cannot be trusted any more
	sealed           bool
	armed            bool // a sync is on its way
	timer            *time.Timer
	appended, synced progress // what this opening has appended, and of that what the disk has
}

// progress is how far a log is.
type progress struct{ records, epoch int64 }

func (l *log) path(name string) string { return l.disk.path(l.folder, name) }

// openLog opens a log for a generation and seals what was before. replay is given the records that
// count, then base returns those that stand for them.
func openLog(l *log, gen int64, replay func(payload []byte) error, base func() []byte) error {
	if err := l.disk.folder(l.folder); err != nil {
		return wrap(err)
	}
	if err := l.claim(gen); err != nil {
		return err
	}
	if err := l.sealLower(); err != nil {
		return err
	}
	if err := l.readLower(replay); err != nil {
		return err
	}
	err := l.write(base(), true)
	if err == nil {
		err = l.check()
	}
	if err != nil {
		if l.file != nil {
			_ = l.file.Close() // nothing of it counts for this opening
		}
		return err
	}
	// What cannot be removed now the next opening removes.
	_ = l.removeLower(logSuffix)
	return nil
}

// claim makes the name of this opening appear. From then on all lower ones that open find out.
func (l *log) claim(gen int64) error {
	for {
		names, err := l.disk.names(l.folder)
		if err != nil {
			return wrap(err)
		}
		l.own = opening{gen, 1}
		for _, o := range openings(names, openSuffix, logSuffix) {
			switch {
			case o.gen > gen:
				return state.ErrSealed
			case o.gen == gen:
				l.own.n = max(l.own.n, o.n+1)
			}
		}
		l.claimed = l.path(l.own.String() + openSuffix)
		f, err := os.OpenFile(l.claimed, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err != nil {
			return wrap(err)
		}
		return wrap(f.Close())
	}
}

// openings lists those that have a file with one of the suffixes.
func openings(names []string, suffixes ...string) []opening {
	var list []opening
	for _, name := range names {
		for _, suffix := range suffixes {
			var o opening
			if parseNumbers(name, suffix, &o.gen, &o.n) {
				list = append(list, o)
			}
		}
	}
	return list
}

// sealLower removes the claims of all lower openings: none of them can acknowledge anything from then on.
func (l *log) sealLower() error {
	names, err := l.disk.names(l.folder)
	if err != nil {
		return wrap(err)
	}
	for _, o := range openings(names, openSuffix, logSuffix) {
		if l.own.below(o) {
			return errors.Join(state.ErrSealed, wrap(remove(l.claimed)))
		}
	}
	return l.removeLower(openSuffix)
}

// removeLower removes the files of lower openings with a suffix.
func (l *log) removeLower(suffix string) error {
	names, err := l.disk.names(l.folder)
	for _, o := range openings(names, suffix) {
		if o.below(l.own) {
			err = errors.Join(err, remove(l.path(o.String()+suffix)))
		}
	}
	return wrap(err)
}

// readLower reads the file of the highest lower opening: it says all that those below it do.
func (l *log) readLower(replay func(payload []byte) error) error {
	names, err := l.disk.names(l.folder)
	if err != nil {
		return wrap(err)
	}
	var last opening
	for _, o := range openings(names, logSuffix) {
		if o.below(l.own) && last.below(o) {
			last = o
		}
	}
	if last == (opening{}) {
		return nil
	}
	path := l.path(last.String() + logSuffix)
	b, err := format.ReadSegment(path)
	if errors.Is(err, fs.ErrNotExist) {
		// A higher opening has removed it, which says so by the claim.
		return errors.Join(l.check(), wrap(err))
	}
	if err != nil {
		return wrap(err)
	}
	if err := replayLog(b, last, replay); err != nil {
		return damaged(path, err)
	}
	return nil
}

// replayLog gives the records of a file. One at the end that is not whole, behind the base and before no
// whole one, does not count.
func replayLog(b []byte, of opening, replay func(payload []byte) error) error {
	base, err := decodeHead(b, of)
	if err != nil {
		return err
	}
	if base > int64(len(b)-logHead) {
		return fmt.Errorf("has %d bytes, and its base needs %d", len(b), base)
	}
	var malformed error
	end, _, err := format.Scan(b, logHead, func(payload []byte) error {
		malformed = replay(payload)
		return malformed
	})
	if err != nil && (malformed != nil || int64(end) < logHead+base || format.Follows(b[end+1:], validPayload)) {
		return fmt.Errorf("at offset %d: %w", end, err)
	}
	return nil
}

func appendHead(b []byte, of opening, base int) []byte {
	start := len(b)
	b = append(b, logMagic...)
	b = binary.LittleEndian.AppendUint32(b, logVersion)
	b = binary.LittleEndian.AppendUint64(b, uint64(of.gen))
	b = binary.LittleEndian.AppendUint64(b, uint64(of.n))
	b = binary.LittleEndian.AppendUint64(b, uint64(base))
	return binary.LittleEndian.AppendUint32(b, crc32.Checksum(b[start:], format.Castagnoli))
}

func decodeHead(b []byte, of opening) (base int64, err error) {
	if len(b) < logHead || string(b[:8]) != logMagic {
		return 0, errors.New("is no log of a source or a sink")
	}
	if v := binary.LittleEndian.Uint32(b[8:]); v != logVersion {
		return 0, fmt.Errorf("has version %d of the format, and this program knows version %d", v, logVersion)
	}
	base = int64(binary.LittleEndian.Uint64(b[28:]))
	switch {
	case crc32.Checksum(b[:logHead-4], format.Castagnoli) != binary.LittleEndian.Uint32(b[logHead-4:]) || base < 0:
		return 0, errors.New("the header's checksum is wrong")
	case of != opening{int64(binary.LittleEndian.Uint64(b[12:])), int64(binary.LittleEndian.Uint64(b[20:]))}:
		return 0, errors.New("the header is that of another file")
	}
	return base, nil
}

// write makes the file of this opening appear with the records base, in place of the one there may be.
func (l *log) write(base []byte, first bool) error {
	if len(base) > format.MaxSegment/2 {
		return fmt.Errorf("state: %s: the log has %d bytes, since no checkpoint has become complete for long; %d are possible", l.path(""), len(base), format.MaxSegment/2)
	}
	b := append(appendHead(make([]byte, 0, logHead+len(base)), l.own, len(base)), base...)
	f, err := l.disk.publish(l.path(l.own.String()+logSuffix), first, func(f *os.File) error {
		_, err := l.wrapped(f).WriteAt(b, 0)
		return err
	})
	if unnamed := (*nameError)(nil); errors.As(err, &unnamed) && !first {
		return l.unsynced(err) // the old file is gone
	}
	if err != nil {
		return wrap(err)
	}
	if l.file != nil {
		_ = l.file.Close() // the new file says all that it does
	}
	l.file, l.size, l.dirty, l.synced = l.wrapped(f), int64(len(b)), false, l.appended
	return nil
}

func (l *log) wrapped(f *os.File) logFile {
	if l.wrapFile == nil {
		return f
	}
	return l.wrapFile(f)
}

// check tells whether a higher opening has sealed this one.
func (l *log) check() error {
	if !l.sealed {
		err := lookFor(l.claimed)
		if err == nil {
			return nil
		}
		if err != syscall.ENOENT {
			return wrap(&fs.PathError{Op: "lstat", Path: l.claimed, Err: err})
		}
		l.sealed = true
	}
	return state.ErrSealed
}

// lookFor is os.Lstat without the memory that it takes; it is part of each append.
func lookFor(path string) error {
	var st syscall.Stat_t
	for {
		if err := syscall.Lstat(path, &st); err != syscall.EINTR {
			return err
		}
	}
}

// usable tells why the log cannot be written. The lock is held, as in the methods below.
func (l *log) usable() error {
	switch {
	case l.closed:
		return state.ErrClosed
	case l.failed != nil:
		return l.failed
	case l.sealed:
		return state.ErrSealed
	}
	return nil
}

// append writes a record at the end. It is there when append returns nil, also for those who open
// the log later. After ErrSealed it may be there too; after another error it is not.
func (l *log) append(record []byte) error {
	if err := l.usable(); err != nil {
		return err
	}
	if err := l.clean(); err != nil {
		return err
	}
	if l.size+int64(len(record)) > format.MaxSegment {
		return fmt.Errorf("state: %s: the log is full, since no checkpoint has become complete for long", l.path(""))
	}
	if _, err := l.file.WriteAt(record, l.size); err != nil {
		return l.undo(wrap(err))
	}
	if l.mode == state.FsyncAlways {
		if err := l.file.Sync(); err != nil {
			return l.unsynced(err)
		}
	}
	// After writing, not before: whoever removes the claim reads after that, and so has what was acknowledged.
	if err := l.check(); err != nil {
		return l.undo(err)
	}
	l.size += int64(len(record))
	l.appended.records++
	if l.mode == state.FsyncGrouped {
		l.arm()
	}
	return nil
}

// undo removes what a failed append has written.
func (l *log) undo(err error) error {
	l.dirty = true
	return errors.Join(err, l.clean())
}

func (l *log) clean() error {
	if !l.dirty {
		return nil
	}
	if err := l.file.Truncate(l.size); err != nil {
		return wrap(err)
	}
	l.dirty = false
	return nil
}

// unsynced gives the log up: whether a page that could not be written will ever be is not known.
func (l *log) unsynced(err error) error {
	l.failed = fmt.Errorf("state: the log could not be brought to the disk: %w; what was written since is uncertain", err)
	return l.failed
}

func (l *log) arm() {
	switch {
	case l.armed:
		return
	case l.timer == nil:
		l.timer = time.AfterFunc(l.interval, l.syncLater)
	default:
		l.timer.Reset(l.interval)
	}
	l.armed = true
}

// syncLater is what the timer of FsyncGrouped does. Failed, and the next append, tell of a failure.
func (l *log) syncLater() {
	l.mu.Lock()
	l.armed = false
	f, closed, upTo := l.file, l.closed, l.appended
	l.mu.Unlock()
	if closed {
		return
	}
	err := f.Sync()
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case err == nil:
		if l.synced.records < upTo.records {
			l.synced = upTo
		}
	case l.file == f && !l.closed:
		_ = l.unsynced(err)
	}
}

// Synced is that of state.Syncing.
func (l *log) Synced() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mode != state.FsyncGrouped || l.synced == l.appended {
		return math.MaxInt64
	}
	return l.synced.epoch
}

// Sync is that of state.Syncing.
func (l *log) Sync() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.usable(); err != nil {
		return err
	}
	if l.mode != state.FsyncGrouped || l.synced == l.appended {
		return nil
	}
	if err := l.file.Sync(); err != nil {
		return l.unsynced(err)
	}
	l.synced = l.appended
	return nil
}

// Failed is that of state.Syncing.
func (l *log) Failed() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.failed
}

// close brings what was appended to the disk, and gives an error if that was not possible, or has not been before.
func (l *log) close() error {
	if l.closed {
		return nil
	}
	l.closed = true
	if l.timer != nil {
		l.timer.Stop()
	}
	var err error
	if l.mode != state.FsyncNever && l.failed == nil {
		err = wrap(l.file.Sync())
	}
	return errors.Join(l.failed, err, wrap(l.file.Close()))
}

// bulky tells whether the log is to be written anew, when about live bytes of it are of use.
func (l *log) bulky(live int64) bool {
	return l.size > l.segmentSize && 2*live < l.size
}

// validPayload tells whether a record is one of a log.
func validPayload(payload []byte) bool {
	_, err := decodePayload(payload)
	return err == nil
}

// The kind of a record with an epoch that has rows; the others are those of package state.
const kindRows = 4

// decodePayload decodes a record.
func decodePayload(payload []byte) (x logEntry, err error) {
	if len(payload) > 0 && payload[0] == kindRows {
		r := format.Reader{B: payload[1:]}
		for _, to := range []*int64{&x.rows.file.gen, &x.rows.file.n, &x.rows.file.number, &x.rows.from, &x.rows.to} {
			*to = r.Varint()
			r.Failed = r.Failed || *to < 0
		}
		if payload = r.Rest(); r.Failed || x.rows.from >= x.rows.to || len(payload) == 0 || payload[0] != format.KindEpoch {
			return logEntry{}, format.ErrPayload
		}
	}
	x.Entry, err = format.DecodeEntry(payload)
	return x, err
}

// logEntry is a decoded record.
type logEntry struct {
	format.Entry
	rows extent
}
