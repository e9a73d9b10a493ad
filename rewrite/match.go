package rewrite

import (
	"fmt"
	"slices"

	"sluice/dataflow"
)

// maxMatchSteps bounds the work of one attempt to match a pattern.
const maxMatchSteps = 200_000

// MismatchError tells why a rule cannot be applied to an operator.
type MismatchError struct {
	Rule     string
	Operator string
	// Constraint is the constraint that fails, as it is written; "" if the pattern does not match or
	// the result cannot be built.
	Constraint string
	Reason     string
	// Result tells that pattern and constraints hold, and that it is the rule's result that does not fit.
	Result bool
	Pos    dataflow.Pos // in the file of rules
}

func (e *MismatchError) Error() string {
	if e.Constraint != "" {
		return fmt.Sprintf("rule %q does not apply to operator %q: the constraint %s fails: %s", e.Rule, e.Operator, e.Constraint, e.Reason)
	}
	if e.Result {
		return fmt.Sprintf("rule %q cannot be applied to operator %q: %s (see %s)", e.Rule, e.Operator, e.Reason, e.Pos)
	}
	return fmt.Sprintf("rule %q does not apply to operator %q: %s", e.Rule, e.Operator, e.Reason)
}

// span is a run of inputs of an operator: from, and up to but not including end.
type span struct{ from, end int }

// binding is what a pattern matched.
type binding struct {
	// bound are the operators, by index of the pattern node.
	bound []*dataflow.Operator
	// spans tell which inputs each argument of an operator node stands for, by index of the node.
	spans [][]span
}

// matcher finds how a pattern matches around one operator. The search goes from the target up to the
// root of the pattern, along consumers, and from there down along inputs, in the order of the graph;
// so it touches only operators that stand for parts of the pattern, or fail to.
type matcher struct {
	rule *Rule
	binding
	evaluation evaluation
	taken      map[*dataflow.Operator]bool
	steps      int

	conditions []constraint // beside the rule's own constraints

	depth   int // operators bound now
	failure *MismatchError
	deepest int // operators bound at the failure
}

func (e *Engine) matcher(rule *Rule, target string, args map[string]string, known propertyMemo) *matcher {
	m := &matcher{
		rule:    rule,
		taken:   make(map[*dataflow.Operator]bool),
		failure: &MismatchError{Rule: rule.Name, Operator: target, Pos: rule.Pos, Reason: "the pattern does not match"},
		deepest: -1,
	}
	m.bound = make([]*dataflow.Operator, rule.nodes)
	m.spans = make([][]span, rule.nodes)
	m.evaluation = evaluation{bound: m.bound, args: args, measures: e.Measures, known: known}
	return m
}

// search matches the whole pattern, with n standing for op.
func (m *matcher) search(n *patternNode, op *dataflow.Operator) bool {
	if m.node(n, op, func() bool { return m.up(n, m.constraints) }) {
		return true
	}
	if m.steps > maxMatchSteps {
		m.failure.Reason = "the pattern can match in too many ways"
	}
	return false
}

// fail keeps the reason of the attempt that came farthest.
func (m *matcher) fail(pos dataflow.Pos, format string, args ...any) bool {
	if m.depth > m.deepest {
		m.deepest = m.depth
		m.failure.Constraint, m.failure.Reason, m.failure.Pos = "", fmt.Sprintf(format, args...), pos
	}
	return false
}

// node matches a pattern node with an operator and goes on with next.
func (m *matcher) node(n *patternNode, op *dataflow.Operator, next func() bool) bool {
	if m.steps++; m.steps > maxMatchSteps {
		return false
	}
	if op == nil {
		return m.fail(n.pos, "the graph is not resolved")
	}
	if b := m.bound[n.index]; b != nil {
		if b == op {
			return next()
		}
		return m.fail(n.pos, "%s is not the operator %q that another part of the pattern stands for", describe(op), b.Name)
	}
	switch {
	case n.kind != operatorNode:
		return false
	case m.taken[op]:
		return m.fail(n.pos, "operator %q would have to stand for two parts of the pattern", op.Name)
	case n.typ != "" && n.typ != op.Type:
		return m.fail(n.pos, "operator %q is %s, not %s", op.Name, article(op.Type), article(n.typ))
	}
	m.bound[n.index], m.taken[op] = op, true
	m.depth++
	ok := false
	if n.hasArgs {
		m.spans[n.index] = make([]span, len(n.args))
		ok = m.inputs(n, op, 0, 0, next)
	} else {
		ok = next()
	}
	if !ok {
		m.depth--
		m.bound[n.index] = nil
		delete(m.taken, op)
	}
	return ok
}

// inputs matches the arguments of n from arg on with the inputs of op from in on.
func (m *matcher) inputs(n *patternNode, op *dataflow.Operator, arg, in int, next func() bool) bool {
	if m.steps++; m.steps > maxMatchSteps {
		return false
	}
	if arg == len(n.args) {
		if in < len(op.Inputs) {
			return m.fail(n.pos, "%s has more inputs than the pattern says", describe(op))
		}
		return next()
	}
	a := n.args[arg]
	if a.kind == streamsNode {
		return m.streams(n, op, arg, in, next)
	}
	if in == len(op.Inputs) {
		return m.fail(a.pos, "%s has fewer inputs than the pattern says", describe(op))
	}
	end := in + 1
	for end < len(op.Inputs) && op.Inputs[end].From == op.Inputs[in].From {
		end++
	}
	for ; end > in; end-- {
		m.spans[n.index][arg] = span{in, end}
		if m.node(a, op.Inputs[in].From, func() bool { return m.inputs(n, op, arg+1, end, next) }) {
			return true
		}
	}
	return false
}

// streams matches any*: all inputs if it is the only argument, at least one; else any number, the
// fewest first.
func (m *matcher) streams(n *patternNode, op *dataflow.Operator, arg, in int, next func() bool) bool {
	if len(n.args) == 1 {
		if len(op.Inputs) == 0 {
			return m.fail(n.args[arg].pos, "%s has no inputs", describe(op))
		}
		m.spans[n.index][arg] = span{0, len(op.Inputs)}
		return next()
	}
	for end := in; end <= len(op.Inputs); end++ {
		m.spans[n.index][arg] = span{in, end}
		if m.inputs(n, op, arg+1, end, next) {
			return true
		}
	}
	return false
}

// up matches what n is an argument of, to the root of the pattern.
func (m *matcher) up(n *patternNode, next func() bool) bool {
	parent := n.parent
	if parent == nil {
		return next()
	}
	op := m.bound[n.index]
	consumers := consumersOf(op)
	if len(consumers) == 0 {
		return m.fail(parent.pos, "nothing reads %s", describe(op))
	}
	if parent.kind == consumersNode {
		return next()
	}
	for _, c := range consumers {
		if m.node(parent, c, func() bool { return m.up(parent, next) }) {
			return true
		}
	}
	return false
}

// constraints checks the rule's constraints for a whole match.
func (m *matcher) constraints() bool {
	all := slices.Concat(m.rule.constraints, m.conditions)
	for i := range all {
		c := &all[i]
		if ok, failed, why := c.holds(&m.evaluation); !ok {
			// A match whose constraint fails came farther than any that is none.
			if m.depth+1 > m.deepest {
				m.deepest = m.depth + 1
				m.failure.Constraint, m.failure.Reason, m.failure.Pos = failed, why, c.pos
			}
			return false
		}
	}
	return true
}

// article puts the indefinite article before an operator type.
func article(operatorType string) string {
	switch operatorType[:min(1, len(operatorType))] {
	case "a", "e", "i", "o":
		return "an " + operatorType
	}
	return "a " + operatorType
}
