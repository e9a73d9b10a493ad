package state

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"unicode/utf8"

	"sluice/dataflow"
	"sluice/executor/state/internal/format"
	"sluice/operators"
)

// maxPiece bounds a piece of state, in bytes.
const maxPiece = 1 << 30

// A state file is a header and records, whose payload is a piece behind its group (a varint).
//
//	magic, 8 bytes | version, 4 bytes little-endian
const (
	stateMagic   = "sluicest"
	stateVersion = 1
	stateHead    = 12
)

const manifestFile = "manifest"

func stateFile(i int) string { return fmt.Sprintf("%04d.state", i) }

// manifest is the text of the sealed file of that name.
type manifest struct {
	Epoch     int64              `json:"epoch"`
	Records   uint64             `json:"records"` // that the log had
	Meta      []byte             `json:"meta,omitempty"`
	Operators []manifestOperator `json:"operators"` // in the order of their files
}

type manifestOperator struct {
	Name        string `json:"name"`
	Fingerprint string `json:"fingerprint"`
	Length      int64  `json:"length"` // of the file, in bytes
	CRC32C      uint32 `json:"crc32c"` // of the file
	Pieces      int64  `json:"pieces"`
}

// CheckpointWriter is a checkpoint that is being written. Several tasks may use it at the same time.
type CheckpointWriter struct {
	store *Store
	epoch int64
	dir   string

	mu     sync.Mutex
	names  map[string]bool
	open   map[*StateWriter]bool
	done   []manifestOperator // by the number of the file; without a name until it is closed
	failed error
	over   error // what calls get after the end
}

// BeginCheckpoint begins the checkpoint of an epoch above that of the last complete one, of which no
// other is being written. It ends with Complete or Abort.
func (s *Store) BeginCheckpoint(epoch int64) (*CheckpointWriter, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := len(s.checkpoints)
	switch {
	case s.closed:
		return nil, ErrClosed
	case epoch < 0 || n > 0 && epoch <= s.checkpoints[n-1]:
		return nil, assertion("checkpoint of epoch %d, which is below 0 or not above that of the last one", epoch)
	case s.writing[epoch]:
		return nil, assertion("checkpoint of epoch %d is being written already", epoch)
	}
	dir, err := os.MkdirTemp(s.checkpointsPath(), temporaryPrefix)
	if err == nil {
		err = os.Chmod(dir, 0o755)
	}
	if err != nil {
		return nil, fmt.Errorf("state: checkpoint %d: %w", epoch, err)
	}
	s.writing[epoch] = true
	return &CheckpointWriter{store: s, epoch: epoch, dir: dir, names: map[string]bool{}, open: map[*StateWriter]bool{}}, nil
}

// Operator begins the state of an operator, whose name is used once in a checkpoint. The fingerprint
// is text of the caller's that tells what the state fits. Both are UTF-8. After Abort it gives ErrAborted.
func (w *CheckpointWriter) Operator(name, fingerprint string) (*StateWriter, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.over != nil:
		return nil, w.over
	case name == "" || len(name) > format.MaxName:
		return nil, assertion("an operator has a name of %d bytes, not 1 to %d", len(name), format.MaxName)
	case !utf8.ValidString(name) || !utf8.ValidString(fingerprint):
		return nil, assertion("operator %q with fingerprint %q: is not UTF-8", name, fingerprint)
	case w.names[name]:
		return nil, assertion("checkpoint of epoch %d has operator %q already", w.epoch, name)
	}
	f, err := os.Create(filepath.Join(w.dir, stateFile(len(w.done))))
	if err != nil {
		return nil, w.fail(err)
	}
	sw := &StateWriter{to: w, file: &summedFile{File: f}, number: len(w.done)}
	sw.about = manifestOperator{Name: name, Fingerprint: fingerprint}
	sw.out = bufio.NewWriterSize(sw.file, 64<<10)
	w.names[name], w.open[sw] = true, true
	w.done = append(w.done, manifestOperator{})
	head := binary.LittleEndian.AppendUint32([]byte(stateMagic), stateVersion)
	_, _ = sw.out.Write(head) // its buffer is larger
	return sw, nil
}

// fail notes an error, after which the checkpoint cannot become complete. The lock is held.
func (w *CheckpointWriter) fail(err error) error {
	err = fmt.Errorf("state: checkpoint %d: %w", w.epoch, err)
	if w.failed == nil {
		w.failed = err
	}
	return err
}

// StateWriter writes the state of one operator. It is used by one goroutine at a time.
type StateWriter struct {
	to     *CheckpointWriter
	file   *summedFile
	out    *bufio.Writer // of file
	number int
	about  manifestOperator
	head   []byte // memory for the beginning of a record
	closed bool
}

// summedFile is a file whose length and checksum are known when it is written.
type summedFile struct {
	*os.File
	length int64
	sum    uint32 // CRC32C
}

func (f *summedFile) Write(b []byte) (int, error) {
	n, err := f.File.Write(b)
	f.sum = crc32.Update(f.sum, format.Castagnoli, b[:n])
	f.length += int64(n)
	return n, err
}

// Piece adds a piece of at most 1 GiB, which is not kept, of a key group or of operators.WholeState.
func (s *StateWriter) Piece(group int, piece []byte) error {
	switch {
	case s.closed:
		return assertion("operator %q: a piece after the end of its state", s.about.Name)
	case group != operators.WholeState && (group < 0 || group >= dataflow.KeyGroups):
		return assertion("operator %q: a piece of key group %d", s.about.Name, group)
	case len(piece) > maxPiece:
		return assertion("operator %q: a piece of %d bytes, %d are possible", s.about.Name, len(piece), maxPiece)
	}
	h := binary.AppendVarint(append(s.head[:0], make([]byte, format.RecordHead)...), int64(group))
	s.head = h
	binary.LittleEndian.PutUint32(h, uint32(len(h)-format.RecordHead+len(piece)))
	sum := crc32.Update(format.Sum(h[:4], h[format.RecordHead:]), format.Castagnoli, piece)
	binary.LittleEndian.PutUint32(h[4:], sum)
	s.about.Pieces++
	_, err := s.out.Write(h)
	if err == nil {
		_, err = s.out.Write(piece)
	}
	return s.check(err)
}

func (s *StateWriter) check(err error) error {
	if err == nil {
		return nil
	}
	s.to.mu.Lock()
	defer s.to.mu.Unlock()
	return s.to.fail(err)
}

// Close ends the operator's state. The checkpoint cannot become complete before that.
func (s *StateWriter) Close() error {
	if s.closed {
		return nil
	}
	s.closed = true
	err := s.out.Flush()
	if err == nil && s.to.store.opts.Fsync != FsyncNever {
		err = s.file.Sync()
	}
	err = errors.Join(err, s.file.Close())
	w := s.to
	w.mu.Lock()
	defer w.mu.Unlock()
	if err != nil {
		return w.fail(err)
	}
	delete(w.open, s)
	s.about.Length, s.about.CRC32C = s.file.length, s.file.sum
	w.done[s.number] = s.about
	return nil
}

// Complete publishes the checkpoint, with some bytes of the caller's. When it returns nil, Checkpoint
// gives this one, or one of a later epoch. Otherwise the checkpoint is aborted, unless the disk failed to
// sync its name.
func (w *CheckpointWriter) Complete(meta []byte) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	err := w.failed
	switch {
	case w.over != nil:
		return w.over
	case err == nil && len(w.open) > 0:
		err = assertion("checkpoint of epoch %d: %d operators are being written", w.epoch, len(w.open))
	}
	if err == nil {
		err = w.publish(meta)
	}
	if err != nil {
		return errors.Join(err, w.abort())
	}
	w.over = assertion("checkpoint of epoch %d is complete already", w.epoch)
	return nil
}

func (w *CheckpointWriter) publish(meta []byte) error {
	s, sync := w.store, w.store.opts.Fsync != FsyncNever
	s.mu.Lock()
	records := s.log.records
	s.mu.Unlock()
	if sync {
		if err := s.sync(records); err != nil {
			return err
		}
	}
	text, err := json.Marshal(manifest{Epoch: w.epoch, Records: records, Meta: meta, Operators: w.done})
	if err == nil {
		err = format.WriteSealed(filepath.Join(w.dir, manifestFile), manifestFile, text, sync)
	}
	if err == nil && sync {
		err = format.SyncDir(w.dir)
	}
	if err != nil {
		return w.fail(err)
	}
	if err := w.rename(); err != nil {
		return err
	}
	if sync { // appends need not wait for it
		if err := format.SyncDir(s.checkpointsPath()); err != nil {
			return w.fail(err)
		}
	}
	return nil
}

func (w *CheckpointWriter) rename() error {
	s := w.store
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return ErrClosed
	}
	if err := os.Rename(w.dir, s.checkpointPath(w.epoch)); err != nil {
		return w.fail(err)
	}
	s.checkpoints = append(s.checkpoints, w.epoch)
	slices.Sort(s.checkpoints)
	s.verified[w.epoch] = true
	delete(s.writing, w.epoch)
	return nil
}

// Abort gives the checkpoint up and removes what has been written of it. After Complete or Abort it
// does nothing.
func (w *CheckpointWriter) Abort() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.abort()
}

func (w *CheckpointWriter) abort() error {
	if w.over != nil {
		return nil
	}
	w.over = ErrAborted
	w.store.mu.Lock()
	delete(w.store.writing, w.epoch)
	w.store.mu.Unlock()
	// Tasks that still write do so to a file without a name, until they close it.
	if err := os.RemoveAll(w.dir); err != nil {
		return fmt.Errorf("state: checkpoint %d: %w", w.epoch, err)
	}
	return nil
}
