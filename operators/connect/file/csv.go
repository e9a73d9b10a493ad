package file

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/bits"

	"sluice/dataflow"
	"sluice/operators/value"
)

// csvFormat is CSV after RFC 4180.
//
// A quote opens a quoted field at the start of a field only. A quote elsewhere in an unquoted field, and
// anything but a delimiter or a line end after a closing quote, makes the row bad, and the next row
// begins after the next line feed. Where rows end follows from these rules alone, for the goroutine that
// cuts blocks as for those that decode them.
type csvFormat struct {
	schema    *dataflow.Schema
	header    bool
	live      bool
	delimiter byte
	null      string
	times     *value.TimestampFormat // nil for the usual forms
	resume    *Resume                // nil, or not Inside

	// What follows is set by begin.
	width   int // fields of a row
	columns []csvColumn
	hasText bool   // a string column is read
	first   []byte // the header
}

// csvColumn is a field of the rows that is decoded into a column.
type csvColumn struct {
	field, col int
	dataflow.Column
}

// newCSVDecoder makes a Decoder of CSV. An input that begins with a byte order mark is read without it.
func newCSVDecoder(r io.Reader, o DecodeOptions) (Decoder, error) {
	f, err := newCSVFormat(o)
	if err != nil {
		return nil, err
	}
	return newTextDecoder(r, f, o, usualSizes), nil
}

func newCSVFormat(o DecodeOptions) (*csvFormat, error) {
	f := &csvFormat{schema: o.Schema, header: o.Header, live: o.Live, delimiter: o.Delimiter, null: o.Null}
	if f.delimiter == 0 {
		f.delimiter = ','
	}
	if o.Resume != nil && !o.Resume.Inside {
		f.resume = o.Resume
	}
	if err := checkDelimiter(f.delimiter); err != nil {
		return nil, err
	}
	if o.TimestampFormat != "" {
		var err error
		if f.times, err = value.CompileTimestampFormat(o.TimestampFormat); err != nil {
			return nil, err
		}
	}
	return f, nil
}

func checkDelimiter(c byte) error {
	if c == '"' || c == '\r' || c == '\n' || c >= 0x80 {
		return fmt.Errorf("csv: the delimiter must be an ASCII character other than a quote or a line end, not %q", c)
	}
	return nil
}

// maxCSVFields is how many fields a row can have.
const maxCSVFields = 1 << 16

var byteOrderMark = []byte("\xEF\xBB\xBF")

// begin passes over the byte order mark and reads the header.
func (f *csvFormat) begin(data []byte, eof bool) (int, bool, error) {
	if !eof && len(data) < len(byteOrderMark) && bytes.HasPrefix(byteOrderMark, data) {
		return 0, false, nil
	}
	n := 0
	if bytes.HasPrefix(data, byteOrderMark) {
		n = len(byteOrderMark)
	}
	if f.resume != nil {
		return f.beginAgain(data, n, eof)
	}
	if !f.header {
		return n, true, f.matchByPosition()
	}
	// Blank lines before the header mean nothing.
	for n < len(data) && (data[n] == '\n' || data[n] == '\r' && n+1 < len(data) && data[n+1] == '\n') {
		n++
	}
	end := f.rowEnd(data, n)
	if end < 0 && !eof {
		return 0, false, nil
	}
	if n == len(data) {
		if f.live { // it may be a file that is just being replaced
			return n, true, f.matchByPosition()
		}
		return 0, false, errors.New("the input is empty; a header was expected")
	}
	if end < 0 {
		end = len(data)
	}
	return end, true, f.matchHeader(data[n:end])
}

// matchHeader finds the columns in the header.
func (f *csvFormat) matchHeader(row []byte) error {
	names, err := f.headerNames(row)
	if err != nil {
		return err
	}
	f.first = bytes.Clone(row)
	return f.matchByName(names)
}

// head implements textFormat.
func (f *csvFormat) head() []byte { return f.first }

// headerNames splits the header, which ends with its line end.
func (f *csvFormat) headerNames(row []byte) ([]string, error) {
	rows := &csvRows{f: f, width: maxCSVFields}
	padded := bytes.Clone(row)
	if !bytes.HasSuffix(padded, newline) {
		padded = append(padded, '\n')
	}
	n := len(padded)
	padded = append(padded, make([]byte, textPad)...)
	var fields []csvField
	names := []string{}
	fields, _, reason := rows.splitRow(padded, 0, n, fields)
	if reason != "" {
		return nil, fmt.Errorf("in the header, %s", reason)
	}
	if rows.found > maxCSVFields {
		return nil, fmt.Errorf("the header has more than %d fields", maxCSVFields)
	}
	for _, x := range fields {
		names = append(names, string(rows.text(padded, x)))
	}
	return names, nil
}

// matchByName finds the field of each column in the header.
func (f *csvFormat) matchByName(names []string) error {
	fields := make(map[string]int, len(names))
	twice := make(map[string]bool)
	for i, name := range names {
		if _, ok := fields[name]; ok {
			twice[name] = true
			continue
		}
		fields[name] = i
	}
	f.width = len(names)
	byField := make([]int, len(names))
	for i := range byField {
		byField[i] = -1
	}
	for col, c := range f.schema.Columns {
		field, ok := fields[c.Name]
		switch {
		case twice[c.Name]:
			return fmt.Errorf("the header has column %q twice", c.Name)
		case !ok:
			if near := dataflow.Nearest(c.Name, names); near != "" {
				return fmt.Errorf("the header has no column %q; did you mean %q?", c.Name, near)
			}
			return fmt.Errorf("the header has no column %q", c.Name)
		}
		byField[field] = col
	}
	for field, col := range byField {
		if col >= 0 {
			f.addColumn(field, col)
		}
	}
	return nil
}

func (f *csvFormat) matchByPosition() error {
	f.width = len(f.schema.Columns)
	for col := range f.schema.Columns {
		f.addColumn(col, col)
	}
	return nil
}

func (f *csvFormat) addColumn(field, col int) {
	c := f.schema.Columns[col]
	f.hasText = f.hasText || c.Type.Kind == dataflow.String
	f.columns = append(f.columns, csvColumn{field: field, col: col, Column: c})
}

// rowsEnd implements textFormat.
func (f *csvFormat) rowsEnd(data []byte) int {
	if bytes.IndexByte(data, '"') < 0 {
		return bytes.LastIndexByte(data, '\n') + 1
	}
	return f.scanRows(data, 0, true)
}

// rowEnd returns where the row that begins at pos ends, after its line end; -1 if it is not complete.
func (f *csvFormat) rowEnd(data []byte, pos int) int {
	if end := f.scanRows(data, pos, false); end > pos {
		return end
	}
	return -1
}

// scanRows returns where the row that begins at pos ends, or the last row that is complete in data if
// all is set; pos if there is none.
func (f *csvFormat) scanRows(data []byte, pos int, all bool) int {
	end := pos
	for i := pos; i < len(data) && (all || end == pos); {
		i = nextOf(data, i, '"'*everyOne, '\n'*everyOne)
		switch {
		case i == len(data):
			return end
		case data[i] == '\n':
			i++
			end = i
			continue
		case i == end || data[i-1] == f.delimiter:
			if i = closingQuote(data, i+1) + 1; i >= len(data) {
				return end
			}
			if data[i] == f.delimiter {
				i++
				continue
			}
		}
		// The row ends here, or is bad and so ends with the line.
		if i = lineEnd(data, i); i < 0 {
			return end
		}
		end = i
	}
	return end
}

// closingQuote returns the index of the quote that ends the quoted text at pos; len(data) if there is none.
func closingQuote(data []byte, pos int) int {
	for {
		pos = nextOf(data, pos, '"'*everyOne, '"'*everyOne)
		if pos+1 >= len(data) || data[pos+1] != '"' {
			return pos
		}
		pos += 2
	}
}

// nextOf returns the index of the first byte from i on that is a or b, which are given eight times;
// len(data) if there is none.
func nextOf(data []byte, i int, a, b uint64) int {
	for ; i+8 <= len(data); i += 8 {
		x := binary.LittleEndian.Uint64(data[i:])
		y, z := x^a, x^b
		// The lowest top bit that is left marks the first zero byte of y or z.
		if found := ((y-everyOne)&^y | (z-everyOne)&^z) & topBits; found != 0 {
			return i + bits.TrailingZeros64(found)/8
		}
	}
	for ; i < len(data); i++ {
		if data[i] == byte(a) || data[i] == byte(b) {
			return i
		}
	}
	return len(data)
}

// lineEnd returns the index after the next line feed, or -1.
func lineEnd(data []byte, pos int) int {
	i := bytes.IndexByte(data[pos:], '\n')
	if i < 0 {
		return -1
	}
	return pos + i + 1
}
