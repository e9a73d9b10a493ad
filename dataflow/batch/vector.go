package batch

import (
	"sluice/dataflow"
	"sluice/dataflow/decimal"
)

// Vector is one column of a batch: values, validity and, for text, offsets, laid out as Arrow buffers.
//
// Which slice holds the values follows from Type.Kind:
//
//	Bool                       Bits     one bit per row
//	Int, Timestamp, Duration   Ints     microseconds for the last two
//	Float                      Floats
//	Decimal                    Decimals unscaled, with Type.Scale digits after the point
//	String, Bytes              Offsets, Data: row i is Data[Offsets[i]:Offsets[i+1]]; len(Offsets) is Len+1
//
// Where a row is not valid its value is undefined, except that Offsets are always in order and inside
// Data, and that a reader may touch any value slot of a row below Len.
type Vector struct {
	Type dataflow.Type
	Len  int
	// Valid has a set bit for each row that is not NULL. nil: none is NULL.
	Valid Bitmap

	Bits     Bitmap
	Ints     []int64
	Floats   []float64
	Decimals []decimal.Num
	Offsets  []int32
	Data     []byte
}

// IsNull reports whether row i is NULL.
func (v *Vector) IsNull(i int) bool { return v.Valid != nil && !v.Valid.Get(i) }

// Bytes returns the value of row i of a String or Bytes vector; it points into the vector.
func (v *Vector) Bytes(i int) []byte { return v.Data[v.Offsets[i]:v.Offsets[i+1]] }

// Reset makes v an empty vector of the given type that has kept its memory and has room for n rows:
// fixed-width slices get length n with undefined contents, Offsets length n+1 with Offsets[0] = 0,
// Data length 0; Valid is set to nil. Len is n.
func (v *Vector) Reset(t dataflow.Type, n int) {
	v.Type, v.Len, v.Valid = t, n, nil
	switch t.Kind {
	case dataflow.Bool:
		v.Bits = GrowBitmap(v.Bits, n)
	case dataflow.Int, dataflow.Timestamp, dataflow.Duration:
		v.Ints = grow(v.Ints, n)
	case dataflow.Float:
		v.Floats = grow(v.Floats, n)
	case dataflow.Decimal:
		v.Decimals = grow(v.Decimals, n)
	case dataflow.String, dataflow.Bytes:
		v.Offsets = grow(v.Offsets, n+1)
		v.Offsets[0] = 0
		v.Data = v.Data[:0]
	}
}

// grow returns s with length n, reusing its memory when it can; contents are undefined.
func grow[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n, n+n/4)
	}
	return s[:n]
}

// Append adds row i of src, which must be of v's type, at v's end. It is the slow, general way; hot
// paths use Gather.
func (v *Vector) Append(src *Vector, i int) {
	n := v.Len
	null := src.IsNull(i)
	if null && v.Valid == nil {
		v.Valid = make(Bitmap, Words(n+1), Words(n+1)+4)
		v.Valid.Fill(n, true)
	}
	if v.Valid != nil {
		if len(v.Valid) < Words(n+1) {
			v.Valid = append(v.Valid, 0)
		}
		v.Valid.SetTo(n, !null)
	}
	switch v.Type.Kind {
	case dataflow.Bool:
		if len(v.Bits) < Words(n+1) {
			v.Bits = append(v.Bits, 0)
		}
		v.Bits.SetTo(n, src.Bits.Get(i))
	case dataflow.Int, dataflow.Timestamp, dataflow.Duration:
		v.Ints = append(v.Ints[:n], src.Ints[i])
	case dataflow.Float:
		v.Floats = append(v.Floats[:n], src.Floats[i])
	case dataflow.Decimal:
		v.Decimals = append(v.Decimals[:n], src.Decimals[i])
	case dataflow.String, dataflow.Bytes:
		if n == 0 {
			v.Offsets = append(v.Offsets[:0], 0)
		}
		if !null {
			v.Data = append(v.Data, src.Bytes(i)...)
		}
		v.Offsets = append(v.Offsets[:n+1], int32(len(v.Data)))
	}
	v.Len = n + 1
}

// AppendBytes adds one row with the given text at the end of a String or Bytes vector.
func (v *Vector) AppendBytes(text []byte) {
	v.Append(&Vector{Type: v.Type, Len: 1, Offsets: []int32{0, int32(len(text))}, Data: text}, 0)
}

// AppendNull adds one NULL row at v's end.
func (v *Vector) AppendNull() {
	null := nullVectors[v.Type.Kind]
	null.Type = v.Type
	v.Append(&null, 0)
}

var nullVectors = func() (vs [dataflow.Null + 1]Vector) {
	for k := range vs {
		vs[k] = Vector{Len: 1, Valid: Bitmap{0}, Bits: Bitmap{0}, Ints: []int64{0}, Floats: []float64{0},
			Decimals: []decimal.Num{{}}, Offsets: []int32{0, 0}}
	}
	return vs
}()

// Gather replaces the contents of v by the rows of src that sel lists, in that order; nil lists all.
// v keeps its memory and shares none with src.
func (v *Vector) Gather(src *Vector, sel []int32) {
	n := len(sel)
	if sel == nil {
		n = src.Len
	}
	valid := v.Valid
	v.Reset(src.Type, n)
	if src.Valid != nil {
		v.Valid = GrowBitmap(valid, n)
		gatherBits(v.Valid, src.Valid, sel, n)
	}
	switch src.Type.Kind {
	case dataflow.Bool:
		gatherBits(v.Bits, src.Bits, sel, n)
	case dataflow.Int, dataflow.Timestamp, dataflow.Duration:
		gatherFixed(v.Ints, src.Ints, sel)
	case dataflow.Float:
		gatherFixed(v.Floats, src.Floats, sel)
	case dataflow.Decimal:
		gatherFixed(v.Decimals, src.Decimals, sel)
	case dataflow.String, dataflow.Bytes:
		if sel == nil {
			copy(v.Offsets, src.Offsets[:n+1])
			base := v.Offsets[0]
			if base != 0 {
				for i := range v.Offsets {
					v.Offsets[i] -= base
				}
			}
			v.Data = append(v.Data, src.Data[base:src.Offsets[n]]...)
			return
		}
		for i, s := range sel {
			v.Data = append(v.Data, src.Data[src.Offsets[s]:src.Offsets[s+1]]...)
			v.Offsets[i+1] = int32(len(v.Data))
		}
	}
}

func gatherFixed[T any](dst, src []T, sel []int32) {
	if sel == nil {
		copy(dst, src)
		return
	}
	for i, s := range sel {
		dst[i] = src[s]
	}
}

func gatherBits(dst, src Bitmap, sel []int32, n int) {
	if sel == nil {
		copy(dst[:Words(n)], src)
		return
	}
	clear(dst[:Words(n)])
	for i, s := range sel {
		dst[uint(i)/64] |= (src[uint(s)/64] >> (uint(s) % 64) & 1) << (uint(i) % 64)
	}
}
