package rewrite

import (
	"errors"
	"slices"
	"strconv"

	"sluice/dataflow"
)

// ParallelEvent is the event of a trigger whose rule spreads an operator over k replicas, where k is the
// rule's parameter of that name.
const ParallelEvent = "parallel"

// Parallel applies to each operator of the graph the first rule (by name) with a trigger for
// ParallelEvent that applies, with k replicas. Nodes that rules have added, and what such a rule has made,
// are left as they are; so are copies of an operator of which only some could be spread.
// What does not apply is told in the second result, one error for each operator that none applies to.
func (e *Engine) Parallel(g *dataflow.Graph, rules *RuleSet, k int) (*Result, []error) {
	return e.ParallelBy(g, rules, func(string) int { return k })
}

// ParallelBy is Parallel with a number of replicas for each operator; one that is to have a single one is left
// as it is.
func (e *Engine) ParallelBy(g *dataflow.Graph, rules *RuleSet, k func(operator string) int) (*Result, []error) {
	var spreading []*Rule
	for _, rule := range rules.rules {
		if rule.Trigger(ParallelEvent) != nil {
			spreading = append(spreading, rule)
		}
	}
	left := make(map[string]error) // operators that are left as they are
	for {
		r, refused := e.spreadAll(g, spreading, k, left)
		uneven := checkCopies(r.Graph)
		if uneven == nil {
			return r, refused
		}
		known := len(left)
		for _, name := range operatorNames(g) {
			if standsForAny(r.Graph, uneven.copies, name) {
				left[name] = uneven
			}
		}
		if len(left) == known {
			return &Result{Graph: g}, append(refused, uneven)
		}
	}
}

// standsForAny tells whether one of the operators is, or was made of, the operator of that name.
func standsForAny(g *dataflow.Graph, operators []string, name string) bool {
	return slices.ContainsFunc(operators, func(o string) bool { return g.Operator(o).StandsFor(name) })
}

func (e *Engine) spreadAll(g *dataflow.Graph, spreading []*Rule, k func(operator string) int, left map[string]error) (*Result, []error) {
	s := e.session(g)
	r := &Result{Graph: g}
	var refused []error
	for _, name := range operatorNames(g) {
		op := s.operators[name]
		if op == nil || k(name) == 1 || spread(op, spreading) {
			continue
		}
		step, err := (*Step)(nil), left[name]
		if err == nil {
			step, err = s.spread(op, spreading, k(name))
		}
		switch {
		case err != nil:
			refused = append(refused, err)
		case step != nil:
			r.Graph = s.g
			r.Steps = append(r.Steps, step)
		}
	}
	return r, refused
}

// spread tells whether one of the rules has made the operator, or any rule has added it.
func spread(op *dataflow.Operator, rules []*Rule) bool {
	if op.Origin == nil {
		return false
	}
	added := op.Origin.Rule != "" && len(op.Origin.Lineage) == 0
	return added || slices.ContainsFunc(rules, func(r *Rule) bool { return slices.Contains(op.Origin.Through, r.Name) })
}

// spread applies to the operator the first rule that applies. There is no step if there are no rules.
func (s *session) spread(op *dataflow.Operator, rules []*Rule, k int) (*Step, error) {
	var refused []error
	for _, rule := range rules {
		step, err := s.spreadBy(op, rule, k)
		if err == nil {
			return step, nil
		}
		refused = append(refused, err)
	}
	return nil, errors.Join(refused...)
}

func (s *session) spreadBy(op *dataflow.Operator, rule *Rule, k int) (*Step, error) {
	args := make(map[string]string)
	if rule.Param("k") != nil {
		args["k"] = strconv.Itoa(k)
	}
	target, err := s.engine.triggered(rule, ParallelEvent, op, args, s.properties)
	if err != nil {
		return nil, err
	}
	values, err := rule.arguments(target.Name, args)
	if err != nil {
		return nil, err
	}
	return s.apply(rule, target, values)
}
