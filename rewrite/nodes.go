package rewrite

import (
	"slices"
	"strconv"

	"sluice/dataflow"
)

// create makes new nodes of a type, one for each stream of the arguments.
func (b *builder) create(t *termNode, args []bundle) (bundle, error) {
	desc := b.catalog.Lookup(t.typ)
	if desc == nil {
		return nil, b.failf(t.pos, "unknown operator type %q%s", t.typ, didYouMean(t.typ, b.catalog.Types()))
	}
	width := 1
	if len(args) > 0 {
		width = len(args[0])
	}
	for _, a := range args {
		if len(a) != width {
			return nil, b.failf(t.pos, "the arguments of %s have different numbers of streams: %d and %d", t.typ, width, len(a))
		}
	}
	var list bundle
	for i := range width {
		made, err := b.createOne(t, desc, args, i)
		if err != nil {
			return nil, err
		}
		list = append(list, made...)
	}
	return list, nil
}

// createOne makes the node for stream i of each argument.
func (b *builder) createOne(t *termNode, desc *dataflow.Descriptor, args []bundle, i int) (bundle, error) {
	if b.created >= maxCreated {
		return nil, b.failf(t.pos, "the rule makes more than %d operators", maxCreated)
	}
	like := element{input: -1}
	if len(args) > 0 {
		like = args[0][i]
	}
	op := &dataflow.Operator{Type: t.typ, Desc: desc, Pos: t.pos, Origin: b.origin(b.copy[b.target])}
	op.Origin.Lineage, op.Origin.Groups = nil, dataflow.GroupRange{}
	if len(t.labels) > 0 { // it goes with what the target was placed with
		op.Placement = slices.Clone(b.target.Placement)
	}
	n := &node{op: op, term: t}
	for _, a := range args {
		ref, err := b.use(a[i])
		if err != nil {
			return nil, err
		}
		n.inputs = append(n.inputs, ref)
	}
	b.add(n)
	if err := b.suffixes(t, op, like); err != nil {
		return nil, err
	}
	like.op, like.out = op, 0
	switch {
	case desc.ManyOutputs:
		like.out = -1
	case desc.Output:
		op.Outputs = []dataflow.Output{{Pos: t.pos}}
	default:
		return nil, nil
	}
	return bundle{like}, nil
}

// stage builds some of the stages of an operator as a chain.
func (b *builder) stage(t *termNode, args []bundle, i, k int) (bundle, error) {
	old := b.bound(t.variable)
	op := b.copy[old]
	stages := old.Stages()
	first, last, err := b.stageRange(t, old, len(stages))
	if err != nil {
		return nil, err
	}
	b.gone[op] = true
	var n *node
	for s := first; s <= last; s++ {
		inputs := []reference{}
		if n == nil {
			inputs, err = b.stageInputs(t, old, s, args)
			if err != nil {
				return nil, err
			}
		} else {
			inputs = append(inputs, reference{from: n.op, scope: stageScope(old)})
		}
		n = b.makeStage(t, op, stages[s-1], s, i, k)
		n.inputs, n.last = inputs, s == len(stages)
		if k > 1 {
			b.divide(n, i, k)
		}
		if err := b.suffixes(t, n.op, element{input: -1}); err != nil {
			return nil, err
		}
	}
	e := element{op: n.op, label: outputLabel(""), scope: stageScope(old), of: old.Name, input: -1}
	if main := old.OutputPort(""); n.last && main >= 0 {
		e.scope, e.schema = old.Outputs[main].Stream, old.Outputs[main].Schema
	}
	return bundle{e}, nil
}

// stageScope is the name by which stages that pass the operator's rows on may call them.
func stageScope(old *dataflow.Operator) string {
	if len(old.Inputs) != 1 {
		return ""
	}
	return old.Inputs[0].Scope()
}

func (b *builder) stageRange(t *termNode, old *dataflow.Operator, stages int) (first, last int, err error) {
	if stages == 0 {
		return 0, 0, b.failf(t.pos, "%s has no stages", describe(old))
	}
	limits := [2]int{}
	for i, v := range t.stages {
		text, err := v.evaluate(&b.eval)
		if err != nil {
			return 0, 0, b.failf(v.pos, "%v", err)
		}
		limits[i], err = strconv.Atoi(text)
		if i == 1 && t.rest {
			limits[i], err = stages, nil
		}
		if err != nil || limits[i] < 1 || limits[i] > stages {
			return 0, 0, b.failf(v.pos, "%s has stages 1 to %d, and not stage %s", describe(old), stages, orNothing(text))
		}
	}
	if limits[0] > limits[1] {
		return 0, 0, b.failf(t.pos, "%s has no stages %d to %d", describe(old), limits[0], limits[1])
	}
	for s := limits[0]; s <= limits[1]; s++ {
		if by := b.staged[t.variable][s]; by != nil && by != t {
			return 0, 0, b.failf(t.pos, "stage %d of %s is there twice", s, describe(old))
		}
		if b.staged[t.variable] == nil {
			b.staged[t.variable] = make(map[int]*termNode)
		}
		b.staged[t.variable][s] = t
	}
	return limits[0], limits[1], nil
}

// stageInputs are the inputs of stage s: those of the operator for the first one, else all streams of
// the arguments.
func (b *builder) stageInputs(t *termNode, old *dataflow.Operator, s int, args []bundle) ([]reference, error) {
	if s == 1 && t.variable.hasArgs && t.rng.isTree() {
		return nil, b.failf(t.pos, "the first stage of an operator cannot be a tree")
	}
	if s == 1 && t.variable.hasArgs {
		n := &node{inputs: b.originalInputs(b.copy[old])}
		err := b.feed(t, n, args)
		return n.inputs, err
	}
	var refs []reference
	for _, a := range args {
		for _, e := range a {
			ref, err := b.use(e)
			if err != nil {
				return nil, err
			}
			ref.scope = e.scope
			refs = append(refs, ref)
		}
	}
	return refs, nil
}

func (r *termRange) isTree() bool { return r != nil && r.by != nil }

// makeStage makes the operator of stage s of op, as the i-th of k replicas.
func (b *builder) makeStage(t *termNode, op *dataflow.Operator, stage dataflow.Stage, s, i, k int) *node {
	made := &dataflow.Operator{
		Type: stage.Type, Desc: b.catalog.Lookup(stage.Type), Pos: op.Pos, Params: slices.Clone(stage.Params),
		Outputs: []dataflow.Output{{Pos: op.Pos}}, Placement: slices.Clone(op.Placement), Annotations: slices.Clone(op.Annotations),
		Resources: op.Resources,
		Standby:   op.Standby, Origin: b.origin(op),
	}
	made.Origin.Stage = s
	n := &node{op: made, of: op, pattern: t.variable, stage: s, term: t}
	if k > 1 {
		n.replica, n.replicas = i, k
		made.Origin.Replica, made.Origin.Replicas = i, k
	}
	b.add(n)
	return n
}

// suffixes sets the parameters, the placement and the standby mark that stand after a term.
func (b *builder) suffixes(t *termNode, op *dataflow.Operator, e element) error {
	b.eval.element = e
	for _, s := range t.settings {
		text, err := s.value.evaluate(&b.eval)
		if err != nil {
			return b.failf(s.pos, "%v", err)
		}
		if err := b.set(op, s, text); err != nil {
			return err
		}
	}
	for _, label := range t.labels {
		p := dataflow.Placement{Group: b.group, Label: label}
		if n, of := b.rangeIndex(); of > 0 {
			if of == 1 {
				continue
			}
			p.Label, p.Spread = label+"."+strconv.Itoa(n), true
		}
		op.Placement = append(op.Placement, p)
	}
	op.Standby = op.Standby || t.standby
	if made := b.made[op]; made != nil && made.of == op && (len(t.settings) > 0 || len(t.labels) > 0 || t.standby) {
		b.touch(op)
	}
	return nil
}

// rangeIndex is the place in the counted range that is being built, (0, 0) outside all ranges.
func (b *builder) rangeIndex() (i, k int) {
	for name, n := range b.eval.indexes {
		if name != "" && name[len(name)-1] == '#' {
			k = n
		} else {
			i = n
		}
	}
	return i, k
}

// touch gives an operator that stays where it is an origin of its own.
func (b *builder) touch(op *dataflow.Operator) {
	o := dataflow.Origin{Of: op.Name}
	if op.Origin != nil {
		o = *op.Origin
	}
	op.Origin = &o
}

// set sets one parameter or annotation. A value without text leaves it out.
func (b *builder) set(op *dataflow.Operator, s setting, text string) error {
	list := &op.Params
	var names []string
	for _, a := range dataflow.Annotations {
		names = append(names, a.Name)
		if a.Name == s.name {
			list = &op.Annotations
			if a.Type == dataflow.BoolParam && text != "true" && text != "false" {
				return b.failf(s.pos, "%s is true or false, not %s", s.name, orNothing(text))
			}
		}
	}
	if list == &op.Params && op.Desc != nil && op.Desc.Param(s.name) == nil {
		for _, p := range op.Desc.Params {
			names = append(names, p.Name)
		}
		return b.failf(s.pos, "%s has no parameter %q%s", article(op.Type), s.name, didYouMean(s.name, names))
	}
	*list = slices.DeleteFunc(slices.Clone(*list), func(p dataflow.Param) bool { return p.Name == s.name })
	if text != "" {
		*list = append(*list, dataflow.Param{Name: s.name, Value: text, Pos: s.pos})
	}
	return nil
}

// collapse takes out new nodes that have nothing to do because a range has only one replica.
func (b *builder) collapse(out bundle) {
	if !b.collapsed {
		return
	}
	instead := make(map[*dataflow.Operator]reference)
	follow := func(r reference) reference {
		if to, ok := instead[r.from]; ok {
			r.from, r.out = to.from, to.out
		}
		return r
	}
	for _, n := range b.nodes {
		for i := range n.inputs {
			n.inputs[i] = follow(n.inputs[i])
		}
		if n.of == nil && n.op.Desc.Passthrough && len(n.inputs) == 1 && len(n.op.Outputs) == 1 {
			instead[n.op] = n.inputs[0]
			delete(b.made, n.op)
		}
	}
	b.nodes = slices.DeleteFunc(b.nodes, func(n *node) bool { return b.made[n.op] != n })
	for i, e := range out {
		r := follow(reference{from: e.op, out: e.out})
		out[i].op, out[i].out = r.from, r.out
	}
}
