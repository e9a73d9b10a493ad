package shared

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"

	"sluice/executor/state"
	"sluice/executor/state/internal/format"
)

// A file of rows is a header and records, whose payload is the epoch, a varint, and rows.
//
//	magic, 8 bytes | version, 4 bytes little-endian
const (
	rowsMagic   = "sluicerw"
	rowsVersion = 1
	rowsHead    = 12
	rowsSuffix  = ".rows"
)

func (f rowFile) name() string { return f.String() + "." + number(f.number) + rowsSuffix }

func parseRowFile(name string) (f rowFile, ok bool) {
	ok = parseNumbers(name, rowsSuffix, &f.gen, &f.n, &f.number)
	return f, ok
}

// rows writes the rows of a source that cannot be read again. What counts of them is what the entries
// in the log say, so that they need no sealing and no rule for torn tails.
type rows struct {
	log    *log
	file   *os.File // nil: none yet
	name   rowFile
	epoch  int64 // of the rows behind from
	from   int64 // where the rows begin that no entry counts yet
	size   int64 // bytes that are good
	synced int64 // bytes that the disk has
	record []byte
}

func (r *rows) open(l *log) { r.log, r.name = l, rowFile{opening: l.own} }

// append writes rows of an epoch behind those that it has.
func (r *rows) append(epoch int64, b []byte) error {
	if r.size > r.from && epoch != r.epoch {
		return assertion("%s: rows of epoch %d between those of epoch %d and its entry", r.log.folder, epoch, r.epoch)
	}
	if r.file == nil || r.size == r.from && r.size > r.log.segmentSize {
		if err := r.next(); err != nil {
			return wrap(err)
		}
	}
	start := 0
	r.record = binary.AppendVarint(format.Begin(r.record[:0]), epoch)
	r.record = append(r.record, b...)
	format.Seal(r.record, start)
	if _, err := r.file.WriteAt(r.record, r.size); err != nil {
		return wrap(err) // what has been written of it lies behind size
	}
	r.epoch = epoch
	r.size += int64(len(r.record))
	return nil
}

// next begins another file.
func (r *rows) next() error {
	name := r.name
	name.number++
	f, err := os.OpenFile(r.log.path(name.name()), os.O_CREATE|os.O_TRUNC|os.O_RDWR, 0o644)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(binary.LittleEndian.AppendUint32([]byte(rowsMagic), rowsVersion), 0)
	if err == nil && r.log.disk.sync {
		err = format.SyncDir(r.log.path(""))
	}
	if err != nil {
		return errors.Join(err, f.Close(), remove(f.Name()))
	}
	old := r.file
	r.name, r.file, r.from, r.size, r.synced = name, f, rowsHead, rowsHead, 0
	if old != nil {
		_ = old.Close() // what counts of it has been synced if it must be
	}
	return nil
}

// finish returns where the rows of an epoch are, when they may be counted.
func (r *rows) finish(epoch int64) (extent, error) {
	if r.size == r.from {
		return extent{}, nil
	}
	if epoch != r.epoch {
		return extent{}, assertion("%s: the entry of epoch %d behind rows of epoch %d", r.log.folder, epoch, r.epoch)
	}
	if r.log.disk.sync && r.synced < r.size {
		if err := r.file.Sync(); err != nil {
			return extent{}, r.log.unsynced(err)
		}
		r.synced = r.size
	}
	return extent{r.name, r.from, r.size}, nil
}

// counted says that there is an entry for the rows.
func (r *rows) counted() { r.from = r.size }

// removeOthers removes files that are neither written nor named by an entry. Those of higher openings
// stay: this one is a zombie then.
func (r *rows) removeOthers(list []entry) error {
	names, err := r.log.disk.names(r.log.folder)
	used := map[rowFile]bool{r.name: true}
	for i := range list {
		used[list[i].rows.file] = true
	}
	for _, name := range names {
		f, ok := parseRowFile(name)
		if ok && !used[f] && !r.log.own.below(f.opening) {
			err = errors.Join(err, remove(r.log.path(name)))
		}
	}
	return err
}

func (r *rows) close() error {
	if r.file == nil {
		return nil
	}
	f := r.file
	r.file = nil
	return f.Close()
}

// readRows gives the rows of an epoch.
func readRows(path string, epoch int64, at extent, f func(rows []byte) error) error {
	file, err := os.Open(path)
	if err != nil {
		return wrap(err)
	}
	defer file.Close()
	own, err := eachRows(file, epoch, at, f)
	if err != nil {
		return damaged(path, err)
	}
	return own
}

// eachRows returns the error of f apart from those of the file.
func eachRows(file *os.File, epoch int64, at extent, f func(rows []byte) error) (own, err error) {
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || at.from < rowsHead || at.to > info.Size() {
		return nil, fmt.Errorf("is no regular file with bytes %d to %d", at.from, at.to)
	}
	head := make([]byte, rowsHead)
	if _, err := file.ReadAt(head, 0); err != nil || string(head[:8]) != rowsMagic || binary.LittleEndian.Uint32(head[8:]) != rowsVersion {
		return nil, fmt.Errorf("is no file of rows of version %d", rowsVersion)
	}
	in := bufio.NewReaderSize(io.NewSectionReader(file, at.from, at.to-at.from), 64<<10)
	var b []byte
	for left := at.to - at.from; left > 0; left -= int64(format.RecordHead + len(b)) {
		if b, err = format.Read(in, left, format.MaxPayload, b); err != nil {
			return nil, err
		}
		r := format.Reader{B: b}
		if r.Varint() != epoch || r.Failed {
			return nil, format.ErrPayload
		}
		if own = f(r.Rest()); own != nil {
			return own, nil
		}
	}
	return nil, nil
}

var _ state.RowLog = (*sourceLog)(nil)
