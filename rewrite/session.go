package rewrite

import (
	"cmp"
	"slices"

	"sluice/dataflow"
)

// session is a graph that is rewritten step by step. A step touches only the operators around those that its pattern
// matched: they are copied, built anew and resolved, and nothing of the graph changes before all of that has
// succeeded.
type session struct {
	engine     *Engine
	g          *dataflow.Graph
	operators  map[string]*dataflow.Operator // by name
	streams    map[string]bool
	properties propertyMemo
}

// session begins with a copy of g, which is resolved.
func (e *Engine) session(g *dataflow.Graph) *session {
	s := &session{engine: e, g: g.Clone(), operators: make(map[string]*dataflow.Operator), streams: make(map[string]bool), properties: make(propertyMemo)}
	for _, op := range s.g.Operators {
		s.enter(op)
	}
	return s
}

func (s *session) enter(op *dataflow.Operator) {
	s.operators[op.Name] = op
	for i := range op.Outputs {
		s.streams[op.Outputs[i].Stream] = true
	}
}

func (s *session) leave(op *dataflow.Operator) {
	delete(s.operators, op.Name)
	delete(s.properties, op)
	for i := range op.Outputs {
		delete(s.streams, op.Outputs[i].Stream)
	}
}

// apply applies a rule, with all of its arguments, to an operator of the session's graph.
func (s *session) apply(rule *Rule, target *dataflow.Operator, values map[string]string) (*Step, error) {
	m, err := s.engine.matchTarget(rule, target, values, s.properties)
	if err != nil {
		return nil, err
	}
	if s.engine.Matched != nil {
		s.engine.Matched(m.export(rule, target))
	}
	b := s.builder(rule, target, m, values)
	if err := b.build(); err != nil {
		return nil, err
	}
	b.markTarget()
	if err := b.resolve(); err != nil {
		return nil, err
	}
	if err := b.checkStreams(); err != nil {
		return nil, err
	}
	step := &Step{Number: b.step, Rule: rule, Target: target.Name, Args: values, Diff: b.diff()}
	b.install()
	if invariants {
		if err := s.verify(); err != nil {
			return nil, b.failf(rule.Pos, "%v", err)
		}
	}
	if s.engine.Applied != nil {
		s.engine.Applied(step)
	}
	return step, nil
}

// adopt makes a copy of an operator that the step may change.
func (b *builder) adopt(op *dataflow.Operator) {
	if b.copy[op] == nil {
		b.copy[op] = op.Clone()
	}
}

// at is the operator that stands for op, of the session's graph, in the new one.
func (b *builder) at(op *dataflow.Operator) *dataflow.Operator {
	if c := b.copy[op]; c != nil {
		return c
	}
	return op
}

// relate lets the copies read each other, and lists what has been copied.
func (b *builder) relate() {
	b.touched = b.touched[:0]
	for _, op := range b.session.g.Operators {
		if len(b.touched) == len(b.copy) {
			break
		}
		if b.copy[op] != nil {
			b.touched = append(b.touched, op)
		}
	}
	for _, op := range b.parts() {
		for i := range op.Inputs {
			op.Inputs[i].From = b.at(op.Inputs[i].From)
		}
	}
}

// parts are the operators of the new graph that the step has made or may have changed.
func (b *builder) parts() []*dataflow.Operator {
	var list []*dataflow.Operator
	for _, n := range b.nodes {
		if n.of != n.op {
			list = append(list, n.op)
		}
	}
	for _, op := range b.touched {
		if c := b.copy[op]; !b.gone[c] {
			list = append(list, c)
		}
	}
	return list
}

// result is the parts in the order of the new graph: new operators stand where the target stood.
func (b *builder) result() []*dataflow.Operator {
	parts := b.parts()
	made := parts[:len(parts)-b.kept()]
	var list []*dataflow.Operator
	for _, op := range b.touched {
		if op == b.target {
			list = append(list, made...)
		}
		if c := b.copy[op]; !b.gone[c] {
			list = append(list, c)
		}
	}
	return list
}

// kept is how many of the touched operators stay.
func (b *builder) kept() int {
	n := 0
	for _, op := range b.touched {
		if !b.gone[b.copy[op]] {
			n++
		}
	}
	return n
}

// resolve checks the parts and gives them their schemas. Where what an operator gives has changed, those who read it
// become parts too.
func (b *builder) resolve() error {
	if err := b.checkCycles(); err != nil {
		return err
	}
	for {
		known := len(b.copy)
		old := make(map[*dataflow.Operator]*dataflow.Operator, known)
		for _, op := range b.touched {
			old[b.copy[op]] = op
		}
		diags := dataflow.ResolvePart(b.session.g, b.catalog, b.inOrder(), func(op *dataflow.Operator) {
			if was := old[op]; was != nil {
				b.compare(was, op)
			}
		})
		switch {
		case len(b.copy) > known:
			b.relate()
		case diags.HasErrors():
			return b.invalid(diags)
		default:
			return nil
		}
	}
}

// compare adopts the readers of what an operator no longer gives as it did.
func (b *builder) compare(was, now *dataflow.Operator) {
	for i := range was.Outputs {
		o := &was.Outputs[i]
		if i < len(now.Outputs) && equalSchemas(o.Schema, now.Outputs[i].Schema) {
			now.Outputs[i].Schema = o.Schema
			continue
		}
		for _, c := range o.Consumers {
			b.adopt(c.Op)
		}
	}
}

// inOrder is the parts, each behind those of them that it reads.
func (b *builder) inOrder() []*dataflow.Operator {
	parts := b.parts()
	waiting := make(map[*dataflow.Operator]bool, len(parts))
	for _, op := range parts {
		waiting[op] = true
	}
	list := make([]*dataflow.Operator, 0, len(parts))
	var visit func(op *dataflow.Operator)
	visit = func(op *dataflow.Operator) {
		if !waiting[op] {
			return
		}
		delete(waiting, op)
		for i := range op.Inputs {
			visit(op.Inputs[i].From)
		}
		list = append(list, op)
	}
	for _, op := range parts {
		visit(op)
	}
	return list
}

// checkCycles looks for a cycle in the new graph. A rule for a single operator cannot make one: what leads from the
// result back to its inputs would have led from the operator to its own.
func (b *builder) checkCycles() error {
	bound := 0
	for _, op := range b.match.bound {
		if op != nil {
			bound++
		}
	}
	if bound < 2 {
		return nil
	}
	diags := dataflow.Cycles(b.operators(b.copyOf), b.at)
	if diags.HasErrors() {
		return b.invalid(diags)
	}
	return nil
}

func (b *builder) copyOf(op *dataflow.Operator) *dataflow.Operator { return b.copy[op] }

// operators lists those of the new graph, with as for each that stays and is touched.
func (b *builder) operators(as func(*dataflow.Operator) *dataflow.Operator) []*dataflow.Operator {
	list := make([]*dataflow.Operator, 0, len(b.session.g.Operators)+b.created)
	for _, op := range b.session.g.Operators {
		if op == b.target {
			for _, n := range b.nodes {
				if n.of != n.op {
					list = append(list, n.op)
				}
			}
		}
		switch c := b.copy[op]; {
		case c == nil:
			list = append(list, op)
		case !b.gone[c]:
			list = append(list, as(op))
		}
	}
	return list
}

// install brings the parts into the session's graph. Operators that stay are the same ones as before.
func (b *builder) install() {
	s := b.session
	list := b.operators(func(op *dataflow.Operator) *dataflow.Operator { return op })
	back := make(map[*dataflow.Operator]*dataflow.Operator, len(b.copy))
	outs := b.cut()
	for _, op := range b.touched {
		c := b.copy[op]
		s.leave(op)
		if !b.gone[c] {
			back[c] = op
			for i := range c.Outputs {
				c.Outputs[i].Consumers = nil
				if i < len(op.Outputs) {
					c.Outputs[i].Consumers = op.Outputs[i].Consumers
				}
			}
		}
	}
	parts := b.parts()
	for c, op := range back {
		*op = *c
	}
	for i, c := range parts {
		if op := back[c]; op != nil {
			parts[i] = op
		}
		s.enter(parts[i])
	}
	for _, op := range parts {
		for j := range op.Inputs {
			in := &op.Inputs[j]
			if was := back[in.From]; was != nil {
				in.From = was
			}
			out := streamOf{in.From, in.Output}
			in.From.Outputs[in.Output].Consumers = append(in.From.Outputs[in.Output].Consumers, dataflow.Consumer{Op: op, Input: j})
			outs[out] = true
		}
	}
	s.g.Operators, s.g.Steps = list, b.step
	s.sortConsumers(outs)
}

// cut takes the touched operators out of the lists of consumers, and returns which lists those are.
func (b *builder) cut() map[streamOf]bool {
	outs := make(map[streamOf]bool)
	for _, op := range b.touched {
		for _, in := range op.Inputs {
			outs[streamOf{in.From, in.Output}] = true
		}
	}
	for out := range outs {
		o := &out.op.Outputs[out.output]
		o.Consumers = slices.DeleteFunc(o.Consumers, func(c dataflow.Consumer) bool { return b.copy[c.Op] != nil })
	}
	return outs
}

// sortConsumers brings lists of consumers into the order of the graph.
func (s *session) sortConsumers(outs map[streamOf]bool) {
	place := make(map[*dataflow.Operator]int)
	for out := range outs {
		if out.output < len(out.op.Outputs) && len(out.op.Outputs[out.output].Consumers) > 1 {
			for _, c := range out.op.Outputs[out.output].Consumers {
				place[c.Op] = 0
			}
		}
	}
	if len(place) == 0 {
		return
	}
	for i, op := range s.g.Operators {
		if _, ok := place[op]; ok {
			place[op] = i
		}
	}
	for out := range outs {
		if out.output < len(out.op.Outputs) {
			slices.SortFunc(out.op.Outputs[out.output].Consumers, func(a, b dataflow.Consumer) int {
				return cmp.Or(place[a.Op]-place[b.Op], a.Input-b.Input)
			})
		}
	}
}
