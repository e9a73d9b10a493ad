package main

import (
	"bufio"
	"bytes"
	"fmt"
	"hash/maphash"
	"io"
	"os"
	"strconv"
)

// digest is what outputs are compared by: the rows, whatever their order and the form of their numbers
// and timestamps.
type digest struct {
	rows int
	sum  uint64
}

// digestSeed is one for the whole process; digests of different processes do not compare.
var digestSeed = maphash.MakeSeed()

// digestFile reads the CSV output at path, whose first line must name the columns in header.
func digestFile(path, header string) (digest, error) {
	in, err := os.Open(path)
	if err != nil {
		return digest{}, err
	}
	defer in.Close()
	d, err := digestCSV(in, header)
	if err != nil {
		return d, fmt.Errorf("%s: %w", path, err)
	}
	return d, nil
}

func digestCSV(in io.Reader, header string) (digest, error) {
	lines := bufio.NewScanner(in)
	lines.Buffer(make([]byte, 1<<16), 1<<20)
	var d digest
	if !lines.Scan() {
		if err := lines.Err(); err != nil {
			return d, err
		}
		return d, fmt.Errorf("no header")
	}
	if got := normalLine(nil, lines.Bytes()); string(got) != header {
		return d, fmt.Errorf("the header is %q, not %q", got, header)
	}
	var row []byte
	for lines.Scan() {
		row = normalLine(row[:0], lines.Bytes())
		d.rows++
		d.sum += maphash.Bytes(digestSeed, row)
	}
	return d, lines.Err()
}

// normalLine appends a line of CSV with each field in its normal form. No field of the benchmark holds
// a comma, a quote or a line end.
func normalLine(dst, line []byte) []byte {
	line = bytes.TrimSuffix(line, []byte{'\r'})
	for first := true; ; first = false {
		if !first {
			dst = append(dst, ',')
		}
		field, rest, more := bytes.Cut(line, []byte{','})
		dst = normalField(dst, field)
		if !more {
			return dst
		}
		line = rest
	}
}

// normalField appends a field without its quotes, numbers in their shortest form without an exponent
// and timestamps in the form 2006-01-02T15:04:05Z.
func normalField(dst, field []byte) []byte {
	if n := len(field); n >= 2 && field[0] == '"' && field[n-1] == '"' {
		field = field[1 : n-1]
	}
	switch classify(field) {
	case normal:
		return append(dst, field...)
	case number:
		f, err := strconv.ParseFloat(string(field), 64)
		if err != nil {
			return append(dst, field...)
		}
		if f == 0 {
			f = 0 // a zero has no sign
		}
		return strconv.AppendFloat(dst, f, 'f', -1, 64)
	}
	dst = append(dst, field[:10]...)
	dst = append(dst, 'T')
	clock := bytes.TrimSuffix(field[11:], []byte{'Z'})
	if bytes.IndexByte(clock, '.') >= 0 {
		clock = bytes.TrimRight(bytes.TrimRight(clock, "0"), ".")
	}
	return append(append(dst, clock...), 'Z')
}

// form is what kind of text a field is.
type form uint8

const (
	normal    form = iota // compared as it is
	number                // a number that may not be in its shortest form
	timestamp             // a date and a time of day
)

// exactDigits is how many digits every decimal number has that a float gives back unchanged.
const exactDigits = 15

// classify tells the form of a field. Plain numbers that are short enough and have no needless zeros
// are normal already.
func classify(field []byte) form {
	if isTimestamp(field) {
		return timestamp
	}
	digits, point, exponent, last := 0, false, false, byte(0)
	for i, c := range field {
		switch {
		case c >= '0' && c <= '9':
			digits++
		case c == '.' && !point && !exponent:
			point = true
		case (c == 'e' || c == 'E') && digits > 0 && !exponent:
			exponent = true
		case (c == '-' || c == '+') && (i == 0 || last == 'e' || last == 'E'):
		default:
			return normal
		}
		last = c
	}
	switch {
	case digits == 0:
		return normal
	case exponent || digits > exactDigits || last == '.' || point && last == '0':
		return number
	case field[0] == '+' || field[0] == '.' || field[0] == '-' || field[0] == '0' && len(field) > 1 && field[1] != '.':
		return number
	}
	return normal
}

// isTimestamp reports whether a field has the form 2006-01-02T15:04:05 with a space or a T, and perhaps
// a fraction and a Z behind it.
func isTimestamp(field []byte) bool {
	const form = "0000-00-00_00:00:00"
	if len(field) < len(form) {
		return false
	}
	for i, c := range field {
		switch {
		case i >= len(form):
			if (c < '0' || c > '9') && !(c == '.' && i == len(form)) && !(c == 'Z' && i == len(field)-1) {
				return false
			}
		case form[i] == '0':
			if c < '0' || c > '9' {
				return false
			}
		case form[i] == '_':
			if c != 'T' && c != ' ' {
				return false
			}
		case c != form[i]:
			return false
		}
	}
	return true
}
