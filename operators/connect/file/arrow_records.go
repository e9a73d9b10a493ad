package file

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/ipc"
)

func bytesReader(b []byte) io.Reader { return bytes.NewReader(bytes.Clone(b)) }

// arrowFile reads the Arrow IPC file format by its footer.
type arrowFile struct {
	file *ipc.FileReader
	at   int
}

func openArrowFile(r ipc.ReadAtSeeker) (recordReader, error) {
	// A message of a file cannot be larger than the file, which the reader checks.
	f, err := ipc.NewFileReader(r, ipc.WithAllocator(&boundedAllocator{}), ipc.WithBodySizeLimit(0))
	if err != nil {
		return nil, fmt.Errorf("damaged Arrow file: %w", err)
	}
	return &arrowFile{file: f}, nil
}

func (f *arrowFile) schema() *arrow.Schema { return f.file.Schema() }

func (f *arrowFile) next() (rec arrow.RecordBatch, err error) {
	defer func() {
		if p := recover(); p != nil {
			rec, err = nil, fmt.Errorf("damaged Arrow file: record batch %d: %v", f.at, p)
		}
	}()
	if f.at == f.file.NumRecords() {
		return nil, io.EOF
	}
	f.at++
	rec, err = f.file.RecordBatchAt(f.at - 1)
	if err != nil {
		return nil, fmt.Errorf("damaged Arrow file: record batch %d: %w", f.at, err)
	}
	return rec, nil
}

// arrowStream reads the Arrow IPC stream format, or the part of a file that is a stream.
type arrowStream struct {
	r      io.Reader
	stream *ipc.Reader
	inFile bool // the footer of a file is to follow
}

func openArrowStream(r io.Reader, inFile bool) (recordReader, error) {
	s, err := ipc.NewReader(r, ipc.WithAllocator(&boundedAllocator{}), ipc.WithBodySizeLimit(maxArrowBuffer))
	if err != nil {
		return nil, fmt.Errorf("damaged Arrow stream: %w", err)
	}
	return &arrowStream{r: r, stream: s, inFile: inFile}, nil
}

func (s *arrowStream) schema() *arrow.Schema { return s.stream.Schema() }

func (s *arrowStream) next() (rec arrow.RecordBatch, err error) {
	defer func() {
		if p := recover(); p != nil {
			rec, err = nil, fmt.Errorf("damaged Arrow stream: %v", p)
		}
	}()
	if s.stream.Next() {
		return s.stream.RecordBatch(), nil
	}
	if err := s.stream.Err(); err != nil {
		return nil, fmt.Errorf("damaged Arrow stream: %w", err)
	}
	if s.inFile {
		return nil, s.checkFooter()
	}
	return nil, io.EOF
}

// checkFooter makes sure that a file that was read front to back has its end, and gives io.EOF if so.
func (s *arrowStream) checkFooter() error {
	var tail [4096]byte
	last := make([]byte, 0, 2*len(arrowMagic))
	for {
		n, err := s.r.Read(tail[:])
		last = append(last, tail[max(0, n-len(arrowMagic)):n]...)
		last = last[max(0, len(last)-len(arrowMagic)):]
		switch {
		case err == io.EOF && string(last) == arrowMagic:
			return io.EOF
		case err == io.EOF:
			return errors.New("damaged Arrow file: its end is missing")
		case err != nil:
			return err
		}
	}
}
