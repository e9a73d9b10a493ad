package xmlspec

import (
	"bytes"
	"strconv"
	"strings"

	"sluice/dataflow"
)

// text is a decoded piece of the source that knows where each part of it came from.
type text struct {
	value string
	spans []textSpan
}

// textSpan is a dataflow.Span whose place is still a byte offset in the source. Unless it is fixed,
// value and source advance byte by byte within it; only its last character may be an escape.
type textSpan struct {
	offset int // in the value
	source int // in the source
	fixed  bool
}

// decoder turns source bytes into a text.
type decoder struct {
	src   *source
	value []byte
	spans []textSpan
	next  int // source offset that would continue the last span; -1 if nothing does
}

func newValueDecoder(src *source) *decoder { return &decoder{src: src, next: -1} }

func (d *decoder) text() text { return text{string(d.value), d.spans} }

// put adds one character that stands at the source offset and is followed, if it is not an escape, by
// the one at next.
func (d *decoder) put(offset, next int, char string) {
	if offset != d.next {
		d.spans = append(d.spans, textSpan{offset: len(d.value), source: offset})
	}
	d.value = append(d.value, char...)
	d.next = next
}

// attribute decodes the source of an attribute value, without its quotes. As XML demands, a line end or
// a tab that is not written as a character reference counts as a space.
func (d *decoder) attribute(start, end int) {
	d.decode(start, end, true)
}

// charData decodes the source of one run of character data, which may be a CDATA section.
func (d *decoder) charData(start, end int) {
	const open, shut = "<![CDATA[", "]]>"
	data := d.src.data[start:end]
	if bytes.HasPrefix(data, []byte(open)) {
		d.literal(start+len(open), end-len(shut), false)
		return
	}
	d.decode(start, end, false)
}

func (d *decoder) decode(start, end int, attribute bool) {
	for start < end {
		n := bytes.IndexByte(d.src.data[start:end], '&')
		if n < 0 {
			d.literal(start, end, attribute)
			return
		}
		d.literal(start, start+n, attribute)
		start += n
		semicolon := bytes.IndexByte(d.src.data[start:end], ';')
		if semicolon < 0 {
			return // not reached: the scan has refused it
		}
		d.put(start, -1, reference(string(d.src.data[start+1:start+semicolon])))
		start += semicolon + 1
	}
}

// literal adds source text that has no references.
func (d *decoder) literal(start, end int, attribute bool) {
	for i := start; i < end; {
		run := i
		for i < end && d.src.data[i] != '\r' && (!attribute || d.src.data[i] != '\n' && d.src.data[i] != '\t') {
			i++
		}
		if i > run {
			d.put(run, i, string(d.src.data[run:i]))
		}
		if i == end {
			return
		}
		next := i + 1
		if d.src.data[i] == '\r' && next < end && d.src.data[next] == '\n' {
			next++
		}
		switch {
		case attribute: // the value has a space where the source may have a new line
			d.put(i, -1, " ")
		case next > i+1: // the value has one byte, the source two
			d.put(i, -1, "\n")
		default:
			d.put(i, next, "\n")
		}
		i = next
	}
}

// reference is the character that a reference such as "lt" or "#x3c" stands for.
func reference(name string) string {
	if digits, ok := strings.CutPrefix(name, "#"); ok {
		base := 10
		if hex, ok := strings.CutPrefix(digits, "x"); ok {
			digits, base = hex, 16
		}
		n, err := strconv.ParseInt(digits, base, 32)
		if err != nil {
			return "\uFFFD"
		}
		return string(rune(n))
	}
	switch name {
	case "lt":
		return "<"
	case "gt":
		return ">"
	case "amp":
		return "&"
	case "apos":
		return "'"
	default:
		return `"`
	}
}

// sourceOffset is where the character at the value's byte offset stands in the source.
func (t text) sourceOffset(offset int) int {
	if len(t.spans) == 0 {
		return 0
	}
	i := t.span(offset)
	s := t.spans[i]
	if s.fixed {
		return s.source
	}
	return s.source + offset - s.offset
}

// span is the index of the span that byte offset is in.
func (t text) span(offset int) int {
	lo, hi := 0, len(t.spans)
	for lo+1 < hi {
		mid := (lo + hi) / 2
		if t.spans[mid].offset <= offset {
			lo = mid
		} else {
			hi = mid
		}
	}
	return lo
}

// slice is the part of the text from byte offset from up to to.
func (t text) slice(from, to int) text {
	if from == to || len(t.spans) == 0 {
		return text{"", []textSpan{{source: t.sourceOffset(from)}}}
	}
	first := t.span(from)
	spans := []textSpan{{source: t.sourceOffset(from), fixed: t.spans[first].fixed}}
	for _, s := range t.spans[first+1:] {
		if s.offset >= to {
			break
		}
		s.offset -= from
		spans = append(spans, s)
	}
	return text{t.value[from:to], spans}
}

// trim takes away white space at both ends.
func (t text) trim() text {
	from := len(t.value) - len(strings.TrimLeftFunc(t.value, isSpace))
	to := len(strings.TrimRightFunc(t.value, isSpace))
	return t.slice(from, max(from, to))
}

// places gives the spans their lines and columns.
func (t text) places(src *source) dataflow.Text {
	places := make(dataflow.Text, len(t.spans))
	for i, s := range t.spans {
		places[i] = dataflow.Span{Offset: s.offset, Pos: src.pos(s.source), Fixed: s.fixed}
	}
	return places
}
