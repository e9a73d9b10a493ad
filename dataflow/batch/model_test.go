package batch

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"sluice/dataflow"
	"sluice/dataflow/decimal"
)

// A model of a column is its values, nil for NULL; of a batch, its rows.

func vectorTypes() []dataflow.Type {
	return []dataflow.Type{dataflow.BoolType, dataflow.IntType, dataflow.FloatType, dataflow.DecimalType(10, 2),
		dataflow.StringType, dataflow.BytesType, dataflow.TimestampType, dataflow.DurationType}
}

func drawType(t *rapid.T) dataflow.Type { return rapid.SampledFrom(vectorTypes()).Draw(t, "type") }

// drawModel draws n values of a type; of those about one in four is NULL if nulls is set.
func drawModel(t *rapid.T, typ dataflow.Type, n int, nulls bool) []any {
	vals := make([]any, n)
	for i := range vals {
		if nulls && rapid.IntRange(0, 3).Draw(t, "null") == 0 {
			continue
		}
		switch typ.Kind {
		case dataflow.Bool:
			vals[i] = rapid.Bool().Draw(t, "bool")
		case dataflow.Float:
			vals[i] = rapid.Float64().Draw(t, "float")
		case dataflow.Decimal:
			vals[i] = rapid.Int64Range(-9999999999, 9999999999).Draw(t, "decimal")
		case dataflow.String, dataflow.Bytes:
			vals[i] = rapid.SampledFrom([]string{"", "a", "bc", "déf"}).Draw(t, "text")
		default:
			vals[i] = rapid.Int64().Draw(t, "int")
		}
	}
	return vals
}

// vectorOf lays a model out by hand. What a NULL row holds is junk.
func vectorOf(typ dataflow.Type, vals []any) Vector {
	v := Vector{Type: typ, Len: len(vals), Offsets: []int32{0}}
	words := len(vals)/64 + 1
	v.Bits = make(Bitmap, words)
	for i, x := range vals {
		if x == nil {
			if v.Valid == nil {
				v.Valid = make(Bitmap, words)
				for j := range v.Valid {
					v.Valid[j] = ^uint64(0)
				}
			}
			v.Valid[i/64] &^= 1 << (i % 64)
		}
		n, _ := x.(int64)
		f, _ := x.(float64)
		s, isText := x.(string)
		if x == nil {
			n, f, s = -77, -7.7, "junk"
		} else if !isText {
			s = ""
		}
		if x == true {
			v.Bits[i/64] |= 1 << (i % 64)
		}
		v.Ints, v.Floats = append(v.Ints, n), append(v.Floats, f)
		v.Decimals = append(v.Decimals, decimal.FromInt64(n))
		v.Data = append(v.Data, s...)
		v.Offsets = append(v.Offsets, int32(len(v.Data)))
	}
	return v
}

// modelOf reads a vector into a model.
func modelOf(v *Vector) []any {
	vals := make([]any, v.Len)
	for i := range vals {
		if v.IsNull(i) {
			continue
		}
		switch v.Type.Kind {
		case dataflow.Bool:
			vals[i] = v.Bits.Get(i)
		case dataflow.Float:
			vals[i] = v.Floats[i]
		case dataflow.Decimal:
			n, _ := decimal.Int64(v.Decimals[i])
			vals[i] = n
		case dataflow.String, dataflow.Bytes:
			vals[i] = string(v.Bytes(i))
		default:
			vals[i] = v.Ints[i]
		}
	}
	return vals
}

func drawSel(t *rapid.T, n int) []int32 {
	sel := []int32{}
	for i := range n {
		if rapid.Bool().Draw(t, "take") {
			sel = append(sel, int32(i))
		}
	}
	return sel
}

func pick(vals []any, sel []int32) []any {
	if sel == nil {
		return vals
	}
	out := make([]any, len(sel))
	for i, s := range sel {
		out[i] = vals[s]
	}
	return out
}

// drawVector draws a vector and its model.
func drawVector(t *rapid.T, typ dataflow.Type, most int) (Vector, []any) {
	vals := drawModel(t, typ, rapid.IntRange(0, most).Draw(t, "rows"), rapid.Bool().Draw(t, "nulls"))
	return vectorOf(typ, vals), vals
}

func TestVectorOperations(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		typ := drawType(t)
		v := Vector{}
		v.Reset(typ, 0)
		var model []any
		for range rapid.IntRange(1, 8).Draw(t, "steps") {
			src, vals := drawVector(t, typ, 90)
			var sel []int32
			if rapid.Bool().Draw(t, "select") {
				sel = drawSel(t, src.Len)
			}
			switch rapid.IntRange(0, 4).Draw(t, "step") {
			case 0:
				v.Gather(&src, sel)
				model = pick(vals, sel)
			case 1, 2:
				v.Extend(&src, sel)
				model = append(append([]any{}, model...), pick(vals, sel)...)
			case 3:
				for i := range vals {
					v.Append(&src, i)
				}
				model = append(append([]any{}, model...), vals...)
			case 4:
				v.AppendNull()
				model = append(append([]any{}, model...), nil)
			}
			spoil(&src)
			if diff := cmp.Diff(append([]any{}, model...), modelOf(&v)); diff != "" {
				t.Fatal(diff)
			}
			if err := v.validateValues(); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// spoil overwrites all memory of a vector, to find who shares it.
func spoil(v *Vector) {
	for _, m := range []Bitmap{v.Valid, v.Bits} {
		for i := range m {
			m[i] ^= ^uint64(0)
		}
	}
	for i := range v.Ints {
		v.Ints[i], v.Floats[i], v.Decimals[i] = 99, 99, decimal.FromInt64(99)
	}
	copy(v.Data, bytes.Repeat([]byte{'#'}, len(v.Data)))
	clear(v.Offsets)
}

// drawTable draws a batch with row watermarks or not, and its columns' models.
func drawTable(t *rapid.T, most int) (*Batch, [][]any) {
	n := rapid.IntRange(0, most).Draw(t, "rows")
	s := &dataflow.Schema{}
	b := &Batch{Schema: s, Len: n, Watermark: rapid.Int64().Draw(t, "watermark")}
	var models [][]any
	for i := range rapid.IntRange(1, 4).Draw(t, "columns") {
		c := dataflow.Column{Name: fmt.Sprintf("c%d", i), Type: drawType(t), Nullable: rapid.Bool().Draw(t, "nullable")}
		vals := drawModel(t, c.Type, n, c.Nullable)
		s.Columns = append(s.Columns, c)
		b.Cols = append(b.Cols, vectorOf(c.Type, vals))
		models = append(models, vals)
	}
	if rapid.Bool().Draw(t, "row watermarks") {
		for i := range n {
			b.RowWatermarks = append(b.RowWatermarks, int64(i))
		}
	}
	return b, models
}

func checkBatch(t *rapid.T, b *Batch, want [][]any) {
	t.Helper()
	if err := b.Validate(); err != nil {
		t.Fatal(err)
	}
	for i := range b.Cols {
		if diff := cmp.Diff(append([]any{}, want[i]...), modelOf(&b.Cols[i])); diff != "" {
			t.Fatalf("column %d: %s", i, diff)
		}
	}
}

func TestBatchCopySliceExtend(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b, models := drawTable(t, 300)
		checkBatch(t, b, models)

		from := rapid.IntRange(0, b.Len/64).Draw(t, "from") * 64
		to := rapid.IntRange(from, b.Len).Draw(t, "to")
		var part Batch
		part.Slice(b, from, to)
		sliced := make([][]any, len(models))
		for i := range models {
			sliced[i] = models[i][from:to]
		}
		checkBatch(t, &part, sliced)
		if part.Len > 0 && part.RowWatermark(0) != b.RowWatermark(from) {
			t.Fatalf("watermark %d of the slice's first row, %d of the batch's", part.RowWatermark(0), b.RowWatermark(from))
		}

		if rapid.Bool().Draw(t, "select") {
			part.Sel = drawSel(t, part.Len)
		}
		want := make([][]any, len(models))
		for i := range models {
			want[i] = pick(sliced[i], part.Sel)
		}
		var dense Batch
		dense.CopyFrom(&part)
		checkBatch(t, &dense, want)
		for i := range dense.Len {
			row := i
			if part.Sel != nil {
				row = int(part.Sel[i])
			}
			if dense.RowWatermark(i) != part.RowWatermark(row) {
				t.Fatalf("watermark of row %d: %d, want %d", i, dense.RowWatermark(i), part.RowWatermark(row))
			}
		}

		all := New(b.Schema)
		all.Extend(&part)
		all.Extend(&part)
		for i := range want {
			want[i] = append(append([]any{}, want[i]...), want[i]...)
		}
		checkBatch(t, all, want)
	})
}

func TestBitmap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		bits := rapid.SliceOfN(rapid.Bool(), 0, 200).Draw(t, "bits")
		n := len(bits)
		m := GrowBitmap(nil, n)
		if len(m) != (n+63)/64 {
			t.Fatalf("%d words for %d bits", len(m), n)
		}
		start := rapid.Bool().Draw(t, "start")
		m.Fill(n, start)
		if want := map[bool]int{true: n}[start]; m.Count(n) != want {
			t.Fatalf("%d of %d bits set after Fill(%v)", m.Count(n), n, start)
		}
		for i, bit := range bits {
			switch {
			case rapid.Bool().Draw(t, "how"):
				m.SetTo(i, bit)
			case bit:
				m.Set(i)
			default:
				m.Clear(i)
			}
		}
		count := 0
		for i, bit := range bits {
			if m.Get(i) != bit {
				t.Fatalf("bit %d is %v", i, !bit)
			}
			if m.Count(i) != count {
				t.Fatalf("%d of the first %d bits, want %d", m.Count(i), i, count)
			}
			if bit {
				count++
			}
		}
	})
}

// TestValidate breaks each thing that a batch has to keep to.
func TestValidate(t *testing.T) {
	schema := &dataflow.Schema{Columns: []dataflow.Column{{Name: "t", Type: dataflow.TimestampType, EventTime: true, Nullable: true},
		{Name: "s", Type: dataflow.StringType, Nullable: true}, {Name: "b", Type: dataflow.BoolType}}}
	sound := func() *Batch {
		return &Batch{Schema: schema, Len: 3, Cols: []Vector{vectorOf(dataflow.TimestampType, []any{int64(1), int64(2), int64(3)}),
			vectorOf(dataflow.StringType, []any{"a", nil, "c"}), vectorOf(dataflow.BoolType, []any{true, false, true})}}
	}
	if err := sound().Validate(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		what   string
		breakB func(b *Batch)
		want   string // "" if it is no fault
	}{
		{"no schema", func(b *Batch) { b.Schema = nil }, "no schema"},
		{"a vector too few", func(b *Batch) { b.Cols = b.Cols[:2] }, "2 vectors for 3 columns"},
		{"wrong type", func(b *Batch) { b.Cols[2].Type = dataflow.IntType }, `column "b": vector of int in a column of bool`},
		{"wrong length", func(b *Batch) { b.Len = 2 }, "vector of 3 rows in a batch of 2"},
		{"short values", func(b *Batch) { b.Cols[0].Ints = b.Cols[0].Ints[:2] }, "memory for 2 values where 3 are needed"},
		{"short validity", func(b *Batch) { b.Cols[1].Valid = Bitmap{} }, "validity of 0 words"},
		{"short offsets", func(b *Batch) { b.Cols[1].Offsets = b.Cols[1].Offsets[:3] }, "3 offsets for 3 rows"},
		{"falling offsets", func(b *Batch) { b.Cols[1].Offsets[1] = 6; b.Cols[1].Offsets[2] = 5 }, "offset 5 after 6"},
		{"offsets outside", func(b *Batch) { b.Cols[1].Data = b.Cols[1].Data[:1] }, "into 1 bytes"},
		{"negative offset", func(b *Batch) { b.Cols[1].Offsets[0] = -1 }, "offset -1"},
		{"selection outside", func(b *Batch) { b.Sel = []int32{0, 3} }, "row 3 of 3"},
		{"selection that falls", func(b *Batch) { b.Sel = []int32{1, 1} }, "has 1 after 1"},
		{"negative selection", func(b *Batch) { b.Sel = []int32{-1} }, "has -1"},
		{"watermarks", func(b *Batch) { b.RowWatermarks = []int64{1} }, "1 row watermarks for 3 rows"},
		{"NULL event time", func(b *Batch) { b.Cols[0].Valid = Bitmap{0b101} }, `column "t": row 1 is NULL`},
		{"NULL where none may be", func(b *Batch) { b.Cols[2].Valid = Bitmap{0b011} }, `column "b": row 2 is NULL`},
		{"NULL that is not selected", func(b *Batch) { b.Cols[2].Valid = Bitmap{0b011}; b.Sel = []int32{0, 1} }, ""},
		{"no rows", func(b *Batch) { *b = *New(schema) }, ""},
	} {
		b := sound()
		c.breakB(b)
		switch err := b.Validate(); {
		case c.want == "" && err != nil:
			t.Errorf("%s: %v", c.what, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s: got %v, want %q", c.what, err, c.want)
		}
	}
}
