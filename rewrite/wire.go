package rewrite

import (
	"fmt"
	"slices"
	"strconv"

	"sluice/dataflow"
)

// nameAll names the new operators and streams. The stream that takes the place of another one takes its
// name too, so that those who read it need not change.
func (b *builder) nameAll(out bundle) {
	for _, op := range b.touched {
		if c := b.copy[op]; b.gone[c] {
			b.names.drop(op.Name)
			for i := range op.Outputs {
				b.taken.drop(op.Outputs[i].Stream)
			}
		}
	}
	several := make(map[string]int)
	for _, n := range b.nodes {
		if n.of != n.op {
			several[b.baseName(n)]++
		}
	}
	given := make(map[string]int)
	for _, n := range b.nodes {
		if n.of == n.op {
			continue
		}
		name := b.baseName(n)
		if several[name] > 1 {
			given[name]++
			name += "." + strconv.Itoa(given[name])
		}
		n.op.Name = b.names.fresh(name)
	}
	b.inherit(out)
	for _, n := range b.nodes {
		if n.of != n.op {
			b.nameStreams(n)
		}
	}
}

// baseName is what the node would be called if it were the only one.
func (b *builder) baseName(n *node) string {
	var name string
	switch {
	case n.of == nil:
		return b.target.Name + "." + n.op.Type
	case n.stage > 0:
		name = n.of.Name + ".stage" + strconv.Itoa(n.stage)
	default:
		name = n.of.Name
	}
	if n.replica > 0 {
		name += "." + strconv.Itoa(n.replica)
	}
	return name
}

// nameSet is the names that are taken: those of the graph, but for some that have become free, and new ones.
type nameSet struct {
	old        func(name string) bool
	free, more map[string]bool
}

func newNameSet(old func(name string) bool) nameSet {
	return nameSet{old: old, free: make(map[string]bool), more: make(map[string]bool)}
}

func (s *nameSet) has(name string) bool { return s.more[name] || s.old(name) && !s.free[name] }
func (s *nameSet) add(name string)      { s.more[name] = true }
func (s *nameSet) drop(name string)     { s.free[name] = true }

// fresh takes a name, with a number if it is taken already.
func (s *nameSet) fresh(name string) string {
	unique := name
	for i := 2; s.has(unique); i++ {
		unique = fmt.Sprintf("%s-%d", name, i)
	}
	s.add(unique)
	return unique
}

// inherit gives the streams of the result the names of those that they replace, where these are free.
func (b *builder) inherit(out bundle) {
	root := b.root()
	old := b.bound(root)
	read := b.read(root)
	for _, n := range b.nodes {
		for i := range n.op.Outputs {
			if n.replica > 0 && n.stage == 0 {
				n.op.Outputs[i].Stream = ""
			}
		}
	}
	if !b.gone[b.copy[old]] {
		return
	}
	for j, i := range read {
		e, ok := pick(out, outputLabel(old.Outputs[i].Port), j, len(read))
		if !ok || e.out < 0 || e.op.Outputs[e.out].Stream != "" || b.taken.has(old.Outputs[i].Stream) {
			continue
		}
		e.op.Outputs[e.out].Stream = old.Outputs[i].Stream
		b.taken.add(old.Outputs[i].Stream)
	}
}

func (b *builder) nameStreams(n *node) {
	for i := range n.op.Outputs {
		o := &n.op.Outputs[i]
		if o.Stream != "" {
			continue
		}
		name := n.op.Name
		switch {
		case n.of != nil && n.stage == 0:
			name = n.of.Outputs[i].Stream + "." + strconv.Itoa(n.replica)
		case o.Port != "":
			name += "." + o.Port
		}
		o.Stream = b.taken.fresh(name)
	}
}

// rewire lets the consumers of what the pattern matched read the result instead.
func (b *builder) rewire(out bundle) error {
	root := b.root()
	old := b.bound(root)
	read := b.read(root)
	for j, i := range read {
		e, ok := pick(out, outputLabel(old.Outputs[i].Port), j, len(read))
		if !ok {
			return b.failf(b.rule.result.pos, "the result has no stream for the output %q of operator %q, which operator %q reads",
				old.Outputs[i].Stream, old.Name, old.Outputs[i].Consumers[0].Op.Name)
		}
		for _, c := range old.Outputs[i].Consumers {
			ref, err := b.use(e)
			if err != nil {
				return err
			}
			if e.out < 0 {
				b.nameStreams(b.made[e.op])
			}
			in := &b.copy[c.Op].Inputs[c.Input]
			ref.scope = in.Scope()
			ref.set(in)
			b.moved[in] = old.Outputs[i].Schema
			b.changed[b.copy[c.Op]] = true
		}
	}
	return nil
}

// set lets the input read what the reference says.
func (r reference) set(in *dataflow.Input) {
	in.From, in.Output, in.Stream = r.from, r.out, r.from.Outputs[r.out].Stream
	in.As = r.scope
	if in.As == in.Stream {
		in.As = ""
	}
}

// connect gives all nodes their inputs.
func (b *builder) connect() {
	for _, n := range b.nodes {
		was := n.op.Inputs
		n.op.Inputs = make([]dataflow.Input, len(n.inputs))
		for i, ref := range n.inputs {
			n.op.Inputs[i].Pos = n.op.Pos
			if i < len(was) {
				n.op.Inputs[i].Pos = was[i].Pos
			}
			ref.set(&n.op.Inputs[i])
		}
	}
}

// checkGone refuses a result that takes a stream from an operator that the pattern did not match, or
// that takes away or doubles what the query writes.
func (b *builder) checkGone() error {
	root := b.root()
	for _, n := range b.rule.patternNodes() {
		if n.kind != operatorNode || !b.gone[b.copy[b.bound(n)]] {
			continue
		}
		old := b.bound(n)
		if old.Desc.Sink() {
			return b.failf(n.pos, "it would replace the sink %q, so its rows would be written twice or not at all", old.Name)
		}
		for i := range old.Outputs {
			for _, c := range old.Outputs[i].Consumers {
				if n != root && !b.gone[b.copy[c.Op]] && b.made[b.copy[c.Op]] == nil {
					return b.failf(n.pos, "operator %q also reads operator %q, which the rule replaces", c.Op.Name, old.Name)
				}
			}
		}
	}
	for _, n := range b.nodes {
		for _, ref := range n.inputs {
			if b.gone[ref.from] {
				return b.failf(b.rule.result.pos, "operator %q reads operator %q, which the result leaves out or replaces", n.op.Name, ref.from.Name)
			}
		}
	}
	return nil
}

// checkStreams checks, once the graph is resolved, that what reads the result finds the columns that it
// had before.
func (b *builder) checkStreams() error {
	for _, old := range b.touched {
		op := b.copy[old]
		if !b.changed[op] {
			continue
		}
		for i := range op.Inputs {
			in := &op.Inputs[i]
			if was, ok := b.moved[in]; ok && !sameColumns(was, in.Schema) {
				return b.failf(b.rule.result.pos, "it would change the type of the stream that operator %q reads from %s to %s", op.Name, was, in.Schema)
			}
		}
	}
	return nil
}

// sameColumns tells whether now has the columns of was; a column may have become not nullable.
func sameColumns(was, now *dataflow.Schema) bool {
	if was == nil || now == nil {
		return was == now
	}
	return slices.EqualFunc(was.Columns, now.Columns, func(a, b dataflow.Column) bool {
		b.Nullable = b.Nullable || a.Nullable && !b.Nullable
		return a == b
	})
}
