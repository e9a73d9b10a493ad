package window

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"sluice/dataflow"
	"sluice/dataflow/batch"
	"sluice/dataflow/decimal"
)

// encoder writes the parts of a piece of state one after the other. The decoder's methods of the same
// names read them. How many values an array has is written only by count; everybody else knows it.
//
//	uvarint   as in encoding/binary
//	count     an array of ints with its length before it; its values have at least a byte each, so that
//	          the length of a piece bounds the length of all arrays in it
//	ints      the bytes of a value: 0, 1, 2, 4 or 8; the least value, 8 bytes; the values less the least
//	bools     0: all false; 1: all true; 2: words of 64, the first value in the least bit
//	decimals  the low words as ints, then the high words
//	vector    which values are NULL, as bools; then the values as bools, ints (floats by their bits),
//	          decimals, or for text the lengths as ints and all the bytes
//
// Numbers have the least byte first. Values that are NULL are 0.
type encoder struct {
	out  []byte
	nums []int64 // for whoever gathers an array
	bits []bool
	err  error // what was written cannot be read
}

func (e *encoder) byte(b byte)      { e.out = append(e.out, b) }
func (e *encoder) uvarint(v uint64) { e.out = binary.AppendUvarint(e.out, v) }
func (e *encoder) word(v uint64)    { e.out = binary.LittleEndian.AppendUint64(e.out, v) }

// count writes an array and its length.
func (e *encoder) count(vals []int64) {
	e.uvarint(uint64(len(vals)))
	e.wide(vals, 1)
}

func (e *encoder) ints(vals []int64) { e.wide(vals, 0) }

// wide writes an array whose values have at least least bytes.
func (e *encoder) wide(vals []int64, least byte) {
	low, high := int64(0), int64(0)
	if len(vals) > 0 {
		low, high = slices.Min(vals), slices.Max(vals)
	}
	width := max(least, widthOf(uint64(high)-uint64(low)))
	e.byte(width)
	e.word(uint64(low))
	e.out = slices.Grow(e.out, len(vals)*int(width))
	switch width {
	case 1:
		for _, v := range vals {
			e.out = append(e.out, byte(v-low))
		}
	case 2:
		for _, v := range vals {
			e.out = binary.LittleEndian.AppendUint16(e.out, uint16(v-low))
		}
	case 4:
		for _, v := range vals {
			e.out = binary.LittleEndian.AppendUint32(e.out, uint32(v-low))
		}
	case 8:
		for _, v := range vals {
			e.out = binary.LittleEndian.AppendUint64(e.out, uint64(v-low))
		}
	}
}

// widthOf is how many bytes are used for numbers up to v.
func widthOf(v uint64) byte {
	switch {
	case v == 0:
		return 0
	case v <= math.MaxUint8:
		return 1
	case v <= math.MaxUint16:
		return 2
	case v <= math.MaxUint32:
		return 4
	}
	return 8
}

// The forms of bools.
const (
	allFalse byte = iota
	allTrue
	mixed
)

func (e *encoder) bools(vals []bool) {
	switch {
	case !slices.Contains(vals, true):
		e.byte(allFalse)
		return
	case !slices.Contains(vals, false):
		e.byte(allTrue)
		return
	}
	e.byte(mixed)
	for from := 0; from < len(vals); from += 64 {
		word := uint64(0)
		for i, v := range vals[from:min(from+64, len(vals))] {
			if v {
				word |= 1 << i
			}
		}
		e.word(word)
	}
}

func (e *encoder) decimals(vals []decimal.Num) {
	nums := e.scratch(len(vals))
	for i, v := range vals {
		nums[i] = int64(v.Lo)
	}
	e.ints(nums)
	for i, v := range vals {
		nums[i] = v.Hi
	}
	e.ints(nums)
}

// zeros writes an array of nothing but zeros.
func (e *encoder) zeros() { e.ints(nil) }

// scratch is room for n numbers, until the next call.
func (e *encoder) scratch(n int) []int64 {
	e.nums = extend(e.nums[:0], n)
	return e.nums
}

func (e *encoder) flags(n int) []bool {
	e.bits = extend(e.bits[:0], n)
	return e.bits
}

// gatherInts writes the elements of src that list names.
func gatherInts[T int64 | uint64 | int32](e *encoder, src []T, list []int32) {
	nums := e.scratch(len(list))
	for i, id := range list {
		nums[i] = int64(src[id])
	}
	e.ints(nums)
}

func gatherFloats(e *encoder, src []float64, list []int32) {
	nums := e.scratch(len(list))
	for i, id := range list {
		nums[i] = int64(math.Float64bits(src[id]))
	}
	e.ints(nums)
}

// vector writes all of v.
func (e *encoder) vector(v *batch.Vector) {
	null := e.flags(v.Len)
	for i := range null {
		null[i] = v.IsNull(i)
	}
	e.bools(null)
	switch v.Type.Kind {
	case dataflow.Bool:
		for i := range null {
			null[i] = !null[i] && v.Bits.Get(i)
		}
		e.bools(null)
	case dataflow.Decimal:
		vals := make([]decimal.Num, v.Len)
		for i := range vals {
			if !null[i] {
				vals[i] = v.Decimals[i]
			}
		}
		e.decimals(vals)
	case dataflow.String, dataflow.Bytes:
		e.texts(v, null)
	default:
		nums := e.scratch(v.Len)
		for i := range nums {
			switch {
			case null[i]:
				nums[i] = 0
			case v.Type.Kind == dataflow.Float:
				nums[i] = int64(math.Float64bits(v.Floats[i]))
			default:
				nums[i] = v.Ints[i]
			}
		}
		e.ints(nums)
	}
}

// checkText makes sure that a vector can hold texts of the given lengths. They can be too much where one
// key has many of them.
func (e *encoder) checkText(lengths []int64) {
	sum := int64(0)
	for _, n := range lengths {
		sum += n
	}
	if sum > math.MaxInt32 {
		e.err = fmt.Errorf("the state of one key has %d bytes of text, and %d is the most that can be kept", sum, math.MaxInt32)
	}
}

func (e *encoder) texts(v *batch.Vector, null []bool) {
	nums := e.scratch(v.Len)
	for i := range nums {
		if nums[i] = 0; !null[i] {
			nums[i] = int64(len(v.Bytes(i)))
		}
	}
	e.ints(nums)
	for i := range null {
		if !null[i] {
			e.out = append(e.out, v.Bytes(i)...)
		}
	}
}

// column writes the values of the ids, zero for those that unset (nil: none) marks, by place in ids.
func (e *encoder) column(c *column, ids []int32, unset []bool) {
	null := e.flags(len(ids))
	for i, id := range ids {
		null[i] = c.nulls != nil && c.nulls[id] && (unset == nil || !unset[i])
	}
	e.bools(null)
	for i := range null {
		null[i] = null[i] || unset != nil && unset[i]
	}
	switch c.typ.Kind {
	case dataflow.Bool:
		for i, id := range ids {
			null[i] = !null[i] && c.ints[id] != 0
		}
		e.bools(null)
	case dataflow.Decimal:
		vals := make([]decimal.Num, len(ids))
		for i, id := range ids {
			if !null[i] {
				vals[i] = c.nums[id]
			}
		}
		e.decimals(vals)
	case dataflow.String, dataflow.Bytes:
		nums := e.scratch(len(ids))
		for i, id := range ids {
			if nums[i] = 0; !null[i] {
				nums[i] = int64(c.text.refs[id].n)
			}
		}
		e.checkText(nums)
		e.ints(nums)
		for i, id := range ids {
			if !null[i] {
				e.out = append(e.out, c.text.get(id)...)
			}
		}
	default:
		nums := e.scratch(len(ids))
		for i, id := range ids {
			if nums[i] = 0; !null[i] {
				nums[i] = int64(c.ints[id])
			}
		}
		e.ints(nums)
	}
}
