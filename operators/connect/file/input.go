package file

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"sluice/operators"
)

// input is an opened input, unpacked.
type input struct {
	r       io.Reader
	file    *os.File // for formats that need to seek
	origin  *os.File // that was opened; nil for a file that is followed, or kept
	base    int64    // where in origin the input begins, bytes
	follow  *follower
	kept    bool // r is a log of the input; there is no origin
	whole   bool // r is not told of Stop, for the format does not read it front to back
	closers []func() error
}

// Close closes what the input has opened, last first.
func (in *input) Close() error {
	var errs []error
	for i := len(in.closers) - 1; i >= 0; i-- {
		errs = append(errs, in.closers[i]())
	}
	return errors.Join(errs...)
}

// openFollowed opens a file that grows, which is f if that is not nil.
func openFollowed(path string, f *os.File, stop <-chan struct{}) *input {
	t := &follower{path: path, stop: stop, f: f}
	return &input{r: t, follow: t, closers: []func() error{t.Close}}
}

// openOrigin opens a file, or standard input, as it is.
func openOrigin(path string) (*input, error) {
	in := &input{origin: os.Stdin}
	if path != "-" {
		f, err := os.Open(path)
		if err != nil {
			return nil, err
		}
		in.origin, in.closers = f, append(in.closers, f.Close)
	}
	in.r, in.file = in.origin, in.origin
	if at, err := in.origin.Seek(0, io.SeekCurrent); err == nil {
		in.base = at
	}
	return in, nil
}

// openInput opens one input for a format. Its reader ends with operators.ErrStopped once stop is closed.
func openInput(path, format string, stop <-chan struct{}) (*input, error) {
	in, err := openOrigin(path)
	if err != nil {
		return nil, err
	}
	f := in.origin
	if !isRegular(f) {
		in.r = &pipe{f: f, stop: stop}
	}
	if ext := compression(path); ext != "" {
		if err := in.unpack(ext); err != nil {
			return nil, errors.Join(fmt.Errorf("%s: %w", path, err), in.Close())
		}
	}
	if format == "arrow" || format == "parquet" {
		in.whole = true
		if !isRegular(f) || in.r != io.Reader(f) {
			if err := in.spool(); err != nil {
				return nil, errors.Join(fmt.Errorf("%s: %w", path, err), in.Close())
			}
		}
		return in, nil
	}
	text := stoppable{in.r, stop}
	in.r = &text
	if in.atOffsets() {
		in.r = &seekable{text, f, in.base}
	}
	return in, nil
}

// maxUnpackWindow bounds the memory that a compressed input can ask for, in bytes.
const maxUnpackWindow = 64 << 20

// unpack reads what in packs. The unpackers hold nothing but memory, so they are not closed: a decoder's
// goroutine may still be reading from them when the input is.
func (in *input) unpack(ext string) error {
	src := bufio.NewReaderSize(in.r, 256<<10)
	if ext == ".gz" {
		z, err := gzip.NewReader(src)
		in.r = packedReader{z}
		return whole(err)
	}
	z, err := zstd.NewReader(src, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(maxUnpackWindow))
	in.r = packedReader{z}
	return whole(err)
}

// packedReader is an input that is unpacked while it is read.
type packedReader struct{ r io.Reader }

func (p packedReader) Read(b []byte) (int, error) {
	n, err := p.r.Read(b)
	return n, whole(err)
}

var errCut = errors.New("the packed file ends before its contents do: it has been cut off, or is still being written")

// whole says of an unpacker's error what it means when the file is not whole.
func whole(err error) error {
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return errCut
	}
	return err
}

// spool copies the input to a temporary file, for a format that needs to seek.
func (in *input) spool() error {
	tmp, err := os.CreateTemp("", "sluice-input-*")
	if err != nil {
		return err
	}
	in.closers = append(in.closers, tmp.Close)
	if err := os.Remove(tmp.Name()); err != nil {
		return err
	}
	if _, err := io.Copy(tmp, in.r); err != nil {
		return err
	}
	if _, err := tmp.Seek(0, io.SeekStart); err != nil {
		return err
	}
	in.r, in.file = tmp, tmp
	return nil
}

func isRegular(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode().IsRegular()
}

// isLive reports whether one of the inputs can pause: a pipe, a terminal, a socket.
func isLive(paths []string) bool {
	for _, p := range paths {
		info, err := os.Stdin.Stat()
		if p != "-" {
			info, err = os.Stat(p)
		}
		if err == nil && !info.Mode().IsRegular() {
			return true
		}
	}
	return false
}

// stoppable ends with operators.ErrStopped once stop is closed.
type stoppable struct {
	r    io.Reader
	stop <-chan struct{}
}

func (s *stoppable) Read(p []byte) (int, error) {
	select {
	case <-s.stop:
		return 0, operators.ErrStopped
	default:
		return s.r.Read(p)
	}
}

// atOffsets reports whether an offset in the input is one in its file.
func (in *input) atOffsets() bool {
	return in.follow != nil || !in.kept && isRegular(in.origin) && compression(in.origin.Name()) == ""
}

// seekable is a stoppable file that can go on elsewhere.
type seekable struct {
	stoppable
	f    *os.File
	base int64
}

func (s *seekable) seekTo(offset int64) error {
	_, err := s.f.Seek(s.base+offset, io.SeekStart)
	return err
}

// followPoll is how often a file that is being followed is looked at.
const followPoll = 50 * time.Millisecond

// follower reads a file as it grows. It waits for the file to appear, and ends with io.EOF when another
// one has taken its place or it has been cut, so that the new one is read from its beginning.
type follower struct {
	path string
	stop <-chan struct{}
	f    *os.File
	pos  int64
	last bool // the file has been replaced: what is left is all
}

// Close closes the file.
func (t *follower) Close() error {
	if t.f == nil {
		return nil
	}
	return t.f.Close()
}

func (t *follower) Read(p []byte) (int, error) {
	for {
		select {
		case <-t.stop:
			return 0, operators.ErrStopped
		default:
		}
		if t.f == nil {
			f, err := os.Open(t.path)
			if err != nil && !errors.Is(err, os.ErrNotExist) {
				return 0, err
			}
			if err == nil {
				t.f = f
			}
		}
		if t.f != nil {
			n, err := t.f.Read(p)
			t.pos += int64(n)
			if n > 0 || err != nil && err != io.EOF {
				return n, err
			}
			if t.last {
				return 0, io.EOF
			}
			if t.last = t.replaced(); t.last {
				continue
			}
		}
		select {
		case <-t.stop:
		case <-time.After(followPoll):
		}
	}
}

func (t *follower) seekTo(offset int64) (err error) {
	t.pos, err = t.f.Seek(offset, io.SeekStart)
	return err
}

// replaced reports whether path no longer names the file that is open, or that has been cut.
func (t *follower) replaced() bool {
	now, err := os.Stat(t.path)
	if err != nil {
		return false
	}
	open, err := t.f.Stat()
	return err == nil && (!os.SameFile(now, open) || open.Size() < t.pos)
}
