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
		b.WriteString("  " + dotNode(op))
	}
	g.dotEdges(&b)
	b.WriteString("}\n")
	return b.String()
}

// Dot gives the physical graph in the language of Graphviz: the operators of a task stand in a cluster
// with the task's name, placement and resources; that of a standby is dashed.
func (p *Physical) Dot() string {
	var b strings.Builder
	fmt.Fprintf(&b, "digraph %s {\n  rankdir=LR;\n  node [shape=box];\n", dotQuote(p.Graph.Name))
	for i, t := range p.Tasks {
		label := "task " + t.Name
		for _, pl := range t.Placement {
			label += "\n" + pl.String()
		}
		style := ""
		if t.Standby {
			label, style = label+"\nstandby", " style=dashed;"
		}
		if !t.Resources.IsZero() {
			label += "\nneeds " + t.Resources.String()
		}
		fmt.Fprintf(&b, "  subgraph cluster_%d {\n    label=%s;%s\n", i, dotQuote(label), style)
		for _, op := range t.Operators {
			b.WriteString("    " + dotNode(op))
		}
		b.WriteString("  }\n")
	}
	p.Graph.dotEdges(&b)
	b.WriteString("}\n")
	return b.String()
}

func dotNode(op *Operator) string {
	label := op.Name + "\n" + op.Type
	if !op.Resources.IsZero() {
		label += "\nneeds " + op.Resources.String()
	}
	return fmt.Sprintf("%s [label=%s];\n", dotQuote(op.Name), dotQuote(label))
}

func (g *Graph) dotEdges(b *strings.Builder) {
	producers := g.producers()
	for _, op := range g.Operators {
		for _, in := range op.Inputs {
			from, ok := producers[in.Stream]
			if !ok {
				continue
			}
			producer := g.Operators[from.operator]
			out := &producer.Outputs[from.output]
			fmt.Fprintf(b, "  %s -> %s [label=%s];\n", dotQuote(producer.Name), dotQuote(op.Name), dotQuote(edgeLabel(out)))
		}
	}
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
