package file

import (
	"errors"
	"fmt"
	"io"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/compress"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"

	"sluice/dataflow/batch"
)

// Row groups have at most this many rows, and end after about this many bytes.
const (
	parquetGroupRows  = 128 << 10
	parquetGroupBytes = 16 << 20
)

// parquetEncoder writes a Parquet file: Snappy, dictionaries where they pay, statistics.
type parquetEncoder struct {
	w      *pqarrow.FileWriter
	schema *arrow.Schema
	rows   *batch.Batch // gathered for the next write
	size   int          // of the row group so far, in bytes, before it is packed
	full   bool         // the row group is to be ended before more is written
}

func newParquetEncoder(w io.Writer, o EncodeOptions) (_ Encoder, err error) {
	defer recoverArrow(&err)
	schema := batch.ArrowSchema(o.Schema)
	props := parquet.NewWriterProperties(
		parquet.WithCompression(compress.Codecs.Snappy),
		parquet.WithMaxRowGroupLength(parquetGroupRows),
		parquet.WithVersion(parquet.V2_6),
		parquet.WithCreatedBy("sluice"),
	)
	// keepWriter hides that w may be closed, for the library would close it.
	fw, err := pqarrow.NewFileWriter(schema, keepWriter{w}, props, pqarrow.NewArrowWriterProperties(pqarrow.WithStoreSchema()))
	if err != nil {
		return nil, fmt.Errorf("parquet: %w", err)
	}
	return &parquetEncoder{w: fw, schema: schema, rows: batch.New(o.Schema)}, nil
}

type keepWriter struct{ io.Writer }

func (e *parquetEncoder) Encode(b *batch.Batch) error {
	if e.rows.Len > 0 && textBytes(e.rows)+textBytes(b) > batch.MaxDataBytes {
		if err := e.write(); err != nil {
			return err
		}
	}
	e.rows.Extend(b)
	if e.rows.Len >= batch.TargetRows || batchBytes(e.rows) >= parquetGroupBytes {
		return e.write()
	}
	return nil
}

// write passes the gathered rows on to the row group, or to a new one if that is full.
func (e *parquetEncoder) write() (err error) {
	defer recoverArrow(&err)
	if e.rows.Len == 0 {
		return nil
	}
	if e.full {
		e.full, e.size = false, 0
		if err := e.w.NewBufferedRowGroupChecked(); err != nil {
			return fmt.Errorf("parquet: %w", err)
		}
	}
	e.size += batchBytes(e.rows)
	err = e.w.WriteBuffered(batch.ToArrow(e.rows, e.schema))
	empty(e.rows)
	if err != nil {
		return fmt.Errorf("parquet: %w", err)
	}
	n, err := e.w.RowGroupNumRows()
	e.full = n >= parquetGroupRows || e.size >= parquetGroupBytes
	return err
}

// Flush does nothing: a row group is written when it is full, and read only after Finish.
func (e *parquetEncoder) Flush() error { return nil }

func (e *parquetEncoder) Finish() (err error) {
	defer recoverArrow(&err)
	return errors.Join(e.write(), e.w.Close())
}
