package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime/pprof"
	"time"

	"sluice/dataflow"
	"sluice/dataflow/batch"
	"sluice/executor"
	"sluice/operators"
	"sluice/operators/catalog"
	"sluice/specs/xmlspec"
)

// profile runs Sluice's side of all jobs that are asked for and writes a CPU profile of it.
func profile(o *options, d *dataset, progress io.Writer) error {
	out, err := os.Create(o.profile)
	if err != nil {
		return err
	}
	defer out.Close()
	var rows []*batch.Batch
	for i := range engineJobs {
		if o.only.MatchString(engineJobs[i].name) && rows == nil {
			rows = memoryRows(o.rows)
		}
	}
	if err := pprof.StartCPUProfile(out); err != nil {
		return err
	}
	for range o.repeats {
		if err := runAll(o, d, rows, progress); err != nil {
			return err
		}
	}
	pprof.StopCPUProfile()
	return out.Close()
}

// runAll runs Sluice's side of the jobs once, in this process.
func runAll(o *options, d *dataset, rows []*batch.Batch, progress io.Writer) error {
	for i := range jobs {
		if j := &jobs[i]; o.only.MatchString(j.name) {
			begin := time.Now()
			if err := runSpec(o, j, d); err != nil {
				return fmt.Errorf("%s: %w", j.name, err)
			}
			fmt.Fprintf(progress, "%s: %v\n", j.name, time.Since(begin).Round(time.Millisecond))
		}
	}
	for i := range engineJobs {
		if j := &engineJobs[i]; o.only.MatchString(j.name) {
			begin := time.Now()
			if err := j.engine(rows, func(*batch.Batch) {}); err != nil {
				return fmt.Errorf("%s: %w", j.name, err)
			}
			fmt.Fprintf(progress, "%s: %v\n", j.name, time.Since(begin).Round(time.Millisecond))
		}
	}
	return nil
}

// runSpec runs a job's spec in this process, as `sluice run` does.
func runSpec(o *options, j *job, d *dataset) error {
	path := specPath(j.spec)
	in, err := os.Open(path)
	if err != nil {
		return err
	}
	defer in.Close()
	g, diags := xmlspec.Parse(path, in, os.LookupEnv)
	if g != nil {
		g.Dir = filepath.Dir(path)
		setParam(g, "source", "path", j.input(d))
		setParam(g, "sink", "path", filepath.Join(o.dir, "out.csv"))
		diags = append(diags, dataflow.Resolve(g, catalog.Operators)...)
	}
	if diags.HasErrors() {
		return fmt.Errorf("%v", diags)
	}
	_, err = executor.Run(context.Background(), g, executor.Options{
		Build: func(c *operators.Context) (operators.Operator, error) {
			return catalog.Build(c, catalog.Options{Limit: -1})
		},
		OpenSource: catalog.OpenSource,
	})
	return err
}

// setParam replaces the value of a parameter that the spec gives.
func setParam(g *dataflow.Graph, op, name, value string) {
	params := g.Operator(op).Params
	for i := range params {
		if params[i].Name == name {
			params[i].Value = value
		}
	}
}
