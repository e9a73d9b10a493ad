package file

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"sluice/dataflow"
	"sluice/dataflow/batch"
	"sluice/dataflow/decimal"
)

// columnarFormats are the formats of this file's tests.
var columnarFormats = map[string]struct {
	open   openFunc
	encode func(io.Writer, EncodeOptions) (Encoder, error)
}{
	"arrow":   {openArrowBytes, newArrowEncoder},
	"pipe":    {openArrowPipe, newArrowEncoder},
	"parquet": {openParquetBytes, newParquetEncoder},
}

func allTypes() []dataflow.Type {
	return []dataflow.Type{dataflow.BoolType, dataflow.IntType, dataflow.FloatType, dataflow.DecimalType(7, 2),
		dataflow.DecimalType(38, 0), dataflow.StringType, dataflow.BytesType, dataflow.TimestampType, dataflow.DurationType}
}

func drawSchema(t *rapid.T) *dataflow.Schema {
	s := &dataflow.Schema{}
	for i := range rapid.IntRange(1, 5).Draw(t, "columns") {
		c := dataflow.Column{Name: fmt.Sprintf("c%d.é", i), Type: rapid.SampledFrom(allTypes()).Draw(t, "type"), Nullable: rapid.Bool().Draw(t, "nullable")}
		if c.Type == dataflow.TimestampType && s.EventTime() < 0 {
			c.EventTime = rapid.Bool().Draw(t, "event time")
		}
		s.Columns = append(s.Columns, c)
	}
	return s
}

// drawBatch makes a batch of random rows, with a selection or not. The rows that are not selected may
// have NULLs anywhere.
func drawBatch(t *rapid.T, s *dataflow.Schema, maxRows int) *batch.Batch {
	b := batch.New(s)
	n := rapid.IntRange(0, maxRows).Draw(t, "rows")
	if rapid.Bool().Draw(t, "select") {
		b.Sel = []int32{}
		for i := range n {
			if rapid.IntRange(0, 2).Draw(t, "take") > 0 {
				b.Sel = append(b.Sel, int32(i))
			}
		}
	}
	nulls := rapid.IntRange(0, 3).Draw(t, "nulls")
	for i := range b.Cols {
		c := &s.Columns[i]
		for range n {
			if c.Nullable && !c.EventTime && nulls > 0 && rapid.IntRange(0, nulls).Draw(t, "null") == 0 {
				b.Cols[i].AppendNull()
			} else {
				one := drawValue(t, c.Type)
				b.Cols[i].Append(&one, 0)
			}
		}
	}
	b.Len = n
	if err := b.Validate(); err != nil {
		t.Fatalf("the test's own batch: %v", err)
	}
	return b
}

// drawValue makes a vector of one value.
func drawValue(t *rapid.T, typ dataflow.Type) batch.Vector {
	v := batch.Vector{Type: typ, Len: 1}
	switch typ.Kind {
	case dataflow.Bool:
		v.Bits = batch.Bitmap{rapid.Uint64().Draw(t, "bool")}
	case dataflow.Int, dataflow.Timestamp, dataflow.Duration:
		v.Ints = []int64{rapid.Int64().Draw(t, "int")}
	case dataflow.Float:
		v.Floats = []float64{rapid.Float64().Draw(t, "float")}
	case dataflow.Decimal:
		v.Decimals = []decimal.Num{decimal.FromInt64(rapid.Int64Range(-9999999, 9999999).Draw(t, "decimal"))}
	case dataflow.String:
		v.Data = []byte(rapid.SampledFrom([]string{"", "a", "é", "日本", strings.Repeat("x", 300)}).Draw(t, "string"))
		v.Offsets = []int32{0, int32(len(v.Data))}
	default:
		v.Data = rapid.SliceOfN(rapid.Byte(), 0, 20).Draw(t, "bytes")
		v.Offsets = []int32{0, int32(len(v.Data))}
	}
	return v
}

func selectedRows(b *batch.Batch) (rows [][]any) {
	for i := range b.Rows() {
		if b.Sel != nil {
			i = int(b.Sel[i])
		}
		rows = append(rows, rowValues(b, i))
	}
	return rows
}

// TestColumnarRoundTrip writes random batches and reads them again.
func TestColumnarRoundTrip(t *testing.T) {
	for name, f := range columnarFormats {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				s := drawSchema(t)
				var out bytes.Buffer
				enc, err := f.encode(&out, EncodeOptions{Schema: s})
				if err != nil {
					t.Fatal(err)
				}
				var want [][]any
				for range rapid.IntRange(0, 4).Draw(t, "batches") {
					b := drawBatch(t, s, 100)
					want = append(want, selectedRows(b)...)
					if err := enc.Encode(b); err != nil {
						t.Fatal(err)
					}
					if rapid.IntRange(0, 3).Draw(t, "flush") == 0 {
						if err := enc.Flush(); err != nil {
							t.Fatal(err)
						}
					}
				}
				if err := enc.Finish(); err != nil {
					t.Fatal(err)
				}
				got, err := decodeAll(f.open, out.Bytes(), DecodeOptions{Schema: s, Workers: rapid.IntRange(1, 3).Draw(t, "workers")})
				if err != nil || len(got.bad) > 0 {
					t.Fatal(err, got.bad)
				}
				if diff := cmp.Diff(want, got.rows); diff != "" {
					t.Fatal(diff)
				}
				checkInferred(t, name, out.Bytes(), s)
			})
		})
	}
}

// checkInferred makes sure that a file's schema is found as it was written.
func checkInferred(t *rapid.T, format string, data []byte, want *dataflow.Schema) {
	infer := func() (*dataflow.Schema, error) { return InferArrow(bytes.NewReader(data)) }
	if format == "parquet" {
		infer = func() (*dataflow.Schema, error) { return InferParquet(bytes.NewReader(data)) }
	}
	got, err := infer()
	if err != nil || got.String() != want.String() {
		t.Fatalf("inferred %v, %v, want %s", got, err, want)
	}
}

// largeFile makes a file of many rows, several row groups or record batches long.
func largeFile(t testing.TB, encode func(io.Writer, EncodeOptions) (Encoder, error), rows int) ([]byte, *dataflow.Schema) {
	s := &dataflow.Schema{Columns: []dataflow.Column{{Name: "id", Type: dataflow.IntType},
		{Name: "few", Type: dataflow.StringType, Nullable: true}, {Name: "many", Type: dataflow.StringType}}}
	var out bytes.Buffer
	enc, err := encode(&out, EncodeOptions{Schema: s})
	if err != nil {
		t.Fatal(err)
	}
	b := batch.New(s)
	for row := 0; row < rows; row += b.Len {
		b.Len = min(3000, rows-row)
		for i := range b.Cols {
			b.Cols[i].Reset(s.Columns[i].Type, b.Len)
		}
		b.Cols[1].Valid = batch.GrowBitmap(nil, b.Len)
		for i := range b.Len {
			id := row + i
			b.Cols[0].Ints[i] = int64(id)
			b.Cols[1].Valid.SetTo(i, id%5 != 0)
			if id%5 != 0 {
				b.Cols[1].Data = fmt.Appendf(b.Cols[1].Data, "v%d", id%100)
			}
			b.Cols[1].Offsets[i+1] = int32(len(b.Cols[1].Data))
			b.Cols[2].Data = fmt.Appendf(b.Cols[2].Data, "value %d", id)
			b.Cols[2].Offsets[i+1] = int32(len(b.Cols[2].Data))
		}
		if err := enc.Encode(b); err != nil {
			t.Fatal(err)
		}
	}
	if err := enc.Finish(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes(), s
}

func TestLargeColumnarFile(t *testing.T) {
	defer goleak.VerifyNone(t)
	const rows = 150_001
	for name, f := range columnarFormats {
		data, s := largeFile(t, f.encode, rows)
		for _, workers := range []int{1, 3} {
			got, err := decodeAll(f.open, data, DecodeOptions{Schema: s, Workers: workers})
			if err != nil || len(got.rows) != rows {
				t.Fatalf("%s: %v, %d rows", name, err, len(got.rows))
			}
			for i, row := range got.rows {
				few := any(fmt.Sprintf("v%d", i%100))
				if i%5 == 0 {
					few = nil
				}
				if row[0] != int64(i) || row[1] != few || row[2] != fmt.Sprintf("value %d", i) {
					t.Fatalf("%s: row %d is %v", name, i, row)
				}
			}
		}
	}
}

// TestNextAfterCancel checks that a wait that was broken off loses nothing, and that Close ends workers
// that have more to do.
func TestNextAfterCancel(t *testing.T) {
	defer goleak.VerifyNone(t)
	for name, f := range columnarFormats {
		data, s := largeFile(t, f.encode, 100_000)
		for workers := 1; workers <= 2; workers++ {
			d, err := f.open(data, DecodeOptions{Schema: s, Workers: workers})
			if err != nil {
				t.Fatal(err)
			}
			done, cancel := context.WithCancel(context.Background())
			cancel()
			row := int64(0)
			for row < 50_000 {
				c, err := d.Next(done)
				if errors.Is(err, context.Canceled) {
					c, err = d.Next(context.Background())
				}
				if err != nil {
					t.Fatal(name, err)
				}
				if c.Batch.Cols[0].Ints[0] != row {
					t.Fatalf("%s: row %d where %d is due", name, c.Batch.Cols[0].Ints[0], row)
				}
				row += int64(c.Batch.Len)
			}
			if err := d.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestLargeValues reads values of which a full chunk would be too large for a batch.
func TestLargeValues(t *testing.T) {
	s := &dataflow.Schema{Columns: []dataflow.Column{{Name: "s", Type: dataflow.StringType}}}
	for name, f := range columnarFormats {
		var out bytes.Buffer
		enc, err := f.encode(&out, EncodeOptions{Schema: s})
		if err != nil {
			t.Fatal(err)
		}
		b := batch.New(s)
		for i := range 100 {
			b.Cols[0].Reset(dataflow.StringType, 1)
			b.Cols[0].Data = bytes.Repeat([]byte{byte('a' + i%26)}, 1<<20)
			b.Cols[0].Offsets[1] = 1 << 20
			b.Len = 1
			if err := enc.Encode(b); err != nil {
				t.Fatal(err)
			}
		}
		if err := enc.Finish(); err != nil {
			t.Fatal(err)
		}
		got, err := decodeAll(f.open, out.Bytes(), DecodeOptions{Schema: s})
		if err != nil || len(got.rows) != 100 || len(got.rows[99][0].(string)) != 1<<20 {
			t.Errorf("%s: %v, %d rows", name, err, len(got.rows))
		}
	}
}
