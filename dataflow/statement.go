package dataflow

import "strings"

// Statement is one operator of a resolved graph on a line of its own, in term notation, with its inputs
// by name, and what rewriting has added to it:
//
//	late.1 := filter(late.failover.1){checkpoint = true} @{checkpoint#1:p1} standby needs 2 cpus, 512MB of mem
func (o *Operator) Statement(opts TermOptions) string {
	var w strings.Builder
	w.WriteString(termName(o.Name) + " := " + termName(o.Type))
	if len(o.Inputs) > 0 {
		inputs := make([]string, len(o.Inputs))
		for i := range o.Inputs {
			inputs[i] = o.Inputs[i].source()
		}
		w.WriteString("(" + strings.Join(inputs, ", ") + ")")
	}
	params := o.Annotations
	if opts.Params {
		params = append(append([]Param(nil), o.Params...), params...)
	}
	w.WriteString(paramsTerm(params))
	for _, p := range o.Placement {
		w.WriteString(" " + p.String())
	}
	if o.Standby {
		w.WriteString(" standby")
	}
	if !o.Resources.IsZero() {
		w.WriteString(" needs " + o.Resources.String())
	}
	return w.String()
}

// source is the operator that gives the input, with the port after a point if it is not the main output.
func (in *Input) source() string {
	if in.From == nil {
		return "?" + termName(in.Stream)
	}
	if port := in.From.Outputs[in.Output].Port; port != "" {
		return termName(in.From.Name) + "." + paramTerm(port)
	}
	return termName(in.From.Name)
}

// Statements are those of all operators, one a line, in the order of the graph.
func (g *Graph) Statements(opts TermOptions) string {
	var w strings.Builder
	for _, op := range g.Operators {
		w.WriteString(op.Statement(opts) + "\n")
	}
	return w.String()
}
