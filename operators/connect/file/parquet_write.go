package file

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/compress"
	pq "github.com/apache/arrow-go/v18/parquet/file"
	"github.com/apache/arrow-go/v18/parquet/metadata"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"

	"sluice/dataflow"
	"sluice/dataflow/batch"
)

// A row group ends when it has this many rows or, before it is packed, bytes. It is held in memory.
const (
	parquetGroupRows  = 128 << 10
	parquetGroupBytes = 16 << 20
)

// parquetEncoder writes a Parquet file: Snappy, statistics, dictionaries for text where they pay, and
// the Arrow schema beside Parquet's own, which alone tells what a duration or the event time is.
type parquetEncoder struct {
	out    *causeWriter
	w      *pq.Writer
	schema *arrow.Schema
	rows   *batch.Batch // gathered for the next row group
	dict   textDict
	levels []int16
}

func newParquetEncoder(w io.Writer, o EncodeOptions) (_ Encoder, err error) {
	out := &causeWriter{w: w}
	defer out.explain(&err)
	defer recoverArrow(&err)
	schema := batch.ArrowSchema(o.Schema)
	props := parquetProperties(o.Schema)
	arrowProps := pqarrow.NewArrowWriterProperties()
	columns, err := pqarrow.ToParquet(storedSchema(schema), props, arrowProps)
	if err != nil {
		return nil, fmt.Errorf("parquet: %w", err)
	}
	text, err := schemaText(schema)
	if err != nil {
		return nil, fmt.Errorf("parquet: %w", err)
	}
	meta := metadata.NewKeyValueMetadata()
	if err := meta.Append(arrowSchemaKey, text); err != nil {
		return nil, fmt.Errorf("parquet: %w", err)
	}
	fw, err := pq.NewParquetWriterWithError(keepWriter{out}, columns.Root(), pq.WithWriterProps(props), pq.WithWriteMetadata(meta))
	if err != nil {
		return nil, fmt.Errorf("parquet: %w", err)
	}
	return &parquetEncoder{out: out, w: fw, schema: schema, rows: batch.New(o.Schema)}, nil
}

// storedSchema is what columns are stored as: Parquet has no durations, which are ints to it.
func storedSchema(s *arrow.Schema) *arrow.Schema {
	fields := s.Fields()
	for i := range fields {
		if fields[i].Type.ID() == arrow.DURATION {
			fields[i].Type = arrow.PrimitiveTypes.Int64
		}
	}
	return arrow.NewSchema(fields, nil)
}

// keepWriter hides that a writer can be closed, for the library would close it.
type keepWriter struct{ io.Writer }

func parquetProperties(s *dataflow.Schema) *parquet.WriterProperties {
	opts := []parquet.WriterProperty{
		parquet.WithCompression(compress.Codecs.Snappy),
		parquet.WithDictionaryDefault(false),
		parquet.WithBatchSize(batch.TargetRows),
		parquet.WithVersion(parquet.V2_6),
		parquet.WithCreatedBy("sluice"),
	}
	for _, c := range s.Columns {
		if holdsText(c.Type) {
			opts = append(opts, parquet.WithDictionaryPath(parquet.ColumnPath{c.Name}, true))
		}
	}
	return parquet.NewWriterProperties(opts...)
}

func holdsText(t dataflow.Type) bool { return t.Kind == dataflow.String || t.Kind == dataflow.Bytes }

// schemaText is an Arrow schema as Arrow's implementations keep it in Parquet files.
func schemaText(s *arrow.Schema) (string, error) {
	var buf bytes.Buffer
	w := ipc.NewWriter(&buf, ipc.WithSchema(s))
	if err := w.Close(); err != nil {
		return "", err
	}
	return base64.StdEncoding.EncodeToString(buf.Bytes()), nil
}

func (e *parquetEncoder) Encode(b *batch.Batch) error {
	if e.rows.Len > 0 && textBytes(e.rows)+textBytes(b) > batch.MaxDataBytes {
		if err := e.writeGroup(); err != nil {
			return err
		}
	}
	e.rows.Extend(b)
	if e.rows.Len >= parquetGroupRows || batchBytes(e.rows) >= parquetGroupBytes {
		return e.writeGroup()
	}
	return nil
}

// Flush does nothing: a row group is written when it is full, and can be read only after Finish.
func (e *parquetEncoder) Flush() error { return nil }

func (e *parquetEncoder) Finish() (err error) {
	defer e.out.explain(&err)
	defer recoverArrow(&err)
	return errors.Join(e.writeGroup(), e.w.Close())
}

// writeGroup writes the gathered rows as a row group.
func (e *parquetEncoder) writeGroup() (err error) {
	defer e.out.explain(&err)
	defer recoverArrow(&err)
	if e.rows.Len == 0 {
		return nil
	}
	group, err := e.w.AppendRowGroupChecked()
	if err != nil {
		return fmt.Errorf("parquet: %w", err)
	}
	rec := batch.ToArrow(e.rows, e.schema)
	ctx := pqarrow.NewArrowWriteContext(context.Background(), nil)
	for i := range e.rows.Cols {
		if err := e.writeColumn(ctx, group, i, rec.Column(i)); err != nil {
			return fmt.Errorf("parquet: column %q: %w", e.rows.Schema.Columns[i].Name, err)
		}
	}
	empty(e.rows)
	return group.Close()
}

func (e *parquetEncoder) writeColumn(ctx context.Context, group pq.SerialRowGroupWriter, col int, values arrow.Array) error {
	cw, err := group.NextColumn()
	if err != nil {
		return err
	}
	v, nullable := &e.rows.Cols[col], e.rows.Schema.Columns[col].Nullable
	if holdsText(v.Type) {
		if d := e.dict.encode(v, values.DataType()); d != nil {
			values = d
		} else {
			cw.FallbackToPlain()
		}
	}
	if d, ok := values.(*array.Duration); ok {
		values = array.NewInt64Data(array.NewData(arrow.PrimitiveTypes.Int64, d.Len(), d.Data().Buffers(), nil, d.NullN(), 0))
	}
	if err := pqarrow.WriteArrowToColumn(ctx, cw, values, e.levelsOf(v, nullable), nil, nullable); err != nil {
		return err
	}
	return cw.Close()
}

// levelsOf gives the definition levels of a vector's rows: 1 where there is a value. A column that is
// not nullable has none.
func (e *parquetEncoder) levelsOf(v *batch.Vector, nullable bool) []int16 {
	if !nullable {
		return nil
	}
	e.levels = resize(e.levels, v.Len)
	for i := range e.levels {
		e.levels[i] = 1
	}
	if v.Valid != nil {
		for i := range e.levels {
			if !v.Valid.Get(i) {
				e.levels[i] = 0
			}
		}
	}
	return e.levels
}
