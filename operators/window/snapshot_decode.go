package window

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"unicode/utf8"

	"sluice/dataflow"
	"sluice/dataflow/batch"
	"sluice/dataflow/decimal"
)

// decoder reads what an encoder wrote. It trusts nothing: after the first fault, which is err, all
// that it gives is zero. Arrays have the length asked for in any case.
type decoder struct {
	in      []byte
	err     error
	reached int64 // the watermark in the piece
}

var errShort = errors.New("it is too short")

// fail notes a fault unless there is one already.
func (d *decoder) fail(err error) {
	if d.err == nil {
		d.err = err
	}
	d.in = nil
}

func (d *decoder) failf(format string, args ...any) { d.fail(fmt.Errorf(format, args...)) }

// take gives the next n bytes, or nil.
func (d *decoder) take(n int) []byte {
	if n < 0 || n > len(d.in) {
		d.fail(errShort)
		return nil
	}
	b := d.in[:n]
	d.in = d.in[n:]
	return b
}

func (d *decoder) byte() byte {
	if b := d.take(1); b != nil {
		return b[0]
	}
	return 0
}

func (d *decoder) word() uint64 {
	if b := d.take(8); b != nil {
		return binary.LittleEndian.Uint64(b)
	}
	return 0
}

// uvarint reads a number up to most.
func (d *decoder) uvarint(most int) int {
	v, n := binary.Uvarint(d.in)
	if n <= 0 {
		d.fail(errShort)
		return 0
	}
	if v > uint64(most) {
		d.failf("it has a number of %d where %d is the most", v, most)
		return 0
	}
	d.in = d.in[n:]
	return int(v)
}

// count reads an array with its length; the length is bounded by that of the piece.
func (d *decoder) count() []int64 {
	n := d.uvarint(min(len(d.in), math.MaxInt32))
	if n > 0 && len(d.in) > 0 && d.in[0] == 0 {
		d.failf("an array of %d has no values", n)
	}
	return d.ints(n)
}

func (d *decoder) ints(n int) []int64 {
	vals := make([]int64, n)
	width := d.byte()
	low := d.word()
	if width > 8 || width&(width-1) != 0 {
		d.failf("it has values of %d bytes", width)
	}
	b := d.take(n * int(width))
	if d.err != nil {
		return vals
	}
	switch width {
	case 0:
		for i := range vals {
			vals[i] = int64(low)
		}
	case 1:
		for i := range vals {
			vals[i] = int64(low + uint64(b[i]))
		}
	case 2:
		for i := range vals {
			vals[i] = int64(low + uint64(binary.LittleEndian.Uint16(b[2*i:])))
		}
	case 4:
		for i := range vals {
			vals[i] = int64(low + uint64(binary.LittleEndian.Uint32(b[4*i:])))
		}
	default:
		for i := range vals {
			vals[i] = int64(low + binary.LittleEndian.Uint64(b[8*i:]))
		}
	}
	return vals
}

// within is ints of which each must be from low to high.
func (d *decoder) within(n int, low, high int64, what string) []int64 {
	return d.check(d.ints(n), low, high, what)
}

func (d *decoder) check(vals []int64, low, high int64, what string) []int64 {
	for i, v := range vals {
		if v < low || v > high {
			d.failf("it has %s of %d", what, v)
			clear(vals[i:])
			break
		}
	}
	return vals
}

func (d *decoder) bools(n int) []bool {
	vals := make([]bool, n)
	switch form := d.byte(); form {
	case allFalse:
	case allTrue:
		for i := range vals {
			vals[i] = true
		}
	case mixed:
		b := d.take(8 * batch.Words(n))
		for i := range vals {
			vals[i] = b != nil && b[i/8]>>(i%8)&1 != 0
		}
	default:
		d.failf("it has truth values of form %d", form)
	}
	return vals
}

func (d *decoder) floats(n int) []float64 {
	vals := make([]float64, n)
	for i, v := range d.ints(n) {
		vals[i] = math.Float64frombits(uint64(v))
	}
	return vals
}

func (d *decoder) decimals(n int) []decimal.Num {
	vals := make([]decimal.Num, n)
	for i, v := range d.ints(n) {
		vals[i].Lo = uint64(v)
	}
	for i, v := range d.ints(n) {
		vals[i].Hi = v
	}
	return vals
}

// vector reads a vector of n rows.
func (d *decoder) vector(t dataflow.Type, n int) *batch.Vector {
	v := &batch.Vector{}
	v.Reset(t, n)
	null := d.bools(n)
	for i := range null {
		if !null[i] {
			continue
		}
		if v.Valid == nil {
			v.Valid = batch.GrowBitmap(nil, n)
			v.Valid.Fill(n, true)
		}
		v.Valid.Clear(i)
	}
	switch t.Kind {
	case dataflow.Bool:
		for i, b := range d.bools(n) {
			v.Bits.SetTo(i, b)
		}
	case dataflow.Float:
		v.Floats = d.floats(n)
	case dataflow.Decimal:
		v.Decimals = d.decimals(n)
		for _, x := range v.Decimals {
			if !decimal.Fits(x, t.Precision) {
				d.failf("it has a value that is out of the range of %s", t)
				clear(v.Decimals)
				break
			}
		}
	case dataflow.String, dataflow.Bytes:
		d.texts(v)
	default:
		v.Ints = d.ints(n)
	}
	return v
}

func (d *decoder) texts(v *batch.Vector) {
	clear(v.Offsets)
	at := int64(0)
	for i, n := range d.within(v.Len, 0, math.MaxInt32, "a length") {
		if at += n; at > math.MaxInt32 {
			d.fail(errShort)
			clear(v.Offsets)
			return
		}
		v.Offsets[i+1] = int32(at)
	}
	v.Data = append(v.Data, d.take(int(at))...)
	if d.err != nil {
		clear(v.Offsets)
		return
	}
	if v.Type.Kind != dataflow.String {
		return
	}
	for i := range v.Len {
		if !utf8.Valid(v.Bytes(i)) {
			d.failf("it has a string that is not UTF-8")
			return
		}
	}
}

// end checks that everything has been read.
func (d *decoder) end() error {
	if d.err == nil && len(d.in) > 0 {
		d.failf("it has %d bytes too many", len(d.in))
	}
	return d.err
}
