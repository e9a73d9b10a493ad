package file

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strconv"
	"unsafe"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"sluice/dataflow/batch"
)

// maxParquetText bounds the text of one column of a chunk, in bytes.
const maxParquetText = 4 * batch.MaxDataBytes

var errParquetText = errors.New("too much text in a few rows")

// readText reads n rows of byte arrays as the column's type: text, decimals or half floats. values is
// scratch memory of n. It reads within pages, for the values point into them.
func readText[T ~[]byte](c *parquetColumn, cell *parquetCell, n int, values []T, read readFunc[T]) (*memory.Buffer, batch.Bitmap, error) {
	levels := c.levelsFor(n)
	w := c.textWriter(cell, n)
	nulls := false
	for rows := 0; rows < n; {
		var defs []int16
		if levels != nil {
			defs = levels[rows:]
		}
		r, got, err := read(int64(n-rows), values, defs, nil)
		if err != nil {
			return nil, nil, err
		}
		if r == 0 {
			return nil, nil, c.short()
		}
		at := rows
		rows += int(r)
		if got == int(r) {
			err = putValues(w, cell, at, values[:got])
		} else {
			nulls = true
			err = putSparse(w, cell, at, values[:got], defs[:r])
		}
		if err != nil {
			return nil, nil, err
		}
	}
	var valid batch.Bitmap
	if nulls {
		cell.valid = batch.GrowBitmap(cell.valid, n)
		levelBits(cell.valid, levels)
		valid = cell.valid
	}
	return w.buffer(cell), valid, nil
}

// textKind is what byte arrays are made into.
type textKind uint8

const (
	asText    textKind = iota // offsets and data
	asHalf                    // half floats
	asDecimal                 // decimals of two words
	asWide                    // decimals of four words
)

func (c *parquetColumn) textWriter(cell *parquetCell, n int) textKind {
	switch c.typ.ID() {
	case arrow.DECIMAL128:
		cell.words = resize(cell.words, 2*n)
		return asDecimal
	case arrow.DECIMAL256:
		cell.words = resize(cell.words, 4*n)
		return asWide
	case arrow.FLOAT16:
		cell.halves = resize(cell.halves, n)
		return asHalf
	}
	cell.offsets = resize(cell.offsets, n+1)
	cell.offsets[0] = 0
	cell.data = cell.data[:0]
	return asText
}

func (k textKind) buffer(cell *parquetCell) *memory.Buffer {
	switch k {
	case asText:
		return memory.NewBufferBytes(asBytes(cell.offsets))
	case asHalf:
		return memory.NewBufferBytes(asBytes(cell.halves))
	}
	return memory.NewBufferBytes(asBytes(cell.words))
}

// putValues stores values as those of the rows from at on.
func putValues[T ~[]byte](k textKind, cell *parquetCell, at int, values []T) error {
	if k != asText {
		for i, v := range values {
			if err := putNumber(k, cell, at+i, v); err != nil {
				return err
			}
		}
		return nil
	}
	data, offsets := cell.data, cell.offsets[at+1:at+1+len(values)]
	for i, v := range values {
		data = append(data, v...)
		offsets[i] = int32(len(data))
		if len(data) > maxParquetText {
			return errParquetText
		}
	}
	cell.data = data
	return nil
}

// putSparse stores values as those of the rows from at on whose level says that they have one.
func putSparse[T ~[]byte](k textKind, cell *parquetCell, at int, values []T, levels []int16) error {
	for i, l := range levels {
		if l != 0 {
			if len(values) == 0 {
				return errors.New("fewer values than the levels tell of")
			}
			if err := putValues(k, cell, at+i, values[:1]); err != nil {
				return err
			}
			values = values[1:]
		} else if k == asText {
			cell.offsets[at+i+1] = int32(len(cell.data))
		}
	}
	return nil
}

func putNumber[T ~[]byte](k textKind, cell *parquetCell, row int, v T) error {
	if k == asHalf {
		if len(v) != 2 {
			return fmt.Errorf("a half float of %d bytes", len(v))
		}
		cell.halves[row] = binary.LittleEndian.Uint16(v)
		return nil
	}
	n := 2
	if k == asWide {
		n = 4
	}
	return bigEndian(cell.words[n*row:n*row+n], v)
}

// bigEndian reads a two's complement number of any length, the highest byte first, into words, the
// lowest word first.
func bigEndian(words []uint64, v []byte) error {
	var fill byte
	if len(v) > 0 && v[0] >= 0x80 {
		fill = 0xff
	}
	for len(v) > 8*len(words) {
		if v[0] != fill || v[1]>>7 != fill>>7 {
			return fmt.Errorf("a decimal of more than %d bytes", 8*len(words))
		}
		v = v[1:]
	}
	for i := range words {
		w := uint64(0)
		for j := range 8 {
			b := fill
			if at := len(v) - 1 - 8*i - j; at >= 0 {
				b = v[at]
			}
			w |= uint64(b) << (8 * j)
		}
		words[i] = w
	}
	return nil
}

// julianEpoch is 1970-01-01 as a Julian day number.
const julianEpoch = 2440588

// fromInt96 turns the old timestamps of nanoseconds in a day and Julian day into microseconds.
func (c *parquetColumn) fromInt96(cell *parquetCell, valid batch.Bitmap) {
	cell.int64s = resize(cell.int64s, len(c.int96s))
	for i := range c.int96s {
		if valid != nil && !valid.Get(i) {
			continue
		}
		v := &c.int96s[i]
		nanos := int64(binary.LittleEndian.Uint64(v[:8]))
		days := int64(binary.LittleEndian.Uint32(v[8:])) - julianEpoch
		const perDay int64 = 86400e6
		if days > math.MaxInt64/perDay-1 || nanos < 0 || nanos >= 1000*perDay || nanos%1000 != 0 {
			text := strconv.FormatInt(nanos, 10) + "ns of day " + strconv.FormatInt(days, 10)
			cell.bad = append(cell.bad, batch.RowError{Row: i, Value: text,
				Reason: fmt.Sprintf("column %q: %s is out of range or finer than the microseconds of a timestamp", c.name, text)})
		}
		cell.int64s[i] = days*perDay + nanos/1000
	}
}

// asBytes is the memory of s.
func asBytes[T any](s []T) []byte {
	if len(s) == 0 {
		return []byte{}
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(s))), len(s)*int(unsafe.Sizeof(s[0])))
}
