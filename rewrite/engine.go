package rewrite

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"sluice/dataflow"
)

// Measures tells what is measured of a running query.
type Measures interface {
	// Measure returns a measure of the operator of that name: "rate" (rows/s in), "backlog" (rows),
	// "utilisation" (0 to 1) or "cost" (seconds of useful time per row), and whether it is known.
	Measure(operator, measure string) (float64, bool)
}

// Engine applies rules. Its fields are set before use; it may be used by several goroutines if its
// hooks may.
type Engine struct {
	Catalog  dataflow.Catalog
	Measures Measures // nil: no measure is known
	// Matched is called when a rule's pattern and constraints hold, before the new graph is built,
	// and Applied when a step is done. Either may be nil.
	Matched func(Match)
	Applied func(*Step)
}

// Match is a rule that applies to an operator.
type Match struct {
	Rule   *Rule
	Target *dataflow.Operator
	// Bound are the operators that the named variables of the pattern stand for.
	Bound map[string]*dataflow.Operator
}

// Step is one application of a rule.
type Step struct {
	Number int // from 1
	Rule   *Rule
	Target string // name of the operator in Before
	Args   map[string]string
	// Before and After are the graph as it was and as it is.
	Before, After *dataflow.Graph
	// Diff has one line for each operator that goes, comes or changes, as it was and as it is, in term
	// notation after "- " and "+ ". It is empty if the rule changes nothing.
	Diff string
}

// Apply applies the rule to the target, which must be of g, with arguments for the rule's parameters
// as text. g must be resolved without errors and is not changed; the new graph is resolved. The error
// is a *MismatchError if the rule does not apply.
func (e *Engine) Apply(g *dataflow.Graph, rule *Rule, target *dataflow.Operator, args map[string]string) (*dataflow.Graph, *Step, error) {
	values, err := rule.arguments(target.Name, args)
	if err != nil {
		return nil, nil, err
	}
	m, err := e.matchTarget(rule, target, values)
	if err != nil {
		return nil, nil, err
	}
	if e.Matched != nil {
		e.Matched(m.export(rule, target))
	}
	b := e.builder(g, rule, target, m, values)
	if b.copy[target] == nil {
		return nil, nil, fmt.Errorf("rewrite: operator %q is not of the graph that is to be rewritten", target.Name)
	}
	if err := b.build(); err != nil {
		return nil, nil, err
	}
	b.markTarget()
	if diags := dataflow.Resolve(b.g, e.Catalog); diags.HasErrors() {
		return nil, nil, b.invalid(diags)
	}
	if err := b.checkStreams(); err != nil {
		return nil, nil, err
	}
	step := &Step{Number: b.step, Rule: rule, Target: target.Name, Args: values, Before: g, After: b.g, Diff: b.diff()}
	if e.Applied != nil {
		e.Applied(step)
	}
	return b.g, step, nil
}

// Applies tells whether the rule's pattern and constraints hold at the target; if not, the error is a
// *MismatchError. The result may still turn out to be impossible to build.
func (e *Engine) Applies(rule *Rule, target *dataflow.Operator, args map[string]string) error {
	values, err := rule.arguments(target.Name, args)
	if err != nil {
		return err
	}
	_, err = e.matchTarget(rule, target, values)
	return err
}

// Triggered tells whether the rule has a trigger of that event whose variable can stand for the
// operator, with the rule's own constraints and the trigger's conditions holding. It returns the
// operator that the rule is to be applied to.
func (e *Engine) Triggered(rule *Rule, event string, op *dataflow.Operator, args map[string]string) (*dataflow.Operator, error) {
	t := rule.Trigger(event)
	if t == nil {
		return nil, &MismatchError{Rule: rule.Name, Operator: op.Name, Pos: rule.Pos, Reason: fmt.Sprintf("it has no trigger %q", event)}
	}
	values, err := rule.arguments(op.Name, args)
	if err != nil {
		return nil, err
	}
	n := rule.variables[t.Variable]
	m := e.matcher(rule, op.Name, values)
	m.conditions = t.constraints
	if !m.search(n, op) {
		return nil, m.failure
	}
	target := m.bound[rule.target.index]
	if err := rule.reapplied(target); err != nil {
		return nil, err
	}
	return target, nil
}

func (e *Engine) matchTarget(rule *Rule, target *dataflow.Operator, values map[string]string) (*binding, error) {
	if err := rule.reapplied(target); err != nil {
		return nil, err
	}
	m := e.matcher(rule, target.Name, values)
	if !m.search(rule.target, target) {
		return nil, m.failure
	}
	return &m.binding, nil
}

// reapplied refuses to apply a rule to what it made.
func (r *Rule) reapplied(target *dataflow.Operator) error {
	if target.Origin != nil && slices.Contains(target.Origin.Through, r.Name) {
		return &MismatchError{Rule: r.Name, Operator: target.Name, Pos: r.Pos, Reason: "it has been applied there already"}
	}
	return nil
}

func (m *binding) export(rule *Rule, target *dataflow.Operator) Match {
	out := Match{Rule: rule, Target: target, Bound: make(map[string]*dataflow.Operator)}
	for name, n := range rule.variables {
		if op := m.bound[n.index]; op != nil {
			out.Bound[name] = op
		}
	}
	return out
}

// arguments completes and checks the arguments of the rule's parameters.
func (r *Rule) arguments(target string, args map[string]string) (map[string]string, error) {
	failf := func(format string, a ...any) error {
		return &MismatchError{Rule: r.Name, Operator: target, Pos: r.Pos, Reason: fmt.Sprintf(format, a...)}
	}
	values := make(map[string]string, len(r.Params))
	for _, p := range r.Params {
		text, given := args[p.Name]
		if !given {
			if p.Required {
				return nil, failf("it needs the parameter %q", p.Name)
			}
			text = p.Default
		}
		if !p.Kind.accepts(text) {
			return nil, failf("parameter %q must be a %s, not %s", p.Name, p.Kind, orNothing(text))
		}
		values[p.Name] = text
	}
	for name := range args {
		if r.Param(name) == nil {
			return nil, failf("it has no parameter %q%s", name, didYouMean(name, r.paramNames()))
		}
	}
	return values, nil
}

func (r *Rule) paramNames() []string {
	var names []string
	for _, p := range r.Params {
		names = append(names, p.Name)
	}
	return names
}

func (k ValueKind) accepts(text string) bool {
	switch k {
	case NumberValue:
		_, err := strconv.ParseFloat(text, 64)
		return err == nil
	case DurationValue:
		_, err := dataflow.ParseDuration(text)
		return err == nil
	case BoolValue:
		return text == "true" || text == "false"
	}
	return true
}

func (e *Engine) builder(g *dataflow.Graph, rule *Rule, target *dataflow.Operator, m *binding, values map[string]string) *builder {
	b := &builder{
		catalog: e.Catalog, rule: rule, target: target, match: m, step: g.Steps + 1,
		eval: evaluation{bound: m.bound, args: values, measures: e.Measures},
		old:  g, g: g.Clone(),
		copy:    make(map[*dataflow.Operator]*dataflow.Operator, len(g.Operators)),
		made:    make(map[*dataflow.Operator]*node),
		terms:   make(map[*termNode]bundle),
		gone:    make(map[*dataflow.Operator]bool),
		names:   make(map[string]bool, len(g.Operators)),
		taken:   make(map[string]bool, len(g.Operators)),
		moved:   make(map[*dataflow.Input]*dataflow.Schema),
		changed: make(map[*dataflow.Operator]bool),
		counts:  make(map[*patternNode]int),
		staged:  make(map[*patternNode]map[int]*termNode),
	}
	b.group = fmt.Sprintf("%s#%d", rule.Name, b.step)
	b.g.Steps = b.step
	for i, op := range g.Operators {
		b.copy[op] = b.g.Operators[i]
	}
	return b
}

// markTarget notes at a target that stays that the rule has been applied to it.
func (b *builder) markTarget() {
	op := b.copy[b.target]
	if b.gone[op] {
		return
	}
	b.touch(op)
	op.Origin.Through = append(slices.Clone(op.Origin.Through), b.rule.Name)
}

// invalid is the error of a rule whose result is not a valid graph.
func (b *builder) invalid(diags dataflow.Diagnostics) error {
	for _, d := range diags {
		if d.Severity == dataflow.Error {
			return b.failf(b.rule.result.pos, "its result is not a valid graph: %s", d)
		}
	}
	return errors.New("rewrite: no error among the diagnostics of an invalid graph")
}

// Result is a graph with all its rewrites applied.
type Result struct {
	Graph *dataflow.Graph
	Steps []*Step
}

// Run applies the rewrites of the graph (Graph.Rewrites) in order. g must be resolved without errors;
// it is not changed. A rewrite that names several operators, because it names one that was replicated,
// is applied to each, in the order of the graph. What is wrong is reported at the rewrite; the others
// are still applied.
func (e *Engine) Run(g *dataflow.Graph, rules *RuleSet) (*Result, dataflow.Diagnostics) {
	r := &Result{Graph: g}
	var diags dataflow.Diagnostics
	for i := range g.Rewrites {
		diags = append(diags, e.rewrite(r, &g.Rewrites[i], rules)...)
	}
	return r, diags
}

// CheckNames reports what the rewrites of a graph that is not fit to be rewritten name wrongly: rules, their
// parameters, and operators. A name such as late.1 may be given by a rewrite before, so it is taken as
// right if there is an operator late.
func CheckNames(g *dataflow.Graph, rules *RuleSet) dataflow.Diagnostics {
	var diags dataflow.Diagnostics
	for i := range g.Rewrites {
		rw := &g.Rewrites[i]
		rule, _, found := named(rw, rules)
		diags = append(diags, found...)
		name := rw.Operator
		for cut := len(name); cut >= 0 && g.Operator(name) == nil; cut = strings.LastIndexByte(name, '.') {
			name = name[:cut]
		}
		if rule != nil && g.Operator(name) == nil {
			diags = append(diags, unknownOperator(g, rw))
		}
	}
	return diags
}

func unknownOperator(g *dataflow.Graph, rw *dataflow.Rewrite) dataflow.Diagnostic {
	return diagnosticf(rw.Pos, suggest(rw.Operator, operatorNames(g)), "rule %q: unknown operator %q", rw.Rule, rw.Operator)
}

// named finds the rule that a rewrite names, and its arguments. There is no rule if the name is wrong, or
// if the front end has reported that something is missing.
func named(rw *dataflow.Rewrite, rules *RuleSet) (*Rule, map[string]string, dataflow.Diagnostics) {
	if rw.Rule == "" || rw.Operator == "" {
		return nil, nil, nil
	}
	rule := rules.Rule(rw.Rule)
	if rule == nil {
		message := fmt.Sprintf("unknown rule %q", rw.Rule)
		suggestion := suggest(rw.Rule, rules.Names())
		if suggestion == "" {
			message += "; the rules are " + strings.Join(rules.Names(), ", ")
		}
		return nil, nil, dataflow.Diagnostics{diagnosticf(rw.Pos, suggestion, "%s", message)}
	}
	args, diags := arguments(rw, rule)
	return rule, args, diags
}

// rewrite applies one rewrite of a spec.
func (e *Engine) rewrite(r *Result, rw *dataflow.Rewrite, rules *RuleSet) dataflow.Diagnostics {
	rule, args, diags := named(rw, rules)
	if rule == nil {
		return diags
	}
	targets := r.Graph.Named(rw.Operator)
	if len(targets) == 0 {
		diags = append(diags, unknownOperator(r.Graph, rw))
	}
	if diags.HasErrors() {
		return diags
	}
	before := *r
	for _, t := range targets {
		target := r.Graph.Operator(t.Name)
		if target == nil {
			continue // an earlier application has replaced it
		}
		g, step, err := e.Apply(r.Graph, rule, target, args)
		if err != nil {
			return dataflow.Diagnostics{{Pos: rw.Pos, Message: err.Error()}}
		}
		r.Graph = g
		r.Steps = append(r.Steps, step)
	}
	if err := checkCopies(r.Graph); err != nil {
		*r = before
		return dataflow.Diagnostics{diagnosticf(rw.Pos, "", "rule %q cannot be applied to operator %q: %v", rw.Rule, rw.Operator, err)}
	}
	return nil
}

// arguments are the parameters of a rewrite; an unknown or wrong one is reported where it stands.
func arguments(rw *dataflow.Rewrite, rule *Rule) (map[string]string, dataflow.Diagnostics) {
	args := make(map[string]string, len(rw.Params))
	var diags dataflow.Diagnostics
	for _, p := range rw.Params {
		if p.Name == "" {
			continue
		}
		known := rule.Param(p.Name)
		switch {
		case known == nil:
			message := fmt.Sprintf("rule %q has no parameter %q", rule.Name, p.Name)
			suggestion := suggest(p.Name, rule.paramNames())
			if suggestion == "" {
				message += "; " + rule.paramsText()
			}
			diags = append(diags, diagnosticf(p.Pos, suggestion, "%s", message))
		case !known.Kind.accepts(p.Value):
			diags = append(diags, diagnosticf(p.Pos, "", "parameter %q of rule %q must be a %s, not %s", p.Name, rule.Name, known.Kind, orNothing(p.Value)))
		default:
			args[p.Name] = p.Value
		}
	}
	return args, diags
}

func (r *Rule) paramsText() string {
	if len(r.Params) == 0 {
		return "it has none"
	}
	return "it has " + strings.Join(r.paramNames(), ", ")
}

func operatorNames(g *dataflow.Graph) []string {
	names := make([]string, len(g.Operators))
	for i, op := range g.Operators {
		names[i] = op.Name
	}
	return names
}
