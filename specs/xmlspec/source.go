package xmlspec

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"sluice/dataflow"
)

// Bounds of a spec. What exceeds one is refused.
const (
	MaxSize       = 4 << 20 // bytes of a spec; also of all values together after variables are replaced
	MaxDepth      = 32      // elements inside one another
	MaxElements   = 200_000 // elements altogether
	MaxOperators  = 20_000
	MaxAttributes = 64   // of one element
	MaxName       = 200  // characters of a name
	maxReported   = 1000 // diagnostics of one spec
)

// source is the text of a spec with an index of its lines and columns.
type source struct {
	file string
	data []byte
	// index has the line and column of every indexStep-th byte.
	index []lineCol
}

type lineCol struct{ line, col int32 }

const indexStep = 256

// readSource reads the whole spec if it is within bounds.
func readSource(file string, r io.Reader) (*source, *fault) {
	whole := dataflow.Pos{File: file}
	data, err := io.ReadAll(io.LimitReader(r, MaxSize+1))
	if err != nil {
		return nil, &fault{whole, fmt.Sprintf("cannot read the spec: %v", err)}
	}
	if len(data) > MaxSize {
		return nil, &fault{whole, fmt.Sprintf("the spec is larger than %d MiB", MaxSize>>20)}
	}
	if bytes.HasPrefix(data, []byte("\xff\xfe")) || bytes.HasPrefix(data, []byte("\xfe\xff")) {
		return nil, &fault{whole, "the encoding is UTF-16; a spec is written in UTF-8"}
	}
	return newSource(file, bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))), nil
}

func newSource(file string, data []byte) *source {
	s := &source{file: file, data: data, index: make([]lineCol, 0, len(data)/indexStep+1)}
	at := lineCol{1, 1}
	for i := range data {
		if i%indexStep == 0 {
			s.index = append(s.index, at)
		}
		at = s.step(at, i)
	}
	return s
}

// step is the place after byte i, which stands at at. A line ends with "\n", "\r\n" or a lone "\r".
func (s *source) step(at lineCol, i int) lineCol {
	switch b := s.data[i]; {
	case b == '\n', b == '\r' && (i+1 == len(s.data) || s.data[i+1] != '\n'):
		return lineCol{at.line + 1, 1}
	case b&0xC0 == 0x80: // inside a character
		return at
	}
	return lineCol{at.line, at.col + 1}
}

// pos is the place of a byte offset, which may be the end of the source.
func (s *source) pos(offset int) dataflow.Pos {
	at := lineCol{1, 1}
	if len(s.index) > 0 {
		block := min(offset/indexStep, len(s.index)-1)
		at = s.index[block]
		for i := block * indexStep; i < offset; i++ {
			at = s.step(at, i)
		}
	}
	return dataflow.Pos{File: s.file, Line: int(at.line), Col: int(at.col)}
}

// checkCharacters finds the first byte that no XML document in UTF-8 may have.
func (s *source) checkCharacters() *fault {
	for i := 0; i < len(s.data); {
		r, size := utf8.DecodeRune(s.data[i:])
		if r == utf8.RuneError && size == 1 {
			return &fault{s.pos(i), fmt.Sprintf("byte 0x%02x is not UTF-8; a spec is written in UTF-8", s.data[i])}
		}
		if r < ' ' && r != '\t' && r != '\n' && r != '\r' || r == 0xFFFE || r == 0xFFFF {
			return &fault{s.pos(i), fmt.Sprintf("not well-formed XML: character %U is not allowed", r)}
		}
		i += size
	}
	return nil
}

// skipSpace is the offset of the first byte from offset on that is no white space.
func (s *source) skipSpace(offset int) int {
	for offset < len(s.data) && isSpace(rune(s.data[offset])) {
		offset++
	}
	return offset
}

// isSpace tells XML's white space.
func isSpace(r rune) bool { return r == ' ' || r == '\t' || r == '\n' || r == '\r' }

// shorten cuts a very long name for a message.
func shorten(name string) string {
	const limit = 60
	if len(name) <= limit {
		return name
	}
	return strings.ToValidUTF8(name[:limit], "") + "..."
}
