package rewrite

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/alecthomas/participle/v2/lexer"

	"sluice/dataflow"
)

// events are what a trigger may name.
var events = []string{"bottleneck", "failed", "idle", "parallel"}

// compiler makes a Rule of its syntax and reports all that is wrong with it.
type compiler struct {
	file  string
	cat   dataflow.Catalog
	rule  *Rule
	diags dataflow.Diagnostics

	shared   map[string]*termNode       // names that where binds
	bindings map[string]*bindingSyntax  // the same, as written
	state    map[string]int             // of a binding: 0 not looked at, 1 being compiled, 2 done
	used     map[string]bool            // names of bindings that occur
	uses     map[*patternNode]*nodeUses // how the result uses each pattern variable
	nodes    int                        // of the pattern
	params   map[string]bool            // rule parameters that occur
	result   bool                       // the outermost term of the result is being compiled
}

func compile(file string, syntax *ruleSyntax, src ruleSource, cat dataflow.Catalog) (*Rule, dataflow.Diagnostics) {
	c := &compiler{
		file: file, cat: cat,
		rule: &Rule{
			Name: syntax.Name, Doc: src.doc, Source: src.text, Pos: place(file, syntax.Pos), Target: "f",
			variables: make(map[string]*patternNode),
		},
		shared: make(map[string]*termNode), bindings: make(map[string]*bindingSyntax), state: make(map[string]int),
		used: make(map[string]bool), uses: make(map[*patternNode]*nodeUses), params: make(map[string]bool),
	}
	c.ruleParams(syntax.Params)
	if syntax.On != nil {
		c.rule.Target = syntax.On.Name
	}
	c.rule.pattern = c.pattern(syntax.Pattern, nil)
	c.rule.nodes = c.nodes
	c.consumers()
	c.target(syntax)
	c.rule.constraints = c.constraints(syntax.Constraints)
	for _, t := range syntax.Triggers {
		c.trigger(t)
	}
	for _, b := range syntax.Where {
		c.declare(b)
	}
	c.result = true
	c.rule.result = c.term(syntax.Result, nil)
	for _, n := range syntax.Without {
		c.without(n)
	}
	for _, b := range syntax.Where {
		if !c.used[b.Name] {
			c.errorf(b.Pos, "", "%q is bound but not used", b.Name)
		}
	}
	if !c.diags.HasErrors() {
		c.checkUses(syntax)
	}
	if cat != nil {
		c.diags = append(c.diags, c.rule.checkTypes(cat)...)
	}
	for i := range c.diags {
		c.diags[i].Message = fmt.Sprintf("rule %q: %s", c.rule.Name, c.diags[i].Message)
	}
	return c.rule, c.diags
}

func (c *compiler) errorf(pos lexer.Position, suggestion, format string, args ...any) {
	c.diags = append(c.diags, diagnosticf(place(c.file, pos), suggestion, format, args...))
}

// unknown reports a name that is none of the known ones: with the nearest, or else with all of them.
func (c *compiler) unknown(pos lexer.Position, message, name, are string, known []string) {
	suggestion := suggest(name, known)
	if suggestion == "" {
		message += "; " + are + " " + strings.Join(known, ", ")
	}
	c.errorf(pos, suggestion, "%s", message)
}

func diagnosticf(pos dataflow.Pos, suggestion, format string, args ...any) dataflow.Diagnostic {
	return dataflow.Diagnostic{Pos: pos, Suggestion: suggestion, Message: fmt.Sprintf(format, args...)}
}

// suggest is the nearest of the known names.
func suggest(name string, known []string) string { return dataflow.Nearest(name, known) }

// didYouMean is a suggestion inside a message.
func didYouMean(name string, known []string) string {
	if s := suggest(name, known); s != "" {
		return fmt.Sprintf("; did you mean %q?", s)
	}
	return ""
}

func (c *compiler) ruleParams(list []*paramSyntax) {
	for _, p := range list {
		param := Param{Name: p.Name, Required: p.Default == nil, Pos: place(c.file, p.Pos)}
		switch {
		case slices.Contains(reserved, p.Name):
			c.errorf(p.Pos, "", "%q is a word of the language and cannot name a parameter", p.Name)
		case c.rule.Param(p.Name) != nil:
			c.errorf(p.Pos, "", "duplicate parameter %q", p.Name)
		}
		if p.Default != nil {
			v := c.value(p.Default, nil)
			if v.param != "" || v.function != nil || v.index != "" {
				c.errorf(p.Default.Pos, "", "the default of parameter %q must be a literal", p.Name)
			}
			param.Default, param.Kind = v.literal, v.kind
		}
		c.rule.Params = append(c.rule.Params, param)
	}
}

// target finds the variable that <rewrite operator="..."> binds.
func (c *compiler) target(syntax *ruleSyntax) {
	name := c.rule.Target
	v := c.rule.variables[name]
	switch {
	case v == nil && syntax.On != nil:
		c.errorf(syntax.On.Pos, suggest(name, c.variableNames()), "the pattern has no variable %q", name)
	case v == nil:
		c.errorf(syntax.Pos, "", "the pattern has no variable f to stand for the operator that the rule is applied to; name it f, or write %q, say", "rule "+c.rule.Name+" on g")
	case v.kind != operatorNode:
		c.errorf(syntax.Pattern.Pos, "", "%q does not stand for an operator, so the rule cannot be applied to one by it", name)
	}
	c.rule.target = v
}

func (c *compiler) variableNames() []string {
	var names []string
	for name := range c.rule.variables {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// pattern compiles a part of a pattern that is an argument of parent.
func (c *compiler) pattern(t *termSyntax, parent *patternNode) *patternNode {
	n := &patternNode{pos: place(c.file, t.Pos), name: t.Bind, parent: parent, index: c.nodes}
	c.nodes++
	switch {
	case t.Stage != nil:
		c.errorf(t.Pos, "", "stage(...) has no meaning in a pattern")
		return n
	case t.Range != nil || t.Head.Primes != "":
		c.errorf(t.Pos, "", "replicas have no meaning in a pattern")
	case len(t.Suffixes) > 0:
		c.errorf(t.Suffixes[0].Pos, "", "parameters, placement and standby have no meaning in a pattern; a constraint can ask for a parameter: param(f, \"x\") = ...")
	}
	if ref := c.rule.variables[t.Head.Name]; ref != nil && t.Bind == "" && !t.Head.Star {
		if t.Open {
			c.errorf(t.Pos, "", "%q is bound already; write its name alone for the same operator", t.Head.Name)
		}
		if ref.kind == streamsNode {
			c.errorf(t.Pos, "", "%q stands for streams, which a pattern names once", t.Head.Name)
		}
		for above := parent; above != nil; above = above.parent {
			if above == ref {
				c.errorf(t.Pos, "", "%q cannot be its own input", t.Head.Name)
			}
		}
		return ref
	}
	if t.Bind != "" {
		c.bind(t)
		c.rule.variables[t.Bind] = n
	}
	switch {
	case t.Head.Star && t.Head.Name != "any":
		c.errorf(t.Pos, "", "only any* stands for any number of streams; write any* for %s*", t.Head.Name)
	case t.Head.Star:
		n.kind = streamsNode
		if t.Open {
			c.errorf(t.Pos, "", "any* stands for streams and has no inputs")
		}
		if parent == nil {
			c.errorf(t.Pos, "", "a pattern starts with an operator, not with any*")
		}
		return n
	case t.Head.Name != "any":
		n.typ = t.Head.Name
	}
	n.hasArgs = t.Open
	for _, arg := range t.Args {
		n.args = append(n.args, c.pattern(arg, n))
	}
	return n
}

func (c *compiler) bind(t *termSyntax) {
	switch {
	case slices.Contains(reserved, t.Bind):
		c.errorf(t.Pos, "", "%q is a word of the language and cannot name a variable", t.Bind)
	case c.rule.variables[t.Bind] != nil:
		c.errorf(t.Pos, "", "%q is bound twice", t.Bind)
	case c.rule.Param(t.Bind) != nil:
		c.errorf(t.Pos, "", "%q is a parameter of the rule and cannot name a variable as well", t.Bind)
	}
}

// consumers tells the outermost any(f) from an operator: it is all consumers of f, unless the rule is
// applied to it.
func (c *compiler) consumers() {
	n := c.rule.pattern
	if n.kind == operatorNode && n.typ == "" && len(n.args) == 1 && n.args[0].kind == operatorNode && n.name != c.rule.Target {
		n.kind = consumersNode
	}
}

func (c *compiler) trigger(t *triggerSyntax) {
	tr := Trigger{Event: t.Event, Variable: t.Variable.Name, Pos: place(c.file, t.Pos)}
	if !slices.Contains(events, t.Event) {
		c.unknown(t.Pos, fmt.Sprintf("unknown event %q", t.Event), t.Event, "the events are", events)
	}
	if c.rule.Trigger(t.Event) != nil {
		c.errorf(t.Pos, "", "the rule has two triggers %q", t.Event)
	}
	c.operator(t.Variable.Name, t.Variable.Pos)
	tr.constraints = c.constraints(t.Constraints)
	c.rule.Triggers = append(c.rule.Triggers, tr)
}

// operator finds a variable that stands for one operator.
func (c *compiler) operator(name string, pos lexer.Position) *patternNode {
	v := c.rule.variables[name]
	switch {
	case v == nil:
		c.errorf(pos, suggest(name, c.variableNames()), "unknown variable %q", name)
	case v.kind == streamsNode:
		c.errorf(pos, "", "%q stands for streams, not for an operator", name)
	case v.kind == consumersNode:
		c.errorf(pos, "", "%q stands for all consumers, not for one operator", name)
	default:
		return v
	}
	return nil
}

// value compiles a value; index is the name of the index of the range around it, or nil.
func (c *compiler) value(s *valueSyntax, indexes []string) *value {
	v := &value{pos: place(c.file, s.Pos)}
	switch {
	case s.Text != "":
		text, err := strconv.Unquote(s.Text)
		if err != nil {
			c.errorf(s.Pos, "", "%s is not a text as Go writes it", s.Text)
		}
		v.kind, v.literal = TextValue, text
	case s.Number != "":
		v.kind, v.literal = numberKind(s.Number), s.Number
		if v.kind == AnyValue {
			c.errorf(s.Pos, "", "%q is neither a number nor a duration", s.Number)
		}
	case s.Call.Open:
		c.callValue(v, s, indexes)
	case s.Call.Name == "true" || s.Call.Name == "false":
		v.kind, v.literal = BoolValue, s.Call.Name
	case slices.Contains(indexes, s.Call.Name):
		v.index = s.Call.Name
	case c.rule.Param(s.Call.Name) != nil:
		v.param = s.Call.Name
		c.params[v.param] = true
	default:
		known := slices.Clone(indexes)
		for _, p := range c.rule.Params {
			known = append(known, p.Name)
		}
		message := fmt.Sprintf("unknown parameter %q", s.Call.Name)
		if c.rule.variables[s.Call.Name] != nil {
			message = fmt.Sprintf("%q stands for a part of the graph and is no value", s.Call.Name)
		} else if len(known) == 0 {
			message += "; the rule has none, and a text stands in quotes"
		}
		c.errorf(s.Pos, suggest(s.Call.Name, known), "%s", message)
	}
	return v
}

func numberKind(text string) ValueKind {
	if _, err := strconv.ParseFloat(text, 64); err == nil {
		return NumberValue
	}
	if _, err := dataflow.ParseDuration(text); err == nil {
		return DurationValue
	}
	return AnyValue
}

// callValue compiles a function that stands for the value of a parameter.
func (c *compiler) callValue(v *value, s *valueSyntax, indexes []string) {
	f := functions[s.Call.Name]
	if f == nil || !f.setting {
		var names []string
		for name, f := range functions {
			if f.setting {
				names = append(names, name)
			}
		}
		slices.Sort(names)
		message := fmt.Sprintf("unknown function %q", s.Call.Name)
		if f != nil {
			message = fmt.Sprintf("%s(...) is a constraint and no value", s.Call.Name)
		}
		c.unknown(s.Pos, message, s.Call.Name, "the functions that give a value are", names)
		return
	}
	v.function = f
	v.args = c.arguments(f, s.Pos, s.Call.Args, indexes)
}

func (c *compiler) arguments(f *function, pos lexer.Position, list []*valueSyntax, indexes []string) []*value {
	if len(list) != len(f.args) {
		c.errorf(pos, "", "%s takes %s, not %d", f.name, plural(len(f.args), "argument"), len(list))
		return nil
	}
	var args []*value
	for i, a := range list {
		if f.args[i] == valueArgument {
			args = append(args, c.value(a, indexes))
			continue
		}
		v := &value{pos: place(c.file, a.Pos)}
		if a.Call == nil || a.Call.Open {
			c.errorf(a.Pos, "", "%s takes a variable here", f.name)
		} else {
			v.variable = c.operator(a.Call.Name, a.Pos)
		}
		args = append(args, v)
	}
	return args
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// checkTypes looks up the types of the rule's nodes.
func (r *Rule) checkTypes(cat dataflow.Catalog) dataflow.Diagnostics {
	var diags dataflow.Diagnostics
	check := func(typ string, pos dataflow.Pos) {
		if typ != "" && cat.Lookup(typ) == nil {
			diags = append(diags, diagnosticf(pos, suggest(typ, cat.Types()), "unknown operator type %q", typ))
		}
	}
	for _, n := range r.patternNodes() {
		check(n.typ, n.pos)
	}
	for _, t := range r.terms() {
		check(t.typ, t.pos)
	}
	return diags
}

// patternNodes are the nodes of the pattern, each once.
func (r *Rule) patternNodes() []*patternNode {
	var nodes []*patternNode
	seen := make(map[*patternNode]bool)
	var visit func(n *patternNode)
	visit = func(n *patternNode) {
		if seen[n] {
			return
		}
		seen[n] = true
		nodes = append(nodes, n)
		for _, a := range n.args {
			visit(a)
		}
	}
	visit(r.pattern)
	return nodes
}

// terms are the parts of the result, each once.
func (r *Rule) terms() []*termNode {
	var terms []*termNode
	seen := make(map[*termNode]bool)
	var visit func(t *termNode)
	visit = func(t *termNode) {
		if t == nil || seen[t] {
			return
		}
		seen[t] = true
		terms = append(terms, t)
		visit(t.shared)
		for _, a := range t.args {
			visit(a)
		}
	}
	visit(r.result)
	return terms
}
