package dataflow

import (
	"fmt"
	"strings"
)

// Dot gives the graph in the language of Graphviz: a box for each operator, and an edge for each use
// of a stream, labelled with the stream's name, the output port it comes from, and its columns, if
// the graph is resolved.
func (g *Graph) Dot() string {
	var b strings.Builder
	fmt.Fprintf(&b, "digraph %s {\n  rankdir=LR;\n  node [shape=box];\n", dotQuote(g.Name))
	for _, op := range g.Operators {
		fmt.Fprintf(&b, "  %s [label=%s];\n", dotQuote(op.Name), dotQuote(op.Name+"\n"+op.Type))
	}
	producers := g.producers()
	for _, op := range g.Operators {
		for _, in := range op.Inputs {
			from, ok := producers[in.Stream]
			if !ok {
				continue
			}
			producer := g.Operators[from.operator]
			out := &producer.Outputs[from.output]
			fmt.Fprintf(&b, "  %s -> %s [label=%s];\n", dotQuote(producer.Name), dotQuote(op.Name), dotQuote(edgeLabel(out)))
		}
	}
	b.WriteString("}\n")
	return b.String()
}

// edgeLabel describes a stream in a few lines.
func edgeLabel(out *Output) string {
	const shown = 16
	label := out.Stream
	if out.Port != "" {
		label += " (" + out.Port + ")"
	}
	if out.Schema == nil {
		return label
	}
	for i, c := range out.Schema.Columns {
		if i == shown && len(out.Schema.Columns) > shown+1 {
			return label + fmt.Sprintf("\n%d more columns", len(out.Schema.Columns)-shown)
		}
		label += "\n" + c.String()
	}
	return label
}

// dotQuote makes a quoted string of the language; a line end in it is shown as one.
func dotQuote(text string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(text) + `"`
}
