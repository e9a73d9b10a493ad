package rewrite

import (
	"fmt"
	"reflect"
	"slices"

	"sluice/dataflow"
)

// verify compares the session's graph with what resolving all of it gives.
func (s *session) verify() error {
	c := s.g.Clone()
	if diags := dataflow.Resolve(c, s.engine.Catalog); diags.HasErrors() {
		return fmt.Errorf("rewrite: assertion failed: the graph is not valid: %w", diags)
	}
	streams := 0
	for i, op := range s.g.Operators {
		if err := sameResolved(op, c.Operators[i]); err != nil {
			return fmt.Errorf("rewrite: assertion failed: operator %q: %w", op.Name, err)
		}
		if s.operators[op.Name] != op {
			return fmt.Errorf("rewrite: assertion failed: operator %q is not found by its name", op.Name)
		}
		streams += len(op.Outputs)
	}
	if len(s.operators) != len(s.g.Operators) || len(s.streams) != streams {
		return fmt.Errorf("rewrite: assertion failed: %d operators and %d streams are known, of %d and %d", len(s.operators), len(s.streams), len(s.g.Operators), streams)
	}
	for op, p := range s.properties {
		if !reflect.DeepEqual(p, op.Properties()) {
			return fmt.Errorf("rewrite: assertion failed: operator %q has other properties than it had", op.Name)
		}
	}
	return nil
}

// sameResolved compares an operator with what it is in a graph that has been resolved as a whole.
func sameResolved(op, want *dataflow.Operator) error {
	for i := range op.Inputs {
		in, w := &op.Inputs[i], &want.Inputs[i]
		if in.From == nil || w.From == nil || in.From.Name != w.From.Name || in.Output != w.Output || !equalSchemas(in.Schema, w.Schema) {
			return fmt.Errorf("input %d is not what the stream %q gives", i, in.Stream)
		}
		if !equalSchemas(in.Schema, in.From.Outputs[in.Output].Schema) {
			return fmt.Errorf("input %d has another type than what it reads", i)
		}
	}
	for i := range op.Outputs {
		out, w := &op.Outputs[i], &want.Outputs[i]
		same := slices.EqualFunc(out.Consumers, w.Consumers, func(a, b dataflow.Consumer) bool { return a.Op.Name == b.Op.Name && a.Input == b.Input })
		if !same || !equalSchemas(out.Schema, w.Schema) || out.Port != w.Port {
			return fmt.Errorf("output %q is not what it would be", out.Stream)
		}
	}
	if op.Desc != want.Desc {
		return fmt.Errorf("it is taken for %v", op.Desc)
	}
	return nil
}
