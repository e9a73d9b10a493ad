package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"sluice/dataflow"
	"sluice/executor"
	"sluice/executor/state"
	"sluice/metaquery"
	"sluice/operators"
	"sluice/operators/catalog"
	"sluice/scheduler"
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
	same, err := r.keepReplicas(was, old.p, record)
	if err != nil || same {
		return same, err
	}
	gens := generationsOf(old.p, record)
	sources := sourceLogs{}
	if err := old.readSources(old.p, sources, gens); err != nil {
		return false, err
	}
	if sources.logged() > record.Checkpoint {
		visible, err := executor.RecoverSinks(old.p.tasks, r.store, gens, r.build)
		if err != nil {
			return false, errNotAgain(r.c.State, err)
		}
		if visible > record.Checkpoint {
			if record.Stop >= 0 { // otherwise it is to run to its end
				old.catchUp = &scheduler.StopRequest{CatchUp: true, Logged: sources.logged()}
			}
			return false, nil
		}
	}
	return true, r.convert(old, was, record, sources, gens)
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
func (r *nodesRun) keepReplicas(was *savedQuery, old *plan, record *scheduler.Record) (same bool, err error) {
	replicas, err := executor.UnmovableOf(old.tasks, r.store, record.State)
	if err != nil {
		return false, err
	}
	if same, err = r.replicate(was, replicas); err != nil {
		return false, err
	}
	return same, checkDurable(r.p)
}

// generations gives for the name of a source or sink the generation as which its log may be opened, so that the
// next launch can open it too.
type generations func(operator string) int64

func generationsOf(old *plan, record *scheduler.Record) generations {
	of, highest := map[string]int64{}, highestGeneration(record)
	for _, t := range old.tasks.Tasks {
		for _, op := range t.Operators {
			of[op.Name] = record.Generations[t.Name]
		}
	}
	return func(operator string) int64 {
		if gen, ok := of[operator]; ok {
			return gen
		}
		return highest // that of a query before it
	}
}

func highestGeneration(record *scheduler.Record) int64 {
	highest := int64(0)
	for _, gen := range record.Generations {
		highest = max(highest, gen)
	}
	return highest
}

// build builds the operators that tasks have.
func (r *nodesRun) build(o *operators.Context) (operators.Operator, error) {
	return catalog.Build(o, catalog.Options{Limit: r.c.Limit, Cluster: true})
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

// sourceLogs is the last entry of the log of each source, the zero one if there is none.
type sourceLogs map[string]state.Epoch

// readSources reads the logs of the sources of a plan that are not known yet, none of which may be running.
func (r *nodesRun) readSources(p *plan, known sourceLogs, gens generations) error {
	for _, op := range p.tasks.Graph.Operators {
		if _, ok := known[op.Name]; ok || !op.Desc.Source() {
			continue
		}
		log, entries, err := r.store.OpenSource(op.Name, gens(op.Name))
		if err != nil {
			return err
		}
		known[op.Name] = state.Epoch{}
		if len(entries) > 0 {
			known[op.Name] = entries[len(entries)-1]
		}
		if err := log.Close(); err != nil {
			return err
		}
	}
	return nil
}

// logged is the last epoch of any source.
func (l sourceLogs) logged() int64 {
	last := int64(0)
	for _, e := range l {
		last = max(last, e.Epoch)
	}
	return last
}

// convert makes the checkpoint of the query as it was one of the plan, unless that one's sources and sinks cannot go on
// where they are: before it is too late for the query as it was.
func (r *nodesRun) convert(old *nodesRun, was *savedQuery, record *scheduler.Record, sources sourceLogs, gens generations) error {
	if err := r.readSources(r.p, sources, gens); err != nil {
		return err
	}
	if err := r.trySources(sources); err != nil {
		return runError(err)
	}
	gen := highestGeneration(record)
	ended := func(source string) bool { return sources[source].End && sources[source].Epoch <= record.Checkpoint }
	converted, err := executor.Convert(executor.ConvertConfig{
		Was: old.p.tasks, Query: r.p.tasks, Store: r.store, Checkpoint: record.Checkpoint, State: record.State, Gen: gen,
		Ended: ended, Build: r.build, Changed: func(change executor.Change) error { return r.c.changed(change, r.s) },
	})
	if err == nil {
		_, err = executor.RecoverSinks(r.p.tasks, r.store, gens, r.build)
	}
	if err != nil {
		return runError(err)
	}
	if set := setSince(old.p.tasks.Graph, record); len(set) > 0 {
		r.warn("the query has changed: what was set while it ran holds no longer: " + strings.Join(set, ", "))
	}
	next := &scheduler.Record{Checkpoint: record.Checkpoint, State: converted, Attempt: record.Attempt, Generations: map[string]int64{}}
	for _, t := range r.p.tasks.Tasks {
		if gen > 0 {
			next.Generations[t.Name] = gen // logs are sealed by generation, and any task may have any of them
		}
	}
	return r.save(was, saveQuery(r.o, string(r.p.canonical())), next)
}

// trySources makes sure that the sources can go on where they are.
func (r *nodesRun) trySources(sources sourceLogs) error {
	for _, op := range r.p.tasks.Graph.Operators {
		e, ok := sources[op.Name]
		if !op.Desc.Source() || !ok || e.Source == "" {
			continue
		}
		if err := r.trySource(op, e); err != nil {
			return &executor.OperatorError{Op: op, Err: err}
		}
	}
	return nil
}

func (r *nodesRun) trySource(op *dataflow.Operator, e state.Epoch) error {
	src, err := openSources(r.state, r.fsync())(&operators.Context{Op: op, Dir: r.p.tasks.Graph.Dir, Counters: &operators.Counters{}})
	if err != nil {
		return err
	}
	if s, ok := src.(operators.Replayable); ok {
		err = s.Seek(e.Position)
	}
	return errors.Join(err, src.Close())
}

// setSince names the parameters that users have set while the query ran, of operators as the spec has them.
func setSince(g *dataflow.Graph, record *scheduler.Record) []string {
	set := map[string]bool{}
	for _, t := range slices.Concat(record.Params, record.Changes) {
		name := t.Operator
		if op := g.Operator(name); op != nil && op.Origin != nil && len(op.Origin.Lineage) > 0 {
			name = op.Origin.Lineage[0]
		}
		if t.Param != metaquery.TargetAddr {
			set[name+"."+t.Param] = true
		}
	}
	return slices.Sorted(maps.Keys(set))
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
