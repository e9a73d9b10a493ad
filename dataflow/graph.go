package dataflow

// Graph is a dataflow: operators joined by streams. The fields are filled by a front end
// (specs/xmlspec); Resolve checks them, binds operators to their descriptors and gives every stream
// its type. After Resolve a graph is not changed.
type Graph struct {
	Name      string
	File      string // path of the spec, "-" for standard input; relative paths start at its folder
	Dir       string // folder against which relative paths in parameters are taken
	Pos       Pos
	Types     []*NamedType
	Operators []*Operator // in the order of the spec
	Rules     []RuleFile
	Rewrites  []Rewrite // applied in order
	Steps     int       // rewrite steps that have been applied
}

// NamedType is a stream type that the spec declares.
type NamedType struct {
	Name   string
	Pos    Pos
	Schema Schema
}

// Operator is a node of the graph.
type Operator struct {
	Name    string
	Type    string // "reader", "filter", ...
	Pos     Pos
	Inputs  []Input  // in declared order
	Outputs []Output // in declared order
	Params  []Param
	// Resources are what the operator needs of the machine that runs it. Replicas need the same.
	Resources Resources

	// Set by rewriting (physical.go); empty in a graph as a front end makes it.
	Origin      *Origin
	Placement   []Placement
	Standby     bool    // started only when another replica fails
	Annotations []Param // known to every operator: see the variable Annotations

	// Set by Resolve.
	Desc *Descriptor
}

// Input is the use of a stream by an operator.
type Input struct {
	Stream string
	Pos    Pos
	// As is the name by which the operator's expressions call the input where that is not the name
	// of the stream: rewriting puts other streams in the place of those that the spec names.
	As string

	// Set by Resolve.
	From   *Operator
	Output int     // index in From.Outputs
	Schema *Schema // nil where an error upstream left it unknown
}

// Output is a stream that an operator produces.
type Output struct {
	Stream string
	Port   string // which of the operator's outputs this is: "" (the main one), "errors", "late"
	Type   string // name of a declared type; "" where it is left to follow from the operator
	Pos    Pos

	// Set by Resolve.
	Schema    *Schema
	Consumers []Consumer // in the order of the spec
}

// Consumer is one use of an output: input Input of Op.
type Consumer struct {
	Op    *Operator
	Input int
}

// Param is one parameter of an operator as it was written.
type Param struct {
	Name  string
	Value string
	Pos   Pos  // of the parameter itself
	Text  Text // where each part of Value stands in the source
}

// Text maps byte offsets in a value to places in its source text. Escapes and variables make the two
// run apart, so a value is a list of spans.
type Text []Span

// Span says that from byte Offset of a value on, until the next span, the characters of the value
// stand one after the other in the source, starting at Pos. If Fixed, they all stand at Pos (the
// value of a variable, say).
type Span struct {
	Offset int
	Pos    Pos
	Fixed  bool
}

// At returns the place of byte offset in value, which must be the value that t describes.
func (t Text) At(value string, offset int) Pos {
	i := len(t) - 1
	for i > 0 && t[i].Offset > offset {
		i--
	}
	if i < 0 {
		return Pos{}
	}
	p := t[i].Pos
	if t[i].Fixed {
		return p
	}
	for _, r := range value[min(t[i].Offset, len(value)):min(max(offset, t[i].Offset), len(value))] {
		if r == '\n' {
			p.Line++
			p.Col = 1
		} else {
			p.Col++
		}
	}
	return p
}

// RuleFile names a file of rewrite rules that the spec loads.
type RuleFile struct {
	Href string
	Pos  Pos
}

// Rewrite asks for one rule to be applied.
type Rewrite struct {
	Rule     string
	Operator string
	Params   []Param
	Pos      Pos
}

// Param returns the named parameter as it was written.
func (o *Operator) Param(name string) (Param, bool) {
	for _, p := range o.Params {
		if p.Name == name {
			return p, true
		}
	}
	return Param{}, false
}

// Value returns the value of the named parameter: what was written, else the descriptor's default.
func (o *Operator) Value(name string) string {
	if p, ok := o.Param(name); ok {
		return p.Value
	}
	if o.Desc != nil {
		if d := o.Desc.Param(name); d != nil {
			return d.Default
		}
	}
	return ""
}

// OutputPort returns the index in Outputs of the named port ("" is the main output), or -1.
func (o *Operator) OutputPort(port string) int {
	for i := range o.Outputs {
		if o.Outputs[i].Port == port {
			return i
		}
	}
	return -1
}

// Operator returns the operator of that name, or nil.
func (g *Graph) Operator(name string) *Operator {
	for _, o := range g.Operators {
		if o.Name == name {
			return o
		}
	}
	return nil
}
