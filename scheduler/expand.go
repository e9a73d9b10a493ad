package scheduler

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"sluice/dataflow"
	"sluice/metaquery"
)

// Expand finds the operators of the physical graph that a tuple of a user means: those that stand for the
// operator that it names, and all that share their state. It checks that the query with the new value is
// sound and that nothing but a setting changes. The graph is not changed.
func Expand(query *dataflow.Physical, t metaquery.Tuple, catalog dataflow.Catalog) ([]metaquery.Tuple, error) {
	if t.Param == metaquery.TargetAddr {
		return nil, fmt.Errorf("scheduler: set %s.%s: it is set by the scheduler; it cannot be set by a user", t.Operator, t.Param)
	}
	named := meant(query.Graph, t.Operator)
	if len(named) == 0 {
		return nil, unknownOperator(query.Graph, t.Operator)
	}
	var tuples []metaquery.Tuple
	for _, op := range named {
		d := op.Desc.Param(t.Param)
		if d == nil || !d.Settable {
			continue
		}
		if op.Desc.Divides && movesState(query.Graph, op) {
			return nil, fmt.Errorf("scheduler: set %s.%s: it would give keys to operators that do not have their state", t.Operator, t.Param)
		}
		u := t
		u.Operator = op.Name
		tuples = append(tuples, u)
	}
	if len(tuples) == 0 {
		return nil, unknownParam(named, t)
	}
	if err := checkSettings(query, tuples, catalog); err != nil {
		return nil, fmt.Errorf("scheduler: set %s.%s: %w", t.Operator, t.Param, err)
	}
	return tuples, nil
}

// movesState tells whether rows may not be divided in another way by a setting: since the operators that
// get them keep state, or since it takes several settings that fit each other.
func movesState(g *dataflow.Graph, op *dataflow.Operator) bool {
	if !op.Desc.ManyOutputs || op.Origin == nil {
		return true
	}
	return slices.ContainsFunc(g.Named(op.Origin.Of), func(of *dataflow.Operator) bool { return !of.Properties().Stateless })
}

// meant are the operators that a name stands for, in the order of the graph.
func meant(g *dataflow.Graph, name string) []*dataflow.Operator {
	keys := dataflow.StateKeys(g)
	shared := make(map[string]bool)
	for _, op := range g.Named(name) {
		shared[keys[op]] = true
	}
	var ops []*dataflow.Operator
	for _, op := range g.Operators {
		if shared[keys[op]] {
			ops = append(ops, op)
		}
	}
	return ops
}

func unknownOperator(g *dataflow.Graph, name string) error {
	known := make(map[string]bool)
	for _, op := range g.Operators {
		if op.Type == dataflow.NetReader || op.Type == dataflow.NetWriter {
			continue
		}
		known[op.Name] = true
		if op.Origin != nil && op.Origin.Of != "" {
			known[op.Origin.Of] = true
		}
	}
	names := slices.Sorted(maps.Keys(known))
	if near := dataflow.Nearest(name, names); near != "" {
		return fmt.Errorf("scheduler: the query has no operator %q; did you mean %q?", name, near)
	}
	return fmt.Errorf("scheduler: the query has no operator %q; it has %s", name, strings.Join(names, ", "))
}

// unknownParam says what can be set of an operator instead.
func unknownParam(ops []*dataflow.Operator, t metaquery.Tuple) error {
	var settable []string
	exists := false
	for _, op := range ops {
		for _, d := range op.Desc.Params {
			exists = exists || d.Name == t.Param
			if d.Settable && !slices.Contains(settable, d.Name) && d.Name != metaquery.TargetAddr {
				settable = append(settable, d.Name)
			}
		}
	}
	what := fmt.Sprintf("scheduler: operator %q has no parameter %q", t.Operator, t.Param)
	if exists {
		what = fmt.Sprintf("scheduler: parameter %q of operator %q cannot be set while the query runs", t.Param, t.Operator)
	}
	near := dataflow.Nearest(t.Param, settable)
	switch {
	case len(settable) == 0:
		return fmt.Errorf("%s; none of its parameters can be set", what)
	case near != "" && !exists:
		return fmt.Errorf("%s; did you mean %q?", what, near)
	}
	return fmt.Errorf("%s; those that can be set: %s", what, strings.Join(settable, ", "))
}

// checkSettings checks the query with the new values, which must differ from it in settings only.
func checkSettings(query *dataflow.Physical, tuples []metaquery.Tuple, catalog dataflow.Catalog) error {
	next := &dataflow.Physical{Graph: query.Graph.Clone()}
	for _, t := range tuples {
		setParam(next.Graph.Operator(t.Operator), t.Param, t.Value)
	}
	for _, d := range dataflow.Resolve(next.Graph, catalog) {
		if d.Severity == dataflow.Error {
			d.Pos, d.Operator = dataflow.Pos{}, ""
			return errors.New(d.String())
		}
	}
	divideAs(query, next)
	c := dataflow.Compare(query, next)
	if len(c.Come)+len(c.Go)+len(c.Cut)+len(c.Join)+len(c.Moves)+len(c.Empty) > 0 {
		return fmt.Errorf("the change is more than a setting; the query would have to be started again:\n%s", c.Text())
	}
	return nil
}

// setParam gives an operator of a copied graph another value. What is known of the old value's text does
// not hold for it.
func setParam(op *dataflow.Operator, name, value string) {
	p := dataflow.Param{Name: name, Value: value, Pos: op.Pos}
	for i := range op.Params {
		if op.Params[i].Name == name {
			p.Pos = op.Params[i].Pos
			op.Params[i] = p
			return
		}
	}
	op.Params = append(op.Params, p)
}

// divideAs divides a copy of a query's graph into the same tasks.
func divideAs(query, next *dataflow.Physical) {
	of := make(map[string]*dataflow.Operator, len(next.Graph.Operators))
	for _, op := range next.Graph.Operators {
		of[op.Name] = op
	}
	tasks := make(map[*dataflow.Task]*dataflow.Task, len(query.Tasks))
	for _, t := range query.Tasks {
		u := *t
		u.Operators = make([]*dataflow.Operator, len(t.Operators))
		for i, op := range t.Operators {
			u.Operators[i] = of[op.Name]
		}
		tasks[t] = &u
		next.Tasks = append(next.Tasks, &u)
	}
	for _, ch := range query.Channels {
		d := *ch
		d.From, d.FromTask, d.ToTask = of[ch.From.Name], tasks[ch.FromTask], tasks[ch.ToTask]
		next.Channels = append(next.Channels, &d)
	}
}
