package file

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/bits"
	"unicode/utf8"
)

// csvField is where a field stands in a block: between the quotes, if it has some.
type csvField struct {
	start uint32 // with csvQuoted and csvEscaped
	end   uint32
}

// Blocks are much smaller than these bits.
const (
	csvQuoted   = 1 << 31
	csvEscaped  = 1 << 30 // it has doubled quotes; quoted too
	csvPosition = csvEscaped - 1
)

// csvStripe is how many fields are found before they are decoded column by column: few enough that they
// and their text stay in the first-level cache.
const csvStripe = 2048

// csvRows decodes blocks of CSV. Fields are found a stripe of rows at a time, and then each column of
// the stripe is decoded in a loop of its own.
type csvRows struct {
	f       *csvFormat
	width   int
	fields  []csvField // of the stripe's rows, row by row
	found   int        // fields that splitRow has seen
	scratch []byte

	// Of the block that is being decoded.
	block     *textBlock
	data      []byte // with textPad bytes beyond the rows
	n         int    // bytes of rows
	plain     bool   // there is no quote in it
	validUTF8 bool   // all of it is
	chunk     *textChunk
	base      int // rows of the chunk before the stripe
}

// newRows implements textFormat.
func (f *csvFormat) newRows() textRows { return &csvRows{f: f} }

// decode implements textRows.
func (r *csvRows) decode(b *textBlock) {
	r.width = r.f.width
	stripe := max(csvStripe/r.width, 16)
	if r.fields == nil {
		r.fields = make([]csvField, 0, stripe*r.width)
	}
	r.block, r.n, r.data = b, b.n, b.buf[:b.n+textPad]
	r.plain = bytes.IndexByte(b.buf[:b.n], '"') < 0
	r.validUTF8 = !r.f.hasText || utf8.Valid(b.buf[:b.n])
	for pos := 0; pos < r.n; {
		r.chunk = b.newChunk(r.f.schema, pos)
		r.base = 0
		for pos < r.n && r.base < r.chunk.room {
			r.fields = r.fields[:0]
			pos = r.split(pos, min(stripe, r.chunk.room-r.base))
			rows := len(r.fields) / r.width
			r.decodeColumns(rows)
			r.base += rows
		}
		r.chunk.finish(b, r.base)
	}
	r.block, r.data, r.chunk = nil, nil, nil
}

// split finds the fields of the rows from pos on, of at most rows rows, and returns where the next row
// begins. Bad rows and blank lines are not among them.
func (r *csvRows) split(pos, rows int) int {
	for full := rows * r.width; len(r.fields) < full && pos < r.n; {
		if r.plain {
			if pos = r.splitPlain(pos, full); pos >= r.n || len(r.fields) == full {
				break
			}
		}
		pos = r.splitOne(pos)
	}
	return pos
}

// Words of eight bytes: the same bits or the same value in each byte.
const (
	lowBits  = 0x7F7F7F7F7F7F7F7F
	topBits  = 0x8080808080808080
	everyOne = 0x0101010101010101
)

// splitPlain finds the fields of rows without quotes, until there are full fields. It stops before a row
// that does not have the right number of fields.
func (r *csvRows) splitPlain(pos, full int) int {
	data := r.data
	fields := r.fields[:full]
	delimiters := uint64(r.f.delimiter) * everyOne
	k := len(r.fields)
	last := k + r.width - 1 // the row's last field
	row, start := pos, pos
	for i := pos; i < r.n; i += 8 {
		x := binary.LittleEndian.Uint64(data[i:])
		// The top bit of each byte that is a delimiter or a line feed.
		y, z := x^delimiters, x^'\n'*everyOne
		found := ^(((y&lowBits+lowBits)|y)&((z&lowBits+lowBits)|z) | lowBits)
		for ; found != 0; found &= found - 1 {
			p := i + bits.TrailingZeros64(found)/8
			if (data[p] == '\n') != (k == last) {
				r.fields = r.fields[:last+1-r.width]
				return row
			}
			fields[k] = csvField{uint32(start), uint32(p)}
			start = p + 1
			if k == last {
				if p > row && data[p-1] == '\r' {
					fields[k].end = uint32(max(p-1, int(fields[k].start)))
				}
				row = start
				last += r.width
				if last >= full || row >= r.n {
					r.fields = r.fields[:k+1]
					return row
				}
			}
			k++
		}
	}
	r.fields = r.fields[:last+1-r.width]
	return row
}

// splitOne finds the fields of one row, whatever it is like, and returns where the next one begins.
func (r *csvRows) splitOne(pos int) int {
	k := len(r.fields)
	fields, next, reason := r.splitRow(r.data, pos, r.n, r.fields)
	r.fields = fields
	if reason == "" {
		if r.found == r.width {
			return next
		}
		if r.found == 1 && fields[k].start == fields[k].end {
			r.fields = fields[:k] // a blank line
			return next
		}
		reason = fmt.Sprintf("%s instead of %d", count(r.found, "field"), r.width)
	}
	r.fields = fields[:k]
	r.chunk.bad = append(r.chunk.bad, badText{row: r.base + k/r.width, start: pos, end: trimLineEnd(r.data, pos, next), reason: reason})
	return next
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// trimLineEnd returns where the row data[start:end] ends without its line end.
func trimLineEnd(data []byte, start, end int) int {
	if end > start && data[end-1] == '\n' {
		end--
	}
	if end > start && data[end-1] == '\r' {
		end--
	}
	return end
}

// splitRow appends the fields of the row at pos to fields, as many as a row should have, and returns
// where the next row begins, and what is wrong with the row. It leaves the number of fields in r.found.
// data has textPad bytes after the rows, which end at n.
func (r *csvRows) splitRow(data []byte, pos, n int, fields []csvField) ([]csvField, int, string) {
	row := pos
	for r.found = 1; ; r.found++ {
		x, end := csvField{uint32(pos), 0}, 0
		if data[pos] == '"' {
			var flags uint32
			if end, flags = quotedEnd(data[:n], pos+1); end < 0 {
				return fields, n, fmt.Sprintf("the quote that opens field %d is not closed", r.found)
			}
			x = csvField{uint32(pos+1) | flags, uint32(end)}
			end++
			if c := data[end]; c != r.f.delimiter && c != '\n' && (c != '\r' || data[end+1] != '\n') {
				return fields, lineEnd(data[:n], end), fmt.Sprintf("field %d goes on after its closing quote", r.found)
			}
		} else {
			end = r.fieldEnd(data, pos)
			if data[end] == '"' {
				return fields, lineEnd(data[:n], end), fmt.Sprintf("field %d has a quote, but is not quoted", r.found)
			}
			x.end = uint32(end)
			if data[end] == '\n' {
				x.end = uint32(max(trimLineEnd(data, row, end+1), pos))
			}
		}
		if r.found <= r.width {
			fields = append(fields, x)
		}
		if data[end] != r.f.delimiter {
			return fields, lineEnd(data[:n], end), ""
		}
		pos = end + 1
	}
}

// fieldEnd returns the index of the first delimiter, line feed or quote from pos on. There is one.
func (r *csvRows) fieldEnd(data []byte, pos int) int {
	delimiters := uint64(r.f.delimiter) * everyOne
	for ; ; pos += 8 {
		x := binary.LittleEndian.Uint64(data[pos:])
		d, n, q := x^delimiters, x^'\n'*everyOne, x^'"'*everyOne
		// The lowest top bit that is left marks the first zero byte.
		if found := ((d-everyOne)&^d | (n-everyOne)&^n | (q-everyOne)&^q) & topBits; found != 0 {
			return pos + bits.TrailingZeros64(found)/8
		}
	}
}

// quotedEnd returns the index of the quote that closes the quoted text at pos, or -1, and the flags of
// the field.
func quotedEnd(data []byte, pos int) (int, uint32) {
	flags := uint32(csvQuoted)
	for {
		pos = nextOf(data, pos, '"'*everyOne, '"'*everyOne)
		switch {
		case pos == len(data):
			return -1, flags
		case pos+1 == len(data) || data[pos+1] != '"':
			return pos, flags
		}
		flags |= csvEscaped
		pos += 2
	}
}

// text is the text of a field, which may be in memory that the next call uses again.
func (r *csvRows) text(data []byte, x csvField) []byte {
	s := data[x.start&csvPosition : x.end]
	if x.start&csvEscaped != 0 {
		r.scratch = appendUnescaped(r.scratch[:0], s)
		return r.scratch
	}
	return s
}

// appendUnescaped appends s with each doubled quote as one.
func appendUnescaped(dst, s []byte) []byte {
	for {
		i := bytes.IndexByte(s, '"')
		if i < 0 {
			return append(dst, s...)
		}
		dst = append(dst, s[:i+1]...)
		s = s[i+2:]
	}
}
