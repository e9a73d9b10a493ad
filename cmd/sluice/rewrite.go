package main

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"sluice/dataflow"
	"sluice/operators/catalog"
	"sluice/rewrite"
	"sluice/scheduler/local"
)

// plan is a spec that is ready to run.
type plan struct {
	logical *dataflow.Graph
	steps   []*rewrite.Step
	final   *dataflow.Graph    // after the steps
	tasks   *dataflow.Physical // of final, with the ends of channels
	env     map[string]string  // variables that the spec names and that are set
}

// planOptions say what is to be done to a spec beside what it says.
type planOptions struct {
	sets     []string       // OP.PARAM=VALUE
	parallel int            // replicas of operators that may have them; 1: none
	replicas map[string]int // likewise of operators with a number of their own
	rewrites []dataflow.Rewrite
	nodes    int    // over which operators without a placement are spread; 0: they stay together
	text     []byte // of the spec, if it has been read already
	dir      string // against which relative paths are then taken
	service  bool   // it runs for a service, which has no standard streams for it
	env      lookup // variables that the spec may name; nil: those of this process
}

// loadPlan loads a spec, rewrites it and divides it into tasks. There is a plan if the diagnostics have
// no errors.
func loadPlan(path string, o planOptions, s streams) (*plan, dataflow.Diagnostics, error) {
	env, used := o.variables()
	load := func() (*dataflow.Graph, dataflow.Diagnostics, error) { return loadSpec(path, o.sets, env, s) }
	if o.text != nil {
		load = func() (*dataflow.Graph, dataflow.Diagnostics, error) {
			return parseSpec(path, o.dir, bytes.NewReader(o.text), o.sets, env)
		}
	}
	g, diags, err := load()
	if err != nil || g == nil {
		return nil, diags, err
	}
	if o.service {
		diags = append(diags, refuseStandardStreams(g)...)
	}
	g.Rewrites = append(g.Rewrites, o.rewrites...)
	rules, found := loadRules(g)
	if !found.HasErrors() && diags.HasErrors() {
		found = append(found, rewrite.CheckNames(g, rules)...)
	}
	diags = append(diags, found...)
	if diags.HasErrors() {
		diags.Sort()
		return nil, diags, nil
	}
	engine := &rewrite.Engine{Catalog: catalog.Operators}
	result, found := engine.Run(g, rules)
	diags = append(diags, found...)
	if found.HasErrors() {
		diags.Sort()
		return nil, diags, nil
	}
	p := &plan{logical: g, steps: result.Steps, env: used}
	if o.parallel > 1 || len(o.replicas) > 0 {
		var wider *rewrite.Result
		wider, _ = engine.ParallelBy(result.Graph, rules, func(operator string) int {
			return cmp.Or(o.replicas[operator], o.parallel)
		})
		p.steps = append(p.steps, wider.Steps...)
		result = wider
	}
	p.final = result.Graph
	if o.nodes > 0 {
		if err := local.Spread(p.final, o.nodes); err != nil {
			return nil, diags, err
		}
	}
	p.tasks, err = dataflow.BuildTasks(result.Graph, dataflow.TaskOptions{Network: true, Catalog: catalog.Operators})
	return p, diags, err
}

// loadRules gives the built-in rules and those of the files that the spec names.
func loadRules(g *dataflow.Graph) (*rewrite.RuleSet, dataflow.Diagnostics) {
	rules := &rewrite.RuleSet{}
	diags := rules.Add(rewrite.Builtin())
	for _, file := range g.Rules {
		path := file.Href
		if !filepath.IsAbs(path) {
			path = filepath.Join(g.Dir, path)
		}
		set, found, err := readRules(path)
		if err != nil {
			diags = append(diags, dataflow.Diagnostic{Pos: file.Pos, Message: err.Error()})
			continue
		}
		diags = append(diags, found...)
		if !found.HasErrors() {
			diags = append(diags, rules.Add(set)...)
		}
	}
	return rules, diags
}

// readRules reads a file of rules. The error says that it cannot be read.
func readRules(path string) (*rewrite.RuleSet, dataflow.Diagnostics, error) {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil, nil, fmt.Errorf("file of rules %q does not exist", path)
	case err != nil:
		return nil, nil, err
	case info.Size() > rewrite.MaxFile:
		return nil, nil, fmt.Errorf("file of rules %q is larger than %d bytes", path, rewrite.MaxFile)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, nil, err
	}
	set, diags := rewrite.ParseRules(path, text, catalog.Operators)
	return set, diags, nil
}
