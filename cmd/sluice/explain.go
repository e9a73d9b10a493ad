package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"sluice/dataflow"
	"sluice/operators/catalog"
	"sluice/operators/expr"
	"sluice/operators/route"
	"sluice/scheduler"
)

type explainCommand struct {
	Spec       string   `arg:"" optional:"" help:"The spec, - for standard input."`
	Set        []string `help:"Set a parameter of an operator: OPERATOR.PARAMETER=VALUE." sep:"none" placeholder:"OP.PARAM=VALUE"`
	Partitions int      `name:"partitions" short:"p" help:"Partition as run -p does." default:"1" placeholder:"N"`
	Nodes      int      `help:"Spread over nodes as run --nodes does." placeholder:"N"`
	Format     string   `help:"Form of the graph: term, dot or json." enum:"term,dot,json" default:"term"`
	Steps      bool     `help:"Show what each rewrite step changes."`
	Rule       string   `help:"Try a rule on an operator as well." placeholder:"RULE"`
	Operator   string   `help:"The operator that --rule is for." placeholder:"OP"`
	Param      []string `help:"Set a parameter of the rule: NAME=VALUE." sep:"none" placeholder:"NAME=VALUE"`
	Operators  bool     `help:"Print the reference of all operators instead."`
	Functions  bool     `help:"Print the reference of all functions of expressions instead."`
}

// Run implements the command.
func (c *explainCommand) Run(s streams) error {
	if c.Operators {
		_, err := s.out.Write(operatorReference(catalog.Descriptors()))
		return err
	}
	if c.Functions {
		_, err := s.out.Write(functionReference(expr.Functions()))
		return err
	}
	if c.Spec == "" {
		return usageErrorf("explain needs a spec, --operators or --functions")
	}
	if (c.Rule == "") != (c.Operator == "") || c.Rule == "" && len(c.Param) > 0 {
		return usageErrorf("--rule and --operator go together, and --param with them")
	}
	if c.Nodes < 0 || c.Nodes > maxNodes {
		return usageErrorf("--nodes must be from 1 to %d", maxNodes)
	}
	o := planOptions{sets: c.Set, parallel: c.Partitions, nodes: c.Nodes}
	if c.Rule != "" {
		r := dataflow.Rewrite{Rule: c.Rule, Operator: c.Operator, Pos: dataflow.Pos{File: "--rule " + c.Rule}}
		for _, param := range c.Param {
			name, value, _ := strings.Cut(param, "=")
			r.Params = append(r.Params, dataflow.Param{Name: name, Value: value, Pos: dataflow.Pos{File: "--param " + param}})
		}
		o.rewrites = append(o.rewrites, r)
	}
	p, diags, err := loadPlan(c.Spec, o, s)
	if err != nil {
		return err
	}
	printDiagnostics(s.err, diags)
	if diags.HasErrors() {
		return &exitError{status: exitUsage}
	}
	var text []byte
	switch c.Format {
	case "dot":
		text = []byte(p.tasks.Dot())
	case "json":
		text, err = p.json()
	default:
		text = p.text(c.Steps)
		if c.Nodes > 0 {
			text = append(text, workersText(p.tasks, c.Nodes)...)
		}
		if c.Nodes == 0 && p.hasFailover() {
			text = append(text, "\nnote: in one process standbys do not run, and failover and checkpoint nodes only pass rows on\n"...)
		}
	}
	if err == nil {
		_, err = s.out.Write(text)
	}
	return err
}

// text is the plan for people: the graph of the spec with its streams, the steps, the graph that runs
// and its tasks.
func (p *plan) text(steps bool) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s\n%s%s", p.logical.Term(dataflow.TermOptions{}), streamTypes(p.logical), needsText(p.logical))
	if steps {
		for _, st := range p.steps {
			fmt.Fprintf(&b, "\nstep %d: rule %s on %s%s\n%s", st.Number, st.Rule.Name, st.Target, argText(st.Args), st.Diff)
		}
	}
	if len(p.steps) > 0 {
		fmt.Fprintf(&b, "\nafter rewriting:\n%s", p.final.Term(dataflow.TermOptions{}))
	}
	fmt.Fprintf(&b, "\n%s", p.tasks.Text())
	return b.Bytes()
}

// hasFailover reports whether something of the plan is for a failure of one of several processes.
func (p *plan) hasFailover() bool {
	return slices.ContainsFunc(p.final.Operators, func(op *dataflow.Operator) bool {
		return op.Standby || op.Type == route.Failover.Name || op.Annotation("checkpoint") == "true"
	})
}

func argText(args map[string]string) string {
	var list []string
	for _, name := range slices.Sorted(maps.Keys(args)) {
		list = append(list, name+" = "+args[name])
	}
	if len(list) == 0 {
		return ""
	}
	return " {" + strings.Join(list, ", ") + "}"
}

// json is the whole plan.
func (p *plan) json() ([]byte, error) {
	type step struct {
		Rule     string            `json:"rule"`
		Operator string            `json:"operator"`
		Params   map[string]string `json:"params"`
		Diff     string            `json:"diff"`
	}
	all := struct {
		Logical  json.RawMessage `json:"logical"`
		Steps    []step          `json:"steps"`
		Graph    json.RawMessage `json:"graph"`
		Physical json.RawMessage `json:"physical"`
	}{Steps: []step{}}
	var errs [3]error
	all.Logical, errs[0] = p.logical.JSON()
	all.Graph, errs[1] = p.tasks.Graph.JSON()
	all.Physical, errs[2] = p.tasks.JSON()
	if err := errors.Join(errs[:]...); err != nil {
		return nil, err
	}
	for _, st := range p.steps {
		all.Steps = append(all.Steps, step{st.Rule.Name, st.Target, st.Args, st.Diff})
	}
	return readableJSON(all)
}

// readableJSON writes v with indents, and <, > and & as they are.
func readableJSON(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return b.Bytes(), err
}

// needsText lists the operators that need resources, one a line, behind an empty one.
func needsText(g *dataflow.Graph) string {
	var b strings.Builder
	for _, op := range g.Operators {
		if !op.Resources.IsZero() {
			fmt.Fprintf(&b, "%s needs %s\n", op.Name, op.Resources)
		}
	}
	if b.Len() == 0 {
		return ""
	}
	return "\n" + b.String()
}

// workersText lists what the workers of a cluster would have to have, one a line, behind an empty one; nothing if no task
// needs resources.
func workersText(p *dataflow.Physical, nodes int) string {
	var b strings.Builder
	needed := false
	for i, capacity := range scheduler.Capacities(p, nodes) {
		needed = needed || !capacity.IsZero()
		fmt.Fprintf(&b, "worker %d: %s\n", i+1, capacity)
	}
	if !needed {
		return ""
	}
	return "\n" + b.String()
}

// streamTypes lists the streams with their types, one a line, in the order of the spec.
func streamTypes(g *dataflow.Graph) string {
	var b strings.Builder
	for _, op := range g.Operators {
		for _, out := range op.Outputs {
			fmt.Fprintf(&b, "%s %s\n", out.Stream, out.Schema)
		}
	}
	return b.String()
}
