package file

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"testing"

	"github.com/apache/arrow-go/v18/arrow/memory"
	pq "github.com/apache/arrow-go/v18/parquet/file"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"

	"sluice/dataflow"
	"sluice/dataflow/batch"
)

const columnarRows = 1 << 20

func columnarSchema() *dataflow.Schema {
	return &dataflow.Schema{Columns: []dataflow.Column{
		{Name: "key", Type: dataflow.IntType, Nullable: true},
		{Name: "x", Type: dataflow.FloatType, Nullable: true},
		{Name: "name", Type: dataflow.StringType, Nullable: true},
		{Name: "t", Type: dataflow.TimestampType, Nullable: true},
	}}
}

// columnarFile makes a file of columnarRows rows: an int key of 10,000 values, a float, a short string of
// 1,000 values and a rising timestamp.
func columnarFile(tb testing.TB, encode func(io.Writer, EncodeOptions) (Encoder, error)) []byte {
	var out bytes.Buffer
	s := columnarSchema()
	enc, err := encode(&out, EncodeOptions{Schema: s})
	if err != nil {
		tb.Fatal(err)
	}
	b := batch.New(s)
	seed := uint64(1)
	for row := 0; row < columnarRows; row += batch.TargetRows {
		for i := range b.Cols {
			b.Cols[i].Reset(s.Columns[i].Type, batch.TargetRows)
		}
		b.Len = batch.TargetRows
		for i := range b.Len {
			seed = seed*6364136223846793005 + 1442695040888963407
			r := seed >> 33
			b.Cols[0].Ints[i] = int64(r % 10000)
			b.Cols[1].Floats[i] = float64(r) / 1000
			b.Cols[2].Data = fmt.Appendf(b.Cols[2].Data, "name%d", r%1000)
			b.Cols[2].Offsets[i+1] = int32(len(b.Cols[2].Data))
			b.Cols[3].Ints[i] = 1e15 + int64(row+i)*1000
		}
		if err := enc.Encode(b); err != nil {
			tb.Fatal(err)
		}
	}
	if err := enc.Finish(); err != nil {
		tb.Fatal(err)
	}
	return out.Bytes()
}

func drainColumnar(b *testing.B, d Decoder) {
	rows := 0
	for {
		c, err := d.Next(context.Background())
		if err == io.EOF {
			break
		}
		if err != nil {
			b.Fatal(err)
		}
		rows += c.Batch.Len
	}
	if err := d.Close(); err != nil {
		b.Fatal(err)
	}
	if rows != columnarRows {
		b.Fatalf("%d rows", rows)
	}
}

func reportColumnar(b *testing.B) {
	b.ReportMetric(float64(b.N)*columnarRows/b.Elapsed().Seconds()/1e6, "Mrows/s")
}

func BenchmarkParquetDecode(b *testing.B) {
	data := columnarFile(b, newParquetEncoder)
	for _, workers := range []int{1, 2} {
		b.Run(fmt.Sprintf("workers=%d", workers), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				d, err := newParquetDecoder(bytes.NewReader(data), DecodeOptions{Schema: columnarSchema(), Workers: workers})
				if err != nil {
					b.Fatal(err)
				}
				drainColumnar(b, d)
			}
			reportColumnar(b)
		})
	}
	b.Run("pqarrow", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			readWithArrow(b, data)
		}
		reportColumnar(b)
	})
}

// readWithArrow reads the file with the library's own conversion to record batches.
func readWithArrow(b *testing.B, data []byte) {
	f, err := pq.NewParquetReader(bytes.NewReader(data))
	if err != nil {
		b.Fatal(err)
	}
	r, err := pqarrow.NewFileReader(f, pqarrow.ArrowReadProperties{Parallel: true, BatchSize: batch.TargetRows}, memory.DefaultAllocator)
	if err != nil {
		b.Fatal(err)
	}
	rr, err := r.GetRecordReader(context.Background(), nil, nil)
	if err != nil {
		b.Fatal(err)
	}
	defer rr.Release()
	rows := int64(0)
	for rr.Next() {
		rows += rr.RecordBatch().NumRows()
	}
	if rows != columnarRows {
		b.Fatalf("%d rows", rows)
	}
}

func BenchmarkParquetEncode(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		columnarFile(b, newParquetEncoder)
	}
	reportColumnar(b)
}

func BenchmarkArrowDecode(b *testing.B) {
	data := columnarFile(b, newArrowEncoder)
	b.ReportAllocs()
	for b.Loop() {
		d, err := newArrowDecoder(bytes.NewReader(data), DecodeOptions{Schema: columnarSchema(), Workers: 1})
		if err != nil {
			b.Fatal(err)
		}
		drainColumnar(b, d)
	}
	reportColumnar(b)
}
