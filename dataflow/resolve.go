package dataflow

import (
	"fmt"
	"slices"
	"strings"
)

// Resolve checks the graph against the catalog and completes it: it binds operators to descriptors,
// joins inputs to the outputs they read, and gives every stream its schema. It returns all that is
// wrong, in the order of the source; the graph may be run or rewritten only if there are no errors
// among it.
//
// A name that is empty and a column of kind Invalid have been reported by the front end already and
// cause no further diagnostics; nor does a type without columns. Where something unknown has a
// suggestion, the rest is checked as if the suggested name had been written.
//
// Resolve may be called again after the graph was changed.
func Resolve(g *Graph, cat Catalog) Diagnostics {
	r := &resolver{g: g, cat: cat, suggest: suggester{work: suggestWork}}
	r.collectTypes()
	r.uses = make([]use, len(g.Operators))
	first := make(map[string]*Operator, len(g.Operators))
	for i, op := range g.Operators {
		r.uses[i] = use{op: op, index: i}
		r.uniqueOperator(op, first)
		r.bind(&r.uses[i])
	}
	for i := range g.Rewrites {
		r.uniqueParams(fmt.Sprintf("rewrite rule %q: ", g.Rewrites[i].Rule), "", g.Rewrites[i].Params)
	}
	r.connect(first)
	r.checkCycles()
	for _, i := range r.order() {
		r.checkUse(&r.uses[i])
	}
	r.checkUnused()
	r.checkSinks()
	r.diags.Sort()
	return r.diags
}

// resolver is one run of Resolve.
type resolver struct {
	g         *Graph
	cat       Catalog
	suggest   suggester
	diags     Diagnostics
	types     map[string]*NamedType
	typeNames []string
	uses      []use             // parallel to g.Operators
	streams   map[string]origin // by name
}

// origin is the output that gives a stream.
type origin struct{ operator, output int }

// use is what Resolve knows of one operator.
type use struct {
	op    *Operator
	index int
	// params are the operator's parameters as far as they are sound: known, given once, with a value
	// of the parameter's type. Misspelled ones stand in it under the suggested spelling.
	params []Param
	// complete tells that all required parameters are there.
	complete bool
	// inputs are where the inputs come from, parallel to op.Inputs; operator is -1 where unknown.
	inputs []origin
	// declared are the schemas of the outputs' declared types, parallel to op.Outputs.
	declared []*Schema
	// producer tells which of the outputs is the (first) producer of its stream, and consumed which
	// one need not be told to be unused.
	producer, consumed []bool
}

func (r *resolver) errorf(pos Pos, operator, suggestion, format string, args ...any) {
	r.diags = append(r.diags, Diagnostic{Pos: pos, Operator: operator, Suggestion: suggestion, Message: fmt.Sprintf(format, args...)})
}

func (r *resolver) warnf(pos Pos, operator, format string, args ...any) {
	r.diags = append(r.diags, Diagnostic{Severity: Warning, Pos: pos, Operator: operator, Message: fmt.Sprintf(format, args...)})
}

func (r *resolver) collectTypes() {
	r.types = make(map[string]*NamedType, len(r.g.Types))
	for _, t := range r.g.Types {
		if t.Name == "" {
			continue
		}
		if first, ok := r.types[t.Name]; ok {
			r.errorf(t.Pos, "", "", "duplicate type %q; the first is at %s", t.Name, first.Pos)
			continue
		}
		r.types[t.Name] = t
		r.typeNames = append(r.typeNames, t.Name)
	}
}

func (r *resolver) uniqueOperator(op *Operator, first map[string]*Operator) {
	if op.Name == "" {
		return
	}
	if f, ok := first[op.Name]; ok {
		r.errorf(op.Pos, op.Name, "", "duplicate operator name %q; the first is at %s", op.Name, f.Pos)
		return
	}
	first[op.Name] = op
}

// bind finds the operator's descriptor and checks what needs only that.
func (r *resolver) bind(u *use) {
	op := u.op
	op.Desc = nil
	if op.Type != "" {
		op.Desc = r.cat.Lookup(op.Type)
	}
	desc := op.Desc
	if desc == nil && op.Type != "" {
		known := r.cat.Types()
		suggestion := r.suggest.nearest(op.Type, known)
		message := fmt.Sprintf("unknown operator type %s", quote(op.Type))
		if suggestion == "" {
			message += "; the types are " + strings.Join(known, ", ")
		}
		r.errorf(op.Pos, op.Name, suggestion, "%s", message)
		if suggestion != "" {
			desc = r.cat.Lookup(suggestion)
		}
	}
	r.declareOutputs(u)
	if desc == nil {
		r.uniqueParams("", op.Name, op.Params)
		return
	}
	r.bindParams(u, desc)
	r.bindPorts(u, desc)
	r.checkInputCount(u, desc)
	op.Desc = desc
}

// declareOutputs finds the declared types of the outputs.
func (r *resolver) declareOutputs(u *use) {
	n := len(u.op.Outputs)
	u.declared, u.producer, u.consumed = make([]*Schema, n), make([]bool, n), make([]bool, n)
	for i := range u.op.Outputs {
		out := &u.op.Outputs[i]
		out.Schema, out.Consumers = nil, nil
		if out.Type == "" {
			continue
		}
		t := r.types[out.Type]
		if t == nil {
			suggestion := r.suggest.nearest(out.Type, r.typeNames)
			r.errorf(out.Pos, u.op.Name, suggestion, "unknown type %s of output %q", quote(out.Type), out.Stream)
			t = r.types[suggestion]
		}
		if t != nil && len(t.Schema.Columns) > 0 {
			u.declared[i] = &t.Schema
		}
	}
}

// bindPorts checks the operator's outputs. An output that is named like a port and says nothing else
// is that port, unless it is the operator's only one.
func (r *resolver) bindPorts(u *use, desc *Descriptor) {
	op := u.op
	ports := make([]string, len(desc.Ports))
	for i, p := range desc.Ports {
		ports[i] = p.Name
	}
	for i := range op.Outputs {
		out := &op.Outputs[i]
		if out.Port == "" && len(op.Outputs) > 1 && slices.Contains(ports, out.Stream) && op.OutputPort(out.Stream) < 0 {
			out.Port = out.Stream
		}
	}
	seen := make(map[string]bool)
	for i := range op.Outputs {
		out := &op.Outputs[i]
		before := len(r.diags)
		switch {
		case out.Port != "" && !slices.Contains(ports, out.Port) && !desc.manyPort(out.Port):
			r.errorf(out.Pos, op.Name, r.suggest.nearest(out.Port, ports), "%s has no output port %s", a(desc.Name), quote(out.Port))
		case out.Port == "" && !desc.Output:
			r.errorf(out.Pos, op.Name, "", "%s has no output", a(desc.Name))
		case out.Port == "" && seen[""]:
			message := fmt.Sprintf("output %q is one too many: %s has one main output", out.Stream, a(desc.Name))
			if len(ports) > 0 {
				message += " beside its ports: " + strings.Join(ports, ", ")
			}
			r.errorf(out.Pos, op.Name, r.suggest.nearest(out.Stream, ports), "%s", message)
		case seen[out.Port]:
			r.errorf(out.Pos, op.Name, "", "duplicate output port %q", out.Port)
		}
		seen[out.Port] = true
		u.consumed[i] = len(r.diags) > before // that it is not used is no further news
	}
	if desc.Output && !seen[""] {
		r.errorf(op.Pos, op.Name, "", "%s needs an output", a(desc.Name))
	}
}

func (r *resolver) checkInputCount(u *use, desc *Descriptor) {
	op, n := u.op, len(u.op.Inputs)
	pos := op.Pos
	switch {
	case n < desc.MinInputs:
	case desc.MaxInputs >= 0 && n > desc.MaxInputs:
		pos = op.Inputs[desc.MaxInputs].Pos
	default:
		return
	}
	r.errorf(pos, op.Name, "", "%s takes %s, not %d", a(desc.Name), inputCount(desc.MinInputs, desc.MaxInputs), n)
}

// a puts the indefinite article before an operator type.
func a(operatorType string) string {
	if strings.ContainsAny(operatorType[:min(1, len(operatorType))], "aeio") {
		return "an " + operatorType
	}
	return "a " + operatorType
}

func inputCount(least, most int) string {
	plural := func(n int) string {
		if n == 1 {
			return "1 input"
		}
		return fmt.Sprintf("%d inputs", n)
	}
	switch {
	case most == 0:
		return "no input"
	case most < 0:
		return "at least " + plural(least)
	case least == most:
		return plural(least)
	default:
		return fmt.Sprintf("%d to %s", least, plural(most))
	}
}

// connect joins inputs to outputs by stream name. operators are the operators by name.
func (r *resolver) connect(operators map[string]*Operator) {
	r.streams = make(map[string]origin)
	var names []string
	for i := range r.uses {
		u := &r.uses[i]
		for j := range u.op.Outputs {
			out := &u.op.Outputs[j]
			if out.Stream == "" {
				continue
			}
			if first, ok := r.streams[out.Stream]; ok {
				other := r.g.Operators[first.operator]
				r.errorf(out.Pos, u.op.Name, "", "stream %q has two producers; the other is operator %q at %s",
					out.Stream, other.Name, other.Outputs[first.output].Pos)
				continue
			}
			r.streams[out.Stream] = origin{i, j}
			u.producer[j] = true
			names = append(names, out.Stream)
		}
	}
	for i := range r.uses {
		r.connectInputs(&r.uses[i], names, operators)
	}
}

func (r *resolver) connectInputs(u *use, names []string, operators map[string]*Operator) {
	u.inputs = make([]origin, len(u.op.Inputs))
	var own []string // the operator's streams, once they are needed
	for j := range u.op.Inputs {
		in := &u.op.Inputs[j]
		in.From, in.Output, in.Schema = nil, 0, nil
		u.inputs[j] = origin{operator: -1}
		if in.Stream == "" {
			continue
		}
		from, ok := r.streams[in.Stream]
		if !ok {
			if own == nil {
				own = u.op.outputs()
			}
			suggestion := r.suggest.nearest(in.Stream, names, own...)
			if op := operators[in.Stream]; op != nil && op != u.op && op.OutputPort("") >= 0 {
				suggestion = op.Outputs[op.OutputPort("")].Stream
			}
			r.errorf(in.Pos, u.op.Name, suggestion, "unknown stream %s", quote(in.Stream))
			if from, ok = r.streams[suggestion]; !ok {
				continue
			}
		} else {
			in.From, in.Output = r.g.Operators[from.operator], from.output
			out := &in.From.Outputs[from.output]
			out.Consumers = append(out.Consumers, Consumer{Op: u.op, Input: j})
		}
		u.inputs[j] = from
		r.uses[from.operator].consumed[from.output] = true
	}
}

// outputs are the names of the operator's streams.
func (o *Operator) outputs() []string {
	names := make([]string, len(o.Outputs))
	for i := range o.Outputs {
		names[i] = o.Outputs[i].Stream
	}
	return names
}

// checkCycles reports each cycle among the streams once.
func (r *resolver) checkCycles() {
	e := newEdges(len(r.uses))
	for i := range r.uses {
		for j := range r.uses[i].op.Inputs {
			if r.uses[i].op.Inputs[j].From != nil {
				e.add(r.uses[i].inputs[j].operator, i)
			}
		}
	}
	r.reportCycles(e)
}

func (r *resolver) reportCycles(e *edges) {
	for _, cycle := range e.cycles() {
		first := r.g.Operators[cycle[0]]
		r.errorf(first.Pos, first.Name, "", "is on a cycle: %s", r.cycleText(cycle))
	}
}

// cycleText names the operators of a cycle in the direction of the rows; of a very long one only the
// beginning and the end.
func (r *resolver) cycleText(cycle []int) string {
	const shown = 20
	var names []string
	for i, v := range cycle {
		if len(cycle) > 2*shown && i >= shown && i < len(cycle)-shown {
			if i == shown {
				names = append(names, fmt.Sprintf("(%d more)", len(cycle)-2*shown))
			}
			continue
		}
		names = append(names, r.g.Operators[v].Name)
	}
	return strings.Join(append(names, r.g.Operators[cycle[0]].Name), " -> ")
}

// order is the order in which schemas can be found, guessed inputs included.
func (r *resolver) order() []int {
	e := newEdges(len(r.uses))
	for i := range r.uses {
		for _, from := range r.uses[i].inputs {
			if from.operator >= 0 {
				e.add(from.operator, i)
			}
		}
	}
	return e.order()
}

func (r *resolver) checkUnused() {
	for i := range r.uses {
		u := &r.uses[i]
		for j := range u.op.Outputs {
			if out := &u.op.Outputs[j]; u.producer[j] && !u.consumed[j] {
				r.warnf(out.Pos, u.op.Name, "stream %q is not used", out.Stream)
			}
		}
	}
}

func (r *resolver) checkSinks() {
	if len(r.g.Operators) == 0 {
		r.errorf(r.g.Pos, "", "", "the dataflow has no operators")
		return
	}
	for _, op := range r.g.Operators {
		if op.Desc == nil || op.Desc.Sink() {
			return
		}
	}
	r.warnf(r.g.Pos, "", "no operator writes anything: nothing comes out of this dataflow")
}
