package rewrite

import (
	"strings"

	"sluice/dataflow"
)

// diff tells what the application changed, in the order of the new graph; what goes stands where what
// comes in its place does.
func (b *builder) diff() string {
	var w strings.Builder
	old := make(map[string]*dataflow.Operator, len(b.copy))
	for _, op := range b.touched {
		c := b.copy[op]
		if b.gone[c] || b.made[c] != nil || b.changed[c] {
			old[op.Name] = op
		}
		if b.gone[c] {
			w.WriteString("- " + op.Statement(dataflow.TermOptions{}) + "\n")
		}
	}
	for _, op := range b.result() {
		n := b.made[op]
		if n == nil && !b.changed[op] {
			continue
		}
		now := op.Statement(dataflow.TermOptions{Params: n != nil && n.of == nil})
		if was := old[op.Name]; was != nil && !b.gone[b.copy[was]] {
			before := was.Statement(dataflow.TermOptions{})
			if before == now {
				continue
			}
			w.WriteString("- " + before + "\n")
		}
		w.WriteString("+ " + now + "\n")
	}
	return w.String()
}
