package file

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"syscall"

	"github.com/zeebo/xxh3"
	"golang.org/x/sys/unix"

	"sluice/operators"
	"sluice/operators/persist"
)

// An input that cannot be read again (a pipe, say) goes on in the next process where the process before it has
// left it. That is behind all that was read ahead, so what is missing counts as a gap; it may be in the middle of a
// row, and behind the header. So positions hold the header, and which pipe it was: what is the end of a row, in
// the same pipe, is passed over. A process that was told to stop has read to the end of what it had read ahead,
// and leaves the start of a row in its position: then nothing is missing.
//
// With a log (package persist) nothing is read ahead that is not there, and positions are offsets in the log.

// pipeState is what a position holds of an input that cannot be read again.
type pipeState struct {
	is   bool
	id   uint64
	head []byte // what stood before the first row; nil if that has not been seen
	rest []byte // the start of a row, behind which the pipe goes on; of use if
	done bool   // all rows have been given whose bytes had been read, but those of rest
}

// pipeWait is how often whoever waits for input looks whether it is to stop, in milliseconds.
const pipeWait = 50

// pipe is an input that can pause.
type pipe struct {
	f    *os.File
	id   uint64
	stop <-chan struct{}
}

// openPipe opens an input for a log. A named pipe need not have a writer yet.
func openPipe(path string, stop <-chan struct{}) (persist.Origin, error) {
	f := os.Stdin
	if path != "-" {
		var err error
		if f, err = os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0); err != nil {
			return nil, err
		}
	}
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	return &pipe{f, pipeID(info), stop}, nil
}

// ID implements persist.Origin.
func (p *pipe) ID() uint64 { return p.id }

// Close implements io.Closer. Standard input stays open.
func (p *pipe) Close() error {
	if p.f == os.Stdin {
		return nil
	}
	return p.f.Close()
}

// Read implements io.Reader. While it waits it can be stopped, and nothing has been taken then.
func (p *pipe) Read(b []byte) (int, error) {
	for {
		select {
		case <-p.stop:
			return 0, operators.ErrStopped
		default:
		}
		ready, err := poll(p.f)
		if err != nil {
			return 0, err
		}
		if ready {
			return p.f.Read(b)
		}
	}
}

// poll waits until a read of the file would not wait, but no longer than pipeWait.
func poll(f *os.File) (ready bool, err error) {
	conn, err := f.SyscallConn()
	if err != nil {
		return false, err
	}
	var failed error
	err = conn.Control(func(fd uintptr) {
		fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		var n int
		n, failed = unix.Poll(fds, pipeWait)
		ready = n > 0
	})
	if errors.Is(failed, unix.EINTR) {
		failed = nil
	}
	return ready, errors.Join(err, failed)
}

// bootID changes whenever the machine starts, after which numbers of pipes come again.
var bootID = sync.OnceValue(func() []byte {
	id, _ := os.ReadFile("/proc/sys/kernel/random/boot_id") // where there is none, all starts look alike
	return id
})

// pipeID tells pipes apart.
func pipeID(info os.FileInfo) uint64 {
	text := bytes.Clone(bootID())
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		text = binary.LittleEndian.AppendUint64(text, uint64(stat.Dev))
		text = binary.LittleEndian.AppendUint64(text, uint64(stat.Ino))
	}
	return xxh3.Hash(text)
}

// pipeAt looks whether a path is that of an input that cannot be read again, and which one it is.
func pipeAt(path string) (id uint64, ok bool) {
	info, err := os.Stdin.Stat()
	if path != "-" {
		info, err = os.Stat(path)
	}
	if err != nil || info.Mode().IsRegular() {
		return 0, false
	}
	return pipeID(info), true
}

// current is the input that is being read or is next; "" at the end.
func (s *source) current() string {
	if s.at >= len(s.files) {
		return ""
	}
	return s.files[s.at]
}

// pipeNow is what a position holds of the input now.
func (s *source) pipeNow() pipeState {
	if !s.pipes || s.at >= len(s.files) {
		return pipeState{}
	}
	if s.in == nil && s.pipe.is {
		return s.pipe
	}
	id, is := pipeAt(s.current())
	if !is {
		return pipeState{}
	}
	return pipeState{is: true, id: id, head: s.head(), rest: s.pipe.rest, done: s.pipe.done}
}

// head is what stood before the first row; nil if that has not been seen.
func (s *source) head() []byte {
	if d, ok := s.dec.(*textDecoder); ok {
		if head := d.head.Load(); head != nil {
			return *head
		}
	}
	return s.pipe.head
}

// plain reports whether the input's bytes are rows of text.
func (s *source) plain() bool { return isText(s.format) && compression(s.current()) == "" }

// resume brings in to where the source stands, and says how to begin there; nil is with the input's beginning.
func (s *source) resume(in *input) (*Resume, error) {
	was := s.pipe
	s.pipe.rest, s.pipe.done = nil, false
	switch {
	case s.kept != nil && s.plain():
		return s.resumeKept()
	case s.kept != nil || !was.is:
		return nil, nil
	}
	id, is := pipeAt(s.current())
	same := is && id == was.id
	if s.pipe.is = false; same && was.done && s.plain() {
		in.r = io.MultiReader(bytes.NewReader(was.rest), in.r)
		if was.head == nil {
			return nil, nil
		}
		return &Resume{Head: was.head}, nil
	}
	if was.head != nil || same && !(s.format == "csv" && s.opts.Header) {
		s.ctx.Counters.Gaps.Add(1)
	}
	if !s.plain() || !same && was.head == nil {
		return nil, nil
	}
	return &Resume{Head: was.head, Torn: same}, nil
}

// resumeKept is resume for an input with a log.
func (s *source) resumeKept() (*Resume, error) {
	offset := s.from.offset
	if err := s.kept.SeekTo(offset); err != nil {
		return nil, &operators.InputError{Err: err}
	}
	switch {
	case offset == 0:
		return nil, nil
	case s.kept.Begins(offset):
		return &Resume{Head: s.pipe.head}, nil
	}
	return &Resume{Head: s.pipe.head, Inside: true}, nil
}

// openKept opens an input that has a log.
func (s *source) openKept() (*input, error) {
	in := &input{r: s.kept, kept: true}
	if s.plain() {
		return in, nil
	}
	if err := s.kept.SeekTo(0); err != nil {
		return nil, &operators.InputError{Err: err}
	}
	if ext := compression(s.current()); ext != "" {
		if err := in.unpack(ext); err != nil {
			return nil, err
		}
	}
	if !isText(s.format) {
		in.whole = true
		if err := in.spool(); err != nil {
			return nil, errors.Join(err, in.Close())
		}
	}
	return in, nil
}

// nextPart goes on with another input, which has taken the place of the one that was being read.
func (s *source) nextPart() error {
	d, ok := s.dec.(*textDecoder)
	if !ok || !s.plain() || s.skip > 0 {
		return anotherPipe(s.current())
	}
	rest, offset, line, _ := d.left()
	if err := s.kept.Next(offset); err != nil {
		return s.failed(err)
	}
	if len(rest) > 0 {
		s.ctx.Counters.Gaps.Add(1)
	}
	s.pipe.head = s.head()
	s.from = place{offset: offset, line: line}
	return s.closeInput()
}

func anotherPipe(path string) error {
	return &operators.InputError{Err: fmt.Errorf("input %q is another one than it was, which cannot be gone on with in the middle: start anew with another state directory", path)}
}

// failed is for a log that could not keep what has been read. The source goes on with that when it is called again.
func (s *source) failed(err error) error {
	s.pipe.head = s.head()
	return errors.Join(fmt.Errorf("%s: %w", s.current(), err), s.closeInput())
}

// leave notes what a source that has been told to stop had read and given no rows of.
func (s *source) leave() {
	if d, ok := s.dec.(*textDecoder); ok && s.plain() && s.pipes && s.kept == nil {
		rest, _, _, whole := d.left()
		s.pipe.rest, s.pipe.done = bytes.Clone(rest), whole
	}
}

// syncKept makes sure that what a position needs is on the disk before the position is. Next tells if it is not.
func (s *source) syncKept() {
	if s.kept == nil || s.unsynced != nil {
		return
	}
	if err := s.kept.Sync(); err != nil {
		s.unsynced = fmt.Errorf("the log of %s: %w", s.opts.Name, err)
	}
}

// keptSource is a source whose input is in a log.
type keptSource struct{ *source }

var _ operators.Trimmer = keptSource{}

// Trim implements operators.Trimmer. Packed input, and formats that are not text, can be read from the beginning only, and are
// kept until they have been read.
func (s keptSource) Trim(position []byte) error {
	p, err := parsePosition(position, readerSum(s.ctx.Op))
	switch {
	case err != nil:
		return err
	case p.at == len(p.names):
		return s.kept.TrimAll()
	case compression(s.ctx.Op.Value("path")) != "" || !isText(s.format):
		return nil
	}
	return s.kept.Trim(p.place.offset)
}
