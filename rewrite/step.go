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
	for op, c := range b.copy {
		if b.gone[c] || b.made[c] != nil || b.changed[c] {
			old[op.Name] = op
		}
	}
	for _, op := range b.old.Operators {
		if c := b.copy[op]; b.gone[c] {
			w.WriteString("- " + statement(op, false) + "\n")
		}
	}
	for _, op := range b.g.Operators {
		n := b.made[op]
		if n == nil && !b.changed[op] {
			continue
		}
		now := statement(op, n != nil && n.of == nil)
		if was := old[op.Name]; was != nil && !b.gone[b.copy[was]] {
			before := statement(was, false)
			if before == now {
				continue
			}
			w.WriteString("- " + before + "\n")
		}
		w.WriteString("+ " + now + "\n")
	}
	return w.String()
}

// statement is one operator in term notation, with the streams that it reads by name.
func statement(op *dataflow.Operator, params bool) string {
	var w strings.Builder
	w.WriteString(op.Name + " := " + op.Type)
	if len(op.Inputs) > 0 {
		var inputs []string
		for i := range op.Inputs {
			inputs = append(inputs, streamName(&op.Inputs[i]))
		}
		w.WriteString("(" + strings.Join(inputs, ", ") + ")")
	}
	list := op.Annotations
	if params {
		list = append(append([]dataflow.Param(nil), op.Params...), list...)
	}
	if len(list) > 0 {
		var settings []string
		for _, p := range list {
			settings = append(settings, p.Name+" = "+valueText(p.Value))
		}
		w.WriteString("{" + strings.Join(settings, ", ") + "}")
	}
	for _, p := range op.Placement {
		w.WriteString(" " + p.String())
	}
	if op.Standby {
		w.WriteString(" standby")
	}
	return w.String()
}

// streamName is the operator that gives the stream, with the port after a point if it is not the main
// output.
func streamName(in *dataflow.Input) string {
	if port := in.From.Outputs[in.Output].Port; port != "" {
		return in.From.Name + "." + port
	}
	return in.From.Name
}

func valueText(text string) string {
	if numberKind(text) != AnyValue || text == "true" || text == "false" {
		return text
	}
	return (&value{kind: TextValue, literal: text}).String()
}
