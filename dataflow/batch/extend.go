package batch

import "sluice/dataflow"

// Extend adds the selected rows of src, a batch of the same schema, at the end of b, which must have no
// selection. Watermarks are left alone. b shares no memory with src.
func (b *Batch) Extend(src *Batch) {
	for i := range src.Cols {
		b.Cols[i].Extend(&src.Cols[i], src.Sel)
	}
	b.Len += src.Rows()
}

// Extend adds the rows of src, which must be of v's type, that sel lists at v's end; nil lists all.
func (v *Vector) Extend(src *Vector, sel []int32) {
	from, n := v.Len, len(sel)
	if sel == nil {
		n = src.Len
	}
	to := from + n
	v.extendValid(src, sel, to)
	v.Len = to
	switch v.Type.Kind {
	case dataflow.Bool:
		v.Bits = extendBits(v.Bits, src.Bits, sel, from, to)
	case dataflow.Int, dataflow.Timestamp, dataflow.Duration:
		v.Ints = extendFixed(v.Ints[:from], src.Ints[:src.Len], sel)
	case dataflow.Float:
		v.Floats = extendFixed(v.Floats[:from], src.Floats[:src.Len], sel)
	case dataflow.Decimal:
		v.Decimals = extendFixed(v.Decimals[:from], src.Decimals[:src.Len], sel)
	case dataflow.String, dataflow.Bytes:
		v.extendText(src, sel, from)
	}
}

func (v *Vector) extendValid(src *Vector, sel []int32, to int) {
	if v.Valid == nil && src.Valid == nil {
		return
	}
	if v.Valid == nil {
		v.Valid = make(Bitmap, Words(to), Words(to)+Words(to)/4)
		v.Valid.Fill(v.Len, true)
	}
	if src.Valid != nil {
		v.Valid = extendBits(v.Valid, src.Valid, sel, v.Len, to)
		return
	}
	v.Valid = growBits(v.Valid, to)
	for i := v.Len; i < to; i++ {
		v.Valid.Set(i)
	}
}

func (v *Vector) extendText(src *Vector, sel []int32, from int) {
	if from == 0 {
		v.Offsets, v.Data = append(v.Offsets[:0], 0), v.Data[:0]
	}
	v.Offsets = v.Offsets[:from+1]
	if sel == nil {
		first := src.Offsets[0]
		base := int32(len(v.Data)) - first
		for _, o := range src.Offsets[1 : src.Len+1] {
			v.Offsets = append(v.Offsets, o+base)
		}
		v.Data = append(v.Data, src.Data[first:src.Offsets[src.Len]]...)
		return
	}
	for _, s := range sel {
		v.Data = append(v.Data, src.Data[src.Offsets[s]:src.Offsets[s+1]]...)
		v.Offsets = append(v.Offsets, int32(len(v.Data)))
	}
}

func extendFixed[T any](dst, src []T, sel []int32) []T {
	if sel == nil {
		return append(dst, src...)
	}
	for _, s := range sel {
		dst = append(dst, src[s])
	}
	return dst
}

// growBits gives m room for to bits, keeping those that are there.
func growBits(m Bitmap, to int) Bitmap {
	for len(m) < Words(to) {
		m = append(m, 0)
	}
	return m
}

// extendBits sets bits from to to of dst to those of src that sel lists.
func extendBits(dst, src Bitmap, sel []int32, from, to int) Bitmap {
	dst = growBits(dst, to)
	if sel == nil && from%64 == 0 {
		copy(dst[from/64:Words(to)], src)
		return dst
	}
	for i := from; i < to; i++ {
		s := i - from
		if sel != nil {
			s = int(sel[s])
		}
		dst.SetTo(i, src.Get(s))
	}
	return dst
}
