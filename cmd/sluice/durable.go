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

// savedQuery is the query that a state belongs to, as it is kept there: a line of JSON, the statements of the
// graph that runs, and the text of the spec.
type savedQuery struct {
	Partitions int            `json:"partitions"`
	Sets       []string       `json:"sets,omitempty"`
	Replicas   map[string]int `json:"replicas,omitempty"` // of operators that have another number than Partitions
	Graph      int            `json:"graph"`              // length of the statements, in bytes

	graph string
	text  []byte
}

func (q *savedQuery) encode() ([]byte, error) {
	q.Graph = len(q.graph)
	head, err := json.Marshal(q)
	if err != nil {
		return nil, err
	}
	return slices.Concat(head, []byte("\n"), []byte(q.graph), q.text), nil
}

func parseSavedQuery(saved []byte) (*savedQuery, error) {
	head, rest, ok := bytes.Cut(saved, []byte("\n"))
	q := &savedQuery{}
	if !ok || json.Unmarshal(head, q) != nil || q.Graph < 0 || q.Graph > len(rest) || q.Partitions < 1 {
		return nil, errors.New("what it says of its query was written by another release")
	}
	q.graph, q.text = string(rest[:q.Graph]), rest[q.Graph:]
	return q, nil
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
	q := &savedQuery{Partitions: d.o.parallel, Sets: d.o.sets, Replicas: d.o.replicas, graph: graphText(d.p), text: d.o.text}
	text, err := q.encode()
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
	p, diags, err := loadPlan(d.c.Spec, o, d.s)
	if err == nil && diags.HasErrors() {
		err = usageErrorf("%s", diags.Error())
	}
	if err != nil {
		return err
	}
	d.o, d.p = o, p
	return nil
}

// catchUp runs the query that the state belongs to up to what its sinks have written. After a stop that is
// nothing; after a crash what comes after the last checkpoint is worked on once more, as it was.
func (d *durableRun) catchUp(ctx context.Context, was *savedQuery) error {
	o := planOptions{sets: was.Sets, parallel: was.Partitions, replicas: was.Replicas, text: was.text, dir: d.o.dir}
	p, diags, err := loadPlan(d.c.Spec, o, d.s)
	switch {
	case err != nil:
		return err
	case diags.HasErrors() || graphText(p) != was.graph:
		return usageErrorf("the state in %q is of another query, which cannot be run any more as it was, since its files of rules, environment variables or the release have changed; put them back or choose another folder", d.c.State)
	}
	q, err := d.c.start(ctx, p, executor.Options{State: d.store, CatchUp: true, Waiting: d.waiting})
	if q != nil {
		reportRows(d.s.err, q.Stats())
	}
	finished := errors.Is(err, executor.ErrFinished)
	switch {
	case finished && bytes.Equal(was.text, d.o.text) && slices.Equal(was.Sets, d.o.sets):
		return nil
	case finished:
		return usageErrorf("the state in %q is of another query, which has run to its end: there is nothing to go on with; choose another folder", d.c.State)
	case err != nil:
		return usageErrorf("the state in %q is of another query, and what that one has written since its last checkpoint cannot be computed again: %v\nput the spec back as it was, which is at the end of %s/spec, or choose another folder", d.c.State, err, d.c.State)
	}
	return nil
}

// options are those of the executor.
func (d *durableRun) options() executor.Options {
	o := executor.Options{State: d.store, Waiting: d.waiting}
	o.CheckpointEpochs, _ = checkpointEpochs(d.c.Checkpoint) // has been checked
	if d.edited {
		o.Changed, o.Restored = d.changed, d.save
	}
	return o
}

func (d *durableRun) waiting(err error) {
	fmt.Fprintf(d.s.err, "warning: %v; the query tries again until there is room\n", err)
}

// changed tells what an edit makes of the state, and asks for consent where some of it is lost.
func (d *durableRun) changed(c executor.Change) error {
	if len(c.Dropped) > 0 && !d.c.AllowDrop {
		return usageErrorf("the query has changed, and state of it would be lost:\n%s\nput it back, or let it go with --allow-drop", dropped(c))
	}
	if !d.c.Quiet {
		for _, l := range []struct {
			what  string
			names []string
		}{{"goes on with its state", c.Kept}, {"begins without state", c.New}} {
			for _, name := range l.names {
				fmt.Fprintf(d.s.err, "the query has changed: operator %q %s\n", name, l.what)
			}
		}
	}
	if len(c.Dropped) > 0 {
		fmt.Fprintf(d.s.err, "warning: the query has changed, and state of it is lost:\n%s\n", dropped(c))
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
