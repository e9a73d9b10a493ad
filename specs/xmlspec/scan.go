package xmlspec

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"strings"

	"sluice/dataflow"
)

// mark is where one start tag or one run of character data stands in the source, as byte offsets.
// Marks are in document order, and so are the elements and character data of the etree document.
type mark struct {
	start, end int
	text       bool // character data; else a start tag
}

// scanner is the pass over the source that finds whether it is well formed and within bounds, and
// where everything stands. It comes before etree sees the source, so etree reads only what is known
// to be harmless.
type scanner struct {
	src      *source
	dec      *xml.Decoder
	marks    []mark
	open     []openElement
	elements int
	rootEnd  int // offset after the root element, 0 before that
}

type openElement struct {
	name  xml.Name
	start int
}

// fault is what makes a document unusable as a whole.
type fault struct {
	pos     dataflow.Pos
	message string
}

// errEncoding stands for a document that declares an encoding other than UTF-8.
type errEncoding struct{ name string }

func (e errEncoding) Error() string { return e.name }

// scan returns the marks of the document up to the end of its root element and where that is, or what
// is wrong with it.
func scan(src *source) (marks []mark, end int, f *fault) {
	if f := src.checkCharacters(); f != nil {
		return nil, 0, f
	}
	s := &scanner{src: src, dec: xml.NewDecoder(bytes.NewReader(src.data))}
	s.dec.CharsetReader = func(name string, input io.Reader) (io.Reader, error) {
		if strings.EqualFold(name, "us-ascii") || strings.EqualFold(name, "ascii") {
			return input, nil
		}
		return nil, errEncoding{name}
	}
	for {
		start := int(s.dec.InputOffset())
		token, err := s.dec.RawToken()
		end := int(s.dec.InputOffset())
		if err == io.EOF {
			return s.marks, s.rootEnd, s.finish()
		}
		if err != nil {
			return nil, 0, s.broken(start, end, err)
		}
		if f := s.token(token, start, end); f != nil {
			return nil, 0, f
		}
	}
}

func (s *scanner) token(token xml.Token, start, end int) *fault {
	switch t := token.(type) {
	case xml.StartElement:
		return s.startElement(t, start, end)
	case xml.EndElement:
		return s.endElement(t, start, end)
	case xml.CharData:
		if len(s.open) == 0 && bytes.ContainsFunc(t, func(r rune) bool { return !isSpace(r) }) {
			return s.fault(s.src.skipSpace(start), "text outside the root element")
		}
		if s.rootEnd == 0 {
			s.marks = append(s.marks, mark{start, end, true})
		}
	case xml.Directive:
		return s.fault(start, "a spec has no document type or entity declarations (<!%s ...>)", firstWord(string(t)))
	}
	return nil
}

func (s *scanner) startElement(t xml.StartElement, start, end int) *fault {
	if s.rootEnd > 0 {
		return s.fault(start, "a second root element <%s>; a spec has one", shorten(rawName(t.Name)))
	}
	if len(s.open) == MaxDepth {
		return s.fault(start, "elements are nested deeper than %d", MaxDepth)
	}
	if s.elements++; s.elements > MaxElements {
		return s.fault(start, "the spec has more than %d elements", MaxElements)
	}
	if len(t.Attr) > MaxAttributes {
		return s.fault(start, "<%s> has more than %d attributes", shorten(rawName(t.Name)), MaxAttributes)
	}
	s.marks = append(s.marks, mark{start, end, false})
	s.open = append(s.open, openElement{t.Name, start})
	return nil
}

func (s *scanner) endElement(t xml.EndElement, start, end int) *fault {
	if len(s.open) == 0 {
		return s.fault(start, "</%s> closes no element", shorten(rawName(t.Name)))
	}
	top := s.open[len(s.open)-1]
	if top.name != t.Name {
		return s.fault(start, "</%s> stands where <%s> of line %d should be closed",
			shorten(rawName(t.Name)), shorten(rawName(top.name)), s.src.pos(top.start).Line)
	}
	s.open = s.open[:len(s.open)-1]
	if len(s.open) == 0 {
		s.rootEnd = end
	}
	return nil
}

func (s *scanner) finish() *fault {
	if len(s.open) > 0 {
		top := s.open[len(s.open)-1]
		return s.fault(top.start, "<%s> is never closed", shorten(rawName(top.name)))
	}
	if s.rootEnd == 0 {
		return s.fault(0, "the spec is empty; it needs a <dataflow> element")
	}
	return nil
}

// broken turns an error of the decoder, met between the offsets, into a fault at the best known place.
func (s *scanner) broken(start, end int, err error) *fault {
	var encoding errEncoding
	if errors.As(err, &encoding) {
		return s.fault(start, "the encoding is %q; a spec is written in UTF-8", shorten(encoding.name))
	}
	message := strings.TrimPrefix(err.Error(), "xml: ")
	var syntax *xml.SyntaxError
	if errors.As(err, &syntax) {
		message = syntax.Msg
	}
	end = min(end, len(s.src.data))
	at := max(start, end-1)
	switch {
	case strings.HasPrefix(message, "unexpected EOF"):
		message = "the spec ends in the middle of " + s.construct(start)
		at = start
	case strings.HasPrefix(message, "invalid character entity "):
		if i := bytes.LastIndexByte(s.src.data[start:end], '&'); i >= 0 {
			at = start + i
		}
		message = entityText(strings.TrimPrefix(message, "invalid character entity "))
	case message == "expected element name after <", message == "unescaped < inside quoted string":
		message += "; a plain < is written &lt;"
	}
	return s.fault(at, "not well-formed XML: %s", message)
}

// entityText says what is wrong with an entity that the decoder does not know.
func entityText(entity string) string {
	if strings.HasSuffix(entity, "(no semicolon)") {
		return "a plain & is written &amp;"
	}
	return fmt.Sprintf("unknown entity %s XML has only &lt; &gt; &amp; &quot; &apos; and numeric ones", shorten(entity))
}

// construct names what begins at the offset.
func (s *scanner) construct(start int) string {
	rest := s.src.data[min(start, len(s.src.data)):]
	for _, c := range []struct{ prefix, name string }{
		{"<!--", "a comment"}, {"<![CDATA[", "a CDATA section"}, {"<!", "a declaration"},
		{"<?", "a processing instruction"}, {"</", "an end tag"}, {"<", "a tag"},
	} {
		if bytes.HasPrefix(rest, []byte(c.prefix)) {
			return c.name
		}
	}
	return "a text"
}

func (s *scanner) fault(offset int, format string, args ...any) *fault {
	return &fault{s.src.pos(offset), fmt.Sprintf(format, args...)}
}

// rawName is a name as RawToken gives it, with its prefix.
func rawName(n xml.Name) string {
	if n.Space == "" {
		return n.Local
	}
	return n.Space + ":" + n.Local
}

func firstWord(text string) string {
	word, _, _ := strings.Cut(text, " ")
	return shorten(word)
}
