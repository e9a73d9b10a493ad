package dataflow

import (
	"errors"
	"fmt"
	"slices"
)

// CheckSetting checks a new value of a parameter of o, which is resolved, as Resolve would check it in a
// spec. An empty value stands for a parameter that is left out. The error says all that is wrong.
func (o *Operator) CheckSetting(param, value string) error {
	if !o.settable(param) {
		return fmt.Errorf("%s of operator %q cannot be set while the query runs", param, o.Name)
	}
	desc := o.Desc.Param(param)
	if value != "" || desc.Required {
		if message, suggestion := desc.check(value); message != "" {
			return errors.New(Diagnostic{Message: message, Suggestion: suggestion}.String())
		}
	}
	changed := *o
	changed.Params = slices.DeleteFunc(slices.Clone(o.Params), func(p Param) bool { return p.Name == param })
	if value != "" {
		changed.Params = append(changed.Params, Param{Name: param, Value: value})
	}
	if o.Desc.Check == nil {
		return nil
	}
	var errs []error
	o.Desc.Check(NewCheck(&changed, o.checkInputs(), o.schemas(), func(d Diagnostic) {
		if d.Severity == Error {
			errs = append(errs, errors.New(Diagnostic{Message: d.Message, Suggestion: d.Suggestion}.String()))
		}
	}))
	return errors.Join(errs...)
}

func (o *Operator) checkInputs() []CheckInput {
	inputs := make([]CheckInput, len(o.Inputs))
	for i := range o.Inputs {
		inputs[i] = CheckInput{Stream: o.Inputs[i].Scope(), Schema: o.Inputs[i].Schema}
	}
	return inputs
}

// schemas are those of the outputs, which after Resolve are also those that were declared.
func (o *Operator) schemas() []*Schema {
	schemas := make([]*Schema, len(o.Outputs))
	for i := range o.Outputs {
		schemas[i] = o.Outputs[i].Schema
	}
	return schemas
}
