package rewrite

import (
	"slices"
	"strconv"

	"github.com/alecthomas/participle/v2/lexer"

	"sluice/dataflow"
)

// declare makes a name of a where clause known; it is compiled where it is first used.
func (c *compiler) declare(b *bindingSyntax) {
	switch {
	case slices.Contains(reserved, b.Name):
		c.errorf(b.Pos, "", "%q is a word of the language and cannot name a term", b.Name)
	case c.bindings[b.Name] != nil || c.rule.variables[b.Name] != nil:
		c.errorf(b.Pos, "", "%q is bound twice", b.Name)
	case c.rule.Param(b.Name) != nil:
		c.errorf(b.Pos, "", "%q is a parameter of the rule and cannot name a term as well", b.Name)
	default:
		c.bindings[b.Name] = b
	}
}

// term compiles a part of the result. indexes are the names of the ranges around it.
func (c *compiler) term(t *termSyntax, indexes []string) *termNode {
	outermost := c.result
	c.result = false
	n := &termNode{pos: place(c.file, t.Pos)}
	if t.Bind != "" {
		c.errorf(t.Pos, "", "names are bound in the pattern or after where, not inside a result")
	}
	switch {
	case t.Stage != nil:
		c.stage(n, t, indexes)
	case t.Head.Star || t.Head.Name == "any":
		c.errorf(t.Pos, "", "any has no meaning in a result: bind it to a name in the pattern and use that")
		return n
	default:
		c.head(n, t, outermost, indexes)
	}
	inner := c.termRange(n, t, indexes)
	c.suffixes(n, t, inner)
	for _, arg := range t.Args {
		n.args = append(n.args, c.term(arg, inner))
	}
	c.checkShape(n, t, indexes)
	return n
}

// head finds out what a name at the head of a term means.
func (c *compiler) head(n *termNode, t *termSyntax, outermost bool, indexes []string) {
	name := t.Head.Name
	v := c.rule.variables[name]
	n.variable, n.replica = v, len(t.Head.Primes)
	switch {
	case v != nil && v.kind == consumersNode:
		n.kind = consumersTerm
		if !outermost {
			c.errorf(t.Pos, "", "%q stands for all consumers and can only be the outermost term of the result", name)
		}
		if !t.Open || len(t.Args) != 1 {
			c.errorf(t.Pos, "", "%q takes one argument: the term that its operators read instead", name)
		}
	case v != nil && v.kind == streamsNode:
		n.kind = variableTerm
		if t.Open {
			c.errorf(t.Pos, "", "%q stands for streams and takes no argument", name)
		}
	case v != nil && (t.Open || t.Range != nil || n.replica > 0):
		n.kind = applyTerm
		c.arity(n, t)
	case v != nil:
		n.kind = variableTerm
	case c.bindings[name] != nil:
		n.kind = sharedTerm
		n.shared = c.binding(name, t.Pos)
		if t.Open || len(t.Suffixes) > 0 {
			c.errorf(t.Pos, "", "%q is bound to a term after where and takes neither arguments nor suffixes", name)
		}
	case t.Open:
		n.kind, n.typ = newTerm, name
	default:
		known := c.variableNames()
		for b := range c.bindings {
			known = append(known, b)
		}
		slices.Sort(known)
		c.errorf(t.Pos, suggest(name, known), "unknown name %q; a node of a type is written with its inputs: %s(...)", name, name)
	}
	if n.replica > 0 && n.kind != applyTerm {
		c.errorf(t.Pos, "", "%s%s is a replica of something that is not an operator of the pattern", name, t.Head.Primes)
	}
}

// arity checks that an operator is given as many arguments as it has in the pattern.
func (c *compiler) arity(n *termNode, t *termSyntax) {
	if !n.variable.hasArgs {
		if len(t.Args) > 0 {
			c.errorf(t.Pos, "", "the pattern says nothing about the inputs of %q; write %q with its inputs there", n.variable.name, n.variable.name)
		}
		return
	}
	if len(t.Args) != len(n.variable.args) {
		c.errorf(t.Pos, "", "%q takes %s, as in the pattern, not %d", n.variable.name, plural(len(n.variable.args), "argument"), len(t.Args))
	}
}

// binding compiles the term of a where clause once.
func (c *compiler) binding(name string, pos lexer.Position) *termNode {
	c.used[name] = true
	switch c.state[name] {
	case 1:
		c.errorf(pos, "", "%q is defined by itself", name)
		return &termNode{}
	case 0:
		c.state[name] = 1
		c.shared[name] = c.term(c.bindings[name].Term, nil)
		c.state[name] = 2
	}
	return c.shared[name]
}

func (c *compiler) stage(n *termNode, t *termSyntax, indexes []string) {
	n.kind = stageTerm
	n.variable = c.operator(t.Stage.Operator.Name, t.Stage.Operator.Pos)
	n.stages[0] = c.value(t.Stage.From, indexes)
	n.stages[1] = n.stages[0]
	if t.Stage.Range {
		n.rest = t.Stage.To == nil
		if t.Stage.To != nil {
			n.stages[1] = c.value(t.Stage.To, indexes)
		}
	}
	if !t.Open {
		c.errorf(t.Pos, "", "a stage is written with its inputs: stage(f, 1)(...)")
	}
}

// termRange compiles the range after a head and returns the indexes inside it.
func (c *compiler) termRange(n *termNode, t *termSyntax, indexes []string) []string {
	r := t.Range
	if r == nil {
		return indexes
	}
	n.rng = &termRange{}
	switch {
	case n.kind != applyTerm && n.kind != stageTerm && n.kind != newTerm:
		c.errorf(r.Pos, "", "only an operator, a stage or a new node can be replicated")
	case n.replica > 0:
		c.errorf(r.Pos, "", "write either a range or primes for replicas, not both")
	case r.By != nil:
		n.rng.by = c.value(r.By, indexes)
		if n.kind == applyTerm {
			c.errorf(r.Pos, "", "a tree is made of stages or new nodes, not of replicas of an operator")
		}
		if len(indexes) > 0 {
			c.errorf(r.Pos, "", "a tree cannot stand inside a range")
		}
		if v := n.rng.by; v.kind == NumberValue && v.literal != "" {
			if k, err := strconv.Atoi(v.literal); err != nil || k < 2 {
				c.errorf(r.Pos, "", "a tree has at least 2 branches at a node, not %s", v.literal)
			}
		}
	case r.Each != "":
		n.rng.each = r.Each
		if !slices.Contains(indexes, r.Each) {
			c.errorf(r.Pos, suggest(r.Each, indexes), "%q is not the index of a range around this term", r.Each)
		}
	default:
		return c.counted(n, r, indexes)
	}
	return indexes
}

// counted compiles [1..k] and [i := 1..k].
func (c *compiler) counted(n *termNode, r *rangeSyntax, indexes []string) []string {
	if len(indexes) > 0 {
		c.errorf(r.Pos, "", "a range cannot stand inside another; use the index of the outer one, as in g[i := 1..k](f[i](x))")
	}
	if r.From.Number != "1" {
		c.errorf(r.From.Pos, "", "a range of replicas starts at 1")
	}
	n.rng.to, n.rng.index = c.value(r.To, nil), r.Index
	if v := n.rng.to; v.literal != "" {
		if k, err := strconv.Atoi(v.literal); err != nil || k < 1 || k > MaxReplicas {
			c.errorf(r.To.Pos, "", "there can be 1 to %d replicas, not %s", MaxReplicas, v.literal)
		}
	}
	if r.Index == "" {
		return append(slices.Clone(indexes), "")
	}
	if slices.Contains(reserved, r.Index) || c.rule.variables[r.Index] != nil || c.bindings[r.Index] != nil || c.rule.Param(r.Index) != nil {
		c.errorf(r.Pos, "", "%q cannot name the index of a range: it is taken", r.Index)
	}
	return append(slices.Clone(indexes), r.Index)
}

func (c *compiler) suffixes(n *termNode, t *termSyntax, indexes []string) {
	for _, s := range t.Suffixes {
		if n.kind == consumersTerm || n.kind == variableTerm && n.variable.kind == streamsNode {
			c.errorf(s.Pos, "", "%q is not one operator, so it has no parameters and no placement", t.Head.Name)
			continue
		}
		switch {
		case s.Label != nil:
			if len(n.labels) > 0 {
				c.errorf(s.Pos, "", "a node has one placement")
			}
			n.labels = append(n.labels, s.Label.Name)
		case s.Standby:
			n.standby = true
		default:
			c.settings(n, s.Params, indexes)
		}
	}
}

func (c *compiler) settings(n *termNode, list *settingsSyntax, indexes []string) {
	for _, s := range list.List {
		if slices.ContainsFunc(n.settings, func(o setting) bool { return o.name == s.Name }) {
			c.errorf(s.Pos, "", "duplicate parameter %q", s.Name)
		}
		n.settings = append(n.settings, setting{name: s.Name, value: c.value(s.Value, indexes), pos: place(c.file, s.Pos)})
	}
}

// checkShape notes how the term uses a variable of the pattern.
func (c *compiler) checkShape(n *termNode, t *termSyntax, indexes []string) {
	if n.variable == nil || n.kind == consumersTerm {
		return
	}
	u := c.uses[n.variable]
	if u == nil {
		u = &nodeUses{}
		c.uses[n.variable] = u
	}
	ranged := n.rng != nil && (n.rng.to != nil || n.rng.each != "")
	use := termUse{term: n, pos: t.Pos}
	switch {
	case n.kind == variableTerm:
		u.bare = append(u.bare, use)
	case n.kind == stageTerm:
		u.stages = append(u.stages, use)
	case ranged:
		u.ranged = append(u.ranged, use)
	default:
		u.applied = append(u.applied, use)
	}
	if n.kind == applyTerm && !ranged && len(indexes) > 0 {
		c.errorf(t.Pos, "", "inside a range an operator is replicated too: write %s[i](...) with the index of the range", n.variable.name)
	}
	if n.kind == stageTerm && n.rng == nil && len(indexes) > 0 {
		c.errorf(t.Pos, "", "inside a range a stage is replicated too: write stage(...)[i](...) with the index of the range")
	}
}

// place of a term for messages of the engine.
func (n *termNode) String() string {
	switch {
	case n.kind == newTerm:
		return n.typ
	case n.variable != nil:
		return n.variable.name
	}
	return "term"
}

// nodeUses are the ways in which a result uses a variable of the pattern.
type nodeUses struct{ bare, applied, ranged, stages []termUse }

type termUse struct {
	term *termNode
	pos  lexer.Position
}

// without marks an operator that the result leaves out on purpose.
func (c *compiler) without(n *nameSyntax) {
	v := c.operator(n.Name, n.Pos)
	if v == nil {
		return
	}
	if c.uses[v] != nil {
		c.errorf(n.Pos, "", "%q is in the result, so it cannot be left out", n.Name)
	}
	c.rule.without = append(c.rule.without, v)
}

// checkUses checks that the result keeps all that the pattern matched, each once.
func (c *compiler) checkUses(syntax *ruleSyntax) {
	if p := c.rule.pattern; p.kind == consumersNode && p.name != "" && c.rule.result.kind != consumersTerm {
		c.errorf(syntax.Result.Pos, "", "the result loses the consumers %q: its outermost term must be %s(...)", p.name, p.name)
	}
	covered := make(map[*patternNode]bool)
	var cover func(n *patternNode)
	cover = func(n *patternNode) {
		if covered[n] {
			return
		}
		covered[n] = true
		for _, a := range n.args {
			cover(a)
		}
	}
	for n, u := range c.uses {
		if len(u.bare) > 0 && n.kind == operatorNode {
			cover(n)
		}
	}
	for _, n := range c.rule.patternNodes() {
		c.checkNode(n, covered)
	}
	for _, p := range c.rule.Params {
		if !c.params[p.Name] {
			c.diags = append(c.diags, diagnosticf(p.Pos, "", "parameter %q is not used", p.Name))
		}
	}
}

func (c *compiler) checkNode(n *patternNode, covered map[*patternNode]bool) {
	u := c.uses[n]
	if u == nil {
		if covered[n] || n.kind == consumersNode || slices.Contains(c.rule.without, n) {
			return
		}
		c.diags = append(c.diags, lost(n))
		return
	}
	kinds := 0
	for _, uses := range [][]termUse{u.bare, u.applied, u.ranged, u.stages} {
		if len(uses) > 0 {
			kinds++
		}
	}
	if kinds > 1 {
		c.errorf(laterUse(u), "", "%q is used in different ways: as it is, applied, in a range or by stages; bind the term to a name after where to use its streams twice", n.name)
		return
	}
	c.checkReplicas(n, u)
}

func laterUse(u *nodeUses) lexer.Position {
	var last lexer.Position
	for _, uses := range [][]termUse{u.bare, u.applied, u.ranged, u.stages} {
		for _, use := range uses {
			if use.pos.Offset >= last.Offset {
				last = use.pos
			}
		}
	}
	return last
}

func lost(n *patternNode) dataflow.Diagnostic {
	switch {
	case n.name == "" && n.kind == streamsNode:
		return diagnosticf(n.pos, "", "the result loses these streams, which have no name; write a1 := any* and use a1")
	case n.name == "":
		return diagnosticf(n.pos, "", "the result loses this operator, which has no name")
	case n.kind == streamsNode:
		return diagnosticf(n.pos, "", "the result loses the input %q", n.name)
	}
	return diagnosticf(n.pos, "", "the result loses the operator %q; if it is to go, say so: without %s", n.name, n.name)
}

// checkReplicas checks that each replica is there once.
func (c *compiler) checkReplicas(n *patternNode, u *nodeUses) {
	seen := make(map[int]bool)
	most := 0
	for _, use := range u.applied {
		if seen[use.term.replica] {
			c.errorf(use.pos, "", "%q is applied twice; bind the term to a name after where to use its streams twice, or make a replica: %s'", n.name, n.name)
		}
		seen[use.term.replica] = true
		most = max(most, use.term.replica)
	}
	for i := range most {
		if !seen[i] {
			c.errorf(u.applied[0].pos, "", "the replicas of %q leave one out: %s itself is the first, %s' the second and so on", n.name, n.name, n.name)
			break
		}
	}
	if len(u.ranged) > 1 {
		c.errorf(u.ranged[1].pos, "", "%q is replicated twice", n.name)
	}
	c.checkStages(n, u)
}

// checkStages checks, as far as it can be seen in the rule, that no stage is there twice.
func (c *compiler) checkStages(n *patternNode, u *nodeUses) {
	seen := make(map[string]bool)
	for _, use := range u.stages {
		first := use.term.stages[0]
		if use.term.stages[1] != first || first.literal == "" {
			continue
		}
		if seen[first.literal] {
			c.errorf(use.pos, "", "stage %s of %q is there twice", first.literal, n.name)
		}
		seen[first.literal] = true
	}
}
