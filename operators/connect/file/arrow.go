package file

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"sluice/dataflow"
	"sluice/dataflow/batch"
)

// maxArrowBuffer bounds one buffer, and one message unless a file is larger, that the input can ask for,
// in bytes: a damaged length must not take the machine's memory.
const maxArrowBuffer = 512 << 20

// boundedAllocator is Go's memory, not more than most bytes at a time. Arrow's readers turn its panic
// into an error, as the callers here do.
type boundedAllocator struct {
	memory.GoAllocator
	most int64
}

func (a *boundedAllocator) Allocate(size int) []byte {
	a.check(size)
	return a.GoAllocator.Allocate(size)
}

func (a *boundedAllocator) Reallocate(size int, b []byte) []byte {
	a.check(size)
	return a.GoAllocator.Reallocate(size, b)
}

func (a *boundedAllocator) check(size int) {
	if int64(size) > a.most {
		panic(fmt.Sprintf("a buffer of %d bytes, where %d are the most", size, a.most))
	}
}

// arrowDecoder reads Arrow IPC, the file format and the stream format. Rows are numbered from 1 over the
// whole input.
type arrowDecoder struct {
	records *arrowRecords
	conv    *batch.ArrowConverter
	rec     arrow.RecordBatch // being given out, or nil
	at      int64             // its next row
	row     int64             // rows given out, bad ones too
	out     batch.Batch
	rows    rowFilter
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
