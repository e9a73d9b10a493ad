package dataflow

import (
	"strconv"
	"strings"
	"unicode"
)

// TermOptions say what Term shows besides the operators' names, types and inputs.
type TermOptions struct {
	Params bool // parameters, in braces
}

// Term gives the graph in term notation, one line for each operator whose outputs nobody reads, in the
// order of the spec (doc.go has the notation). It needs no Resolve.
func (g *Graph) Term(o TermOptions) string {
	w := termWriter{g: g, options: o, producers: g.producers(), named: make(map[*Operator]bool)}
	read := make(map[int]bool)
	for _, op := range g.Operators {
		for _, in := range op.Inputs {
			if from, ok := w.producers[in.Stream]; ok {
				read[from.operator] = true
			}
		}
	}
	for i, op := range g.Operators {
		if !read[i] {
			w.line(op)
		}
	}
	for _, op := range g.Operators { // what is left is on cycles
		if !w.named[op] {
			w.line(op)
		}
	}
	return w.b.String()
}

// producers finds the (first) output that gives each stream.
func (g *Graph) producers() map[string]origin {
	producers := make(map[string]origin, len(g.Operators))
	for i, op := range g.Operators {
		for j := range op.Outputs {
			if _, ok := producers[op.Outputs[j].Stream]; !ok {
				producers[op.Outputs[j].Stream] = origin{i, j}
			}
		}
	}
	return producers
}

// termWriter writes terms with a stack of its own: a graph may be a chain of many thousand operators.
type termWriter struct {
	g         *Graph
	options   TermOptions
	producers map[string]origin
	named     map[*Operator]bool
	b         strings.Builder
	stack     []termItem
}

// termItem is something still to be written: the text, or else the use of an operator's output.
type termItem struct {
	text string
	op   *Operator
	port string
}

func (w *termWriter) line(op *Operator) {
	w.stack = append(w.stack, termItem{op: op})
	for len(w.stack) > 0 {
		item := w.stack[len(w.stack)-1]
		w.stack = w.stack[:len(w.stack)-1]
		if item.op == nil {
			w.b.WriteString(item.text)
		} else {
			w.use(item.op, item.port)
		}
	}
	w.b.WriteByte('\n')
}

// use writes an operator, in full the first time, and puts what follows on the stack.
func (w *termWriter) use(op *Operator, port string) {
	if port != "" {
		port = "." + paramTerm(port)
	}
	if w.named[op] {
		w.b.WriteString(termName(op.Name) + port)
		return
	}
	w.named[op] = true
	if port != "" {
		w.b.WriteByte('(')
		w.push(")" + port)
	}
	w.b.WriteString(termName(op.Name) + " := " + termName(op.Type))
	if w.options.Params {
		w.push(paramsTerm(op.Params))
	}
	if len(op.Inputs) == 0 {
		return
	}
	w.push(")")
	for i := len(op.Inputs) - 1; i >= 0; i-- {
		w.input(op.Inputs[i].Stream)
		if i > 0 {
			w.push(", ")
		}
	}
	w.b.WriteByte('(')
}

func (w *termWriter) push(text string) { w.stack = append(w.stack, termItem{text: text}) }

func (w *termWriter) input(stream string) {
	from, ok := w.producers[stream]
	if !ok {
		w.push("?" + termName(stream))
		return
	}
	op := w.g.Operators[from.operator]
	w.stack = append(w.stack, termItem{op: op, port: op.Outputs[from.output].Port})
}

func paramsTerm(params []Param) string {
	if len(params) == 0 {
		return ""
	}
	parts := make([]string, len(params))
	for i, p := range params {
		parts[i] = termName(p.Name) + " = " + paramTerm(p.Value)
	}
	return "{" + strings.Join(parts, ", ") + "}"
}

// paramTerm is a value as it is if it is a word or a number, else quoted.
func paramTerm(value string) string {
	if value == "" || strings.ContainsFunc(value, func(r rune) bool { return !isWordRune(r) }) {
		return strconv.Quote(value)
	}
	return value
}

// termName is a name as it is if it is a letter or underscore followed by letters, digits and
// any of "_-.", else quoted.
func termName(name string) string {
	for i, r := range name {
		if !isWordRune(r) || i == 0 && r != '_' && !unicode.IsLetter(r) {
			return strconv.Quote(name)
		}
	}
	if name == "" {
		return `""`
	}
	return name
}

func isWordRune(r rune) bool {
	return r == '_' || r == '-' || r == '.' || unicode.IsLetter(r) || unicode.IsDigit(r)
}
