package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"sluice/dataflow"
	"sluice/executor"
	"sluice/operators"
	"sluice/operators/catalog"
	"sluice/scheduler/api"
)

type runCommand struct {
	Spec  string   `arg:"" help:"The spec, - for standard input."`
	Set   []string `help:"Set a parameter of an operator: OPERATOR.PARAMETER=VALUE." sep:"none" placeholder:"OP.PARAM=VALUE"`
	Limit int64    `help:"Stop when each writer has written so many rows." default:"-1" placeholder:"N"`
	Quiet bool     `help:"No progress and no summary."`

	Partitions int `name:"partitions" short:"p" help:"Run operators as N replicas wherever that is safe." default:"1" placeholder:"N"`

	State      string `help:"Keep what is needed to go on after a stop or a crash in a folder." placeholder:"DIR"`
	Checkpoint string `help:"Time between two checkpoints of a query with --state, or off; 1s by default." placeholder:"INTERVAL"`
	Fsync      string `help:"When what --state keeps is brought to the disk: never, grouped or always." placeholder:"MODE"`
	AllowDrop  bool   `help:"Go on with an edited query though some of the state fits no operator any more."`

	Nodes     int    `help:"Run on N processes of this machine, and replace those that end." placeholder:"N"`
	Keys      string `help:"File of keys (sluice keys) with which connections between processes are encrypted." placeholder:"FILE"`
	Transport string `help:"How rows go between processes: tcp, ipc, plain-tcp or udp; lz4+ or zstd+ before it compresses them. tcp by default." placeholder:"NAME"`
}

// Run implements the command.
func (c *runCommand) Run(s streams) error {
	if err := c.check(); err != nil {
		return err
	}
	o := planOptions{sets: c.Set, parallel: c.Partitions, nodes: c.Nodes, dir: specDir(c.Spec)}
	if c.Nodes > 0 || c.State != "" {
		var err error
		if o.text, err = readSpec(c.Spec, s); err != nil {
			return err
		}
	}
	p, diags, err := loadPlan(c.Spec, o, s)
	if err != nil {
		return err
	}
	printDiagnostics(s.err, diags)
	if diags.HasErrors() {
		return &exitError{status: exitUsage}
	}
	if c.Nodes > 0 {
		return c.runNodes(p, o, s)
	}
	return c.runPlan(p, o, s)
}

// check refuses options that are wrong, or not part of this version.
func (c *runCommand) check() error {
	if c.Nodes < 0 || c.Nodes > maxNodes {
		return usageErrorf("--nodes must be from 1 to %d", maxNodes)
	}
	if err := c.checkTransport(); err != nil {
		return err
	}
	if _, err := checkpointEpochs(c.Checkpoint); err != nil {
		return err
	}
	if c.Checkpoint != "" && c.State == "" && c.Nodes == 0 {
		return usageErrorf("--checkpoint is for queries with --state DIR or --nodes N")
	}
	if err := c.checkFsync(); err != nil {
		return err
	}
	if c.Partitions < 1 || c.Partitions > dataflow.KeyGroups {
		return usageErrorf("-p must be from 1 to %d", dataflow.KeyGroups)
	}
	if c.Limit < -1 {
		return usageErrorf("--limit must not be negative")
	}
	return nil
}

func (c *runCommand) runPlan(p *plan, o planOptions, s streams) error {
	// A reader of our output that goes away is told by the error of a write.
	signal.Ignore(syscall.SIGPIPE)
	ctx, restore := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer restore()
	// After the first Ctrl-C, a second one ends the program at once.
	context.AfterFunc(ctx, restore)

	if c.State == "" {
		return c.execute(ctx, p, executor.Options{}, s)
	}
	d := &durableRun{c: c, o: o, s: s, p: p}
	if err := d.open(ctx); err != nil {
		return err
	}
	defer d.store.Close()
	return c.execute(ctx, d.p, d.options(), s)
}

// execute runs the plan with options to which it adds what all runs have.
func (c *runCommand) execute(ctx context.Context, p *plan, options executor.Options, s streams) error {
	begin := time.Now()
	var show *progress
	options.Started = func(q *executor.Query) {
		if !c.Quiet {
			show = startProgress(s.err, q.Stats, begin)
		}
	}
	q, err := c.start(ctx, p, options)
	show.stop()
	if errors.Is(err, executor.ErrFinished) {
		if !c.Quiet {
			fmt.Fprintln(s.err, "nothing to do: the inputs have ended, and the state says that all is written")
		}
		return nil
	}
	if q != nil {
		reportRows(s.err, q.Stats())
	}
	if err != nil {
		return runError(err)
	}
	if !c.Quiet {
		fmt.Fprintln(s.err, summary(q.Stats(), time.Since(begin)))
	}
	return nil
}

// start runs the plan with the operators of the catalog.
func (c *runCommand) start(ctx context.Context, p *plan, options executor.Options) (*executor.Query, error) {
	owner, err := c.owner()
	if err != nil {
		return nil, err
	}
	options.Tasks = operatorsOf(p.tasks.Tasks)
	options.Build = func(o *operators.Context) (operators.Operator, error) {
		return catalog.Build(o, catalog.Options{Limit: c.Limit, Owner: owner})
	}
	options.OpenSource = openSources(c.State, c.Fsync)
	return executor.Run(ctx, p.tasks.Graph, options)
}

// owner is in whose name the outputs of a run in one process are claimed: that of its state, which has no other run, or of
// this run.
func (c *runCommand) owner() (string, error) {
	if c.State == "" {
		return rand.Text(), nil
	}
	return filepath.Abs(c.State)
}

// operatorsOf are the operators of each task.
func operatorsOf(tasks []*dataflow.Task) [][]*dataflow.Operator {
	ops := make([][]*dataflow.Operator, len(tasks))
	for i, t := range tasks {
		ops[i] = t.Operators
	}
	return ops
}

// runError gives an error of a run its exit status.
func runError(err error) error {
	var exit *exitError
	if errors.As(err, &exit) {
		return exit
	}
	var input *operators.InputError
	if errors.As(err, &input) {
		return &exitError{exitUsage, err.Error()}
	}
	return &exitError{exitFailed, err.Error()}
}

// reportRows warns of rows that were passed over.
func reportRows(w io.Writer, s executor.Stats) {
	for _, o := range s.Operators {
		reportOperator(w, &api.Operator{Name: o.Op.Name, Skipped: o.Skipped, Dead: o.Dead, Lost: o.Lost, Gaps: o.Gaps, Late: o.Late})
	}
}

func reportOperator(w io.Writer, o *api.Operator) {
	for _, text := range o.PassedOver() {
		fmt.Fprintln(w, "warning:", text)
	}
}

// summary is the one line that ends a run.
func summary(s executor.Stats, d time.Duration) string {
	read, written := rowCounts(s)
	return fmt.Sprintf("%s read, %d written in %s (%s)", api.Count(read, "row"), written, roundDuration(d), rate(read, d))
}

// rowCounts are the rows that the sources have read and the sinks have written.
func rowCounts(s executor.Stats) (read, written int64) {
	for _, o := range s.Operators {
		if o.Op.Desc.Source() {
			read += o.In
		}
		if o.Op.Desc.Sink() {
			written += o.Out
		}
	}
	return read, written
}

func rate(rows int64, d time.Duration) string {
	perSecond := float64(rows) / max(d.Seconds(), 1e-9)
	for _, unit := range []struct {
		size float64
		name string
	}{{1e6, "M"}, {1e3, "k"}} {
		if perSecond >= unit.size {
			return fmt.Sprintf("%.1f%s rows/s", perSecond/unit.size, unit.name)
		}
	}
	return fmt.Sprintf("%.0f rows/s", perSecond)
}

func roundDuration(d time.Duration) string {
	switch {
	case d >= time.Minute:
		return d.Round(time.Second).String()
	case d >= 100*time.Millisecond:
		return fmt.Sprintf("%.2fs", d.Seconds())
	}
	return fmt.Sprintf("%.1fms", float64(d.Microseconds())/1e3)
}
