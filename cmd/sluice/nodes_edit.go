package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"sluice/executor"
	"sluice/scheduler"
	"sluice/scheduler/edit"
	"sluice/scheduler/shell"
)

// A query on several processes may be edited between two runs, as one in a single process. If the state is of
// another query, that one is first run up to a checkpoint at which all its sources have stopped; then its
// snapshots, and the record of its scheduler, are made those of the edited query.

// prepare makes the state that of the plan. ready is false if there is nothing to run.
func (r *nodesRun) prepare() (ready bool, err error) {
	was, err := r.savedQuery()
	if err != nil {
		return false, err
	}
	if was == nil {
		return true, r.setQuery(saveQuery(r.o, string(r.p.canonical())))
	}
	// The replicas that it has already cannot be too many for its state.
	same, err := r.replicate(was, was.Replicas)
	if err == nil && !same {
		ready, err = r.edit(was)
		if err != nil || !ready {
			return false, err
		}
	}
	if err != nil {
		return false, err
	}
	finished, err := shell.Finished(r.store)
	if finished && !r.c.Quiet {
		fmt.Fprintln(r.s.err, "nothing to do: the inputs have ended, and the state says that all is written")
	}
	return !finished, err
}

// savedQuery is the query that the state belongs to, nil if there is none yet. An edit that was being saved when
// its process ended has either been saved or not.
func (r *nodesRun) savedQuery() (*savedQuery, error) {
	text, err := r.store.Spec()
	if err != nil || text == nil {
		return nil, err
	}
	q, err := parseSavedQuery(text)
	if err == nil && len(q.was) > 0 {
		var version int64
		if _, version, err = r.store.Load(); err != nil {
			return nil, err
		}
		if version > q.Since {
			q.was, q.Since = nil, 0
		} else {
			q, err = parseSavedQuery(q.was)
		}
		if err == nil {
			return q, r.setQuery(q) // before there is another version
		}
	}
	if err != nil {
		return nil, usageErrorf("the state in %q: %v; choose another folder", r.c.State, err)
	}
	return q, nil
}

// setQuery makes the query the one that the state belongs to.
func (r *nodesRun) setQuery(q *savedQuery) error {
	text, err := q.encode()
	if err != nil {
		return err
	}
	return r.store.SetSpec(text)
}

// replicate gives operators these numbers of replicas, and reports whether the plan is that of the query then.
func (r *nodesRun) replicate(was *savedQuery, replicas map[string]int) (same bool, err error) {
	o := r.o
	o.replicas = replicas
	p, err := replan(r.c.Spec, o, r.s)
	if err != nil {
		return false, err
	}
	r.o, r.p = o, p
	return string(p.canonical()) == was.graph, nil
}

// edit makes the state, which is of another query, that of the plan. ready is false if a signal has stopped it.
func (r *nodesRun) edit(was *savedQuery) (ready bool, err error) {
	old, err := r.asItWas(was)
	if err != nil {
		return false, err
	}
	ready, err = r.takeOver(old, was)
	if ready || err != nil {
		return ready, err
	}
	err = old.doWhatIsLeft()
	if old.stopped.Load() {
		return false, err
	}
	if err == nil {
		ready, err = r.takeOver(old, was)
		if ready || err != nil {
			return ready, err
		}
		err = errors.New("it does not come to a checkpoint")
	}
	return false, errNotAgain(r.c.State, err)
}

// asItWas is the query that the state is of.
func (r *nodesRun) asItWas(was *savedQuery) (*nodesRun, error) {
	o := was.options(r.o.dir)
	p, diags, err := loadPlan(r.c.Spec, o, r.s)
	switch {
	case err != nil:
		return nil, err
	case diags.HasErrors() || string(p.canonical()) != was.graph:
		return nil, errNotAsItWas(r.c.State)
	}
	return &nodesRun{c: r.c, o: o, p: p, s: r.s, dir: r.dir, state: r.state, store: r.store, held: r.held}, nil
}

// takeOver makes the state that of the plan, unless old has left something that only it can do.
func (r *nodesRun) takeOver(old *nodesRun, was *savedQuery) (done bool, err error) {
	record, err := r.record()
	if err != nil {
		return false, err
	}
	if record.Finished {
		if was.sameSpec(r.o) {
			return true, nil
		}
		return false, errFinishedBefore(r.c.State)
	}
	stopped := &edit.Stopped{
		Was: executor.ShapeOf(old.p.tasks), Record: record, Store: r.store, Build: builder(r.c.Limit, r.state), OpenSource: openSources(r.state, r.fsync()),
	}
	same, err := r.keepReplicas(was, stopped)
	if err != nil || same {
		return same, err
	}
	left, err := stopped.Left(old.p.tasks)
	switch {
	case err != nil:
		return false, errNotAgain(r.c.State, err)
	case left:
		old.catchUp = stopped.CatchUp()
		return false, nil
	}
	return true, r.convert(was, stopped)
}

// record is what the last scheduler has saved.
func (r *nodesRun) record() (*scheduler.Record, error) {
	record := &scheduler.Record{}
	text, _, err := r.store.Load()
	if err != nil || text == nil {
		return record, err
	}
	if err := json.Unmarshal(text, record); err != nil {
		return nil, fmt.Errorf("the state in %q: the record that was saved: %w", r.c.State, err)
	}
	return record, nil
}

// keepReplicas gives operators whose state cannot be divided anew as many replicas as have left it.
func (r *nodesRun) keepReplicas(was *savedQuery, stopped *edit.Stopped) (same bool, err error) {
	replicas, err := stopped.Replicas()
	if err != nil {
		return false, err
	}
	if same, err = r.replicate(was, replicas); err != nil {
		return false, err
	}
	return same, checkDurable(r.p)
}

// doWhatIsLeft runs the query, which is another one than is to go on, as far as its sources have logged.
func (r *nodesRun) doWhatIsLeft() error {
	config, err := r.c.config(r.p)
	if err != nil {
		return runError(err)
	}
	// The state is wanted, whatever --checkpoint says of the query that is to go on.
	config.Checkpoints, config.Workers = true, r.o.nodes
	return r.run(config)
}

// convert makes the checkpoint of the query as it was one of the plan.
func (r *nodesRun) convert(was *savedQuery, stopped *edit.Stopped) error {
	result, err := stopped.Convert(edit.Target{Query: r.p.tasks, Changed: func(change executor.Change) error { return r.c.changed(change, r.s) }})
	if err != nil {
		return runError(err)
	}
	if len(result.Unset) > 0 {
		r.warn("the query has changed: what was set while it ran holds no longer: " + strings.Join(result.Unset, ", "))
	}
	return r.save(was, saveQuery(r.o, string(r.p.canonical())), result.Record)
}

// save makes q the query of the state, and next its record. One of them is saved before the other, and a process may
// end between the two. So q is first saved together with the query before it, which holds as long as the record
// is no later version than it is now. When the record is there q holds by itself.
func (r *nodesRun) save(was, q *savedQuery, next *scheduler.Record) error {
	records := shell.Recorded(r.store)
	last, err := records.Begin()
	if err != nil {
		return err
	}
	next.Term = 1
	if last != nil {
		next.Term = last.Term + 1
	}
	if q.was, err = was.encode(); err != nil {
		return err
	}
	if _, q.Since, err = r.store.Load(); err != nil {
		return err
	}
	if err := r.setQuery(q); err != nil {
		return err
	}
	if err := records.Save(next); err != nil {
		return err
	}
	q.was, q.Since = nil, 0
	return r.setQuery(q)
}
