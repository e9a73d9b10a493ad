package dataflow

import (
	"slices"
	"strconv"
	"strings"
)

// KeyGroups is the number of hash buckets into which keyed state and keyed streams are divided.
const KeyGroups = 720

// Origin tells where an operator that rewriting made or changed comes from. It is not changed once it
// is set; copies of a graph share it.
type Origin struct {
	// Of names the operator of the spec whose work this one does or serves.
	Of string
	// Lineage names the operators that this one stands for, oldest first: those that it is a replica
	// or a stage of, and so on back to the spec. It is empty for an operator that a rule added. What
	// state the operator has is state of these.
	Lineage []string
	// Rule made the operator, in the rewrite step Step (from 1). An operator of the spec that a rule
	// only placed has Step 0.
	Rule string
	Step int
	// Replica counts from 1 among the replicas that the rule made of one operator, of which there are
	// Replicas; both are 0 for an operator that is no replica.
	Replica, Replicas int
	// Groups are the key groups whose rows the operator works on, as far as rules divided them.
	Groups GroupRange
	// Stage is which stage of the operator (from 1) this one is, 0 for all of it.
	Stage int
	// Through names the rules that have been applied to the operator, or made it. They are not
	// applied to it again.
	Through []string
}

// GroupRange is a range of key groups, from First up to but not including End. The zero value is all of
// them; First = End > 0 is none.
type GroupRange struct{ First, End int }

// limits gives the range with its limits as numbers.
func (r GroupRange) limits() GroupRange {
	if r == (GroupRange{}) {
		return GroupRange{0, KeyGroups}
	}
	return r
}

// Intersect is what two ranges have in common.
func (r GroupRange) Intersect(s GroupRange) GroupRange {
	r, s = r.limits(), s.limits()
	i := GroupRange{max(r.First, s.First), min(r.End, s.End)}
	if i.First >= i.End {
		return GroupRange{KeyGroups, KeyGroups}
	}
	return i
}

// Empty reports whether no group is in the range.
func (r GroupRange) Empty() bool { r = r.limits(); return r.First >= r.End }

// Part is what is left of the range for part i (from 1) of k equal parts of all key groups.
func (r GroupRange) Part(i, k int) GroupRange {
	return r.Intersect(GroupRange{(i - 1) * KeyGroups / k, i * KeyGroups / k})
}

// String gives the range with both ends, "0-359"; "none" if it is empty.
func (r GroupRange) String() string {
	if r.Empty() {
		return "none"
	}
	r = r.limits()
	return strconv.Itoa(r.First) + "-" + strconv.Itoa(r.End-1)
}

// Placement asks that an operator run apart from others. Operators with the same Group and different
// Labels never share a node unless Spread is set on both; then they should be spread, but may share
// one. Operators whose lists of placements are equal may be fused into one task.
type Placement struct {
	Group  string // one application of a rule, unique in the graph
	Label  string
	Spread bool
}

// String gives the placement as it is shown: "@{hot-standby#1:p1}", with "*" after a label that is
// spread.
func (p Placement) String() string {
	star := ""
	if p.Spread {
		star = "*"
	}
	return "@{" + p.Group + ":" + p.Label + star + "}"
}

// Properties are what rewrite constraints ask about an operator.
type Properties struct {
	Stateless     bool // keeps nothing from one row to the next
	Deterministic bool // its output is a function of its input
	Commutative   bool // its result does not depend on the order of its input rows
	Associative   bool // results over parts of the input can be merged into the result over all
	// Keyed tells that the operator's state is kept per key, and Key is that key: expressions over
	// its input. InputKeys are the keys of each input where an operator with several has a different
	// one for each.
	Keyed     bool
	Key       []string
	InputKeys [][]string
	// KeyInputs names, for each of Key, the column of the input that it is, and KeyOutputs the column of
	// the main output that holds it; "" where there is none.
	KeyInputs, KeyOutputs []string
	// Splittable tells that the operator may be replaced by several that each see a part of the rows
	// (all rows of a key in one part if it is keyed); otherwise NotSplittable says why not.
	Splittable    bool
	NotSplittable string
}

// KeyOf is the key of input i as one list of expressions, "" if there is none.
func (p Properties) KeyOf(i int) string {
	if i >= 0 && i < len(p.InputKeys) {
		return strings.Join(p.InputKeys[i], ", ")
	}
	return strings.Join(p.Key, ", ")
}

// Stage is one operator of a chain that together does what another operator does.
type Stage struct {
	Type   string
	Params []Param
}

// Annotations are the parameters that every operator has beside those of its type. They are set by
// rewrite rules only.
var Annotations = []ParamDesc{
	{Name: "checkpoint", Type: BoolParam, Doc: "Snapshots of the state are taken by epoch, so that a standby can go on from the last one."},
}

// Annotation returns the value of the named annotation, "" if it is not set.
func (o *Operator) Annotation(name string) string {
	for _, p := range o.Annotations {
		if p.Name == name {
			return p.Value
		}
	}
	return ""
}

// Properties returns the operator's properties. It must be resolved.
func (o *Operator) Properties() Properties {
	d := o.Desc
	if d.Properties != nil {
		return d.Properties(o)
	}
	p := Properties{Stateless: d.Stateless, Deterministic: d.Deterministic, Splittable: d.Stateless}
	if !p.Splittable {
		p.NotSplittable = "it keeps state that is not divided by a key"
	}
	if d.Source() || d.Sink() {
		p.Splittable, p.NotSplittable = false, "it reads or writes the outside world"
	}
	return p
}

// Stages returns the operator's decomposition into a chain, nil if it has none.
func (o *Operator) Stages() []Stage {
	if o.Desc == nil || o.Desc.Stages == nil {
		return nil
	}
	return o.Desc.Stages(o)
}

// Scope is the name by which the operator's expressions call the input.
func (in *Input) Scope() string {
	if in.As != "" {
		return in.As
	}
	return in.Stream
}

// StandsFor reports whether the operator is, or descends from, the operator of that name.
func (o *Operator) StandsFor(name string) bool {
	return o.Name == name || o.Origin != nil && slices.Contains(o.Origin.Lineage, name)
}

// Named returns the operators that a name means after rewriting: the operator of that name if there
// is one, else all that stand for it, in the order of the graph.
func (g *Graph) Named(name string) []*Operator {
	if op := g.Operator(name); op != nil {
		return []*Operator{op}
	}
	var ops []*Operator
	for _, op := range g.Operators {
		if op.StandsFor(name) {
			ops = append(ops, op)
		}
	}
	return ops
}

// Clone returns a copy of the graph that may be changed and then resolved without touching g. What no
// one changes (declared types, descriptors, schemas, parameter texts, origins) is shared.
func (g *Graph) Clone() *Graph {
	c := *g
	c.Operators = make([]*Operator, len(g.Operators))
	copies := make(map[*Operator]*Operator, len(g.Operators))
	for i, op := range g.Operators {
		c.Operators[i] = op.Clone()
		copies[op] = c.Operators[i]
	}
	for _, op := range c.Operators {
		for i := range op.Inputs {
			op.Inputs[i].From = copies[op.Inputs[i].From]
		}
		for i := range op.Outputs {
			for j, use := range op.Outputs[i].Consumers {
				op.Outputs[i].Consumers[j].Op = copies[use.Op]
			}
		}
	}
	return &c
}

// Clone returns a copy of the operator whose lists may be changed. Its inputs and outputs still point
// to the operators around o.
func (o *Operator) Clone() *Operator {
	c := *o
	c.Inputs = slices.Clone(o.Inputs)
	c.Outputs = slices.Clone(o.Outputs)
	for i := range c.Outputs {
		c.Outputs[i].Consumers = slices.Clone(o.Outputs[i].Consumers)
	}
	c.Params = slices.Clone(o.Params)
	c.Placement = slices.Clone(o.Placement)
	c.Annotations = slices.Clone(o.Annotations)
	return &c
}

// manyPort reports whether port is one of the outputs "1", "2", ... of a type that has many.
func (d *Descriptor) manyPort(port string) bool {
	if !d.ManyOutputs {
		return false
	}
	n, err := strconv.Atoi(port)
	return err == nil && n > 0 && strconv.Itoa(n) == port
}
