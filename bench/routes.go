package main

import (
	"context"
	"fmt"
	"io"

	"sluice/dataflow"
	"sluice/dataflow/batch"
	"sluice/executor"
	"sluice/operators"
	"sluice/operators/catalog"
	"sluice/rewrite"
)

// routeJob is a query in memory under rewrite rules, to be compared with the query as it is.
type routeJob struct {
	name     string
	op       dataflow.Operator
	rewrites []dataflow.Rewrite
	parallel int
	oneTask  bool // run all operators in one task, which leaves the cost of the nodes alone
}

var identity = operator("map", "select", "*")

var routeJobs = []routeJob{
	{name: "multicast and stream-selector (hot-standby)", op: identity, rewrites: []dataflow.Rewrite{{Rule: "hot-standby", Operator: "work"}}, oneTask: true},
	{name: "the same over channels between tasks", op: identity, rewrites: []dataflow.Rewrite{{Rule: "hot-standby", Operator: "work"}}},
	{name: "splitter and merge without a key (partition)", op: identity, rewrites: []dataflow.Rewrite{{Rule: "partition", Operator: "work"}}, oneTask: true},
	{name: "failover and stream-selector (standby)", op: identity, rewrites: []dataflow.Rewrite{{Rule: "standby", Operator: "work"}}, oneTask: true},
}

// plan applies the job's rules to its graph and divides it into tasks.
func (j *routeJob) plan() (*dataflow.Graph, [][]*dataflow.Operator, error) {
	g, err := memoryGraph(j.op, memorySchema(true))
	if err != nil {
		return nil, nil, err
	}
	g.Rewrites = j.rewrites
	rules := &rewrite.RuleSet{}
	rules.Add(rewrite.Builtin())
	engine := &rewrite.Engine{Catalog: memoryCatalog{catalog.Operators}}
	result, diags := engine.Run(g, rules)
	if diags.HasErrors() {
		return nil, nil, diags
	}
	if j.parallel > 1 {
		result, _ = engine.Parallel(result.Graph, rules, j.parallel)
	}
	if j.oneTask {
		return result.Graph, nil, nil
	}
	p, err := dataflow.BuildTasks(result.Graph, dataflow.TaskOptions{})
	if err != nil {
		return nil, nil, err
	}
	var tasks [][]*dataflow.Operator
	for _, t := range p.Tasks {
		tasks = append(tasks, t.Operators)
	}
	return p.Graph, tasks, nil
}

// run runs the job over the rows.
func (j *routeJob) run(rows []*batch.Batch, emit func(*batch.Batch)) error {
	g, tasks, err := j.plan()
	if err != nil {
		return err
	}
	_, err = executor.Run(context.Background(), g, executor.Options{
		Tasks: tasks,
		Build: builder(emit),
		OpenSource: func(c *operators.Context) (operators.Source, error) {
			return &memorySource{batches: rows, schema: c.Op.Outputs[0].Schema}, nil
		},
	})
	return err
}

// best is the least wall time of several runs in seconds.
func (j *routeJob) best(o *options, rows []*batch.Batch) (float64, error) {
	least := 0.0
	for i := range engineRepeats * o.repeats {
		var err error
		u, _ := timeLoop(func(rows []*batch.Batch, emit func(*batch.Batch)) { err = j.run(rows, emit) }, rows)
		if err != nil {
			return 0, err
		}
		if s := u.wall.Seconds(); i == 0 || s < least {
			least = s
		}
	}
	return least, nil
}

// measureRoutes measures what the nodes that rules add cost.
func measureRoutes(o *options, progress io.Writer) (figures []figure, err error) {
	if !o.only.MatchString("memory routes") {
		return nil, nil
	}
	rows := memoryRows(o.rows)
	plain := routeJob{op: identity}
	base, err := plain.best(o, rows)
	if err != nil {
		return nil, err
	}
	for i := range routeJobs {
		j := &routeJobs[i]
		s, err := j.best(o, rows)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", j.name, err)
		}
		figures = append(figures, figure{"cost of " + j.name, fmt.Sprintf("%.2f ns a row", (s-base)/float64(o.rows)*1e9), ""})
	}
	fmt.Fprintln(progress, "memory routes: done")
	return figures, nil
}

func windowJob() *engineJob { return &engineJobs[len(engineJobs)-1] }
