package batch

import (
	"strings"
	"testing"
	"unsafe"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"sluice/dataflow"
)

func TestArrowRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b, models := drawTable(t, 200)
		if rapid.Bool().Draw(t, "select") {
			b.Sel = drawSel(t, b.Len)
		}
		rec := ToArrow(b, nil)
		from := rapid.IntRange(0, int(rec.NumRows())).Draw(t, "from")
		to := rapid.IntRange(from, int(rec.NumRows())).Draw(t, "to")
		var back Batch
		if err := FromArrow(rec.NewSlice(int64(from), int64(to)), b.Schema, &back); err != nil {
			t.Fatal(err)
		}
		for i := range models {
			models[i] = pick(models[i], b.Sel)[from:to]
		}
		checkBatch(t, &back, models)

		s, err := SchemaFromArrow(rec.Schema())
		if err != nil || s.String() != b.Schema.String() {
			t.Fatalf("%v, %v, want %v", s, err, b.Schema)
		}
	})
}

// TestArrowSharesMemory checks that no values are copied where they need not be.
func TestArrowSharesMemory(t *testing.T) {
	s := &dataflow.Schema{Columns: []dataflow.Column{{Name: "i", Type: dataflow.IntType, Nullable: true}, {Name: "s", Type: dataflow.StringType}}}
	b := &Batch{Schema: s, Len: 2, Cols: []Vector{vectorOf(dataflow.IntType, []any{int64(1), nil}), vectorOf(dataflow.StringType, []any{"a", "b"})}}
	rec := ToArrow(b, nil)
	b.Cols[0].Ints[0] = 42
	if got := rec.Column(0).(*array.Int64).Value(0); got != 42 {
		t.Errorf("the record has %d: it is a copy", got)
	}
	var back Batch
	if err := FromArrow(rec, s, &back); err != nil {
		t.Fatal(err)
	}
	if unsafe.SliceData(back.Cols[0].Ints) != unsafe.SliceData(b.Cols[0].Ints) || unsafe.SliceData(back.Cols[1].Data) != unsafe.SliceData(b.Cols[1].Data) {
		t.Error("the batch is a copy")
	}
	b.Sel = []int32{1}
	rec = ToArrow(b, nil)
	b.Cols[1].Data[1] = 'x'
	if got := rec.Column(1).(*array.String).Value(0); rec.NumRows() != 1 || got != "b" {
		t.Errorf("selected: %d rows, %q", rec.NumRows(), got)
	}
}

// textRecord is one column of one Arrow text type, with the values a, NULL, é.
func textRecord(dt arrow.DataType) arrow.RecordBatch {
	b := array.NewBuilder(memory.DefaultAllocator, dt)
	for _, s := range []string{"a", "", "é"} {
		if s == "" {
			b.AppendNull()
		} else if err := b.AppendValueFromString(s); err != nil {
			panic(err)
		}
	}
	return array.NewRecordBatch(arrow.NewSchema([]arrow.Field{{Name: "s", Type: dt, Nullable: true}}, nil), []arrow.Array{b.NewArray()}, 3)
}

func TestArrowTextLayouts(t *testing.T) {
	s := &dataflow.Schema{Columns: []dataflow.Column{{Name: "s", Type: dataflow.StringType, Nullable: true}}}
	for _, dt := range []arrow.DataType{arrow.BinaryTypes.String, arrow.BinaryTypes.LargeString, arrow.BinaryTypes.StringView,
		&arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int8, ValueType: arrow.BinaryTypes.String},
		&arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Uint64, ValueType: arrow.BinaryTypes.String}} {
		rec := textRecord(dt)
		c, err := NewArrowConverter(rec.Schema(), s)
		if err != nil {
			t.Fatal(dt, err)
		}
		for from := range int64(3) { // slices begin anywhere
			var b Batch
			if bad, err := c.Convert(rec.NewSlice(from, 3), &b); err != nil || len(bad) > 0 {
				t.Fatal(dt, err, bad)
			}
			if diff := cmp.Diff([]any{"a", nil, "é"}[from:], modelOf(&b.Cols[0])); diff != "" {
				t.Errorf("%s from %d: %s", dt, from, diff)
			}
		}
	}
}

// rawRecord makes a record of one column from buffers, sound or not.
func rawRecord(dt arrow.DataType, rows int, buffers ...[]byte) arrow.RecordBatch {
	bufs := make([]*memory.Buffer, len(buffers))
	for i, b := range buffers {
		if b != nil {
			bufs[i] = memory.NewBufferBytes(b)
		}
	}
	d := array.NewData(dt, rows, bufs, nil, array.UnknownNullCount, 0)
	return fakeRecord{arrow.NewSchema([]arrow.Field{{Name: "c", Type: dt, Nullable: true}}, nil), d}
}

// fakeRecord is a record batch that the library would refuse to make.
type fakeRecord struct {
	schema *arrow.Schema
	data   arrow.ArrayData
}

func (f fakeRecord) Retain()                      {}
func (f fakeRecord) Release()                     {}
func (f fakeRecord) Schema() *arrow.Schema        { return f.schema }
func (f fakeRecord) NumRows() int64               { return int64(f.data.Len()) }
func (f fakeRecord) NumCols() int64               { return 1 }
func (f fakeRecord) Columns() []arrow.Array       { return []arrow.Array{f.Column(0)} }
func (f fakeRecord) Column(int) arrow.Array       { return fakeArray{data: f.data} }
func (f fakeRecord) ColumnName(int) string        { return "c" }
func (f fakeRecord) MarshalJSON() ([]byte, error) { return nil, nil }
func (f fakeRecord) String() string               { return "fake" }
func (f fakeRecord) SetColumn(int, arrow.Array) (arrow.RecordBatch, error) {
	return f, nil
}
func (f fakeRecord) NewSlice(i, j int64) arrow.RecordBatch { return f }

type fakeArray struct {
	arrow.Array
	data arrow.ArrayData
}

func (f fakeArray) Data() arrow.ArrayData { return f.data }

func TestDamagedArrow(t *testing.T) {
	le := func(offsets ...int32) []byte { return asBytes(offsets) }
	for _, c := range []struct {
		what string
		typ  dataflow.Type
		rec  arrow.RecordBatch
	}{
		{"short ints", dataflow.IntType, rawRecord(arrow.PrimitiveTypes.Int64, 3, nil, make([]byte, 16))},
		{"no ints", dataflow.IntType, rawRecord(arrow.PrimitiveTypes.Int64, 3, nil, nil)},
		{"short validity", dataflow.IntType, rawRecord(arrow.PrimitiveTypes.Int64, 9, []byte{1}, make([]byte, 72))},
		{"short bits", dataflow.BoolType, rawRecord(arrow.FixedWidthTypes.Boolean, 9, nil, []byte{1})},
		{"falling offsets", dataflow.StringType, rawRecord(arrow.BinaryTypes.String, 2, nil, le(0, 3, 2), []byte("abc"))},
		{"offsets outside", dataflow.StringType, rawRecord(arrow.BinaryTypes.String, 2, nil, le(0, 3, 4), []byte("abc"))},
		{"negative offset", dataflow.StringType, rawRecord(arrow.BinaryTypes.String, 2, nil, le(-1, 3, 3), []byte("abc"))},
		{"short offsets", dataflow.StringType, rawRecord(arrow.BinaryTypes.String, 2, nil, le(0, 3), []byte("abc"))},
		{"no text", dataflow.StringType, rawRecord(arrow.BinaryTypes.String, 1, nil, le(0, 3), nil)},
		{"short fixed text", dataflow.BytesType, rawRecord(&arrow.FixedSizeBinaryType{ByteWidth: 4}, 2, nil, make([]byte, 7))},
		{"buffers missing", dataflow.IntType, rawRecord(arrow.PrimitiveTypes.Int64, 2)},
	} {
		var b Batch
		s := &dataflow.Schema{Columns: []dataflow.Column{{Name: "c", Type: c.typ, Nullable: true}}}
		if err := FromArrow(c.rec, s, &b); err == nil || !strings.Contains(err.Error(), "damaged") {
			t.Errorf("%s: %v", c.what, err)
		}
	}
}

func TestArrowRowErrors(t *testing.T) {
	half := &arrow.Decimal128Type{Precision: 5, Scale: 1}
	for _, c := range []struct {
		typ  dataflow.Type
		rec  arrow.RecordBatch
		want []string
	}{
		{dataflow.StringType, rawRecord(arrow.BinaryTypes.Binary, 3, nil, asBytes([]int32{0, 1, 2, 3}), []byte("a\xc3\xa9")),
			[]string{`column "c": "\xc3" is not UTF-8`, `column "c": "\xa9" is not UTF-8`}},
		{dataflow.TimestampType, rawRecord(&arrow.TimestampType{Unit: arrow.Second}, 2, nil, asBytes([]int64{1, 1 << 60})),
			[]string{`column "c": 1152921504606846976 is out of range for a timestamp`}},
		{dataflow.DecimalType(3, 0), rawRecord(half, 3, nil, asBytes([]uint64{50, 0, 55, 0, 99990, 0})),
			[]string{`column "c": 5.5 has too many digits for decimal(3,0)`, `column "c": 9999.0 has too many digits for decimal(3,0)`}},
		{dataflow.DecimalType(4, 1), rawRecord(half, 2, nil, asBytes([]uint64{9999, 0, 10000, 0})),
			[]string{`column "c": 1000.0 has too many digits for decimal(4,1)`}},
		{dataflow.DecimalType(4, 1), rawRecord(half, 2, []byte{0b01}, asBytes([]uint64{9999, 0, 10000, 0})), nil},
	} {
		s := &dataflow.Schema{Columns: []dataflow.Column{{Name: "c", Type: c.typ, Nullable: true}}}
		conv, err := NewArrowConverter(c.rec.Schema(), s)
		if err != nil {
			t.Fatal(err)
		}
		var b Batch
		bad, err := conv.Convert(c.rec, &b)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, e := range bad {
			got = append(got, e.Reason)
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s: %s", c.typ, diff)
		}
	}
}

func TestArrowColumns(t *testing.T) {
	from := arrow.NewSchema([]arrow.Field{{Name: "delay", Type: arrow.PrimitiveTypes.Int32}, {Name: "x", Type: arrow.BinaryTypes.String},
		{Name: "x", Type: arrow.BinaryTypes.String}}, nil)
	to := &dataflow.Schema{Columns: []dataflow.Column{{Name: "dealy", Type: dataflow.IntType}, {Name: "x", Type: dataflow.StringType}}}
	_, err := NewArrowConverter(from, to)
	want := "no column \"dealy\" in the data; did you mean \"delay\"?\ncolumn \"x\" occurs 2 times in the data"
	if err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	s, err := SchemaFromArrow(arrow.NewSchema([]arrow.Field{{Name: "l", Type: arrow.ListOf(arrow.PrimitiveTypes.Int64)},
		{Name: "d", Type: &arrow.Decimal128Type{Precision: 5, Scale: -2}}}, nil))
	if s.String() != "(d decimal(7,0) not null)" || err == nil || !strings.Contains(err.Error(), `column "l"`) {
		t.Errorf("%v, %v", s, err)
	}
}
