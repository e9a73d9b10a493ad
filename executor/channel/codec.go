package channel

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math/bits"
	"unsafe"

	"sluice/dataflow"
	"sluice/dataflow/batch"
	"sluice/dataflow/decimal"
)

const (
	// targetFrame is what a frame's size stays below unless a single row is larger, in bytes.
	targetFrame = 1 << 20
	// MaxFrame bounds a frame, in bytes.
	MaxFrame = 64 << 20
	// maxRows bounds the rows of a frame: it is what remains where columns take no memory.
	maxRows = 1 << 20
	// tableEntry is the size of what the body's table has for a column.
	tableEntry = 8
)

// codec turns batches of one schema into frames and back.
type codec struct {
	schema *dataflow.Schema
	sum    uint32 // of the schema's types
	target int    // targetFrame, but for tests
	most   int    // of a frame, in bytes
	cols   []columnSize
}

// columnSize is what an entry of a body's table says.
type columnSize struct {
	nulls bool
	text  int // bytes of text
}

func newCodec(s *dataflow.Schema) *codec {
	c := &codec{schema: s, target: targetFrame, most: MaxFrame, cols: make([]columnSize, len(s.Columns))}
	for i := range s.Columns {
		c.sum = crc32.Update(c.sum, castagnoli, append([]byte(s.Columns[i].Type.String()), 0))
	}
	return c
}

func pad(n int) int { return (n + 7) &^ 7 }

// rowBits is what a row takes of a frame besides its text, in bits.
func (c *codec) rowBits(b *batch.Batch) int {
	n := 0
	for i := range b.Cols {
		switch b.Cols[i].Type.Kind {
		case dataflow.Bool:
			n++
		case dataflow.Decimal:
			n += 128
		case dataflow.String, dataflow.Bytes:
			n += 32
		default:
			n += 64
		}
		if b.Cols[i].Valid != nil {
			n++
		}
	}
	if b.RowWatermarks != nil {
		n += 64
	}
	return n
}

// size is about what rows from to to of b, which has no selection, take of a frame; never less.
func (c *codec) size(b *batch.Batch, from, to, rowBits int) int {
	n := headSize + (tableEntry+32)*len(b.Cols) + rowBits*(to-from)/8
	for i := range b.Cols {
		if v := &b.Cols[i]; isText(v.Type) {
			n += int(v.Offsets[to]) - int(v.Offsets[from])
		}
	}
	return n
}

func isText(t dataflow.Type) bool { return t.Kind == dataflow.String || t.Kind == dataflow.Bytes }

// cut is up to where rows of b fit a frame that begins at from: at least one.
func (c *codec) cut(b *batch.Batch, from int) int {
	rowBits := c.rowBits(b)
	to := min(b.Len, from+maxRows)
	if c.size(b, from, to, rowBits) <= c.target {
		return to
	}
	fits, not := from, to // invariant: rows to fits fit, rows to not do not
	for fits+1 < not {
		mid := (fits + not) / 2
		if c.size(b, from, mid, rowBits) <= c.target {
			fits = mid
		} else {
			not = mid
		}
	}
	return max(fits, from+1)
}

// encode makes a frame of rows from to to of b, which has no selection. h has all but the fields that
// say how the body looks. NULLs are sent as zeros, so equal rows make equal frames. view becomes a view
// of the frame's rows.
func (c *codec) encode(h *header, b *batch.Batch, from, to int, view *batch.Batch) ([]byte, error) {
	n := to - from
	size := tableEntry * len(c.cols)
	for i := range c.cols {
		col, v := &c.cols[i], &b.Cols[i]
		col.nulls = v.Valid != nil && !allSet(v.Valid, from, to)
		if col.nulls && (!c.schema.Columns[i].Nullable || c.schema.Columns[i].EventTime) {
			return nil, fmt.Errorf("channel: NULL in column %q, which has none", c.schema.Columns[i].Name)
		}
		col.text = textSize(v, from, to, col.nulls)
		size += col.size(v.Type, n)
	}
	if b.RowWatermarks != nil {
		size += 8 * n
		h.flags |= flagRowWatermarks
	}
	if headSize+size > c.most {
		return nil, fmt.Errorf("%w: a row has %d bytes, and a message between processes at most %d: make its text shorter, or "+
			"choose a transport that carries more (udp carries least)", ErrTooLarge, size, c.most-headSize)
	}
	msg := make([]byte, headSize+size)
	body := msg[headSize:]
	for i, col := range c.cols {
		binary.LittleEndian.PutUint32(body[tableEntry*i:], flagOf(col.nulls))
		binary.LittleEndian.PutUint32(body[tableEntry*i+4:], uint32(col.text))
	}
	h.rows, h.watermark, h.columns, h.schema = uint32(n), b.Watermark, uint16(len(c.cols)), c.sum
	if err := c.place(h, body, view); err != nil {
		return nil, err
	}
	for i := range c.cols {
		fill(&view.Cols[i], &b.Cols[i], from, to)
	}
	if b.RowWatermarks != nil {
		copy(view.RowWatermarks, b.RowWatermarks[from:to])
	}
	h.body, h.bodySum = uint32(size), crc32.Checksum(body, castagnoli)
	h.put(msg)
	return msg, nil
}

func flagOf(b bool) uint32 {
	if b {
		return 1
	}
	return 0
}

// size is what n rows of the column take of a body.
func (s *columnSize) size(t dataflow.Type, n int) int {
	size := 0
	if s.nulls {
		size = 8 * batch.Words(n)
	}
	switch t.Kind {
	case dataflow.Bool:
		return size + 8*batch.Words(n)
	case dataflow.Decimal:
		return size + 16*n
	case dataflow.String, dataflow.Bytes:
		return size + pad(4*(n+1)) + pad(s.text)
	}
	return size + 8*n
}

// decode makes view a view of the rows of a frame, whose header is h. msg must be aligned.
func (c *codec) decode(h *header, msg []byte, view *batch.Batch) error {
	body := msg[headSize:]
	if h.schema != c.sum || int(h.columns) != len(c.cols) {
		return fmt.Errorf("%w: a frame of %d columns whose types have checksum %08x, where the stream has %d and %08x",
			ErrSchema, h.columns, h.schema, len(c.cols), c.sum)
	}
	if crc32.Checksum(body, castagnoli) != h.bodySum {
		return fmt.Errorf("%w: the checksum of the body is wrong", ErrDamaged)
	}
	if err := c.place(h, body, view); err != nil {
		return err
	}
	for i := range view.Cols {
		v, col := &view.Cols[i], &c.schema.Columns[i]
		if v.Valid != nil && (!col.Nullable || col.EventTime) {
			return fmt.Errorf("%w: NULL in column %q, which has none", ErrDamaged, col.Name)
		}
		if isText(v.Type) && !inOrder(v) {
			return fmt.Errorf("%w: text of column %q out of order", ErrDamaged, col.Name)
		}
	}
	return nil
}

// place lays the vectors of view over a body, by its table and what the header says of it. Nothing is
// outside the body, whatever the table says.
func (c *codec) place(h *header, body []byte, view *batch.Batch) error {
	n := int(h.rows)
	view.Schema, view.Len, view.Sel, view.Watermark, view.RowWatermarks = c.schema, n, nil, h.watermark, nil
	if cap(view.Cols) < len(c.cols) {
		view.Cols = make([]batch.Vector, len(c.cols))
	}
	view.Cols = view.Cols[:len(c.cols)]
	if len(body) < tableEntry*len(c.cols) {
		return fmt.Errorf("%w: no room for %d columns", ErrDamaged, len(c.cols))
	}
	rest := body[tableEntry*len(c.cols):]
	for i := range c.cols {
		flags := binary.LittleEndian.Uint32(body[tableEntry*i:])
		text := int(binary.LittleEndian.Uint32(body[tableEntry*i+4:]))
		t := c.schema.Columns[i].Type
		if flags > 1 || text > 0 && !isText(t) {
			return fmt.Errorf("%w: the table has flags %#x and %d bytes of text for column %d", ErrDamaged, flags, text, i)
		}
		size := columnSize{nulls: flags != 0, text: text}
		need := size.size(t, n)
		if need > len(rest) {
			return fmt.Errorf("%w: column %d needs %d bytes, there are %d", ErrDamaged, i, need, len(rest))
		}
		placeColumn(&view.Cols[i], t, n, size, rest[:need])
		rest = rest[need:]
	}
	if h.flags&flagRowWatermarks != 0 && len(rest) >= 8*n {
		view.RowWatermarks = cast[int64](rest, n)
		rest = rest[8*n:]
	}
	if len(rest) != 0 || h.flags&flagRowWatermarks != 0 && view.RowWatermarks == nil {
		return fmt.Errorf("%w: %d bytes behind the columns", ErrDamaged, len(rest))
	}
	return nil
}

// placeColumn lays a vector of n rows over memory of the right size.
func placeColumn(v *batch.Vector, t dataflow.Type, n int, size columnSize, mem []byte) {
	*v = batch.Vector{Type: t, Len: n}
	if size.nulls {
		words := batch.Words(n)
		v.Valid, mem = cast[uint64](mem, words), mem[8*words:]
	}
	switch t.Kind {
	case dataflow.Bool:
		v.Bits = cast[uint64](mem, batch.Words(n))
	case dataflow.Float:
		v.Floats = cast[float64](mem, n)
	case dataflow.Decimal:
		v.Decimals = cast[decimal.Num](mem, n)
	case dataflow.String, dataflow.Bytes:
		v.Offsets = cast[int32](mem, n+1)
		start := pad(4 * (n + 1))
		v.Data = mem[start : start+size.text : start+size.text]
	default:
		v.Ints = cast[int64](mem, n)
	}
}

// cast is the first n values of aligned memory.
func cast[T any](mem []byte, n int) []T {
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(mem))), n)
}

// aligned returns msg, or a copy of it, whose memory begins at a multiple of 8.
func aligned(msg []byte) []byte {
	if uintptr(unsafe.Pointer(unsafe.SliceData(msg)))%8 == 0 {
		return msg
	}
	return append(make([]byte, 0, len(msg)), msg...)
}

// inOrder reports whether a text vector's offsets begin at 0, rise and end inside the data.
func inOrder(v *batch.Vector) bool {
	last, falls := int32(0), int32(0)
	for _, o := range v.Offsets {
		falls |= o - last // the sign bit stays if any difference, of numbers that are not negative, is
		falls |= o
		last = o
	}
	return falls >= 0 && v.Offsets[0] == 0 && int(last) <= len(v.Data)
}

// allSet reports whether bits from to to of m are set.
func allSet(m batch.Bitmap, from, to int) bool {
	for at := from; at < to; at += 64 {
		if n := min(64, to-at); bits.OnesCount64(bitsAt(m, at, to)) != n {
			return false
		}
	}
	return true
}

// bitsAt is bits at to at+63 of m, those from end on as zeros.
func bitsAt(m batch.Bitmap, at, end int) uint64 {
	w := m[at/64] >> (uint(at) % 64)
	if at%64 != 0 && at/64+1 < batch.Words(end) {
		w |= m[at/64+1] << (64 - uint(at)%64)
	}
	if n := end - at; n < 64 {
		w &= 1<<uint(n) - 1
	}
	return w
}

// textSize is how many bytes of text the rows that are not NULL have.
func textSize(v *batch.Vector, from, to int, nulls bool) int {
	if !isText(v.Type) {
		return 0
	}
	size := int(v.Offsets[to]) - int(v.Offsets[from])
	if !nulls {
		return size
	}
	for at := from; at < to; at += 64 {
		for null := ^bitsAt(v.Valid, at, to); null != 0; null &= null - 1 {
			row := at + bits.TrailingZeros64(null)
			if row >= to {
				break
			}
			size -= int(v.Offsets[row+1] - v.Offsets[row])
		}
	}
	return size
}

// fill copies rows from to to of src into dst, which has room for them.
func fill(dst, src *batch.Vector, from, to int) {
	for i := range dst.Valid {
		dst.Valid[i] = bitsAt(src.Valid, from+64*i, to)
	}
	switch dst.Type.Kind {
	case dataflow.Bool:
		for i := range dst.Bits {
			dst.Bits[i] = bitsAt(src.Bits, from+64*i, to)
			if dst.Valid != nil {
				dst.Bits[i] &= dst.Valid[i]
			}
		}
	case dataflow.Float:
		copy(dst.Floats, src.Floats[from:to])
		zeroNulls(dst.Floats, dst.Valid)
	case dataflow.Decimal:
		copy(dst.Decimals, src.Decimals[from:to])
		zeroNulls(dst.Decimals, dst.Valid)
	case dataflow.String, dataflow.Bytes:
		fillText(dst, src, from, to)
	default:
		copy(dst.Ints, src.Ints[from:to])
		zeroNulls(dst.Ints, dst.Valid)
	}
}

func zeroNulls[T any](s []T, valid batch.Bitmap) {
	var zero T
	for i, w := range valid {
		for null := ^w; null != 0; null &= null - 1 {
			row := 64*i + bits.TrailingZeros64(null)
			if row >= len(s) {
				break
			}
			s[row] = zero
		}
	}
}

// fillText copies text; what a NULL row has of it is left out.
func fillText(dst, src *batch.Vector, from, to int) {
	offsets := src.Offsets[from : to+1]
	first := offsets[0]
	if len(dst.Data) == int(offsets[to-from]-first) {
		for i, o := range offsets {
			dst.Offsets[i] = o - first
		}
		copy(dst.Data, src.Data[first:])
		return
	}
	at := 0
	for i := range to - from {
		if dst.Valid.Get(i) {
			at += copy(dst.Data[at:], src.Bytes(from+i))
		}
		dst.Offsets[i+1] = int32(at)
	}
}
