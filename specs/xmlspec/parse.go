package xmlspec

import (
	"cmp"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"sluice/dataflow"
)

// Parse reads an XML spec from r. file is its path as the user gave it, "-" for standard input: it
// stands in positions, and relative paths in the spec start at its folder. env looks up environment
// variables, as os.LookupEnv does.
//
// The graph is as the spec says, not resolved: dataflow.Resolve checks what needs to know operators.
// It is nil if the document as a whole cannot be used, and then there is one diagnostic that says why.
// Otherwise it comes together with all that is wrong with the document, and may be resolved even then
// to find all other mistakes.
func Parse(file string, r io.Reader, env func(string) (string, bool)) (*dataflow.Graph, dataflow.Diagnostics) {
	src, f := readSource(file, r)
	if f != nil {
		return nil, f.diagnostics()
	}
	marks, end, f := scan(src)
	if f != nil {
		return nil, f.diagnostics()
	}
	top, err := document(src, marks, end)
	if err != nil {
		// The scan refuses all that etree does, with a better message; this is for what it overlooks.
		f := fault{dataflow.Pos{File: file}, fmt.Sprintf("not well-formed XML: %v", err)}
		return nil, f.diagnostics()
	}
	p := &parser{src: src, expander: expander{lookup: env, room: MaxSize}}
	g := p.dataflow(top)
	p.diags.Sort()
	return g, p.diags
}

func (f *fault) diagnostics() dataflow.Diagnostics {
	return dataflow.Diagnostics{{Pos: f.pos, Message: f.message}}
}

// parser makes a graph out of a document.
type parser struct {
	src      *source
	expander expander
	diags    dataflow.Diagnostics
	operator string // name of the operator that is being read, for diagnostics
}

// errorf reports something at a byte offset of the source. After very many it says no more.
func (p *parser) errorf(offset int, suggestion, format string, args ...any) {
	switch n := len(p.diags); {
	case n == maxReported-1:
		p.diags = append(p.diags, dataflow.Diagnostic{Pos: p.src.pos(offset), Message: "too many mistakes; the rest is not shown"})
		return
	case n >= maxReported:
		return
	}
	p.diags = append(p.diags, dataflow.Diagnostic{
		Pos: p.src.pos(offset), Operator: p.operator, Message: fmt.Sprintf(format, args...), Suggestion: suggestion,
	})
}

// element is a node that has been checked against the grammar.
type element struct {
	node  *node
	rule  *elementRule
	attrs map[string]attr // by name; a misspelled one stands under the name that was meant
}

// pos is the place of the element's "<".
func (p *parser) pos(e element) dataflow.Pos { return p.src.pos(e.node.start) }

// value is the value of an attribute, "" if it is not there.
func (e element) value(name string) string { return e.attrs[name].value.value }

func (e element) has(name string) bool {
	_, ok := e.attrs[name]
	return ok
}

// check holds the node's attributes and text to the rule.
func (p *parser) check(n *node, r *elementRule) element {
	e := element{node: n, rule: r, attrs: make(map[string]attr, len(n.el.Attr))}
	var unknown []attr
	names := make([]string, len(r.attrs))
	for i := range r.attrs {
		names[i] = r.attrs[i].name
	}
	for _, a := range n.attributes(p.src) {
		switch {
		case e.has(a.name):
			p.errorf(a.nameOffset, "", "duplicate attribute %q", a.name)
		case slices.Contains(names, a.name):
			e.attrs[a.name] = a
		case r.name == root && isNamespace(n, a.name):
		default:
			unknown = append(unknown, a)
		}
	}
	for _, a := range unknown {
		suggestion := dataflow.Nearest(a.name, names)
		p.errorf(a.nameOffset, suggestion, "unknown attribute %q of <%s>", shorten(a.name), r.name)
		if suggestion != "" && !e.has(suggestion) {
			e.attrs[suggestion] = a
		}
	}
	for _, ar := range r.attrs {
		a, ok := e.attrs[ar.name]
		if !ok && ar.required {
			p.errorf(n.start, "", "<%s> needs the attribute %q", r.name, ar.name)
		}
		if ok && ar.isName && !p.checkName(ar.name, a) {
			delete(e.attrs, ar.name)
		}
	}
	if !r.text {
		p.checkNoText(n)
	}
	return e
}

// isNamespace tells the attributes of the root element by which an editor finds the schema.
func isNamespace(n *node, name string) bool {
	prefix, local, ok := strings.Cut(name, ":")
	if !ok {
		return false
	}
	return prefix == "xmlns" ||
		(local == "noNamespaceSchemaLocation" || local == "schemaLocation") &&
			n.el.SelectAttrValue("xmlns:"+prefix, "") == "http://www.w3.org/2001/XMLSchema-instance"
}

// checkName reports a value that cannot be a name, and tells whether it may stand all the same.
func (p *parser) checkName(attribute string, a attr) bool {
	name := a.value.value
	at := a.value.sourceOffset(0)
	switch {
	case name == "":
		p.errorf(at, "", "attribute %q is empty", attribute)
	case len(name) > MaxName && utf8.RuneCountInString(name) > MaxName:
		p.errorf(at, "", "the name %q is longer than %d characters", shorten(name), MaxName)
		return false
	case strings.TrimFunc(name, isSpace) != name:
		p.errorf(at, strings.TrimFunc(name, isSpace), "the name %q has space around it", name)
	}
	return true
}

func (p *parser) checkNoText(n *node) {
	for _, m := range n.texts {
		d := newValueDecoder(p.src)
		d.charData(m.start, m.end)
		if t := d.text().trim(); t.value != "" {
			p.errorf(t.sourceOffset(0), "", "text %q does not belong in <%s>", shorten(t.value), n.el.FullTag())
		}
	}
}

// children gives the rule's children of the node, in order; misspelled ones as what was meant.
func (p *parser) children(e element) []element {
	var found []element
	for _, n := range e.node.children {
		name := n.el.FullTag()
		switch {
		case slices.Contains(e.rule.children, name):
		case rule(name) != nil:
			p.errorf(n.start, "", "<%s> does not belong in <%s>%s", name, e.rule.name, placeText(name))
			continue
		default:
			suggestion := dataflow.Nearest(name, e.rule.children)
			if suggestion == "" {
				suggestion = dataflow.Nearest(name, elementNames())
			}
			p.errorf(n.start, suggestion, "unknown element <%s> in <%s>", shorten(name), e.rule.name)
			if name = suggestion; !slices.Contains(e.rule.children, name) {
				continue
			}
		}
		if name == "operator" {
			p.operator = shorten(n.el.SelectAttrValue("name", ""))
		}
		found = append(found, p.check(n, rule(name)))
		if name == "operator" {
			p.operator = ""
		}
	}
	return found
}

// placeText says where the element belongs.
func placeText(name string) string {
	in := parents(name)
	if len(in) == 0 {
		return "; it is the root element"
	}
	return ", but in <" + strings.Join(in, "> or <") + ">"
}

// dataflow reads the root element.
func (p *parser) dataflow(n *node) *dataflow.Graph {
	if name := n.el.FullTag(); name != root {
		suggestion := dataflow.Nearest(name, []string{root})
		p.errorf(n.start, suggestion, "the root element of a spec is <%s>, not <%s>", root, shorten(name))
		if suggestion == "" {
			return nil
		}
	}
	e := p.check(n, rule(root))
	g := &dataflow.Graph{
		Name: cmp.Or(e.value("name"), defaultName(p.src.file)),
		File: p.src.file, Dir: filepath.Dir(p.src.file), Pos: p.pos(e),
	}
	for _, c := range p.children(e) {
		switch c.rule.name {
		case "type":
			g.Types = append(g.Types, p.namedType(c))
		case "operator":
			if len(g.Operators) == MaxOperators {
				p.errorf(c.node.start, "", "the spec has more than %d operators", MaxOperators)
				return nil
			}
			g.Operators = append(g.Operators, p.readOperator(c))
		case "rewrite":
			g.Rewrites = append(g.Rewrites, p.rewrite(c))
		case "rules":
			g.Rules = append(g.Rules, p.rules(c))
		}
	}
	return g
}

// defaultName is the name of a dataflow that has none of its own.
func defaultName(file string) string {
	if file == "-" {
		return root
	}
	base := filepath.Base(file)
	return cmp.Or(strings.TrimSuffix(base, filepath.Ext(base)), root)
}
