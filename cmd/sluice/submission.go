package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"sluice/dataflow"
	"sluice/executor"
	"sluice/metaquery"
	"sluice/operators"
	"sluice/operators/connect/file"
	"sluice/scheduler/api"
	"sluice/scheduler/service"
)

// apiWords are what the API calls options of the command line.
var apiWords = strings.NewReplacer("--checkpoint", "checkpoint", "--transport", "transport", "--limit", "limit", "--nodes", "workers", "--fsync", "fsync", "-p ", "partitions ")

// compile makes the plan of a query for the service.
func (p *schedulerProcess) compile(sub *api.Submission, replicas map[string]int) (*service.Compiled, dataflow.Diagnostics, error) {
	c := &runCommand{
		Spec: sub.File, Set: sub.Set, Limit: -1, Partitions: sub.Partitions, State: p.c.StateRoot,
		Checkpoint: sub.Checkpoint, Fsync: sub.Fsync, Nodes: sub.Workers, Transport: sub.Transport,
	}
	if sub.Limit != nil {
		c.Limit = *sub.Limit
	}
	if filepath.Base(c.Spec) == "-" {
		c.Spec = "spec.xml"
	}
	if err := c.check(); err != nil {
		return nil, nil, api.Errorf(api.BadRequest, "%s", apiWords.Replace(err.Error()))
	}
	text := []byte(sub.Spec)
	plan, diags, err := loadPlan(c.Spec, planOptions{
		sets: c.Set, parallel: c.Partitions, replicas: replicas, nodes: c.Nodes, text: text, dir: sub.Dir, service: true, env: only(sub.Env),
	}, p.s)
	if err != nil || diags.HasErrors() {
		return nil, diags, err
	}
	if found := undurable(plan); len(found) > 0 {
		return nil, append(diags, found...), nil
	}
	outputs, found := outputsOf(plan)
	if len(found) > 0 {
		return nil, append(diags, found...), nil
	}
	config, err := c.config(plan)
	if err != nil {
		return nil, append(diags, inputDiagnostic(err)), nil
	}
	return &service.Compiled{Config: config, Outputs: outputs, Deploy: metaquery.Deploy{
		Spec: text, File: c.Spec, Dir: sub.Dir, Sets: c.Set, Env: plan.env, Partitions: c.Partitions, Nodes: c.Nodes,
		Replicas: replicas, Graph: plan.fingerprint(), Limit: c.Limit, Fsync: c.Fsync, Transport: c.Transport,
	}, Build: builder(c.Limit, ""), OpenSource: func(state string) func(*operators.Context) (operators.Source, error) {
		return openSources(state, sub.Fsync)
	}}, diags, nil
}

// outputsOf are the files and folders that a query writes. A folder that a file should be in, and that is not there, is an
// error.
func outputsOf(p *plan) ([]service.Output, dataflow.Diagnostics) {
	var list []service.Output
	var diags dataflow.Diagnostics
	for _, op := range p.final.Operators {
		if op.Type != file.Writer.Name {
			continue
		}
		path := op.Value("path")
		place := file.OutputPlace(path, p.final.Dir)
		if place == "" {
			continue
		}
		if _, err := os.Stat(filepath.Dir(place)); !strings.HasSuffix(path, "/") && errors.Is(err, fs.ErrNotExist) {
			p, _ := op.Param("path")
			diags = append(diags, dataflow.Diagnostic{Pos: p.Pos, Operator: op.Name, Message: fmt.Sprintf("output %q: there is no folder %q", path, filepath.Dir(place))})
			continue
		}
		list = append(list, service.Output{Operator: op.Name, Place: place})
	}
	return list, diags
}

// inputDiagnostic says which source cannot be opened, and why.
func inputDiagnostic(err error) dataflow.Diagnostic {
	var at *executor.OperatorError
	if !errors.As(err, &at) {
		return dataflow.Diagnostic{Message: err.Error()}
	}
	var input *operators.InputError
	message := at.Err.Error()
	if errors.As(err, &input) {
		message = input.Error()
	}
	return dataflow.Diagnostic{Pos: at.Op.Pos, Operator: at.Op.Name, Message: message}
}
