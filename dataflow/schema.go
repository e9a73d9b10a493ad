package dataflow

import (
	"fmt"
	"strings"
)

// checkUse lets the operator's descriptor check the operator as a whole and sets the schemas of its
// inputs and outputs. The schemas of its inputs' streams must be set.
func (r *resolver) checkUse(u *use) {
	op := u.op
	inputs := make([]CheckInput, len(op.Inputs))
	for j := range op.Inputs {
		inputs[j].Stream = op.Inputs[j].Stream
		if from := u.inputs[j]; from.operator >= 0 {
			inputs[j] = op.Inputs[j].read(&r.g.Operators[from.operator].Outputs[from.output])
		}
	}
	r.check(u, inputs)
}

// read sets the schema of the input, and returns what Check is told of it.
func (in *Input) read(out *Output) CheckInput {
	in.Schema = out.Schema
	if in.As != "" {
		return CheckInput{Stream: in.As, Schema: out.Schema}
	}
	return CheckInput{Stream: out.Stream, Schema: out.Schema}
}

// check is checkUse for an operator whose inputs are known.
func (r *resolver) check(u *use, inputs []CheckInput) {
	op := u.op
	derived := r.derive(u, inputs)
	for j := range op.Outputs {
		out := &op.Outputs[j]
		switch {
		case derived[j] == nil:
			out.Schema = u.declared[j]
		case u.declared[j] == nil:
			out.Schema = derived[j]
		default:
			out.Schema = r.compare(op, out, u.declared[j], derived[j])
		}
	}
}

// derive calls the descriptor's Check with a copy of the operator that has what Check relies on: a
// number of inputs and outputs that the type allows and sound parameters. It returns a schema, or
// nil, for each of the operator's outputs.
func (r *resolver) derive(u *use, inputs []CheckInput) []*Schema {
	op, desc := u.op, u.op.Desc
	derived := make([]*Schema, len(op.Outputs))
	if desc == nil || desc.Check == nil || !u.complete {
		return derived
	}
	sound := *op
	sound.Params = u.params
	sound.Inputs = append([]Input(nil), op.Inputs...)
	for len(inputs) < desc.MinInputs {
		inputs = append(inputs, CheckInput{})
		sound.Inputs = append(sound.Inputs, Input{Pos: op.Pos})
	}
	if desc.MaxInputs >= 0 && len(inputs) > desc.MaxInputs {
		inputs = inputs[:desc.MaxInputs]
		sound.Inputs = sound.Inputs[:desc.MaxInputs]
	}
	sound.Outputs = nil
	var declared []*Schema
	var from []int // which of op's outputs each one is
	for j, out := range op.Outputs {
		if desc.hasPort(out.Port) && sound.OutputPort(out.Port) < 0 {
			sound.Outputs = append(sound.Outputs, out)
			declared = append(declared, u.declared[j])
			from = append(from, j)
		}
	}
	if desc.Output && sound.OutputPort("") < 0 {
		sound.Outputs = append(sound.Outputs, Output{Pos: op.Pos})
		declared = append(declared, nil)
	}
	schemas := desc.Check(NewCheck(&sound, inputs, declared, func(d Diagnostic) { r.diags = append(r.diags, d) }))
	for k, j := range from {
		if k < len(schemas) {
			derived[j] = schemas[k]
		}
	}
	return derived
}

func (d *Descriptor) hasPort(name string) bool {
	if name == "" {
		return d.Output
	}
	for i := range d.Ports {
		if d.Ports[i].Name == name {
			return true
		}
	}
	return d.manyPort(name)
}

// compare reports where the declared schema of an output differs from the one that the operator
// gives. It returns the schema of the stream: the operator's, in which columns that are in doubt are
// Invalid, so that they cause no errors downstream.
func (r *resolver) compare(op *Operator, out *Output, declared, derived *Schema) *Schema {
	if declared == derived {
		return derived
	}
	names := derived.Names()
	given := make(map[string]int, len(derived.Columns))
	for i, c := range derived.Columns {
		given[c.Name] = i
	}
	said := make(map[string]bool, len(declared.Columns))
	result := &Schema{Columns: append([]Column(nil), derived.Columns...)}
	report := func(format string, args ...any) {
		r.errorf(out.Pos, op.Name, "", "output %q: %s", out.Stream, fmt.Sprintf(format, args...))
	}
	ordered, last := true, -1
	for _, want := range declared.Columns {
		said[want.Name] = true
		i, ok := given[want.Name]
		if !ok {
			r.errorf(out.Pos, op.Name, r.suggest.nearest(want.Name, names),
				"output %q: type %q has a column %q, which the operator does not give", out.Stream, out.Type, want.Name)
			result.Columns = append(result.Columns, Column{Name: want.Name, Nullable: want.Nullable})
			continue
		}
		ordered = ordered && i > last
		last = i
		got := derived.Columns[i]
		if got.Type.Kind == Invalid || want.Type.Kind == Invalid {
			result.Columns[i].Type = Type{}
			continue
		}
		if got.Type != want.Type {
			report("column %q is %s in type %q, but the operator gives %s", want.Name, want.Type, out.Type, got.Type)
			result.Columns[i].Type = Type{}
			continue
		}
		if got.Nullable && !want.Nullable {
			report("column %q is not nullable in type %q, but may be NULL here", want.Name, out.Type)
		}
		if want.EventTime && !got.EventTime {
			report("column %q is the event time in type %q, but not here: %s", want.Name, out.Type, eventTimeText(derived))
		}
	}
	var missing []string
	for i, c := range derived.Columns {
		if !said[c.Name] {
			missing = append(missing, fmt.Sprintf("%q", c.Name))
			result.Columns[i].Type = Type{}
		}
	}
	if len(missing) > 0 {
		report("type %q lacks %s, which the operator gives", out.Type, columnsText(missing))
	}
	if !ordered {
		report("type %q has the columns in another order than the operator, which gives %s", out.Type, strings.Join(names, ", "))
	}
	return result
}

func eventTimeText(s *Schema) string {
	if i := s.EventTime(); i >= 0 {
		return fmt.Sprintf("the event time is %q", s.Columns[i].Name)
	}
	return "the stream has no event time"
}

func columnsText(quoted []string) string {
	const shown = 20
	if len(quoted) == 1 {
		return "column " + quoted[0]
	}
	if len(quoted) > shown {
		quoted = append(quoted[:shown:shown], fmt.Sprintf("%d more", len(quoted)-shown))
	}
	return "columns " + strings.Join(quoted, ", ")
}
