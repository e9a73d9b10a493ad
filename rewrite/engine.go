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
	Target string // name of the operator
	Args   map[string]string
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
	if _, err := e.matchTarget(rule, target, values, nil); err != nil {
		return nil, nil, err
	}
	at := slices.Index(g.Operators, target)
	if at < 0 {
		return nil, nil, fmt.Errorf("rewrite: operator %q is not of the graph that is to be rewritten", target.Name)
	}
	s := e.session(g)
	step, err := s.apply(rule, s.g.Operators[at], values)
	if err != nil {
		return nil, nil, err
	}
	return s.g, step, nil
}

// Applies tells whether the rule's pattern and constraints hold at the target; if not, the error is a
// *MismatchError. The result may still turn out to be impossible to build.
func (e *Engine) Applies(rule *Rule, target *dataflow.Operator, args map[string]string) error {
	values, err := rule.arguments(target.Name, args)
	if err != nil {
		return err
	}
	_, err = e.matchTarget(rule, target, values, nil)
	return err
}

// Triggered tells whether the rule has a trigger of that event whose variable can stand for the
// operator, with the rule's own constraints and the trigger's conditions holding. It returns the
// operator that the rule is to be applied to.
func (e *Engine) Triggered(rule *Rule, event string, op *dataflow.Operator, args map[string]string) (*dataflow.Operator, error) {
	return e.triggered(rule, event, op, args, nil)
}

func (e *Engine) triggered(rule *Rule, event string, op *dataflow.Operator, args map[string]string, known propertyMemo) (*dataflow.Operator, error) {
	t := rule.Trigger(event)
	if t == nil {
		return nil, &MismatchError{Rule: rule.Name, Operator: op.Name, Pos: rule.Pos, Reason: fmt.Sprintf("it has no trigger %q", event)}
	}
	values, err := rule.arguments(op.Name, args)
	if err != nil {
		return nil, err
	}
	n := rule.variables[t.Variable]
	m := e.matcher(rule, op.Name, values, known)
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

func (e *Engine) matchTarget(rule *Rule, target *dataflow.Operator, values map[string]string, known propertyMemo) (*binding, error) {
	if err := rule.reapplied(target); err != nil {
		return nil, err
	}
	m := e.matcher(rule, target.Name, values, known)
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

func (s *session) builder(rule *Rule, target *dataflow.Operator, m *binding, values map[string]string) *builder {
	b := &builder{
		catalog: s.engine.Catalog, rule: rule, target: target, match: m, step: s.g.Steps + 1, session: s,
		eval:    evaluation{bound: m.bound, args: values, measures: s.engine.Measures, known: s.properties},
		copy:    make(map[*dataflow.Operator]*dataflow.Operator),
		made:    make(map[*dataflow.Operator]*node),
		terms:   make(map[*termNode]bundle),
		gone:    make(map[*dataflow.Operator]bool),
		names:   newNameSet(func(name string) bool { return s.operators[name] != nil }),
		taken:   newNameSet(func(name string) bool { return s.streams[name] }),
		moved:   make(map[*dataflow.Input]*dataflow.Schema),
		changed: make(map[*dataflow.Operator]bool),
		counts:  make(map[*patternNode]int),
		staged:  make(map[*patternNode]map[int]*termNode),
	}
	b.group = fmt.Sprintf("%s#%d", rule.Name, b.step)
	for _, op := range m.bound {
		if op != nil {
			b.adopt(op)
		}
	}
	for _, op := range consumersOf(b.bound(b.root())) {
		b.adopt(op)
	}
	b.relate()
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
	run := &rewriting{engine: e, rules: rules, result: Result{Graph: g}, base: g}
	var diags dataflow.Diagnostics
	for i := range g.Rewrites {
		diags = append(diags, run.rewrite(&g.Rewrites[i])...)
	}
	return &run.result, diags
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

// rewriting is a run of the rewrites of a spec.
type rewriting struct {
	engine  *Engine
	rules   *RuleSet
	base    *dataflow.Graph // as the spec has it
	session *session        // nil before the first step
	result  Result
}

// rewrite applies one rewrite of a spec.
func (r *rewriting) rewrite(rw *dataflow.Rewrite) dataflow.Diagnostics {
	rule, args, diags := named(rw, r.rules)
	if rule == nil {
		return diags
	}
	targets := r.result.Graph.Named(rw.Operator)
	if len(targets) == 0 {
		diags = append(diags, unknownOperator(r.result.Graph, rw))
	}
	if diags.HasErrors() {
		return diags
	}
	before := len(r.result.Steps)
	names := make([]string, len(targets)) // a step may change the operators
	for i, t := range targets {
		names[i] = t.Name
	}
	for _, name := range names {
		if err := r.apply(rule, name, args); err != nil {
			return dataflow.Diagnostics{{Pos: rw.Pos, Message: err.Error()}}
		}
	}
	if err := checkCopies(r.result.Graph); err != nil {
		diags := dataflow.Diagnostics{diagnosticf(rw.Pos, "", "rule %q cannot be applied to operator %q: %v", rw.Rule, rw.Operator, err)}
		if err := r.back(before); err != nil {
			diags = append(diags, dataflow.Diagnostic{Pos: rw.Pos, Message: err.Error()})
		}
		return diags
	}
	return nil
}

// apply applies a rule to the operator of a name, unless an application before has replaced that.
func (r *rewriting) apply(rule *Rule, name string, args map[string]string) error {
	if r.session == nil {
		r.session = r.engine.session(r.base)
	}
	target := r.session.operators[name]
	if target == nil {
		return nil
	}
	values, err := rule.arguments(name, args)
	if err != nil {
		return err
	}
	step, err := r.session.apply(rule, target, values)
	if err != nil {
		return err
	}
	r.result.Graph = r.session.g
	r.result.Steps = append(r.result.Steps, step)
	return nil
}

// back undoes all steps but the first n, by doing those again.
func (r *rewriting) back(n int) error {
	steps := r.result.Steps[:n]
	r.session, r.result = nil, Result{Graph: r.base}
	quiet := *r.engine
	quiet.Matched, quiet.Applied = nil, nil
	loud := r.engine
	r.engine = &quiet
	for _, s := range steps {
		if err := r.apply(s.Rule, s.Target, s.Args); err != nil {
			return fmt.Errorf("rewrite: assertion failed: step %d could be done, and cannot be done again: %w", s.Number, err)
		}
	}
	r.engine = loud
	if r.session != nil {
		r.session.engine = loud
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
