package file

import (
	"bytes"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/zeebo/xxh3"

	"sluice/dataflow/batch"
)

// A dictionary has at most this many values and bytes; a power of two.
const (
	dictValues = 16 << 10
	dictBytes  = 512 << 10
)

// dictTrial is after how many rows more than half of which are new a dictionary is given up.
const dictTrial = 4096

// textDict finds the distinct values of text columns. Its memory is used again and again.
type textDict struct {
	slots   []dictSlot // open addressing, twice as many as values
	codes   []int32
	offsets []int32
	data    []byte
}

// dictSlot is a place of the hash table; code is one more than the value's place in the dictionary.
type dictSlot struct {
	hash uint32
	code int32
}

// encode gives the rows of v, a text vector whose Arrow type is dt, as a dictionary array; nil if a
// dictionary does not pay. It shares memory with v and is valid until the next call.
func (d *textDict) encode(v *batch.Vector, dt arrow.DataType) arrow.Array {
	if !d.build(v) {
		return nil
	}
	nulls, valid := 0, (*memory.Buffer)(nil)
	if v.Valid != nil {
		nulls, valid = v.Len-v.Valid.Count(v.Len), memory.NewBufferBytes(asBytes(v.Valid[:batch.Words(v.Len)]))
	}
	values := array.NewData(dt, len(d.offsets)-1,
		[]*memory.Buffer{nil, memory.NewBufferBytes(asBytes(d.offsets)), memory.NewBufferBytes(d.data)}, nil, 0, 0)
	return array.NewDictionaryData(array.NewDataWithDictionary(
		&arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int32, ValueType: dt}, v.Len,
		[]*memory.Buffer{valid, memory.NewBufferBytes(asBytes(d.codes))}, nulls, 0, values))
}

// build fills in codes, offsets and data, and reports whether a dictionary pays.
func (d *textDict) build(v *batch.Vector) bool {
	if d.slots == nil {
		d.slots = make([]dictSlot, 2*dictValues)
	}
	clear(d.slots)
	d.codes = resize(d.codes, v.Len)
	d.offsets, d.data = append(d.offsets[:0], 0), d.data[:0]
	rows := 0
	for i := range d.codes {
		if v.IsNull(i) {
			d.codes[i] = 0
			continue
		}
		rows++
		d.codes[i] = d.code(v.Bytes(i))
		n := len(d.offsets) - 1
		if n > dictValues-1 || len(d.data) > dictBytes || rows == dictTrial && n > rows/2 {
			return false
		}
	}
	return rows > 0 && len(d.offsets)-1 <= rows/2+1
}

// code is the place of a value in the dictionary, to which it is added if it is new.
func (d *textDict) code(value []byte) int32 {
	h := uint32(xxh3.Hash(value))
	for at := h % uint32(len(d.slots)); ; at = (at + 1) % uint32(len(d.slots)) {
		s := &d.slots[at]
		if s.code == 0 {
			d.data = append(d.data, value...)
			d.offsets = append(d.offsets, int32(len(d.data)))
			*s = dictSlot{h, int32(len(d.offsets) - 1)}
			return s.code - 1
		}
		if s.hash == h && bytes.Equal(value, d.data[d.offsets[s.code-1]:d.offsets[s.code]]) {
			return s.code - 1
		}
	}
}
