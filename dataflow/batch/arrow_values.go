package batch

import (
	"fmt"
	"math"
	"math/big"
	"strconv"
	"unicode/utf8"
	"unsafe"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/float16"

	"sluice/dataflow"
	"sluice/dataflow/decimal"
)

type integer interface {
	int8 | int16 | int32 | int64 | uint8 | uint16 | uint32 | uint64
}

// loaderFor gives the function that reads values of an Arrow type into a column of type t, or nil if
// the column cannot hold them.
func loaderFor(dt arrow.DataType, t dataflow.Type) loadFunc {
	switch dt := dt.(type) {
	case *arrow.DictionaryType:
		if values := loaderFor(dt.ValueType, t); values != nil {
			return loadDictionary(values)
		}
		return nil
	case arrow.ExtensionType:
		if storage := loaderFor(dt.StorageType(), t); storage != nil {
			return loadExtension(dt.StorageType(), storage)
		}
		return nil
	case *arrow.NullType:
		return loadNull
	}
	switch t.Kind {
	case dataflow.Bool:
		if dt.ID() == arrow.BOOL {
			return loadBool
		}
	case dataflow.Int:
		return intLoader(dt.ID())
	case dataflow.Float:
		return floatLoader(dt.ID())
	case dataflow.Decimal:
		return decimalLoader(dt)
	case dataflow.String, dataflow.Bytes:
		return textLoader(dt)
	case dataflow.Timestamp:
		return timestampLoader(dt)
	case dataflow.Duration:
		return durationLoader(dt)
	}
	return nil
}

// valuesOf is the memory of the values in buffer 1 of d, extra more of them than d has rows. It is
// shared with d unless it is not aligned.
func valuesOf[T any](d arrow.ArrayData, extra int) []T {
	n := d.Len() + extra
	if n == 0 {
		return nil
	}
	var zero T
	size := int(unsafe.Sizeof(zero))
	b := d.Buffers()[1].Bytes()
	if d.Offset() > math.MaxInt/2/size || n > math.MaxInt/2/size || (d.Offset()+n)*size > len(b) {
		panic(fmt.Sprintf("%d values of %d bytes from %d on do not fit a buffer of %d bytes", n, size, d.Offset(), len(b)))
	}
	b = b[d.Offset()*size : (d.Offset()+n)*size]
	if uintptr(unsafe.Pointer(unsafe.SliceData(b)))%unsafe.Alignof(zero) != 0 {
		aligned := make([]T, n)
		copy(asBytes(aligned), b)
		return aligned
	}
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(b))), n)
}

// bitsOf is the bitmap in buffer k of d: shared with d if it starts at a whole word that is aligned
// and all of its last word is there; otherwise copied to buf. It returns buf as it may have grown.
func bitsOf(d arrow.ArrayData, k int, buf Bitmap) (bits, grown Bitmap) {
	n, off := d.Len(), d.Offset()
	if n == 0 {
		return Bitmap{}, buf
	}
	b := d.Buffers()[k].Bytes()
	if off > math.MaxInt/2 || (off+n+7)/8 > len(b) {
		panic(fmt.Sprintf("%d bits from %d on do not fit a buffer of %d bytes", n, off, len(b)))
	}
	b = b[off/8:]
	words := Words(n)
	if off%8 == 0 && len(b) >= words*8 && uintptr(unsafe.Pointer(unsafe.SliceData(b)))%8 == 0 {
		return unsafe.Slice((*uint64)(unsafe.Pointer(unsafe.SliceData(b))), words), buf
	}
	buf = GrowBitmap(buf, n)
	shift := uint(off % 8)
	for i := range buf {
		var w uint64
		for j := range 8 {
			at := i*8 + j
			if at >= len(b) {
				break
			}
			x := b[at] >> shift
			if shift != 0 && at+1 < len(b) {
				x |= b[at+1] << (8 - shift)
			}
			w |= uint64(x) << (8 * j)
		}
		buf[i] = w
	}
	return buf, buf
}

func loadBool(c *arrowColumn, d arrow.ArrayData, v *Vector) {
	v.Bits, c.own.Bits = bitsOf(d, 1, c.own.Bits)
}

func intLoader(id arrow.Type) loadFunc {
	switch id {
	case arrow.INT8:
		return loadInts[int8]
	case arrow.INT16:
		return loadInts[int16]
	case arrow.INT32:
		return loadInts[int32]
	case arrow.INT64:
		return func(_ *arrowColumn, d arrow.ArrayData, v *Vector) { v.Ints = valuesOf[int64](d, 0) }
	case arrow.UINT8:
		return loadInts[uint8]
	case arrow.UINT16:
		return loadInts[uint16]
	case arrow.UINT32:
		return loadInts[uint32]
	case arrow.UINT64:
		return loadUint64
	}
	return nil
}

func loadInts[T integer](c *arrowColumn, d arrow.ArrayData, v *Vector) {
	c.own.Ints = grow(c.own.Ints, v.Len)
	for i, x := range valuesOf[T](d, 0) {
		c.own.Ints[i] = int64(x)
	}
	v.Ints = c.own.Ints
}

func loadUint64(c *arrowColumn, d arrow.ArrayData, v *Vector) {
	v.Ints = valuesOf[int64](d, 0)
	for i, x := range v.Ints {
		if x < 0 && !v.IsNull(i) {
			c.bad(i, strconv.FormatUint(uint64(x), 10), "does not fit an int")
		}
	}
}

func floatLoader(id arrow.Type) loadFunc {
	switch id {
	case arrow.FLOAT16:
		return func(c *arrowColumn, d arrow.ArrayData, v *Vector) {
			c.own.Floats = grow(c.own.Floats, v.Len)
			for i, x := range valuesOf[float16.Num](d, 0) {
				c.own.Floats[i] = float64(x.Float32())
			}
			v.Floats = c.own.Floats
		}
	case arrow.FLOAT32:
		return loadFloats[float32]
	case arrow.FLOAT64:
		return func(_ *arrowColumn, d arrow.ArrayData, v *Vector) { v.Floats = valuesOf[float64](d, 0) }
	case arrow.INT8:
		return loadFloats[int8]
	case arrow.INT16:
		return loadFloats[int16]
	case arrow.INT32:
		return loadFloats[int32]
	case arrow.UINT8:
		return loadFloats[uint8]
	case arrow.UINT16:
		return loadFloats[uint16]
	case arrow.UINT32:
		return loadFloats[uint32]
	}
	return nil
}

func loadFloats[T float32 | int8 | int16 | int32 | uint8 | uint16 | uint32](c *arrowColumn, d arrow.ArrayData, v *Vector) {
	c.own.Floats = grow(c.own.Floats, v.Len)
	for i, x := range valuesOf[T](d, 0) {
		c.own.Floats[i] = float64(x)
	}
	v.Floats = c.own.Floats
}

// scaled reads integers as microseconds: times mul, then divided by div, one of which is 1.
func scaled[T int32 | int64](mul, div int64) loadFunc {
	return func(c *arrowColumn, d arrow.ArrayData, v *Vector) {
		src := valuesOf[T](d, 0)
		c.own.Ints = grow(c.own.Ints, v.Len)
		dst := c.own.Ints
		v.Ints = dst
		limit := math.MaxInt64 / mul
		for i, t := range src {
			x := int64(t)
			dst[i] = x / div * mul
			if (x > limit || x < -limit || x%div != 0) && !v.IsNull(i) {
				c.badTime(i, x, div)
			}
		}
	}
}

func (c *arrowColumn) badTime(row int, x, div int64) {
	if div > 1 {
		c.bad(row, strconv.FormatInt(x, 10)+"ns", "is finer than the microseconds of a "+c.typ.String())
		return
	}
	c.bad(row, strconv.FormatInt(x, 10), "is out of range for a "+c.typ.String())
}

func timestampLoader(dt arrow.DataType) loadFunc {
	switch dt := dt.(type) {
	case *arrow.TimestampType:
		return unitLoader[int64](dt.Unit)
	case *arrow.Date32Type:
		return scaled[int32](86400e6, 1)
	case *arrow.Date64Type:
		return scaled[int64](1000, 1)
	}
	return nil
}

func durationLoader(dt arrow.DataType) loadFunc {
	switch dt := dt.(type) {
	case *arrow.DurationType:
		return unitLoader[int64](dt.Unit)
	case *arrow.Time32Type:
		return unitLoader[int32](dt.Unit)
	case *arrow.Time64Type:
		return unitLoader[int64](dt.Unit)
	}
	return nil
}

func unitLoader[T int32 | int64](u arrow.TimeUnit) loadFunc {
	switch u {
	case arrow.Second:
		return scaled[T](1e6, 1)
	case arrow.Millisecond:
		return scaled[T](1000, 1)
	case arrow.Nanosecond:
		return scaled[T](1, 1000)
	default:
		return func(_ *arrowColumn, d arrow.ArrayData, v *Vector) { v.Ints = valuesOf[int64](d, 0) }
	}
}

// decimalLoader reads decimals of 32 to 256 bits.
func decimalLoader(dt arrow.DataType) loadFunc {
	t, ok := dt.(arrow.DecimalType)
	if !ok {
		return nil
	}
	return func(c *arrowColumn, d arrow.ArrayData, v *Vector) {
		if dt.ID() == arrow.DECIMAL128 {
			v.Decimals = valuesOf[decimal.Num](d, 0)
			if t.GetScale() == int32(c.typ.Scale) {
				c.checkDigits(v)
				return
			}
		}
		c.rescale(d, v, dt.ID(), t.GetScale())
	}
}

// powersOfTen has 10^i for each i up to 38.
var powersOfTen = func() (p [dataflow.MaxPrecision + 1]decimal.Num) {
	x := big.NewInt(1)
	for i := range p {
		p[i], _ = decimalFromBig(x)
		x.Mul(x, big.NewInt(10))
	}
	return p
}()

// checkDigits finds the values that have more digits than the type.
func (c *arrowColumn) checkDigits(v *Vector) {
	limit := powersOfTen[c.typ.Precision]
	for i, x := range v.Decimals {
		lo, hi := x.Lo, x.Hi
		if hi < 0 { // absolute value; the least number of all stays negative and is above any limit as unsigned
			lo = -lo
			hi = ^hi
			if lo == 0 {
				hi++
			}
		}
		if uint64(hi) < uint64(limit.Hi) || uint64(hi) == uint64(limit.Hi) && lo < limit.Lo || v.IsNull(i) {
			continue
		}
		c.bad(i, decimalText(bigFromWords(uint64(x.Hi), x.Lo), int32(c.typ.Scale)), "has too many digits for "+c.typ.String())
	}
}

// rescale reads decimals whose layout or scale is another. It is exact or an error, and slow.
func (c *arrowColumn) rescale(d arrow.ArrayData, v *Vector, id arrow.Type, scale int32) {
	c.own.Decimals = grow(c.own.Decimals, v.Len)
	v.Decimals = c.own.Decimals
	words := 1
	var raw []uint64
	var narrow []int32
	switch id {
	case arrow.DECIMAL32:
		narrow = valuesOf[int32](d, 0)
	case arrow.DECIMAL64:
		raw = wordsOf[[1]uint64](d)
	case arrow.DECIMAL128:
		words, raw = 2, wordsOf[[2]uint64](d)
	default:
		words, raw = 4, wordsOf[[4]uint64](d)
	}
	for i := range v.Decimals {
		if v.IsNull(i) {
			v.Decimals[i] = decimal.Num{}
			continue
		}
		var x *big.Int
		if narrow != nil {
			x = big.NewInt(int64(narrow[i]))
		} else {
			w := raw[i*words : (i+1)*words]
			rest := make([]uint64, 0, 4)
			for j := range w {
				rest = append(rest, w[len(w)-1-j])
			}
			x = bigFromWords(rest...)
		}
		num, ok := rescaleBig(x, scale, c.typ)
		v.Decimals[i] = num
		if !ok {
			c.bad(i, decimalText(x, scale), "has too many digits for "+c.typ.String())
		}
	}
}

// wordsOf is valuesOf for numbers of several words.
func wordsOf[T [1]uint64 | [2]uint64 | [4]uint64](d arrow.ArrayData) []uint64 {
	vals := valuesOf[T](d, 0)
	if len(vals) == 0 {
		return nil
	}
	return unsafe.Slice((*uint64)(unsafe.Pointer(unsafe.SliceData(vals))), len(vals)*int(unsafe.Sizeof(vals[0]))/8)
}

// rescaleBig gives an unscaled number of the given scale as one of decimal type t, if that is exact.
func rescaleBig(x *big.Int, scale int32, t dataflow.Type) (decimal.Num, bool) {
	by := int32(t.Scale) - scale
	if by < -100 || by > 100 {
		return decimal.Num{}, x.Sign() == 0
	}
	pow := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(max(by, -by))), nil)
	if by >= 0 {
		x = new(big.Int).Mul(x, pow)
	} else {
		var rest big.Int
		x, _ = new(big.Int).QuoRem(x, pow, &rest)
		if rest.Sign() != 0 {
			return decimal.Num{}, false
		}
	}
	limit := powersOfTen[t.Precision]
	if x.CmpAbs(bigFromWords(uint64(limit.Hi), limit.Lo)) >= 0 {
		return decimal.Num{}, false
	}
	return decimalFromBig(x)
}

// bigFromWords is the two's complement number with the given words, the highest first.
func bigFromWords(words ...uint64) *big.Int {
	x := new(big.Int).SetInt64(int64(words[0]))
	for _, w := range words[1:] {
		x.Lsh(x, 64)
		x.Add(x, new(big.Int).SetUint64(w))
	}
	return x
}

// decimalFromBig is x in 128 bits, if it fits.
func decimalFromBig(x *big.Int) (decimal.Num, bool) {
	if x.BitLen() > 127 {
		return decimal.Num{}, false
	}
	lo := new(big.Int).And(x, new(big.Int).SetUint64(math.MaxUint64))
	hi := new(big.Int).Rsh(x, 64)
	return decimal.Num{Lo: lo.Uint64(), Hi: hi.Int64()}, true
}

// decimalText writes a number for a message.
func decimalText(x *big.Int, scale int32) string {
	if scale <= 0 || scale > 100 {
		if scale == 0 {
			return x.String()
		}
		return fmt.Sprintf("%se%d", x, -scale)
	}
	digits := new(big.Int).Abs(x).String()
	for len(digits) <= int(scale) {
		digits = "0" + digits
	}
	sign := ""
	if x.Sign() < 0 {
		sign = "-"
	}
	return sign + digits[:len(digits)-int(scale)] + "." + digits[len(digits)-int(scale):]
}

func textLoader(dt arrow.DataType) loadFunc {
	var load loadFunc
	switch dt := dt.(type) {
	case *arrow.StringType, *arrow.BinaryType:
		load = loadText
	case *arrow.LargeStringType, *arrow.LargeBinaryType:
		load = loadLargeText
	case *arrow.StringViewType:
		load = func(c *arrowColumn, d arrow.ArrayData, v *Vector) { c.copyText(v, array.NewStringViewData(d).Value) }
	case *arrow.BinaryViewType:
		load = func(c *arrowColumn, d arrow.ArrayData, v *Vector) { c.copyBytes(v, array.NewBinaryViewData(d).Value) }
	case *arrow.FixedSizeBinaryType:
		load = fixedText(dt.ByteWidth)
	default:
		return nil
	}
	return func(c *arrowColumn, d arrow.ArrayData, v *Vector) {
		load(c, d, v)
		if c.typ.Kind == dataflow.String {
			c.checkUTF8(v)
		}
	}
}

func dataOf(d arrow.ArrayData) []byte {
	if b := d.Buffers()[2]; b != nil {
		return b.Bytes()
	}
	return nil
}

func loadText(c *arrowColumn, d arrow.ArrayData, v *Vector) {
	if v.Len == 0 {
		v.Offsets = []int32{0}
		return
	}
	offsets, data := valuesOf[int32](d, 1), dataOf(d)
	checkOffsets(offsets, len(data))
	v.Offsets, v.Data = offsets, data[:offsets[v.Len]]
}

func loadLargeText(c *arrowColumn, d arrow.ArrayData, v *Vector) {
	c.own.Offsets = grow(c.own.Offsets, v.Len+1)
	c.own.Offsets[0] = 0
	v.Offsets = c.own.Offsets
	if v.Len == 0 {
		return
	}
	offsets, data := valuesOf[int64](d, 1), dataOf(d)
	checkOffsets(offsets, len(data))
	base := offsets[0]
	boundText(v.Len, int(offsets[v.Len]-base))
	for i, o := range offsets {
		v.Offsets[i] = int32(o - base)
	}
	v.Data = data[base:offsets[v.Len]]
}

// checkOffsets makes sure that offsets rise and stay inside the data.
func checkOffsets[T int32 | int64](offsets []T, size int) {
	last := offsets[0]
	if last < 0 || int64(offsets[len(offsets)-1]) > int64(size) {
		panic("text offsets outside their buffer")
	}
	for _, o := range offsets[1:] {
		if o < last {
			panic("text offsets that fall")
		}
		last = o
	}
}

// copyText copies values that are not laid out as offsets and data.
func (c *arrowColumn) copyText(v *Vector, value func(int) string) {
	copyValues(c, v, func(buf []byte, i int) []byte { return append(buf, value(i)...) })
}

func (c *arrowColumn) copyBytes(v *Vector, value func(int) []byte) {
	copyValues(c, v, func(buf []byte, i int) []byte { return append(buf, value(i)...) })
}

func fixedText(width int) loadFunc {
	return func(c *arrowColumn, d arrow.ArrayData, v *Vector) {
		if v.Len == 0 {
			v.Offsets = []int32{0}
			return
		}
		b := d.Buffers()[1].Bytes()[d.Offset()*width:]
		copyValues(c, v, func(buf []byte, i int) []byte { return append(buf, b[i*width:(i+1)*width]...) })
	}
}

func copyValues(c *arrowColumn, v *Vector, appendTo func(buf []byte, i int) []byte) {
	c.own.Offsets = grow(c.own.Offsets, v.Len+1)
	v.Offsets, v.Data = c.own.Offsets, c.own.Data[:0]
	v.Offsets[0] = 0
	for i := range v.Len {
		if !v.IsNull(i) {
			v.Data = appendTo(v.Data, i)
			boundText(v.Len, len(v.Data))
		}
		v.Offsets[i+1] = int32(len(v.Data))
	}
	c.own.Data = v.Data
}

// checkUTF8 finds the values that are not UTF-8.
func (c *arrowColumn) checkUTF8(v *Vector) {
	if InvalidUTF8(v) < 0 {
		return
	}
	for i := range v.Len {
		if !v.IsNull(i) && !utf8.Valid(v.Bytes(i)) {
			c.bad(i, strconv.QuoteToASCII(string(v.Bytes(i))), "is not UTF-8")
		}
	}
}

// InvalidUTF8 returns the first row of a String vector whose value is not UTF-8, or -1. It looks at all
// the text at once, so it costs little where the text is in order.
func InvalidUTF8(v *Vector) int {
	text := v.Data[v.Offsets[0]:v.Offsets[v.Len]]
	if utf8.Valid(text) && startsOnRunes(v) {
		return -1
	}
	for i := range v.Len {
		if !v.IsNull(i) && !utf8.Valid(v.Bytes(i)) {
			return i
		}
	}
	return -1
}

// startsOnRunes reports whether no value starts within a character.
func startsOnRunes(v *Vector) bool {
	for _, o := range v.Offsets[:v.Len] {
		if int(o) < len(v.Data) && !utf8.RuneStart(v.Data[o]) {
			return false
		}
	}
	return true
}
