package rewrite

import (
	"cmp"
	"slices"

	"sluice/dataflow"
)

// Rule is one rewrite rule, checked and ready to be applied. It is not changed once it is made.
type Rule struct {
	Name   string
	Doc    string // the comment before it
	Source string // its text, without the comment
	Pos    dataflow.Pos
	Params []Param
	// Target is the variable that <rewrite operator="..."> binds.
	Target   string
	Triggers []Trigger

	pattern     *patternNode
	nodes       int // of the pattern
	target      *patternNode
	variables   map[string]*patternNode
	constraints []constraint
	result      *termNode
	without     []*patternNode
}

// Param is a parameter of a rule.
type Param struct {
	Name     string
	Required bool   // it has no default
	Default  string // as text
	Kind     ValueKind
	Pos      dataflow.Pos
}

// ValueKind is what a value of the rule language is.
type ValueKind uint8

// The kinds of values. A parameter without a default takes any.
const (
	AnyValue ValueKind = iota
	TextValue
	NumberValue
	DurationValue
	BoolValue
)

func (k ValueKind) String() string {
	return [...]string{"any value", "text", "number", "duration", "bool"}[k]
}

// Trigger binds a rule to an event: the rule may be applied, of itself, where Event happens to the
// operator that Variable stands for, and the trigger's conditions hold.
type Trigger struct {
	Event    string // bottleneck, idle, failed, parallel
	Variable string
	Pos      dataflow.Pos

	constraints []constraint
}

// Trigger returns the rule's trigger of that event, or nil.
func (r *Rule) Trigger(event string) *Trigger {
	for i := range r.Triggers {
		if r.Triggers[i].Event == event {
			return &r.Triggers[i]
		}
	}
	return nil
}

// Param returns the parameter of that name, or nil.
func (r *Rule) Param(name string) *Param {
	for i := range r.Params {
		if r.Params[i].Name == name {
			return &r.Params[i]
		}
	}
	return nil
}

// RuleSet is a set of rules with unique names. The zero value is empty.
type RuleSet struct {
	rules []*Rule // sorted by name
}

// Rules returns the rules, sorted by name.
func (s *RuleSet) Rules() []*Rule { return slices.Clone(s.rules) }

// Names returns the names of the rules, sorted.
func (s *RuleSet) Names() []string {
	names := make([]string, len(s.rules))
	for i, r := range s.rules {
		names[i] = r.Name
	}
	return names
}

// Rule returns the rule of that name, or nil.
func (s *RuleSet) Rule(name string) *Rule {
	if i, ok := s.find(name); ok {
		return s.rules[i]
	}
	return nil
}

func (s *RuleSet) find(name string) (int, bool) {
	return slices.BinarySearchFunc(s.rules, name, func(r *Rule, name string) int { return cmp.Compare(r.Name, name) })
}

func (s *RuleSet) add(r *Rule) dataflow.Diagnostics {
	i, ok := s.find(r.Name)
	if ok {
		return dataflow.Diagnostics{diagnosticf(r.Pos, "", "duplicate rule %q; the first is at %s", r.Name, s.rules[i].Pos)}
	}
	s.rules = slices.Insert(s.rules, i, r)
	return nil
}

// Add adds the rules of other; a name that s has already is reported.
func (s *RuleSet) Add(other *RuleSet) dataflow.Diagnostics {
	var diags dataflow.Diagnostics
	for _, r := range other.rules {
		diags = append(diags, s.add(r)...)
	}
	return diags
}

// Check looks up the types of all nodes in the catalog. ParseRules with a catalog has done that.
func (s *RuleSet) Check(cat dataflow.Catalog) dataflow.Diagnostics {
	var diags dataflow.Diagnostics
	for _, r := range s.rules {
		diags = append(diags, r.checkTypes(cat)...)
	}
	diags.Sort()
	return diags
}

// patternNode is a part of a pattern.
type patternNode struct {
	name string // "" if it binds none
	pos  dataflow.Pos
	kind patternKind
	typ  string // of an operatorNode: its type, "" for any
	// args are the inputs of an operatorNode, if hasArgs. A node may be an argument of several.
	args    []*patternNode
	hasArgs bool
	parent  *patternNode // the first node that it is an argument of
	index   int          // among the rule's pattern nodes
}

type patternKind uint8

const (
	operatorNode  patternKind = iota // one operator
	streamsNode                      // any*: the streams that feed an operator
	consumersNode                    // the outermost any(f): all consumers of f
)

// termNode is a part of a result: it denotes a list of streams.
type termNode struct {
	pos  dataflow.Pos
	kind termKind

	variable *patternNode // of variableTerm, applyTerm, stageTerm, consumersTerm
	shared   *termNode    // of sharedTerm: what the name is bound to
	typ      string       // of newTerm

	args    []*termNode
	replica int // of applyTerm: 0 for f, 1 for f', ...
	rng     *termRange
	stages  [2]*value // of stageTerm: first and last
	rest    bool      // of stageTerm: up to the operator's last stage

	settings []setting
	labels   []string
	standby  bool
}

type termKind uint8

const (
	noTerm        termKind = iota // something wrong, which has been reported
	variableTerm                  // f, a1: streams of the graph as it was
	sharedTerm                    // a name bound by where
	applyTerm                     // f(x), f'(x), f[1..k](x)
	stageTerm                     // stage(f, 1)(x)
	newTerm                       // multicast(x)
	consumersTerm                 // a2(x)
)

// termRange makes several nodes of one term.
type termRange struct {
	by    *value // [by n]: a tree of nodes with n arguments each
	each  string // [i]: the i-th of the enclosing range
	index string // [i := 1..k]
	to    *value
}

// setting is a parameter in braces.
type setting struct {
	name  string
	value *value
	pos   dataflow.Pos
}

// value is a literal, a rule parameter, the index of a range, or a function of them and of operators.
type value struct {
	pos      dataflow.Pos
	kind     ValueKind // of a literal
	literal  string
	param    string       // name of a rule parameter
	index    string       // name of the index of a range
	function *function    // a function of args
	variable *patternNode // an operator, as an argument of a function
	args     []*value
}
