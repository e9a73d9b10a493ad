package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"sluice/dataflow"
	"sluice/executor"
	"sluice/executor/state"
)

// savedQuery is the query that a state belongs to, as it is kept there: a line of JSON, the graph that runs, and
// the text of the spec.
type savedQuery struct {
	Partitions int            `json:"partitions"`
	Nodes      int            `json:"nodes,omitempty"` // 0: it runs in one process
	Sets       []string       `json:"sets,omitempty"`
	Replicas   map[string]int `json:"replicas,omitempty"` // of operators that have another number than Partitions
	Graph      int            `json:"graph"`              // length of the graph, in bytes

	// While an edit of a query on several processes is being saved the query that the state belonged to before
	// stands in front of the graph, Was bytes, and holds unless the record has a version above Since.
	Was   int   `json:"was,omitempty"`
	Since int64 `json:"since,omitempty"`

	was   []byte
	graph string
	text  []byte
}

// saveQuery is the query of a plan, whose graph is given as text.
func saveQuery(o planOptions, graph string) *savedQuery {
	return &savedQuery{Partitions: o.parallel, Nodes: o.nodes, Sets: o.sets, Replicas: o.replicas, graph: graph, text: o.text}
}

func (q *savedQuery) encode() ([]byte, error) {
	q.Graph, q.Was = len(q.graph), len(q.was)
	head, err := json.Marshal(q)
	if err != nil {
		return nil, err
	}
	return slices.Concat(head, []byte("\n"), q.was, []byte(q.graph), q.text), nil
}

func parseSavedQuery(saved []byte) (*savedQuery, error) {
	head, rest, ok := bytes.Cut(saved, []byte("\n"))
	q := &savedQuery{}
	if !ok || json.Unmarshal(head, q) != nil || q.Was < 0 || q.Was > len(rest) || q.Graph < 0 || q.Graph > len(rest)-q.Was || q.Partitions < 1 {
		return nil, errors.New("what it says of its query was written by another release")
	}
	q.was, rest = rest[:q.Was], rest[q.Was:]
	q.graph, q.text = string(rest[:q.Graph]), rest[q.Graph:]
	return q, nil
}

// options are those with which the plan is made again.
func (q *savedQuery) options(dir string) planOptions {
	return planOptions{sets: q.Sets, parallel: q.Partitions, replicas: q.Replicas, nodes: q.Nodes, text: q.text, dir: dir}
}

// sameSpec reports whether the query has the spec and the sets of the options.
func (q *savedQuery) sameSpec(o planOptions) bool {
	return bytes.Equal(q.text, o.text) && slices.Equal(q.Sets, o.sets)
}

// What may be wrong with the query that the state in a folder is of, when another one is to go on with it.
func errNotAsItWas(dir string) error {
	return usageErrorf("the state in %q is of another query, which cannot be run any more as it was, since its files of rules, environment variables or the release have changed; put them back or choose another folder", dir)
}

func errFinishedBefore(dir string) error {
	return usageErrorf("the state in %q is of another query, which has run to its end: there is nothing to go on with; choose another folder", dir)
}

func errNotAgain(dir string, err error) error {
	return usageErrorf("the state in %q is of another query, and what that one has written since its last checkpoint cannot be computed again: %v\nput the spec back as it was, which is at the end of %s/spec, or choose another folder", dir, err, dir)
}

// replan makes a plan of a spec that is to have one.
func replan(spec string, o planOptions, s streams) (*plan, error) {
	p, diags, err := loadPlan(spec, o, s)
	if err == nil && diags.HasErrors() {
		err = usageErrorf("%s", diags.Error())
	}
	if err != nil {
		return nil, err
	}
	return p, nil
}

func graphText(p *plan) string { return p.final.Statements(dataflow.TermOptions{Params: true}) }

// durableRun is a run of a query with state.
type durableRun struct {
	c     *runCommand
	o     planOptions
	s     streams
	p     *plan // that is run
	store *state.Store

	edited bool // the query was another one when it was stopped
}

// open opens the state. If it is of another query, that one is brought to where the edited one can go on.
func (d *durableRun) open(ctx context.Context) error {
	if err := checkDurable(d.p); err != nil {
		return err
	}
	store, err := state.Open(d.c.State, state.Options{Fsync: fsyncModes[d.c.Fsync]})
	if err != nil {
		return usageErrorf("%v", err)
	}
	d.store = store
	if err := d.prepare(ctx); err != nil {
		return errors.Join(err, store.Close())
	}
	return nil
}

func (d *durableRun) prepare(ctx context.Context) error {
	saved := d.store.Spec()
	if saved == nil {
		return d.save()
	}
	was, err := parseSavedQuery(saved)
	if err != nil {
		return usageErrorf("the state in %q: %v; choose another folder", d.c.State, err)
	}
	if err := d.keepReplicas(); err != nil {
		return err
	}
	if graphText(d.p) == was.graph {
		return nil
	}
	if err := d.catchUp(ctx, was); err != nil {
		return err
	}
	d.edited = true
	return d.keepReplicas()
}

// save makes the query the one that the state belongs to.
func (d *durableRun) save() error {
	text, err := saveQuery(d.o, graphText(d.p)).encode()
	if err != nil {
		return err
	}
	return d.store.SetSpec(text)
}

// keepReplicas gives operators whose state cannot be divided anew as many replicas as have left it.
func (d *durableRun) keepReplicas() error {
	replicas, err := executor.Unmovable(d.store)
	if err != nil {
		return err
	}
	o := d.o
	o.replicas = replicas
	p, err := replan(d.c.Spec, o, d.s)
	if err != nil {
		return err
	}
	d.o, d.p = o, p
	return nil
}

// catchUp runs the query that the state belongs to up to what its sinks have written. After a stop that is
// nothing; after a crash what comes after the last checkpoint is worked on once more, as it was.
func (d *durableRun) catchUp(ctx context.Context, was *savedQuery) error {
	p, diags, err := loadPlan(d.c.Spec, was.options(d.o.dir), d.s)
	switch {
	case err != nil:
		return err
	case diags.HasErrors() || graphText(p) != was.graph:
		return errNotAsItWas(d.c.State)
	}
	q, err := d.c.start(ctx, p, executor.Options{State: d.store, CatchUp: true, Waiting: d.waiting})
	if q != nil {
		reportRows(d.s.err, q.Stats())
	}
	finished := errors.Is(err, executor.ErrFinished)
	switch {
	case finished && was.sameSpec(d.o):
		return nil
	case finished:
		return errFinishedBefore(d.c.State)
	case err != nil:
		return errNotAgain(d.c.State, err)
	}
	return nil
}

// options are those of the executor.
func (d *durableRun) options() executor.Options {
	o := executor.Options{State: d.store, Waiting: d.waiting}
	o.CheckpointEpochs, _ = checkpointEpochs(d.c.Checkpoint) // has been checked
	if d.edited {
		o.Changed, o.Restored = func(change executor.Change) error { return d.c.changed(change, d.s) }, d.save
	}
	return o
}

func (d *durableRun) waiting(err error) {
	fmt.Fprintf(d.s.err, "warning: %v; the query tries again until there is room\n", err)
}

// changed tells what an edit makes of the state, and asks for consent where some of it is lost.
func (c *runCommand) changed(change executor.Change, s streams) error {
	if len(change.Dropped) > 0 && !c.AllowDrop {
		return usageErrorf("the query has changed, and state of it would be lost:\n%s\nput it back, or let it go with --allow-drop", dropped(change))
	}
	if !c.Quiet {
		for _, l := range []struct {
			what  string
			names []string
		}{{"goes on with its state", change.Kept}, {"begins without state", change.New}} {
			for _, name := range l.names {
				fmt.Fprintf(s.err, "the query has changed: operator %q %s\n", name, l.what)
			}
		}
	}
	if len(change.Dropped) > 0 {
		fmt.Fprintf(s.err, "warning: the query has changed, and state of it is lost:\n%s\n", dropped(change))
	}
	return nil
}

func dropped(c executor.Change) string {
	var lines []string
	for _, x := range c.Dropped {
		lines = append(lines, fmt.Sprintf("  operator %q: %s", x.Operator, x.Why))
	}
	return strings.Join(lines, "\n")
}
