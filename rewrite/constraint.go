package rewrite

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"sluice/dataflow"
)

// constraint is a condition on the operators that a pattern matched.
type constraint struct {
	pos  dataflow.Pos
	kind constraintKind
	list []constraint // of all, some; one of none

	function *function
	args     []*value
	compare  string // "", or the comparison of a function that gives a value
	values   []*value
}

type constraintKind uint8

const (
	testConstraint constraintKind = iota
	allConstraint
	someConstraint
	noneConstraint // not
)

func (c *compiler) constraints(s *constraintsSyntax) []constraint {
	if s == nil {
		return nil
	}
	var list []constraint
	for _, or := range s.List {
		list = append(list, c.or(or))
	}
	return list
}

func (c *compiler) or(s *orSyntax) constraint {
	some := constraint{kind: someConstraint}
	for _, and := range s.Terms {
		all := constraint{kind: allConstraint}
		for _, u := range and.Terms {
			all.list = append(all.list, c.unary(u))
		}
		some.list = append(some.list, single(all))
	}
	return single(some)
}

// single is the constraint itself, or the only one that it is made of.
func single(c constraint) constraint {
	if len(c.list) == 1 {
		return c.list[0]
	}
	if len(c.list) > 0 {
		c.pos = c.list[0].pos
	}
	return c
}

func (c *compiler) unary(s *unarySyntax) constraint {
	switch {
	case s.Not != nil:
		return constraint{kind: noneConstraint, pos: place(c.file, s.Pos), list: []constraint{c.unary(s.Not)}}
	case s.Group != nil:
		return single(constraint{kind: allConstraint, list: c.constraints(s.Group)})
	}
	return c.test(s)
}

func (c *compiler) test(s *unarySyntax) constraint {
	t := constraint{pos: place(c.file, s.Pos), compare: s.Test.Op}
	call := s.Test.Call
	f := functions[call.Name]
	if f == nil {
		c.unknown(s.Pos, fmt.Sprintf("unknown constraint %q", call.Name), call.Name, "the constraints are", functionNames())
		return t
	}
	if len(s.Test.In) > 0 {
		t.compare = "in"
	}
	switch {
	case f.test != nil && t.compare != "":
		c.errorf(s.Pos, "", "%s(...) holds or does not hold; it cannot be compared", f.name)
	case f.test == nil && t.compare == "":
		c.errorf(s.Pos, "", "%s(...) gives a value: compare it, as in %s(...) = 1", f.name, f.name)
	}
	t.function = f
	t.args = c.arguments(f, s.Pos, call.Args, nil)
	values := s.Test.In
	if s.Test.Value != nil {
		values = []*valueSyntax{s.Test.Value}
	}
	for _, v := range values {
		t.values = append(t.values, c.compared(f, v))
	}
	return t
}

// compared compiles a value that a function is compared with; a type may stand without quotes.
func (c *compiler) compared(f *function, s *valueSyntax) *value {
	if f.name == "type" && s.Call != nil && !s.Call.Open && c.rule.Param(s.Call.Name) == nil {
		if c.cat != nil && c.cat.Lookup(s.Call.Name) == nil {
			c.errorf(s.Pos, suggest(s.Call.Name, c.cat.Types()), "unknown operator type %q", s.Call.Name)
		}
		return &value{pos: place(c.file, s.Pos), kind: TextValue, literal: s.Call.Name}
	}
	return c.value(s, nil)
}

func functionNames() []string {
	var names []string
	for name, f := range functions {
		if f.test != nil || len(f.args) > 0 && f.args[0] == operatorArgument {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// evaluation is what constraints and values are evaluated with.
type evaluation struct {
	bound    []*dataflow.Operator // by index of the pattern node
	args     map[string]string    // of the rule
	measures Measures
	known    propertyMemo
	indexes  map[string]int // of ranges
	element  element
}

// holds tells whether the constraint holds, and if not which part of it fails and why.
func (c *constraint) holds(e *evaluation) (ok bool, failed, why string) {
	switch c.kind {
	case allConstraint:
		for i := range c.list {
			if ok, failed, why := c.list[i].holds(e); !ok {
				return false, failed, why
			}
		}
		return true, "", ""
	case someConstraint:
		var reasons []string
		for i := range c.list {
			ok, _, why := c.list[i].holds(e)
			if ok {
				return true, "", ""
			}
			reasons = append(reasons, why)
		}
		return false, c.String(), strings.Join(reasons, ", and ")
	case noneConstraint:
		ok, _, why := c.list[0].holds(e)
		if unknown(&c.list[0], e) {
			return false, c.String(), why
		}
		return !ok, c.String(), fmt.Sprintf("%s holds", c.list[0].String())
	}
	return c.holdsTest(e)
}

// unknown tells whether the constraint needs a measure that is not there, so that neither it nor its
// opposite holds.
func unknown(c *constraint, e *evaluation) bool {
	for i := range c.list {
		if unknown(&c.list[i], e) {
			return true
		}
	}
	if c.function == nil || !c.function.measure {
		return false
	}
	_, err := c.function.call(c.args, e)
	return err != nil
}

func (c *constraint) holdsTest(e *evaluation) (ok bool, failed, why string) {
	if c.function.test != nil {
		ok, why := c.function.test(c.function.prepare(c.args, e))
		if ok {
			return true, "", ""
		}
		return false, c.String(), why
	}
	got, err := c.function.call(c.args, e)
	if err != nil {
		return false, c.String(), err.Error()
	}
	for _, v := range c.values {
		want, err := v.evaluate(e)
		if err != nil {
			return false, c.String(), err.Error()
		}
		ok, err := compare(got, c.compare, want)
		if err != nil {
			return false, c.String(), err.Error()
		}
		if ok {
			return true, "", ""
		}
	}
	return false, c.String(), fmt.Sprintf("it is %s", orNothing(got))
}

func orNothing(text string) string {
	if text == "" {
		return "empty"
	}
	return text
}

// compare compares as numbers or durations if both texts are such, else as texts, which are not less
// or greater.
func compare(a, op, b string) (bool, error) {
	order, ordered := 0, false
	if x, y, ok := numbers(a, b); ok {
		ordered = true
		switch {
		case x < y:
			order = -1
		case x > y:
			order = 1
		}
	} else if a != b {
		order = 1
	}
	switch op {
	case "=", "in":
		return order == 0, nil
	case "!=":
		return order != 0, nil
	}
	if !ordered {
		return false, fmt.Errorf("%s and %s are not both numbers or durations", orNothing(a), orNothing(b))
	}
	switch op {
	case "<":
		return order < 0, nil
	case "<=":
		return order <= 0, nil
	case ">":
		return order > 0, nil
	}
	return order >= 0, nil
}

func numbers(a, b string) (x, y float64, ok bool) {
	x, err1 := strconv.ParseFloat(a, 64)
	y, err2 := strconv.ParseFloat(b, 64)
	if err1 == nil && err2 == nil {
		return x, y, true
	}
	dx, err1 := dataflow.ParseDuration(a)
	dy, err2 := dataflow.ParseDuration(b)
	return float64(dx), float64(dy), err1 == nil && err2 == nil
}

func (f *function) prepare(args []*value, e *evaluation) *call {
	c := &call{measures: e.measures, known: e.known, element: e.element}
	for _, a := range args {
		if a.variable != nil {
			c.ops = append(c.ops, e.bound[a.variable.index])
		}
	}
	return c
}

// call gives the value of a function.
func (f *function) call(args []*value, e *evaluation) (string, error) {
	c := f.prepare(args, e)
	for _, a := range args {
		if a.variable != nil {
			continue
		}
		text, err := a.evaluate(e)
		if err != nil {
			return "", err
		}
		c.values = append(c.values, text)
	}
	return f.value(c)
}

// evaluate gives the value as text.
func (v *value) evaluate(e *evaluation) (string, error) {
	switch {
	case v.function != nil:
		return v.function.call(v.args, e)
	case v.param != "":
		return e.args[v.param], nil
	case v.index != "":
		return strconv.Itoa(e.indexes[v.index]), nil
	}
	return v.literal, nil
}

// String gives the constraint as it is written.
func (c *constraint) String() string {
	var parts []string
	for i := range c.list {
		part := c.list[i].String()
		if c.list[i].kind != testConstraint {
			part = "(" + part + ")"
		}
		parts = append(parts, part)
	}
	switch c.kind {
	case allConstraint:
		return strings.Join(parts, " and ")
	case someConstraint:
		return strings.Join(parts, " or ")
	case noneConstraint:
		return "not " + parts[0]
	}
	text := (&value{function: c.function, args: c.args}).String()
	var values []string
	for _, v := range c.values {
		values = append(values, v.String())
	}
	switch c.compare {
	case "":
		return text
	case "in":
		return text + " in (" + strings.Join(values, ", ") + ")"
	}
	return text + " " + c.compare + " " + values[0]
}

// String gives the value as it is written.
func (v *value) String() string {
	switch {
	case v.variable != nil:
		return v.variable.name
	case v.function != nil:
		args := make([]string, len(v.args))
		for i, a := range v.args {
			args[i] = a.String()
		}
		return v.function.name + "(" + strings.Join(args, ", ") + ")"
	case v.param != "":
		return v.param
	case v.index != "":
		return v.index
	case v.kind == TextValue:
		return strconv.Quote(v.literal)
	}
	return v.literal
}
