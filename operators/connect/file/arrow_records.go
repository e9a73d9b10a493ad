package file

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/ipc"
)

const arrowMagic = "ARROW1"

// arrowRecords reads the record batches of Arrow IPC: of the stream format, or of the file format, which
// is a stream between marks with a footer, and is read front to back.
type arrowRecords struct {
	stream *ipc.Reader
	rest   io.Reader // of a file after its stream, where the footer is to follow; nil for a stream
}

// openArrow tells the two formats apart by their first bytes.
func openArrow(r io.Reader) (_ *arrowRecords, err error) {
	defer recoverDamage(&err)
	var start [8]byte
	n, err := io.ReadFull(r, start[:])
	if n == 0 && err == io.EOF {
		return nil, errors.New("empty, which Arrow data never is")
	}
	if err != nil && err != io.ErrUnexpectedEOF {
		return nil, err
	}
	most, err := sizeOf(r)
	if err != nil {
		return nil, err
	}
	d := &arrowRecords{}
	if string(start[:len(arrowMagic)]) == arrowMagic {
		d.rest = r
	} else {
		if n < len(start) || start[3] != 0 && [4]byte(start[:4]) != [4]byte{255, 255, 255, 255} {
			return nil, errors.New("not an Arrow IPC file or stream")
		}
		r = io.MultiReader(bytes.NewReader(start[:n]), r)
	}
	d.stream, err = readArrow(r, most)
	return d, err
}

// readArrow reads a stream whose messages have at most the given number of bytes.
func readArrow(r io.Reader, most int64) (*ipc.Reader, error) {
	s, err := ipc.NewReader(&arrowFrames{r: r, most: most},
		ipc.WithAllocator(&boundedAllocator{most: most}), ipc.WithBodySizeLimit(0))
	if err != nil {
		return nil, fmt.Errorf("damaged Arrow data: %w", err)
	}
	return s, nil
}

// sizeOf bounds the size of a message: by the size of the file, if that is known, but not by less than
// packed data may unpack to.
func sizeOf(r io.Reader) (int64, error) {
	s, ok := r.(io.Seeker)
	if !ok {
		return maxArrowBuffer, nil
	}
	at, err := s.Seek(0, io.SeekCurrent)
	if err != nil {
		return maxArrowBuffer, nil // not a file after all
	}
	end, err := s.Seek(0, io.SeekEnd)
	if err != nil {
		return 0, err
	}
	_, err = s.Seek(at, io.SeekStart)
	return max(end, maxArrowBuffer), err
}

func (d *arrowRecords) schema() *arrow.Schema { return d.stream.Schema() }

// next gives the next record batch, which is valid until the next call; io.EOF after the last.
func (d *arrowRecords) next() (rec arrow.RecordBatch, err error) {
	defer recoverDamage(&err)
	if d.stream.Next() {
		return d.stream.RecordBatch(), nil
	}
	if err := d.stream.Err(); err != nil {
		return nil, fmt.Errorf("damaged Arrow data: %w", err)
	}
	if d.rest != nil {
		return nil, checkFooter(d.rest)
	}
	return nil, io.EOF
}

// checkFooter makes sure that a file has its end, and gives io.EOF if so.
func checkFooter(r io.Reader) error {
	var buf [4096]byte
	last := make([]byte, 0, 2*len(arrowMagic))
	for {
		n, err := r.Read(buf[:])
		last = append(last, buf[max(0, n-len(arrowMagic)):n]...)
		last = last[max(0, len(last)-len(arrowMagic)):]
		switch {
		case err == io.EOF && string(last) == arrowMagic:
			return io.EOF
		case err == io.EOF:
			return errors.New("damaged Arrow data: the end of the file is missing")
		case err != nil:
			return err
		}
	}
}

// recoverDamage turns a panic of the Arrow library into an error.
func recoverDamage(err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("damaged Arrow data: %v", p)
	}
}
