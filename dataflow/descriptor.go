package dataflow

import "fmt"

// Descriptor tells everything about one operator type that specs, rewriting and documentation need.
// The package operators fills it, in one place for each operator.
type Descriptor struct {
	Name string // as written in a spec's type attribute
	Doc  string // what it does; the first sentence is a summary

	Params []ParamDesc

	// MinInputs and MaxInputs bound the number of inputs; MaxInputs -1 is any number. An operator
	// that may have no input is a source.
	MinInputs, MaxInputs int
	// Output tells whether the operator has a main output.
	Output bool
	// Ports lists further outputs that a spec may name, such as "errors".
	Ports []PortDesc

	// Properties that rewrite constraints ask for.
	Stateless     bool // keeps nothing from one row to the next
	Deterministic bool

	// Properties returns the properties of one use of the operator, which is resolved; nil stands
	// for what Stateless and Deterministic say.
	Properties func(op *Operator) Properties
	// Stages returns a chain of operators that does what this use of the operator does, nil if there
	// is none. The first one reads the operator's inputs; the last one gives its main output.
	Stages func(op *Operator) []Stage
	// Copied tells which columns of the main output are columns of the input, unchanged: for the name of
	// the one that of the other. nil stands for an output that has the columns of the input.
	Copied func(op *Operator) map[string]string
	// ManyOutputs tells that instead of a main output the operator has any number of outputs, at the
	// ports "1", "2", ... without gaps, each of which is for one consumer.
	ManyOutputs bool
	// Divides tells that each of the operator's outputs, or the output of each of several such
	// operators side by side, has a part of the rows: by key groups if it has a key.
	Divides bool
	// Races tells that the operator's inputs are copies of one stream, with the same rows in the same
	// order, and that it takes each row from whichever brings it first.
	Races bool
	// Added tells that rewriting adds such operators, and that a spec has no need to name them.
	Added bool
	// Passthrough tells that with one input and one output the operator changes nothing.
	Passthrough bool

	// Check validates one use of the operator: what its parameters say given its input types. It
	// reports through c and returns the schema of each declared output, in order, nil where it
	// cannot be known. Names, numbers of inputs and outputs and each parameter by itself have been
	// checked already. It must not do I/O.
	Check func(c *Check) []*Schema
}

// PortDesc is an additional output of an operator.
type PortDesc struct {
	Name string
	Doc  string
}

// ParamType is what a parameter's text must be.
type ParamType uint8

// The parameter types.
const (
	TextParam       ParamType = iota // anything
	PathParam                        // a file name, pattern or "-"
	EnumParam                        // one of ParamDesc.Values
	BoolParam                        // true or false
	IntParam                         // an integer, at least ParamDesc.Min
	FloatParam                       // a number, at least ParamDesc.Min
	DurationParam                    // 250ms 10s 5m 1h 2d; not negative
	ExpressionParam                  // an expression of operators/expr
	SelectParam                      // a list of expressions with names
	WindowParam                      // tumbling(10s), ...
)

var paramTypeNames = [...]string{"text", "path", "one of", "bool", "int", "number", "duration", "expression", "select list", "window"}

func (t ParamType) String() string { return paramTypeNames[t] }

// ParamDesc declares one parameter of an operator type.
type ParamDesc struct {
	Name     string
	Type     ParamType
	Values   []string // for EnumParam; the first is the default
	Default  string   // value when it is left out; "" may also mean that there is none
	Required bool
	Min      float64 // for IntParam and FloatParam
	Settable bool    // may be changed while the query runs
	Doc      string  // one sentence
}

// Param returns the descriptor's parameter of that name, or nil.
func (d *Descriptor) Param(name string) *ParamDesc {
	for i := range d.Params {
		if d.Params[i].Name == name {
			return &d.Params[i]
		}
	}
	return nil
}

// Source reports whether operators of this type read from outside.
func (d *Descriptor) Source() bool { return d.MaxInputs == 0 }

// Sink reports whether operators of this type only consume.
func (d *Descriptor) Sink() bool { return !d.Output && !d.ManyOutputs }

// Catalog finds descriptors by operator type.
type Catalog interface {
	// Lookup returns the descriptor, or nil.
	Lookup(operatorType string) *Descriptor
	// Types returns all known operator types, sorted.
	Types() []string
}

// Check is one use of an operator under validation.
type Check struct {
	Op     *Operator
	Inputs []CheckInput
	// Declared is the schema given for each output, nil where it was left out.
	Declared []*Schema

	report func(Diagnostic)
}

// CheckInput is one input of the operator under validation.
type CheckInput struct {
	Stream string
	Schema *Schema // nil where an error upstream left it unknown
}

// NewCheck makes a Check that reports to report.
func NewCheck(op *Operator, inputs []CheckInput, declared []*Schema, report func(Diagnostic)) *Check {
	return &Check{Op: op, Inputs: inputs, Declared: declared, report: report}
}

// Report adds a diagnostic; the operator's name is filled in.
func (c *Check) Report(d Diagnostic) {
	d.Operator = c.Op.Name
	c.report(d)
}

// Errorf reports an error about the operator as a whole.
func (c *Check) Errorf(format string, args ...any) {
	c.Report(Diagnostic{Pos: c.Op.Pos, Message: fmt.Sprintf(format, args...)})
}

// ParamErrorf reports an error at byte offset of a parameter's value, or about the whole operator if
// it has no such parameter. The message should name the parameter.
func (c *Check) ParamErrorf(param string, offset int, suggestion, format string, args ...any) {
	pos := c.Op.Pos
	if p, ok := c.Op.Param(param); ok {
		pos = p.Pos
		if len(p.Text) > 0 {
			pos = p.Text.At(p.Value, offset)
		}
	}
	c.Report(Diagnostic{Pos: pos, Message: fmt.Sprintf(format, args...), Suggestion: suggestion})
}
