package file

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"sluice/dataflow"
	"sluice/dataflow/batch"
)

// maxArrowBuffer bounds one buffer, and in a stream one message, that Arrow data can ask for, in bytes:
// a damaged length must not take the machine's memory.
const maxArrowBuffer = 512 << 20

// boundedAllocator is Go's memory, not more than maxArrowBuffer at a time. Arrow's readers turn its
// panic into an error, as the callers here do.
type boundedAllocator struct{ memory.GoAllocator }

func (a *boundedAllocator) Allocate(size int) []byte {
	a.check(size)
	return a.GoAllocator.Allocate(size)
}

func (a *boundedAllocator) Reallocate(size int, b []byte) []byte {
	a.check(size)
	return a.GoAllocator.Reallocate(size, b)
}

func (a *boundedAllocator) check(size int) {
	if size > maxArrowBuffer {
		panic(fmt.Sprintf("a buffer of %d bytes, where %d are the most", size, maxArrowBuffer))
	}
}

// arrowDecoder reads Arrow IPC: the file format if the input can be read at any place, otherwise the
// stream format or, front to back, the file format. Rows are numbered from 1 over the whole input.
type arrowDecoder struct {
	records recordReader
	conv    *batch.ArrowConverter
	rec     arrow.RecordBatch // being given out, or nil
	at      int64             // its next row
	row     int64             // rows given out, bad ones too
	out     batch.Batch
	rows    rowFilter
}

// recordReader gives record batches one by one, and io.EOF after the last. A record batch is valid
// until the next call.
type recordReader interface {
	schema() *arrow.Schema
	next() (arrow.RecordBatch, error)
}

func newArrowDecoder(r io.Reader, o DecodeOptions) (Decoder, error) {
	records, err := openArrow(r)
	if err != nil {
		return nil, err
	}
	conv, err := batch.NewArrowConverter(records.schema(), o.Schema)
	if err != nil {
		return nil, err
	}
	return &arrowDecoder{records: records, conv: conv, rows: rowFilter{schema: o.Schema}}, nil
}

// InferArrow gives a type for the rows of an Arrow IPC file or stream. If some columns have a type that
// has no place in a spec, the error names them and the schema, unless nil, has the others.
func InferArrow(r io.Reader) (*dataflow.Schema, error) {
	records, err := openArrow(r)
	if err != nil {
		return nil, err
	}
	return batch.SchemaFromArrow(records.schema())
}

func (d *arrowDecoder) Next(ctx context.Context) (*Chunk, error) {
	for d.rec == nil || d.at == d.rec.NumRows() {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		rec, err := d.records.next()
		if err != nil {
			return nil, err
		}
		d.rec, d.at = rec, 0
	}
	n := min(d.rec.NumRows()-d.at, batch.TargetRows)
	for {
		bad, err := d.convert(n)
		if errors.Is(err, batch.ErrTooMuchText) && n > 1 {
			n /= 2
			continue
		}
		if err != nil {
			return nil, err
		}
		line := d.row + 1
		d.at += n
		d.row += n
		return d.rows.chunk(&d.out, bad, line), nil
	}
}

// convert makes out the next n rows of the record batch.
func (d *arrowDecoder) convert(n int64) ([]batch.RowError, error) {
	part := d.rec
	if n != part.NumRows() {
		part = part.NewSlice(d.at, d.at+n)
	}
	return d.conv.Convert(part, &d.out)
}

func (d *arrowDecoder) Close() error { return nil }

const arrowMagic = "ARROW1"

// openArrow tells the two formats apart by their first bytes.
func openArrow(r io.Reader) (records recordReader, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("damaged Arrow data: %v", p)
		}
	}()
	var start [8]byte
	n, err := io.ReadFull(r, start[:])
	if err != nil && err != io.EOF && err != io.ErrUnexpectedEOF {
		return nil, err
	}
	if n == 0 {
		return nil, errors.New("empty, which Arrow data never is")
	}
	isFile := n == len(start) && string(start[:len(arrowMagic)]) == arrowMagic
	if s, ok := r.(ipc.ReadAtSeeker); ok && isFile {
		return openArrowFile(s)
	}
	if isFile {
		return openArrowStream(r, true)
	}
	if n == len(start) && start[3] != 0 && [4]byte(start[:4]) != [4]byte{255, 255, 255, 255} {
		return nil, errors.New("not an Arrow IPC file or stream")
	}
	return openArrowStream(io.MultiReader(bytesReader(start[:n]), r), false)
}
