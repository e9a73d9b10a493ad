package rewrite

import (
	"fmt"
	"slices"
	"strconv"

	"sluice/dataflow"
)

// element is one stream of a bundle.
type element struct {
	op  *dataflow.Operator // its producer in the new graph
	out int                // index of the output; -1: each use gets an output of its own
	// label tells streams of a bundle apart: "in0", "in1", ... are the inputs of an operator of the
	// pattern, ":" and a port an output of it. Nodes that rules add keep the labels of their first
	// argument.
	label string
	// scope is the name by which expressions call the stream, for it stands in the place of that one.
	scope string
	// of is the name of the operator whose input the stream is, or comes from, and input which one.
	of    string
	input int
	// schema is that of the stream of the old graph in whose place this one stands.
	schema *dataflow.Schema
}

// bundle is what a term denotes.
type bundle []element

// reference is an input of an operator of the new graph while it is being built.
type reference struct {
	from  *dataflow.Operator
	out   int
	scope string
}

// node is what the builder knows of an operator that it made or moved.
type node struct {
	op       *dataflow.Operator
	of       *dataflow.Operator // the operator that it is, is a replica or a stage of; nil for a new node
	pattern  *patternNode       // the variable that stands for of
	replica  int                // from 1; 0 if it is the only one
	replicas int
	stage    int  // from 1; 0 for all of it
	last     bool // the last stage
	inputs   []reference
	term     *termNode
}

// builder makes the result of one application.
type builder struct {
	catalog dataflow.Catalog
	rule    *Rule
	target  *dataflow.Operator // in the old graph
	match   *binding
	eval    evaluation
	step    int
	group   string // of placements

	session *session
	copy    map[*dataflow.Operator]*dataflow.Operator // of the operators that the rule may change
	touched []*dataflow.Operator                      // those operators, in the order of the graph

	nodes []*node // in the order of creation: a node comes after those that it reads
	made  map[*dataflow.Operator]*node
	terms map[*termNode]bundle                 // of terms bound by where
	gone  map[*dataflow.Operator]bool          // operators (of g) that are replaced
	names nameSet                              // of operators
	taken nameSet                              // of streams
	moved map[*dataflow.Input]*dataflow.Schema // inputs of consumers that read something else now, and what they read before

	changed map[*dataflow.Operator]bool // those consumers

	counts    map[*patternNode]int               // replicas of each variable
	staged    map[*patternNode]map[int]*termNode // which term has which stage
	collapsed bool                               // a range has one replica only
	created   int
}

// maxCreated bounds the nodes that one application makes.
const maxCreated = 100_000

// failf is the error of a result that cannot be built.
func (b *builder) failf(pos dataflow.Pos, format string, args ...any) error {
	return &MismatchError{Rule: b.rule.Name, Operator: b.target.Name, Reason: fmt.Sprintf(format, args...), Result: true, Pos: pos}
}

func (b *builder) bound(n *patternNode) *dataflow.Operator { return b.match.bound[n.index] }

// root is the pattern node whose streams the result replaces.
func (b *builder) root() *patternNode {
	if b.rule.pattern.kind == consumersNode {
		return b.rule.pattern.args[0]
	}
	return b.rule.pattern
}

// build makes the new graph, unresolved.
func (b *builder) build() error {
	if err := b.countReplicas(); err != nil {
		return err
	}
	result := b.rule.result
	if result.kind == consumersTerm {
		result = result.args[0]
	}
	out, err := b.term(result)
	if err != nil {
		return err
	}
	for _, n := range b.rule.without {
		b.gone[b.copy[b.bound(n)]] = true
	}
	b.collapse(out)
	b.nameAll(out)
	if err := b.rewire(out); err != nil {
		return err
	}
	b.connect()
	return b.checkGone()
}

// countReplicas finds out how many replicas each variable gets.
func (b *builder) countReplicas() error {
	for _, t := range b.rule.terms() {
		switch {
		case t.kind == applyTerm && t.rng == nil:
			b.counts[t.variable] = max(b.counts[t.variable], t.replica+1)
		case t.rng != nil && t.rng.to != nil:
			k, err := b.count(t.rng.to)
			if err != nil {
				return err
			}
			b.collapsed = b.collapsed || k == 1
		}
	}
	return nil
}

// count evaluates the number of replicas of a range.
func (b *builder) count(v *value) (int, error) {
	text, err := v.evaluate(&b.eval)
	if err != nil {
		return 0, b.failf(v.pos, "%v", err)
	}
	k, err := strconv.Atoi(text)
	if err != nil || k < 1 || k > MaxReplicas {
		return 0, b.failf(v.pos, "%s must be a number from 1 to %d, not %s", v, MaxReplicas, orNothing(text))
	}
	return k, nil
}

// term builds a term and returns the streams that it denotes.
func (b *builder) term(t *termNode) (bundle, error) {
	switch t.kind {
	case variableTerm:
		if t.variable.kind == streamsNode {
			return b.streams(t.variable), nil
		}
		return b.bare(t)
	case sharedTerm:
		if done, ok := b.terms[t.shared]; ok {
			return done, nil
		}
		done, err := b.term(t.shared)
		b.terms[t.shared] = done
		return done, err
	}
	list, err := b.bundles(t)
	if err != nil {
		return nil, err
	}
	if len(list) != 1 {
		return nil, b.failf(t.pos, "%d replicas of %s stand where one term is wanted; merge them, say", len(list), t)
	}
	return list[0], nil
}

// bundles builds a term that may stand for several replicas.
func (b *builder) bundles(t *termNode) ([]bundle, error) {
	switch {
	case t.kind == variableTerm || t.kind == sharedTerm:
		one, err := b.term(t)
		return []bundle{one}, err
	case t.rng == nil:
		one, err := b.instance(t, t.replica+1, b.counts[t.variable], "")
		return []bundle{one}, err
	case t.rng.by != nil:
		one, err := b.tree(t)
		return []bundle{one}, err
	case t.rng.each != "":
		i, k := b.eval.indexes[t.rng.each], b.eval.indexes[t.rng.each+"#"]
		one, err := b.instance(t, i, k, t.rng.each)
		return []bundle{one}, err
	}
	return b.replicas(t)
}

// replicas builds the replicas of a counted range.
func (b *builder) replicas(t *termNode) ([]bundle, error) {
	k, err := b.count(t.rng.to)
	if err != nil {
		return nil, err
	}
	name := t.rng.index
	defer func() { b.eval.indexes = nil }()
	var list []bundle
	for i := 1; i <= k; i++ {
		b.eval.indexes = map[string]int{name: i, name + "#": k}
		one, err := b.instance(t, i, k, name)
		if err != nil {
			return nil, err
		}
		list = append(list, one)
	}
	return list, nil
}

// instance builds one node (or one for each stream) of a term.
func (b *builder) instance(t *termNode, i, k int, index string) (bundle, error) {
	args, err := b.arguments(t)
	if err != nil {
		return nil, err
	}
	switch t.kind {
	case applyTerm:
		return b.apply(t, args, i, k)
	case stageTerm:
		return b.stage(t, args, i, k)
	}
	return b.create(t, args)
}

func (b *builder) arguments(t *termNode) ([]bundle, error) {
	var args []bundle
	for _, a := range t.args {
		list, err := b.bundles(a)
		if err != nil {
			return nil, err
		}
		args = append(args, list...)
	}
	return args, nil
}

// tree builds [by n]: branches over up to n bundles each, until one is left.
func (b *builder) tree(t *termNode) (bundle, error) {
	fan, err := b.count(t.rng.by)
	if err != nil {
		return nil, err
	}
	if fan < 2 {
		return nil, b.failf(t.rng.by.pos, "a tree has at least 2 branches at a node, not %d", fan)
	}
	leaves := t
	for leaves.inner() != nil {
		leaves = leaves.inner()
	}
	args, err := b.arguments(leaves)
	if err != nil {
		return nil, err
	}
	if len(args) == 0 {
		return nil, b.failf(t.pos, "a tree needs arguments")
	}
	for first := true; first || len(args) > 1; first = false {
		var level []bundle
		for group := range slices.Chunk(args, fan) {
			if len(group) == 1 && len(args) > 1 {
				level = append(level, group[0]) // nothing to merge it with
				continue
			}
			one, err := b.branch(t, group)
			if err != nil {
				return nil, err
			}
			level = append(level, one)
		}
		args = level
	}
	return args[0], nil
}

// inner is the node inside a branch of a tree that the term, or the node around it, is part of: its only
// argument, if that is one new node.
func (t *termNode) inner() *termNode {
	if len(t.args) == 1 && t.args[0].kind == newTerm && t.args[0].rng == nil {
		return t.args[0]
	}
	return nil
}

// branch builds one branch over a group of the tree's arguments.
func (b *builder) branch(t *termNode, args []bundle) (bundle, error) {
	if in := t.inner(); in != nil {
		one, err := b.branch(in, args)
		if err != nil {
			return nil, err
		}
		args = []bundle{one}
	}
	if t.kind == stageTerm {
		return b.stage(t, args, 0, 0)
	}
	return b.create(t, args)
}

// streams are the streams of the graph that any* stands for.
func (b *builder) streams(n *patternNode) bundle {
	op := b.bound(n.parent)
	var s span
	for i, a := range n.parent.args {
		if a == n {
			s = b.match.spans[n.parent.index][i]
		}
	}
	var list bundle
	for i := s.from; i < s.end; i++ {
		in := &op.Inputs[i]
		list = append(list, element{op: b.at(in.From), out: in.Output, label: inputLabel(i), scope: in.Scope(), of: op.Name, input: i, schema: in.Schema})
	}
	return list
}

func inputLabel(i int) string { return "in" + strconv.Itoa(i) }

func outputLabel(port string) string { return ":" + port }

// bare is an operator of the pattern as it is.
func (b *builder) bare(t *termNode) (bundle, error) {
	op := b.copy[b.bound(t.variable)]
	n := b.keep(op, t.variable)
	if err := b.suffixes(t, op, element{input: -1}); err != nil {
		return nil, err
	}
	return b.outputs(n), nil
}

// keep is the node of an operator that stays.
func (b *builder) keep(op *dataflow.Operator, p *patternNode) *node {
	if n := b.made[op]; n != nil {
		return n
	}
	n := &node{op: op, of: op, pattern: p}
	n.inputs = b.originalInputs(op)
	b.made[op] = n
	b.nodes = append(b.nodes, n)
	return n
}

// outputs is the bundle of the streams of an operator of the pattern, or a replica of it: those that
// the parts of the pattern above it read.
func (b *builder) outputs(n *node) bundle {
	old := b.bound(n.pattern)
	var list bundle
	for _, i := range b.read(n.pattern) {
		o := &old.Outputs[i]
		list = append(list, element{op: n.op, out: i, label: outputLabel(o.Port), scope: o.Stream, of: old.Name, input: -1, schema: o.Schema})
	}
	return list
}

// read are the outputs of a variable that the pattern matched, in order: all that have consumers for
// the one whose consumers are replaced, else those that its parents in the pattern read.
func (b *builder) read(p *patternNode) []int {
	old := b.bound(p)
	if p == b.root() {
		return usedOutputs(old)
	}
	var list []int
	for _, parent := range b.rule.patternNodes() {
		if parent.kind != operatorNode || !slices.Contains(parent.args, p) {
			continue
		}
		for _, in := range b.bound(parent).Inputs {
			if in.From == old && !slices.Contains(list, in.Output) {
				list = append(list, in.Output)
			}
		}
	}
	slices.Sort(list)
	return list
}

// apply builds f(args), or the i-th of its k replicas.
func (b *builder) apply(t *termNode, args []bundle, i, k int) (bundle, error) {
	op := b.copy[b.bound(t.variable)]
	var n *node
	if k == 1 {
		n = b.keep(op, t.variable)
	} else {
		b.gone[op] = true
		n = b.replicate(op, t, i, k)
		n.inputs = b.originalInputs(op)
	}
	if err := b.feed(t, n, args); err != nil {
		return nil, err
	}
	if k == 1 { // its inputs exist before it does
		b.nodes = append(slices.DeleteFunc(b.nodes, func(o *node) bool { return o == n }), n)
	}
	if err := b.suffixes(t, n.op, element{input: -1}); err != nil {
		return nil, err
	}
	if k > 1 {
		b.divide(n, i, k)
	}
	return b.outputs(n), nil
}

// divide notes which key groups the i-th of k replicas works on, if it is fed by a node that gives each
// a part of the rows.
func (b *builder) divide(n *node, i, k int) {
	seen := make(map[*dataflow.Operator]bool)
	var divided func(refs []reference) bool
	divided = func(refs []reference) bool {
		for _, r := range refs {
			from := b.made[r.from]
			if from == nil || from.of != nil || seen[r.from] {
				continue
			}
			seen[r.from] = true
			if from.op.Desc.Divides || divided(from.inputs) {
				return true
			}
		}
		return false
	}
	if divided(n.inputs) {
		n.op.Origin.Groups = n.op.Origin.Groups.Part(i, k)
	}
}

func (b *builder) originalInputs(op *dataflow.Operator) []reference {
	var refs []reference
	for _, in := range op.Inputs {
		refs = append(refs, reference{from: b.at(in.From), out: in.Output, scope: in.Scope()})
	}
	return refs
}

// replicate makes the i-th of k replicas of op, which is of the new graph.
func (b *builder) replicate(op *dataflow.Operator, t *termNode, i, k int) *node {
	c := op.Clone()
	c.Origin = b.origin(op)
	c.Origin.Replica, c.Origin.Replicas = i, k
	n := &node{op: c, of: op, pattern: t.variable, replica: i, replicas: k, term: t}
	b.add(n)
	return n
}

func (b *builder) add(n *node) {
	b.made[n.op] = n
	b.nodes = append(b.nodes, n)
	b.created++
}

// origin is that of an operator made of op, or for op if it is a new node.
func (b *builder) origin(op *dataflow.Operator) *dataflow.Origin {
	o := &dataflow.Origin{Of: op.Name, Rule: b.rule.Name, Step: b.step}
	if op.Origin != nil {
		o.Of = op.Origin.Of
		o.Lineage = slices.Clone(op.Origin.Lineage)
		o.Through = slices.Clone(op.Origin.Through)
		o.Groups = op.Origin.Groups
	}
	o.Lineage = append(o.Lineage, op.Name)
	o.Through = append(o.Through, b.rule.Name)
	return o
}

// feed gives the node, which has the inputs that the operator had, its new ones.
func (b *builder) feed(t *termNode, n *node, args []bundle) error {
	p := t.variable
	if !p.hasArgs {
		return nil
	}
	old := b.bound(p)
	if len(args) != len(p.args) {
		return b.failf(t.pos, "%q takes %s, as in the pattern, but is given %d", p.name, plural(len(p.args), "argument"), len(args))
	}
	for i, s := range b.match.spans[p.index] {
		for j, want := range b.labels(old, p.args[i], s) {
			e, ok := pick(args[i], want, j, s.end-s.from)
			if !ok {
				return b.failf(t.pos, "argument %d of %q has %s, but operator %q takes %d there", i+1, p.name, plural(len(args[i]), "stream"), old.Name, s.end-s.from)
			}
			ref, err := b.use(e)
			if err != nil {
				return err
			}
			ref.scope = old.Inputs[s.from+j].Scope()
			n.inputs[s.from+j] = ref
		}
	}
	return nil
}

// labels are those of the streams that the operator read for an argument of the pattern.
func (b *builder) labels(old *dataflow.Operator, arg *patternNode, s span) []string {
	var labels []string
	for i := s.from; i < s.end; i++ {
		if arg.kind == streamsNode {
			labels = append(labels, inputLabel(i))
		} else {
			labels = append(labels, outputLabel(old.Inputs[i].From.Outputs[old.Inputs[i].Output].Port))
		}
	}
	return labels
}

// pick finds the element with the label; failing that the one at the same place, if the bundle has
// as many as are wanted.
func pick(list bundle, label string, at, wanted int) (element, bool) {
	for _, e := range list {
		if e.label == label {
			return e, true
		}
	}
	if len(list) == wanted {
		return list[at], true
	}
	return element{}, false
}

// use is an input that reads the element. A node with many outputs gets one more.
func (b *builder) use(e element) (reference, error) {
	out := e.out
	if out < 0 {
		if out = len(e.op.Outputs); out >= maxCreated {
			return reference{}, b.failf(b.rule.Pos, "a node has more than %d outputs", maxCreated)
		}
		e.op.Outputs = append(e.op.Outputs, dataflow.Output{Port: strconv.Itoa(out + 1), Pos: e.op.Pos})
	}
	return reference{from: e.op, out: out, scope: e.scope}, nil
}
