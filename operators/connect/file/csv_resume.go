package file

import (
	"bytes"
	"errors"
	"slices"
)

// maxTornRow bounds how far a row is looked at that may not be one, in bytes.
const maxTornRow = 1 << 20

var errLostHeader = errors.New("the input goes on in the middle, and its header went with the process that had read it: " +
	`begin again, with another state directory, or set persist to "true", which keeps what is read`)

// beginAgain begins with what is left of an input, at data[n:]. If it has a header of its own, it is another
// input, and whole.
func (f *csvFormat) beginAgain(data []byte, n int, eof bool) (int, bool, error) {
	end := lineEnd(data, n)
	switch {
	case end < 0 && !eof:
		return 0, false, nil
	case end < 0:
		end = len(data)
	}
	if f.header && f.isHeader(data[n:end]) {
		return end, true, f.matchHeader(data[n:end])
	}
	if f.header && f.resume.Head == nil {
		if end == 0 { // there is nothing at all
			return n, true, f.matchByPosition()
		}
		return 0, false, errLostHeader
	}
	if f.resume.Torn {
		var ok bool
		if n, ok = f.wholeRow(data, end, eof); !ok {
			return 0, false, nil
		}
	}
	if !f.header {
		return n, true, f.matchByPosition()
	}
	return n, true, f.matchHeader(f.resume.Head)
}

// isHeader reports whether a line names all columns.
func (f *csvFormat) isHeader(line []byte) bool {
	names, err := f.headerNames(line)
	if err != nil {
		return false
	}
	for _, c := range f.schema.Columns {
		if !slices.Contains(names, c.Name) {
			return false
		}
	}
	return true
}

// wholeRow finds the first row in data[pos:], which begins a line, that is known to be one: it has as many fields as it
// should. Lines before it may be within quotes. ok is false if more is to be seen.
func (f *csvFormat) wholeRow(data []byte, pos int, eof bool) (start int, ok bool) {
	width := f.rowWidth()
	for pos < len(data) {
		end := f.rowEnd(data, pos)
		if end < 0 && !eof && len(data)-pos < maxTornRow {
			return 0, false
		}
		if end >= 0 && f.fields(data[pos:end]) == width {
			return pos, true
		}
		next := lineEnd(data, pos)
		if next < 0 {
			return len(data), eof
		}
		pos = next
	}
	return len(data), eof
}

// rowWidth is how many fields a row should have.
func (f *csvFormat) rowWidth() int {
	if !f.header {
		return len(f.schema.Columns)
	}
	return f.fields(f.resume.Head)
}

// fields is how many fields a row has; 0 if it is blank or bad.
func (f *csvFormat) fields(row []byte) int {
	if len(bytes.TrimSpace(row)) == 0 {
		return 0
	}
	names, err := f.headerNames(row)
	if err != nil {
		return 0
	}
	return len(names)
}
