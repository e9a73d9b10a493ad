package window

import (
	"bytes"
	"math"

	"sluice/dataflow"
	"sluice/dataflow/batch"
	"sluice/dataflow/decimal"
)

// column holds one value, or NULL, for each id, in flat arrays: ids come and go, and the place of one
// that has gone is used again. A new id's value is undefined until it is set.
type column struct {
	typ   dataflow.Type
	key   bool     // floats are kept as keys: one zero, one NaN
	ints  []uint64 // Int, Timestamp, Duration; Float as bits; Bool as 0 and 1
	nums  []decimal.Num
	text  text
	nulls []bool // nil: there has been no NULL
}

// grow makes room for ids below n.
func (c *column) grow(n int) {
	switch c.typ.Kind {
	case dataflow.String, dataflow.Bytes:
		c.text.grow(n)
	case dataflow.Decimal:
		c.nums = extend(c.nums, n)
	default:
		c.ints = extend(c.ints, n)
	}
	if c.nulls != nil {
		c.nulls = extend(c.nulls, n)
	}
}

// set stores row of v, which is of the column's type, for id.
func (c *column) set(id int32, v *batch.Vector, row int) {
	c.grow(int(id) + 1)
	null := v.IsNull(row)
	if null && c.nulls == nil {
		c.nulls = make([]bool, max(len(c.ints), len(c.nums), len(c.text.refs)))
	}
	if c.nulls != nil {
		c.nulls[id] = null
	}
	if null {
		return
	}
	switch c.typ.Kind {
	case dataflow.String, dataflow.Bytes:
		c.text.set(id, v.Bytes(row))
	case dataflow.Decimal:
		c.nums[id] = v.Decimals[row]
	default:
		c.ints[id] = c.word(v, row)
	}
}

// word is row of v, which is not NULL, as it is kept in ints.
func (c *column) word(v *batch.Vector, row int) uint64 {
	switch c.typ.Kind {
	case dataflow.Float:
		if c.key {
			return floatKey(v.Floats[row])
		}
		return math.Float64bits(v.Floats[row])
	case dataflow.Bool:
		if v.Bits.Get(row) {
			return 1
		}
		return 0
	}
	return uint64(v.Ints[row])
}

// equal reports whether the value of id is that of row of v, NULL being equal to NULL.
func (c *column) equal(id int32, v *batch.Vector, row int) bool {
	null := v.IsNull(row)
	if c.nulls != nil && c.nulls[id] || null {
		return null && c.nulls != nil && c.nulls[id]
	}
	switch c.typ.Kind {
	case dataflow.String, dataflow.Bytes:
		return bytes.Equal(c.text.get(id), v.Bytes(row))
	case dataflow.Decimal:
		return c.nums[id] == v.Decimals[row]
	}
	return c.ints[id] == c.word(v, row)
}

// copyValue gives dst the value of src.
func (c *column) copyValue(dst, src int32) {
	if c.nulls != nil {
		c.nulls[dst] = c.nulls[src]
		if c.nulls[src] {
			return
		}
	}
	switch c.typ.Kind {
	case dataflow.String, dataflow.Bytes:
		c.text.set(dst, c.text.get(src))
	case dataflow.Decimal:
		c.nums[dst] = c.nums[src]
	default:
		c.ints[dst] = c.ints[src]
	}
}

// release forgets the values of the ids.
func (c *column) release(list []int32) {
	if c.text.refs != nil {
		c.text.release(list)
	}
}

// gather makes out the vector of the values of the ids.
func (c *column) gather(list []int32, out *batch.Vector) {
	valid := out.Valid
	out.Reset(c.typ, len(list))
	if c.nulls != nil {
		out.Valid = batch.GrowBitmap(valid, len(list))
		for i, id := range list {
			out.Valid.SetTo(i, !c.nulls[id])
		}
	}
	switch c.typ.Kind {
	case dataflow.String, dataflow.Bytes:
		for i, id := range list {
			if c.nulls == nil || !c.nulls[id] {
				out.Data = append(out.Data, c.text.get(id)...)
			}
			out.Offsets[i+1] = int32(len(out.Data))
		}
	case dataflow.Decimal:
		for i, id := range list {
			out.Decimals[i] = c.nums[id]
		}
	case dataflow.Float:
		for i, id := range list {
			out.Floats[i] = math.Float64frombits(c.ints[id])
		}
	case dataflow.Bool:
		for i, id := range list {
			out.Bits.SetTo(i, c.ints[id] != 0)
		}
	default:
		for i, id := range list {
			out.Ints[i] = int64(c.ints[id])
		}
	}
}

// size is the number of bytes of text that the id's value has.
func (c *column) size(id int32) int {
	if c.text.refs == nil || c.nulls != nil && c.nulls[id] {
		return 0
	}
	return int(c.text.refs[id].n)
}

// text holds one byte string for each id in a common buffer. What was replaced or released stays in
// the buffer as waste until there is more of it than of the rest.
type text struct {
	refs []textRef
	data []byte
	live int // bytes of data in use
}

type textRef struct {
	at int64
	n  int32
}

// wasteAllowed is how many bytes may lie idle in any case.
const wasteAllowed = 1 << 16

func (t *text) grow(n int) { t.refs = extend(t.refs, n) }

func (t *text) get(id int32) []byte {
	r := t.refs[id]
	return t.data[r.at : r.at+int64(r.n)]
}

// set stores a copy of b, which may be a part of the buffer.
func (t *text) set(id int32, b []byte) {
	r := &t.refs[id]
	t.live += len(b) - int(r.n)
	if len(b) <= int(r.n) {
		copy(t.data[r.at:r.at+int64(len(b))], b)
	} else {
		r.at = int64(len(t.data))
		t.data = append(t.data, b...)
	}
	r.n = int32(len(b))
	t.tidy()
}

func (t *text) release(list []int32) {
	for _, id := range list {
		t.live -= int(t.refs[id].n)
		t.refs[id] = textRef{}
	}
	t.tidy()
}

// tidy closes the gaps in the buffer if there are more of them than is worth the work.
func (t *text) tidy() {
	if len(t.data) <= 2*t.live+wasteAllowed+len(t.refs) {
		return
	}
	data := make([]byte, 0, t.live+t.live/2)
	for i, r := range t.refs {
		at := len(data)
		data = append(data, t.data[r.at:r.at+int64(r.n)]...)
		t.refs[i].at = int64(at)
	}
	t.data = data
}
