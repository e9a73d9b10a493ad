package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"sluice/dataflow"
	"sluice/executor"
	"sluice/executor/mesos"
	"sluice/executor/state/shared"
	"sluice/executor/transport"
	"sluice/executor/worker"
	"sluice/metaquery"
	"sluice/operators"
	"sluice/operators/catalog"
)

// executorCommand is a worker process.
type executorCommand struct {
	Control string `help:"Where the scheduler listens. An agent of Mesos says it otherwise, and the name too."`
	ID      string `name:"id" help:"The worker's name."`
	Keys    string `help:"File with the keys of the cluster."`
}

// Run implements the command.
func (c *executorCommand) Run(s streams) error {
	if c.Control == "" && c.ID == "" && mesos.Here(os.Getenv) {
		return c.runForAgent(s)
	}
	if c.Control == "" || c.ID == "" {
		return usageErrorf("--control and --id must be given, unless an agent of Mesos has started this")
	}
	// Ctrl-C reaches all processes of a terminal, and the end of a service all of its processes. What it means
	// is for the scheduler to say.
	signal.Ignore(os.Interrupt, syscall.SIGTERM, syscall.SIGPIPE)
	sockets, err := socketOptions(c.Keys)
	if err != nil {
		return err
	}
	control, err := transport.NewZMQ(sockets)
	if err != nil {
		return err
	}
	e := &executorProcess{id: c.ID, s: s, sockets: sockets}
	cfg := e.config()
	cfg.Control, cfg.Scheduler = control, c.Control
	return errors.Join(worker.Run(context.Background(), cfg), control.Close())
}

// config is that of a worker, but for how it speaks to the scheduler.
func (e *executorProcess) config() worker.Config {
	return worker.Config{
		ID: e.id, Data: e.data, Compile: e.compile,
		New: func(cfg executor.InstanceConfig) (worker.Instance, error) {
			i, err := executor.NewInstance(cfg)
			if err != nil {
				return nil, err
			}
			return i, nil
		},
		Log: func(text string) { fmt.Fprintln(e.s.err, "warning:", text) },
	}
}

// executorProcess is a worker process that has, or will have, a query.
type executorProcess struct {
	id      string
	s       streams
	sockets transport.Options
	dir     string        // for files of no lasting use
	place   *mesos.Launch // on an agent of Mesos
}

// compile makes the plan that the scheduler has.
func (e *executorProcess) compile(d *metaquery.Deploy) (*worker.Query, error) {
	p, diags, err := loadPlan(d.File, planOptions{sets: d.Sets, parallel: d.Partitions, replicas: d.Replicas, nodes: d.Nodes, text: d.Spec, dir: d.Dir, env: only(d.Env)}, e.s)
	if err != nil {
		return nil, err
	}
	if diags.HasErrors() {
		return nil, refusal(d, diags)
	}
	if p.fingerprint() != d.Graph {
		return nil, errors.New("the graph of the spec is not what it was when the query began: a file of rules or the release has changed")
	}
	store, err := shared.Open(d.State, shared.Options{Fsync: fsyncModes[d.Fsync]})
	if err == nil && e.place != nil {
		err = store.Writable()
	}
	switch {
	case err != nil && e.place != nil:
		return nil, stateError(d.State, err)
	case err != nil:
		return nil, err
	case e.place == nil:
		e.dir = d.Spill
	}
	return &worker.Query{
		Physical: p.tasks, Store: store,
		Build:      builder(d.Limit, d.State),
		OpenSource: openSources(d.State, d.Fsync),
		Limits:     limits(d.Transport, e.dir),
	}, nil
}

// refusal is the error of a worker that cannot compile a query. What is wrong with the spec itself is wrong everywhere; a
// file of rules may be another one on this machine, or not be there.
func refusal(d *metaquery.Deploy, diags dataflow.Diagnostics) error {
	err := errors.New(diags[0].String())
	if _, own, bad := parseSpec(d.File, d.Dir, bytes.NewReader(d.Spec), d.Sets, only(d.Env)); bad == nil && own.HasErrors() {
		return &worker.EverywhereError{Err: err}
	}
	return err
}

// builder builds the operators of the tasks of a query of which each writer writes so many rows, and claims its output in
// the name of the query's state.
func builder(limit int64, state string) executor.Builder {
	return func(o *operators.Context) (operators.Operator, error) {
		return catalog.Build(o, catalog.Options{Limit: limit, Owner: state, Cluster: true})
	}
}

// limits are those of the instances of a worker. What UDP carries at once is small, and it has no pace of
// its own but the credit.
func limits(transport, spill string) executor.Limits {
	l := executor.Limits{SpillDir: spill}
	if strings.HasSuffix(transport, udp) {
		l.Frame, l.Window = 32<<10, 128<<10
	}
	return l
}

// data gives the transport for rows.
func (e *executorProcess) data(name string) (transport.Transport, string, error) {
	if e.place != nil {
		addr, err := addressOn(e.place, name)
		if err != nil {
			return nil, "", err
		}
		t, err := transport.Open(e.sockets)
		return t, addr, err
	}
	t, err := transport.Open(e.sockets)
	return t, dataAddress(name, filepath.Join(e.dir, e.id)), err
}
