package file

import (
	"errors"
	"fmt"
	"io"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/ipc"

	"sluice/dataflow/batch"
)

// Record batches of Arrow files are written when they have this many rows or bytes.
const (
	arrowBatchRows  = 64 << 10
	arrowBatchBytes = 4 << 20
)

// arrowEncoder writes the Arrow IPC file format.
type arrowEncoder struct {
	out    *causeWriter
	w      *ipc.FileWriter
	schema *arrow.Schema
	rows   *batch.Batch // gathered for the next record batch
}

func newArrowEncoder(w io.Writer, o EncodeOptions) (Encoder, error) {
	schema := batch.ArrowSchema(o.Schema)
	out := &causeWriter{w: w}
	fw, err := ipc.NewFileWriter(out, ipc.WithSchema(schema))
	if err != nil {
		return nil, fmt.Errorf("arrow: %w", err)
	}
	return &arrowEncoder{out: out, w: fw, schema: schema, rows: batch.New(o.Schema)}, nil
}

func (e *arrowEncoder) Encode(b *batch.Batch) error {
	if e.rows.Len > 0 && (e.rows.Len+b.Rows() > arrowBatchRows || textBytes(e.rows)+textBytes(b) > batch.MaxDataBytes) {
		if err := e.Flush(); err != nil {
			return err
		}
	}
	e.rows.Extend(b)
	if e.rows.Len >= arrowBatchRows || batchBytes(e.rows) >= arrowBatchBytes {
		return e.Flush()
	}
	return nil
}

// Flush writes a record batch of the rows gathered so far. A reader finds it only after Finish.
func (e *arrowEncoder) Flush() (err error) {
	defer e.out.explain(&err)
	defer recoverArrow(&err)
	if e.rows.Len == 0 {
		return nil
	}
	err = e.w.Write(batch.ToArrow(e.rows, e.schema))
	empty(e.rows)
	return err
}

func (e *arrowEncoder) Finish() (err error) {
	defer e.out.explain(&err)
	defer recoverArrow(&err)
	return errors.Join(e.Flush(), e.w.Close())
}

// recoverArrow turns a panic of the Arrow library into an error.
func recoverArrow(err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("arrow: %v", p)
	}
}

// empty takes all rows out of b, which keeps its memory.
func empty(b *batch.Batch) {
	b.Len = 0
	for i := range b.Cols {
		b.Cols[i].Reset(b.Schema.Columns[i].Type, 0)
	}
}

// textBytes is the size of all text in b's columns.
func textBytes(b *batch.Batch) int {
	size := 0
	for i := range b.Cols {
		if o := b.Cols[i].Offsets; len(o) > b.Len {
			size += int(o[b.Len] - o[0])
		}
	}
	return size
}

// batchBytes is about the size of b's rows in memory.
func batchBytes(b *batch.Batch) int { return textBytes(b) + 8*len(b.Cols)*b.Len }
