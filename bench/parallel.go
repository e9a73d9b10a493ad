package main

import (
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strconv"

	"sluice/dataflow"
	"sluice/dataflow/batch"
)

// parallelAim is how much faster -p 2 is to be on two cores.
const parallelAim = "1.7"

// parallelJob is a job that runs with -p 1 and with -p 2.
type parallelJob struct {
	name string
	rows int
	run  func(parallel int) (usage, error)
}

// manyAggregates is an operator for which a row costs several times what it costs to hand it over.
var manyAggregates = operator("aggregate", "window", "tumbling(1m)", "group-by", "key, delay % 4",
	"select", "window_start, key, count(*) AS n, sum(value) AS a, avg(value) AS b, min(value) AS c, max(value) AS d, "+
		"stddev_samp(value) AS e, sum(weight) AS f, avg(weight) AS g, min(weight) AS h, max(weight) AS i")

func memoryParallel(name string, op dataflow.Operator, rows []*batch.Batch, n int) parallelJob {
	return parallelJob{name, n, func(parallel int) (usage, error) {
		j := routeJob{op: op, parallel: parallel}
		var err error
		u, _ := timeLoop(func(rows []*batch.Batch, emit func(*batch.Batch)) { err = j.run(rows, emit) }, rows)
		return u, err
	}}
}

func csvParallel(o *options, d *dataset) parallelJob {
	return parallelJob{"CSV window", d.Rows, func(parallel int) (usage, error) {
		c := sluice(o, "csv-window", d.csvPath(), filepath.Join(o.dir, "out.csv"))
		c.args = slices.Insert(slices.Clone(c.args), 2, "-p", strconv.Itoa(parallel))
		return c.run()
	}}
}

// runParallel measures nothing but this.
func runParallel(o *options, out, progress io.Writer) error {
	var err error
	if o.duckdb, err = buildDuckDB(o.dir); err != nil {
		return err
	}
	data, err := prepare(o, o.rows, progress)
	if err != nil {
		return err
	}
	figures, err := measureParallel(o, data, progress)
	if err == nil {
		printFigures(out, "parallel", figures)
	}
	return err
}

// measureParallel measures what a second replica gains. Both ways take turns, and the fastest run of each counts. Of
// the memory jobs five times as many are made, and each in this process.
func measureParallel(o *options, d *dataset, progress io.Writer) (figures []figure, err error) {
	if !o.only.MatchString("parallel") {
		return nil, nil
	}
	csv, err := parallelFigures(csvParallel(o, d), 3*o.repeats)
	if err != nil {
		return nil, err
	}
	rows := memoryRows(o.rows)
	for _, j := range []parallelJob{
		memoryParallel("memory window", windowJob().op, rows, o.rows), memoryParallel("memory window, ten aggregates", manyAggregates, rows, o.rows),
	} {
		f, err := parallelFigures(j, engineRepeats*o.repeats)
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(progress, "%s, -p 2: done\n", j.name)
		figures = append(figures, f...)
	}
	return append(figures, csv...), nil
}

func parallelFigures(j parallelJob, repeats int) ([]figure, error) {
	var best [2]usage
	for i := range repeats {
		for k := range best {
			u, err := j.run(k + 1)
			if err != nil {
				return nil, fmt.Errorf("%s, -p %d: %w", j.name, k+1, err)
			}
			if b := &best[k]; i == 0 {
				*b = u
			} else {
				b.wall, b.cpu = min(b.wall, u.wall), min(b.cpu, u.cpu)
			}
		}
	}
	perRow := func(u usage) float64 { return float64(u.cpu.Nanoseconds()) / float64(j.rows) }
	return []figure{
		{j.name + ": speed with -p 2 against -p 1", fmt.Sprintf("%.2f", best[0].wall.Seconds()/best[1].wall.Seconds()), parallelAim},
		{j.name + ": CPU time of a row with -p 1, with -p 2", fmt.Sprintf("%.1f, %.1f ns", perRow(best[0]), perRow(best[1])), ""},
	}, nil
}
