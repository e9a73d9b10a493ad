package file

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"sluice/dataflow"
	"sluice/dataflow/batch"
)

// openFunc makes a decoder for the bytes of a file.
type openFunc func(data []byte, o DecodeOptions) (Decoder, error)

func openArrowBytes(data []byte, o DecodeOptions) (Decoder, error) {
	return newArrowDecoder(bytes.NewReader(data), o)
}

// openArrowPipe reads front to back, as from a pipe.
func openArrowPipe(data []byte, o DecodeOptions) (Decoder, error) {
	return newArrowDecoder(struct{ io.Reader }{bytes.NewReader(data)}, o)
}

func openParquetBytes(data []byte, o DecodeOptions) (Decoder, error) {
	return newParquetDecoder(bytes.NewReader(data), o)
}

// decoded is all that a decoder gave: good rows, one list of values for each, and bad ones.
type decoded struct {
	rows [][]any
	bad  []string
}

// decodeAll reads a file to its end.
func decodeAll(open openFunc, data []byte, o DecodeOptions) (got decoded, err error) {
	if o.Workers == 0 {
		o.Workers = 1
	}
	d, err := open(data, o)
	if err != nil {
		return got, err
	}
	defer func() {
		if closeErr := d.Close(); err == nil {
			err = closeErr
		}
	}()
	line := int64(1)
	for {
		c, err := d.Next(context.Background())
		if err == io.EOF {
			return got, nil
		}
		if err != nil {
			return got, err
		}
		if err := c.Batch.Validate(); err != nil {
			return got, err
		}
		if n := c.Batch.Len; n > batch.TargetRows || c.Line != line {
			return got, fmt.Errorf("chunk of %d rows, line %d after %d", n, c.Line, line)
		}
		line += int64(c.Batch.Len + len(c.Bad))
		for _, b := range c.Bad {
			got.bad = append(got.bad, fmt.Sprintf("%d before %d: %s: %s", b.Line, len(got.rows)+b.Before, b.Raw, b.Reason))
		}
		for i := range c.Batch.Len {
			got.rows = append(got.rows, rowValues(c.Batch, i))
		}
	}
}

// rowValues gives a row as Go values, nil for NULL.
func rowValues(b *batch.Batch, row int) []any {
	vals := make([]any, len(b.Cols))
	for i := range b.Cols {
		v := &b.Cols[i]
		if v.IsNull(row) {
			continue
		}
		switch v.Type.Kind {
		case dataflow.Bool:
			vals[i] = v.Bits.Get(row)
		case dataflow.Int, dataflow.Timestamp, dataflow.Duration:
			vals[i] = v.Ints[row]
		case dataflow.Float:
			vals[i] = v.Floats[row]
		case dataflow.Decimal:
			vals[i] = v.Decimals[row]
		default:
			vals[i] = string(v.Bytes(row))
		}
	}
	return vals
}

func testFile(t testing.TB, name string) []byte {
	t.Helper()
	data, err := os.ReadFile("testdata/columnar/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// typesColumn is a column of the files types.*: rows 3, 10 and 17 are NULL.
type typesColumn struct {
	name  string
	typ   dataflow.Type
	value func(i int64) string // as appendRow writes it
}

func typesColumns() []typesColumn {
	num := func(base int64) func(int64) string { return func(i int64) string { return fmt.Sprint(i*3 + base) } }
	quarter := func(i int64) string { return fmt.Sprint(float64(i) / 4) }
	text := func(i int64) string { return fmt.Sprintf(`"text é %d"`, i) }
	date := func(i int64) string {
		return time.UnixMicro(0).UTC().AddDate(0, 0, int(100*i)).Format(`"2006-01-02T15:04:05Z"`)
	}
	us := func(unit int64) func(int64) string {
		return func(i int64) string {
			return `"` + time.UnixMicro(1e15+i*unit).UTC().Format(time.RFC3339Nano) + `"`
		}
	}
	span := func(unit int64) func(int64) string {
		return func(i int64) string { return fmt.Sprintf(`"%dus"`, i*1500*unit) }
	}
	dec := func(i int64) string {
		s := fmt.Sprintf("%.2f", float64(i)*1.25-5)
		return `"` + strings.TrimSuffix(strings.TrimRight(s, "0"), ".") + `"`
	}
	cols := []typesColumn{
		{"b", dataflow.BoolType, func(i int64) string { return fmt.Sprint(i%2 == 0) }},
		{"u32", dataflow.IntType, num(1 << 31)}, {"u64", dataflow.IntType, num(1 << 40)},
		{"u8", dataflow.FloatType, num(0)},
		{"color", dataflow.StringType, func(i int64) string { return []string{`"red"`, `"green"`, `"blue"`}[i%3] }},
		{"ts_s", dataflow.TimestampType, us(1e6)}, {"ts_ms", dataflow.TimestampType, us(1e3)},
		{"ts_us", dataflow.TimestampType, us(1)}, {"ts_ns", dataflow.TimestampType, us(1)},
		{"ts_tz", dataflow.TimestampType, us(1)},
		{"dur_ms", dataflow.DurationType, span(1000)}, {"dur_us", dataflow.DurationType, span(1)},
		{"t32", dataflow.DurationType, span(1000)}, {"t64", dataflow.DurationType, span(1)},
		{"dec9", dataflow.DecimalType(9, 2), dec}, {"dec18", dataflow.DecimalType(12, 3), dec},
		{"dec38", dataflow.DecimalType(38, 10), dec}, {"dec76", dataflow.DecimalType(20, 2), dec},
	}
	for _, n := range []string{"i8", "i16", "i32", "i64"} {
		cols = append(cols, typesColumn{n, dataflow.IntType, num(-10)})
	}
	for _, n := range []string{"u8", "u16"} {
		cols = append(cols, typesColumn{n, dataflow.IntType, num(0)})
	}
	for _, n := range []string{"f16", "f32", "f64"} {
		cols = append(cols, typesColumn{n, dataflow.FloatType, quarter})
	}
	for _, n := range []string{"s", "large"} {
		cols = append(cols, typesColumn{n, dataflow.StringType, text})
	}
	for _, n := range []string{"d32", "d64"} {
		cols = append(cols, typesColumn{n, dataflow.TimestampType, date})
	}
	return cols
}

// checkTypes reads one column of a types file.
func checkTypes(t *testing.T, open openFunc, data []byte, c typesColumn) {
	t.Helper()
	s := &dataflow.Schema{Columns: []dataflow.Column{{Name: c.name, Type: c.typ, Nullable: true}}}
	for workers := 1; workers <= 2; workers++ {
		d, err := open(data, DecodeOptions{Schema: s, Workers: workers})
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			return
		}
		row := int64(0)
		for {
			chunk, err := d.Next(context.Background())
			if err == io.EOF {
				break
			}
			if err != nil || len(chunk.Bad) > 0 {
				t.Fatalf("%s: error %v, bad rows %v", c.name, err, chunk.Bad)
			}
			for i := range chunk.Batch.Len {
				want := "null"
				if row%7 != 3 {
					want = c.value(row)
				}
				if got := string(appendValue(nil, &chunk.Batch.Cols[0], i)); got != want {
					t.Errorf("%s as %s, row %d: got %s, want %s", c.name, c.typ, row, got, want)
				}
				row++
			}
		}
		if row != 20 {
			t.Errorf("%s: %d rows", c.name, row)
		}
		if err := d.Close(); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// TestForeignTypes reads files that pyarrow has written.
func TestForeignTypes(t *testing.T) {
	for _, f := range []struct {
		file string
		open openFunc
	}{
		{"types.arrow", openArrowBytes}, {"types.arrow", openArrowPipe}, {"types.arrows", openArrowBytes},
		{"types.parquet", openParquetBytes}, {"types-v2.parquet", openParquetBytes},
	} {
		t.Run(f.file, func(t *testing.T) {
			data := testFile(t, f.file)
			for _, c := range typesColumns() {
				if c.name != "f16" || strings.Contains(f.file, "arrow") {
					checkTypes(t, f.open, data, c)
				}
			}
			s := &dataflow.Schema{Columns: []dataflow.Column{{Name: "fixed", Type: dataflow.BytesType, Nullable: true},
				{Name: "bin", Type: dataflow.BytesType, Nullable: true}}}
			got, err := decodeAll(f.open, data, DecodeOptions{Schema: s})
			if err != nil || len(got.rows) != 20 || got.rows[5][0] != "\x05\x00\x01\x02" || got.rows[5][1] != "\x05\xfa" || got.rows[3][0] != nil {
				t.Errorf("bytes: %v %q", err, got.rows)
			}
		})
	}
}

func TestForeignEncodings(t *testing.T) {
	data := testFile(t, "delta.parquet")
	for _, c := range typesColumns() {
		if c.typ != dataflow.FloatType && (c.name == "i64" || c.name == "i32" || c.name == "s") || c.name == "f64" {
			checkTypes(t, openParquetBytes, data, c)
		}
	}
	for _, c := range typesColumns() {
		if c.name == "ts_us" {
			checkTypes(t, openParquetBytes, testFile(t, "int96.parquet"), c)
		}
	}
}

func TestDuckDBFile(t *testing.T) {
	s := &dataflow.Schema{Columns: []dataflow.Column{{Name: "t", Type: dataflow.TimestampType, EventTime: true},
		{Name: "name", Type: dataflow.StringType}, {Name: "price", Type: dataflow.DecimalType(10, 2)},
		{Name: "even", Type: dataflow.BoolType}, {Name: "x", Type: dataflow.FloatType}, {Name: "id", Type: dataflow.IntType}}}
	for workers := 1; workers <= 3; workers++ {
		got, err := decodeAll(openParquetBytes, testFile(t, "duckdb.parquet"), DecodeOptions{Schema: s, Workers: workers})
		if err != nil || len(got.rows) != 2100 || len(got.bad) != 0 {
			t.Fatalf("%v: %d rows, bad %v", err, len(got.rows), got.bad)
		}
		start := time.Date(2001, 1, 1, 0, 0, 0, 0, time.UTC).UnixMicro()
		for i, row := range got.rows {
			n := int64(i)
			want := []any{start + n*1e6, fmt.Sprintf("name%d", n%5), row[2], n%2 == 0, float64(n) / 4, n}
			if diff := cmp.Diff(want, row); diff != "" {
				t.Fatalf("row %d: %s", i, diff)
			}
		}
	}
}

// TestBadRows reads values that have no place in their columns.
func TestBadRows(t *testing.T) {
	s := &dataflow.Schema{Columns: []dataflow.Column{{Name: "id", Type: dataflow.IntType},
		{Name: "t", Type: dataflow.TimestampType, Nullable: true}, {Name: "big", Type: dataflow.IntType, Nullable: true},
		{Name: "dec", Type: dataflow.DecimalType(10, 2), Nullable: true}}}
	strict := &dataflow.Schema{Columns: []dataflow.Column{{Name: "t", Type: dataflow.TimestampType, EventTime: true, Nullable: true},
		{Name: "id", Type: dataflow.IntType}, {Name: "big", Type: dataflow.IntType}}}
	for name, open := range map[string]openFunc{"misfits.arrow": openArrowBytes, "misfits.parquet": openParquetBytes} {
		got, err := decodeAll(open, testFile(t, name), DecodeOptions{Schema: s})
		if err != nil {
			t.Fatal(name, err)
		}
		if len(got.rows) != 2 || got.rows[0][0] != int64(1) || got.rows[1][0] != int64(3) || got.rows[1][1] != nil {
			t.Errorf("%s: rows %v", name, got.rows)
		}
		want := []string{`2 before 1: {"id":2,"t":"1001ns","big":"9223372036854775808","dec":"1.234"}: ` +
			`column "t": 1001ns is finer than the microseconds of a timestamp`}
		if diff := cmp.Diff(want, got.bad); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		got, err = decodeAll(open, testFile(t, name), DecodeOptions{Schema: strict})
		if err != nil || len(got.rows) != 1 || len(got.bad) != 2 {
			t.Fatalf("%s: %v %+v", name, err, got)
		}
		if want := `3 before 1: {"t":null,"id":3,"big":null}: column "t": the event time is NULL`; got.bad[1] != want {
			t.Errorf("%s: got %s, want %s", name, got.bad[1], want)
		}
	}
}

// TestColumnErrors asks for columns that are not there, or not of a type that fits.
func TestColumnErrors(t *testing.T) {
	for _, c := range []struct {
		file string
		open openFunc
		name string
		typ  dataflow.Type
		want string
	}{
		{"types.parquet", openParquetBytes, "dec8", dataflow.DecimalType(9, 2), `no column "dec8" in the data; did you mean "dec9"?`},
		{"types.arrow", openArrowBytes, "dec8", dataflow.DecimalType(9, 2), `no column "dec8" in the data; did you mean "dec9"?`},
		{"types.parquet", openParquetBytes, "s", dataflow.IntType, `column "s" is utf8 in the data, which cannot be read as int`},
		{"types.arrows", openArrowBytes, "i64", dataflow.BoolType, `column "i64" is int64 in the data, which cannot be read as bool`},
		{"nested.parquet", openParquetBytes, "tags", dataflow.StringType, `column "tags" is nested or a list, which no column type holds`},
		{"nested.parquet", openParquetBytes, "who", dataflow.StringType, `column "who" is nested or a list, which no column type holds`},
	} {
		s := &dataflow.Schema{Columns: []dataflow.Column{{Name: c.name, Type: c.typ, Nullable: true}}}
		if _, err := decodeAll(c.open, testFile(t, c.file), DecodeOptions{Schema: s}); err == nil || err.Error() != c.want {
			t.Errorf("%s as %s: got %v, want %s", c.name, c.typ, err, c.want)
		}
	}
	s := &dataflow.Schema{Columns: []dataflow.Column{{Name: "id", Type: dataflow.IntType}}}
	got, err := decodeAll(openParquetBytes, testFile(t, "nested.parquet"), DecodeOptions{Schema: s})
	if err != nil || len(got.rows) != 2 {
		t.Errorf("a plain column beside nested ones: %v %v", err, got.rows)
	}
}

func TestInferColumnar(t *testing.T) {
	s, err := InferParquet(bytes.NewReader(testFile(t, "duckdb.parquet")))
	want := "(id int, x float, name string, t timestamp, price decimal(10,2), even bool)"
	if err != nil || s.String() != want {
		t.Errorf("got %v, %v, want %s", s, err, want)
	}
	s, err = InferArrow(bytes.NewReader(testFile(t, "misfits.arrow")))
	if want := "(id int, t timestamp, big int, dec decimal(20,3))"; err != nil || s.String() != want {
		t.Errorf("got %v, %v, want %s", s, err, want)
	}
	s, err = InferParquet(bytes.NewReader(testFile(t, "nested.parquet")))
	if s == nil || s.String() != "(id int)" || err == nil || !strings.Contains(err.Error(), `"tags"`) || !strings.Contains(err.Error(), `"who"`) {
		t.Errorf("nested: %v, %v", s, err)
	}
}
