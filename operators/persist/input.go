package persist

import (
	"errors"
	"fmt"
	"io"
	"sync"

	"sluice/operators"
)

// MaxRead is how many bytes are read from the input at a time, at most: so many can be lost.
const MaxRead = 64 << 10

// ErrPart is returned by Read where another input goes on: see the comment of the package.
var ErrPart = errors.New("persist: from here on there is what another input has brought")

// ErrKeep is what could not be kept: the log has no room, say. Nothing is lost, and Read may be called again.
var ErrKeep = errors.New("the log of the input")

// Origin is an input that is read once.
type Origin interface {
	io.ReadCloser
	// ID tells inputs apart: that of a pipe is the same in each process that reads from it.
	ID() uint64
}

// Input reads an input through its log.
type Input struct {
	log    operators.InputLog
	open   func() (Origin, error)
	buf    []byte
	mu     sync.Mutex // held while the input is read from, until what it gave is in the log
	origin Origin     // nil until it is needed
	at     int64
	from   int64 // where Read began
	held   []byte
	closed bool
}

// NewInput makes an Input that begins at the log's first byte. The input itself is opened when all of
// the log has been read.
func NewInput(log operators.InputLog, open func() (Origin, error)) *Input {
	return &Input{log: log, open: open, buf: make([]byte, MaxRead)}
}

// Read implements io.Reader.
func (i *Input) Read(p []byte) (int, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.at > i.from && i.log.Begins(i.at) {
		return 0, ErrPart
	}
	if len(i.held) == 0 {
		n, err := i.log.ReadAt(p, i.at)
		i.at += int64(n)
		if err != io.EOF {
			return n, err
		}
		if n, err = i.readOrigin(min(len(p), MaxRead)); n == 0 {
			return 0, err
		}
		// An error that comes with bytes comes again.
		i.held = i.buf[:n]
	}
	if err := i.log.Append(i.held); err != nil {
		return 0, fmt.Errorf("%w: %w", ErrKeep, err)
	}
	i.held = nil
	// Not what was held: the place may be another one since.
	n, err := i.log.ReadAt(p, i.at)
	i.at += int64(n)
	return n, err
}

// readOrigin reads at most most bytes of the input into buf, if it is that of the log's last part.
func (i *Input) readOrigin(most int) (int, error) {
	if i.closed {
		return 0, operators.ErrStopped
	}
	if i.origin == nil {
		origin, err := i.open()
		if err != nil {
			return 0, err
		}
		i.origin = origin
	}
	id, ok := i.log.Input()
	if !ok {
		if err := i.log.Begin(i.origin.ID(), i.at); err != nil {
			return 0, fmt.Errorf("%w: %w", ErrKeep, err)
		}
	} else if id != i.origin.ID() {
		return 0, ErrPart
	}
	return i.origin.Read(i.buf[:most])
}

// SeekTo makes Read go on at an offset, which the log must have.
func (i *Input) SeekTo(offset int64) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	if start, end := i.log.Bounds(); offset < start || offset > end {
		return fmt.Errorf("the log of the input has the bytes from %d to %d, and not those from %d on: files of it have been removed, or the machine died before they were on the disk", start, end, offset)
	}
	i.at, i.from = offset, offset
	return nil
}

// Next goes on behind ErrPart. The row that began at offset will not be completed.
func (i *Input) Next(offset int64) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	if !i.log.Begins(i.at) || i.at != offset {
		if i.origin == nil {
			return fmt.Errorf("the log of the input is damaged: a part that begins at byte %d comes before a row ends that begins at byte %d", i.at, offset)
		}
		if err := i.log.Begin(i.origin.ID(), offset); err != nil {
			return fmt.Errorf("%w: %w", ErrKeep, err)
		}
	}
	i.at, i.from = offset, offset
	return nil
}

// Sync brings the log to the disk, as operators.InputLog has it.
func (i *Input) Sync() error { return i.log.Sync() }

// Begins reports whether a part of the log begins at an offset.
func (i *Input) Begins(offset int64) bool { return i.log.Begins(offset) }

// Trim forgets what stands before an offset, or some of it.
func (i *Input) Trim(offset int64) error { return i.log.Trim(offset) }

// TrimAll forgets what has been read, or some of it.
func (i *Input) TrimAll() error {
	_, end := i.log.Bounds()
	return i.log.Trim(end)
}

// Close closes the input and the log. What has been read from the input by then is in the log, unless that
// has failed.
func (i *Input) Close() error {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.closed = true
	var err error
	if i.origin != nil {
		err = i.origin.Close()
	}
	return errors.Join(err, i.log.Close())
}
