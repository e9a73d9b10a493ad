package file

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"

	"sluice/dataflow"
	"sluice/dataflow/batch"
)

var (
	errDecoderClosed = errors.New("the decoder is closed")
	errUTF8          = errors.New("is not UTF-8")
)

// textChunk is a Chunk that is being filled by a decoder of text. Row numbers count the rows that were
// put into the batch, those that turned out to be bad afterwards too.
type textChunk struct {
	Chunk
	rows  *batch.Batch
	room  int            // rows that there is room for
	good  *batch.Batch   // rows without the bad ones, where there are some
	valid []batch.Bitmap // memory for the columns' validity
	bad   []badText
	sel   []int32
	gone  batch.Batch // stands for a batch that has been given away
}

// badText is a row that is bad.
type badText struct {
	row        int // the row's number if it was put into the batch, else that of the row after it
	inBatch    bool
	start, end int // in the block, without the line end
	reason     string
}

// newChunk adds an empty chunk, the first row of which stands at pos, to b.
func (b *textBlock) newChunk(s *dataflow.Schema, pos int) *textChunk {
	if b.used == len(b.chunks) {
		c := &textChunk{}
		c.detach = c.give
		b.chunks = append(b.chunks, c)
	}
	c := b.chunks[b.used]
	if c.rows == nil || c.rows.Schema != s {
		c.rows, c.valid = batch.New(s), make([]batch.Bitmap, len(s.Columns))
	}
	b.used++
	c.room = min(batch.TargetRows, b.lines)
	for i := range c.rows.Cols {
		c.rows.Cols[i].Reset(s.Columns[i].Type, c.room)
	}
	c.bad = c.bad[:0]
	c.Bad = c.Bad[:0]
	c.Offset = b.offset + int64(pos)
	c.Line = b.line + int64(bytes.Count(b.buf[:pos], newline))
	return c
}

// give implements Chunk.detach.
func (c *textChunk) give(spare *batch.Batch) *batch.Batch {
	given := c.Batch
	c.gone = batch.Batch{Schema: given.Schema, Len: given.Len}
	c.Batch = &c.gone
	if given == c.good {
		c.good = spare
		return given
	}
	c.rows = spare
	for i := range c.valid {
		c.valid[i] = nil // it may be the batch's
		if spare != nil {
			c.valid[i] = spare.Cols[i].Valid
		}
	}
	return given
}

// setEnds says where the chunks end.
func (b *textBlock) setEnds() {
	for i, c := range b.chunks[:b.used] {
		c.End = b.end
		if i+1 < b.used {
			c.End = b.chunks[i+1].Offset
		}
	}
}

// addTooLong makes the one chunk of a block that is the start of a row that is too large.
func (b *textBlock) addTooLong(s *dataflow.Schema, limit int) {
	c := b.newChunk(s, 0)
	c.finish(b, 0)
	c.Bad = append(c.Bad, BadRow{Line: b.line, Raw: b.buf[:b.n], Reason: fmt.Sprintf("the row is longer than %d bytes", limit)})
}

// setNull makes a row of a column NULL. For text the caller sets the offset.
func (c *textChunk) setNull(col, row int) {
	v := &c.rows.Cols[col]
	if v.Valid == nil {
		c.valid[col] = batch.GrowBitmap(c.valid[col], c.room)
		v.Valid = c.valid[col]
		v.Valid.Fill(c.room, true)
	}
	v.Valid.Clear(row)
}

// finish makes a batch of the first n rows without the bad ones, and lists those.
func (c *textChunk) finish(b *textBlock, n int) {
	c.rows.Len = n
	for i := range c.rows.Cols {
		setLen(&c.rows.Cols[i], n)
	}
	c.Batch = c.rows
	if len(c.bad) > 0 {
		c.takeOut(b, n)
	}
}

// setLen makes v, which has room for more, a vector of n rows.
func setLen(v *batch.Vector, n int) {
	v.Len = n
	if v.Valid != nil {
		v.Valid = v.Valid[:batch.Words(n)]
	}
	switch v.Type.Kind {
	case dataflow.Bool:
		v.Bits = v.Bits[:batch.Words(n)]
	case dataflow.Int, dataflow.Timestamp, dataflow.Duration:
		v.Ints = v.Ints[:n]
	case dataflow.Float:
		v.Floats = v.Floats[:n]
	case dataflow.Decimal:
		v.Decimals = v.Decimals[:n]
	case dataflow.String, dataflow.Bytes:
		v.Offsets = v.Offsets[:n+1]
		v.Data = v.Data[:v.Offsets[n]] // a bad row may have left more
	}
}

// takeOut lists the bad rows and takes them out of the batch of n rows.
func (c *textChunk) takeOut(b *textBlock, n int) {
	// The sort is stable, so that of several reasons the first one found stays.
	slices.SortStableFunc(c.bad, func(x, y badText) int { return cmp.Compare(x.start, y.start) })
	c.bad = slices.CompactFunc(c.bad, func(x, y badText) bool { return x.start == y.start })
	if c.sel == nil {
		c.sel = make([]int32, 0, batch.TargetRows) // not nil, which would select all
	}
	c.sel = c.sel[:0]
	row, pos, line := 0, 0, b.line
	for i := range c.bad {
		x := &c.bad[i]
		for ; row < x.row; row++ {
			c.sel = append(c.sel, int32(row))
		}
		if x.inBatch {
			row++
		}
		line += int64(bytes.Count(b.buf[pos:x.start], newline))
		pos = x.start
		c.Bad = append(c.Bad, BadRow{Before: len(c.sel), Line: line, Raw: b.buf[x.start:x.end], Reason: x.reason})
	}
	for ; row < n; row++ {
		c.sel = append(c.sel, int32(row))
	}
	if len(c.sel) == n {
		return
	}
	if c.good == nil {
		c.good = batch.New(c.rows.Schema)
	}
	c.rows.Sel = c.sel
	c.good.CopyFrom(c.rows)
	c.rows.Sel = nil
	c.Batch = c.good
}
