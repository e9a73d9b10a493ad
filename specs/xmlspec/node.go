package xmlspec

import (
	"bytes"

	"github.com/beevik/etree"
)

// node is an element of the etree document together with where it stands in the source.
type node struct {
	el         *etree.Element
	start, end int // of the start tag
	texts      []mark
	children   []*node
}

// attr is one attribute of an element, in the order of the source.
type attr struct {
	name       string // with its prefix
	value      text
	nameOffset int
}

// document reads the source with etree and joins its elements to the marks, in document order. etree
// sees it up to the end of the root element: it takes even a line end after that for a mistake.
func document(src *source, marks []mark, end int) (*node, error) {
	doc := etree.NewDocument()
	doc.ReadSettings.ValidateInput = true
	doc.ReadSettings.PreserveDuplicateAttrs = true
	doc.ReadSettings.MaxDepth = MaxDepth
	if err := doc.ReadFromBytes(src.data[:end]); err != nil {
		return nil, err
	}
	outside := &node{el: &doc.Element}
	join(outside, &marks)
	return outside.children[0], nil
}

// join takes the marks of n's children off the front of the marks. Its depth is that of the document.
func join(n *node, marks *[]mark) {
	for _, token := range n.el.Child {
		switch t := token.(type) {
		case *etree.CharData:
			n.texts = append(n.texts, take(marks))
		case *etree.Element:
			m := take(marks)
			child := &node{el: t, start: m.start, end: m.end}
			n.children = append(n.children, child)
			join(child, marks)
		}
	}
}

func take(marks *[]mark) mark {
	m := (*marks)[0]
	*marks = (*marks)[1:]
	return m
}

// attributes finds the element's attributes in the source of its start tag. etree has their names and
// values, but neither their places nor which line ends in them were written as such.
func (n *node) attributes(src *source) []attr {
	attrs := make([]attr, 0, len(n.el.Attr))
	at := n.start + 1 + len(n.el.FullTag())
	for i := range n.el.Attr {
		at = src.skipSpace(at)
		nameOffset := at
		at += bytes.IndexByte(src.data[at:n.end], '=')
		at = src.skipSpace(at + 1)
		quote := src.data[at]
		length := bytes.IndexByte(src.data[at+1:n.end], quote)
		d := newValueDecoder(src)
		d.attribute(at+1, at+1+length)
		value := d.text()
		if len(value.spans) == 0 {
			value.spans = []textSpan{{source: at + 1}}
		}
		attrs = append(attrs, attr{n.el.Attr[i].FullKey(), value, nameOffset})
		at += length + 2
	}
	return attrs
}

// text is the element's own character data, all of it, and whether there is any.
func (n *node) text(src *source) (text, bool) {
	d := newValueDecoder(src)
	for _, m := range n.texts {
		d.charData(m.start, m.end)
	}
	t := d.text().trim()
	return t, t.value != ""
}
