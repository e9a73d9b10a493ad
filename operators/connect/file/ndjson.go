package file

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"unicode/utf8"

	"sluice/dataflow"
	"sluice/operators/value"
)

// ndjsonFormat is one JSON object a line (RFC 8259), the members of which are columns. Names that are no
// columns are passed over, with whatever they hold; a column that is missing is NULL, and of a name that
// comes twice the last counts. Blank lines mean nothing.
type ndjsonFormat struct {
	schema  *dataflow.Schema
	columns map[string]int
	times   *value.TimestampFormat // of strings; nil for the usual forms
	torn    bool                   // the first line may be the end of one
}

// newNDJSONDecoder makes a Decoder of NDJSON.
func newNDJSONDecoder(r io.Reader, o DecodeOptions) (Decoder, error) {
	f, err := newNDJSONFormat(o)
	if err != nil {
		return nil, err
	}
	return newTextDecoder(r, f, o, usualSizes), nil
}

func newNDJSONFormat(o DecodeOptions) (*ndjsonFormat, error) {
	f := &ndjsonFormat{schema: o.Schema, columns: map[string]int{}, torn: o.Resume != nil && o.Resume.Torn}
	for i, c := range o.Schema.Columns {
		f.columns[c.Name] = i
	}
	if o.TimestampFormat != "" {
		var err error
		if f.times, err = value.CompileTimestampFormat(o.TimestampFormat); err != nil {
			return nil, err
		}
	}
	return f, nil
}

// begin implements textFormat: it passes over a byte order mark.
func (f *ndjsonFormat) begin(data []byte, eof bool) (int, bool, error) {
	if !eof && len(data) < len(byteOrderMark) && bytes.HasPrefix(byteOrderMark, data) {
		return 0, false, nil
	}
	if bytes.HasPrefix(data, byteOrderMark) {
		return len(byteOrderMark), true, nil
	}
	if f.torn {
		return f.passOverTorn(data, eof)
	}
	return 0, true, nil
}

// passOverTorn passes over a first line that is not a whole row. What is left of a JSON object without its beginning is
// never one itself.
func (f *ndjsonFormat) passOverTorn(data []byte, eof bool) (int, bool, error) {
	end := lineEnd(data, 0)
	if end < 0 {
		return len(data), eof, nil
	}
	if line := bytes.TrimSpace(data[:end]); len(line) > 0 && line[0] == '{' && json.Valid(line) {
		return 0, true, nil
	}
	return end, true, nil
}

// head implements textFormat.
func (f *ndjsonFormat) head() []byte { return nil }

// rowsEnd implements textFormat.
func (f *ndjsonFormat) rowsEnd(data []byte) int { return bytes.LastIndexByte(data, '\n') + 1 }

// newRows implements textFormat.
func (f *ndjsonFormat) newRows() textRows {
	return &ndjsonRows{f: f, seen: make([]int, len(f.schema.Columns))}
}

// ndjsonRows decodes lines of JSON.
type ndjsonRows struct {
	f *ndjsonFormat
	// order holds the column that was last at each place of a row, to be tried first; -1 for none.
	order   []int
	seen    []int // for each column the last row, counted by serial, that has it
	serial  int
	scratch []byte

	// Of the block that is being decoded. Line feeds stop all scanning, so that nothing leaves a row.
	data   []byte
	pos    int
	chunk  *textChunk
	row    int    // of the chunk
	reason string // what is wrong with the row
}

// decode implements textRows.
func (r *ndjsonRows) decode(b *textBlock) {
	n := b.n
	r.data = b.buf[:n+textPad]
	valid := utf8.Valid(b.buf[:n])
	for r.pos = 0; r.pos < n; {
		r.chunk, r.row = b.newChunk(r.f.schema, r.pos), 0
		for r.pos < n && r.row < r.chunk.room {
			start := r.pos
			if !valid && !r.checkUTF8(start) || !r.object() {
				end := lineEnd(b.buf[:n], start)
				r.chunk.bad = append(r.chunk.bad, badText{row: r.row, start: start, end: trimLineEnd(r.data, start, end), reason: r.reason})
				r.pos = end
			}
		}
		r.chunk.finish(b, r.row)
	}
	r.data, r.chunk = nil, nil
}

func (r *ndjsonRows) checkUTF8(start int) bool {
	if utf8.Valid(r.data[start:lineEnd(r.data, start)]) {
		return true
	}
	r.reason = "the row is not UTF-8"
	return false
}

// fail says what is wrong with the row.
func (r *ndjsonRows) fail(format string, args ...any) bool {
	r.reason = fmt.Sprintf(format, args...)
	return false
}

// space passes over white space and returns the byte after it.
func (r *ndjsonRows) space() byte {
	for {
		switch c := r.data[r.pos]; c {
		case ' ', '\t', '\r':
			r.pos++
		default:
			return c
		}
	}
}

// object decodes the line at pos, if it is not blank. It returns false for a bad row.
func (r *ndjsonRows) object() bool {
	switch r.space() {
	case '\n':
		r.pos++
		return true
	case '{':
		r.pos++
	default:
		return r.fail("the row is not a JSON object")
	}
	r.serial++
	found := 0
	if r.space() == '}' {
		r.pos++
	} else {
		for member := 0; ; member++ {
			col, ok := r.name(member)
			if !ok {
				return false
			}
			if col < 0 {
				ok = r.skip(maxNDJSONDepth)
			} else {
				if r.seen[col] != r.serial {
					r.seen[col] = r.serial
					found++
				}
				ok = r.value(col)
			}
			if !ok {
				return false
			}
			if c := r.space(); c == '}' {
				r.pos++
				break
			} else if c != ',' {
				return r.unexpected("a comma or }")
			}
			r.pos++
			r.space()
		}
	}
	if r.space() != '\n' {
		return r.fail("there is more after the JSON object")
	}
	if found < len(r.seen) && !r.missing() {
		return false
	}
	r.pos++
	r.row++
	return true
}

// unexpected says that something else stands at pos than what is wanted.
func (r *ndjsonRows) unexpected(wanted string) bool {
	if r.data[r.pos] == '\n' {
		return r.fail("the row ends where JSON wants %s", wanted)
	}
	c, _ := utf8.DecodeRune(r.data[r.pos:])
	return r.fail("there is %q where JSON wants %s", c, wanted)
}

// name reads a member's name and the colon after it, and returns the column it names, or -1. It is the
// member-th of its object.
func (r *ndjsonRows) name(member int) (col int, ok bool) {
	if member == len(r.order) && member < len(r.seen)+16 {
		r.order = append(r.order, -1)
	}
	guessed := false
	if member < len(r.order) && r.order[member] >= 0 {
		col = r.order[member]
		guess := r.f.schema.Columns[col].Name
		end := r.pos + 1 + len(guess)
		guessed = end < len(r.data) && r.data[r.pos] == '"' && r.data[end] == '"' && string(r.data[r.pos+1:end]) == guess
		if guessed {
			r.pos = end + 1
		}
	}
	if !guessed {
		if r.data[r.pos] != '"' {
			return 0, r.unexpected("a name in quotes")
		}
		start := r.pos
		name, ok := r.text()
		if !ok {
			return 0, false
		}
		if col, ok = r.f.columns[string(name)]; !ok {
			col = -1
		}
		if member < len(r.order) && r.pos-start == len(name)+2 { // no escapes
			r.order[member] = col
		}
	}
	if r.space() != ':' {
		return 0, r.unexpected("a colon")
	}
	r.pos++
	r.space()
	return col, true
}

// missing makes the columns NULL that the row does not have.
func (r *ndjsonRows) missing() bool {
	for col := range r.seen {
		if r.seen[col] != r.serial && !r.null(col) {
			return false
		}
	}
	return true
}

// null makes a column NULL, if it may be.
func (r *ndjsonRows) null(col int) bool {
	c := &r.f.schema.Columns[col]
	switch {
	case c.EventTime:
		return r.fail("column %q: the event time is NULL", c.Name)
	case !c.Nullable:
		return r.fail("column %q is NULL", c.Name)
	}
	r.chunk.setNull(col, r.row)
	if v := &r.chunk.rows.Cols[col]; v.Offsets != nil {
		v.Data = v.Data[:v.Offsets[r.row]]
		v.Offsets[r.row+1] = v.Offsets[r.row]
	}
	return true
}
