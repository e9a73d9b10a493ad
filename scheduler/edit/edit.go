/*
Package edit makes what a query has left that has been stopped what an edited one goes on with.

	was := &edit.Stopped{Was: shape, Record: record, Store: store, Build: build, OpenSource: open}
	replicas, err := was.Replicas() // that the edited query has to have
	left, err := was.Left(old)
	if left {
		// run the query as it was with was.CatchUp(), and look again
	}
	result, err := was.Convert(edit.Target{Query: next, Changed: consent})
	// save result.Record, together with the edited query

No worker of the query may be left, not even one that is cut off: sinks are recovered as the generation that wrote last. What
Convert writes lies beside what there was: until the new record is saved the query as it was can go on, and nothing has
happened.

The edit applies from the stop on: rows that were read before it count as the old query says. So if sinks have
written more than the last checkpoint has, as after a crash, the query as it was has to do that again first, up
to a checkpoint at which all its sources have stopped.

# What is not covered

Other inputs of a source and other outputs of a sink are refused: the edited query goes on where the old one was.
*/
package edit

import (
	"cmp"
	"errors"
	"maps"
	"slices"

	"sluice/dataflow"
	"sluice/executor"
	"sluice/executor/state"
	"sluice/metaquery"
	"sluice/operators"
	"sluice/scheduler"
)

// Stopped is a query that has been stopped.
type Stopped struct {
	Was    executor.Shape
	Record *scheduler.Record // that its last scheduler has saved
	Store  executor.Store
	Build  executor.Builder
	// OpenSource opens a source to find out whether it can go on.
	OpenSource func(*operators.Context) (operators.Source, error)

	sources map[string]state.Epoch // last entry of the log of each source, the zero one if there is none
}

// Replicas are the numbers of replicas that operators must have whose state cannot be divided anew.
func (s *Stopped) Replicas() (map[string]int, error) {
	return executor.UnmovableOf(s.Was, s.Store, s.Record.State)
}

// Left tells whether the query has something left to do that only it can do. sinks is a query with its sinks.
func (s *Stopped) Left(sinks *dataflow.Physical) (bool, error) {
	var names []string
	for _, op := range s.Was.Operators {
		if op.Source {
			names = append(names, op.Name)
		}
	}
	if err := s.read(names); err != nil {
		return false, err
	}
	if s.logged() <= s.Record.Checkpoint {
		return false, nil
	}
	visible, err := executor.RecoverSinks(sinks, s.Store, s.generation, s.Build)
	return visible > s.Record.Checkpoint, err
}

// CatchUp is how the query is to be stopped that does what is left, nil if it is to run to its end.
func (s *Stopped) CatchUp() *scheduler.StopRequest {
	if s.Record.Stop < 0 {
		return nil
	}
	return &scheduler.StopRequest{CatchUp: true, Logged: s.logged()}
}

// generation is the one as which the log of a source or sink may be opened, so that the next launch can open it too.
func (s *Stopped) generation(operator string) int64 {
	for _, op := range s.Was.Operators {
		if op.Name == operator {
			return s.Record.Generations[op.Task]
		}
	}
	return s.highest() // that of a query before it
}

func (s *Stopped) highest() int64 {
	highest := int64(0)
	for _, gen := range s.Record.Generations {
		highest = max(highest, gen)
	}
	return highest
}

// read reads the logs of sources that are not known yet.
func (s *Stopped) read(names []string) error {
	if s.sources == nil {
		s.sources = map[string]state.Epoch{}
	}
	for _, name := range names {
		if _, ok := s.sources[name]; ok {
			continue
		}
		log, entries, err := s.Store.OpenSource(name, s.generation(name))
		if err != nil {
			return err
		}
		s.sources[name] = state.Epoch{}
		if len(entries) > 0 {
			s.sources[name] = entries[len(entries)-1]
		}
		if err := log.Close(); err != nil {
			return err
		}
	}
	return nil
}

// logged is the last epoch of any source.
func (s *Stopped) logged() int64 {
	last := int64(0)
	for _, e := range s.sources {
		last = max(last, e.Epoch)
	}
	return last
}

// Target is the edited query.
type Target struct {
	Query *dataflow.Physical
	// Changed is told how the state fits, before anything is written. Its error ends Convert.
	Changed func(executor.Change) error
	// Catalog is given if what users have set while the query ran is to hold on, as far as it can be set.
	Catalog dataflow.Catalog
}

// Result is what the edited query begins with.
type Result struct {
	Record *scheduler.Record
	// Unset names what users have set while the query ran and what does not hold any longer: OPERATOR.PARAMETER.
	Unset []string
}

// Convert makes the checkpoint of the query as it was one of the edited one, unless the sources and sinks of that
// cannot go on where they are.
func (s *Stopped) Convert(t Target) (*Result, error) {
	var names []string
	for _, op := range t.Query.Graph.Operators {
		if op.Desc.Source() {
			names = append(names, op.Name)
		}
	}
	if err := s.read(names); err != nil {
		return nil, err
	}
	if err := s.trySources(t.Query); err != nil {
		return nil, err
	}
	gen := s.highest()
	ended := func(source string) bool {
		return s.sources[source].End && s.sources[source].Epoch <= s.Record.Checkpoint
	}
	converted, err := executor.Convert(executor.ConvertConfig{
		Was: s.Was, Query: t.Query, Store: s.Store, Checkpoint: s.Record.Checkpoint, State: s.Record.State, Gen: gen,
		Ended: ended, Build: s.Build, Changed: t.Changed,
	})
	if err == nil {
		_, err = executor.RecoverSinks(t.Query, s.Store, s.generation, s.Build)
	}
	if err != nil {
		return nil, err
	}
	next := &scheduler.Record{
		Term: s.Record.Term, Checkpoint: s.Record.Checkpoint, State: converted, Attempt: s.Record.Attempt, Generations: map[string]int64{},
		Workers: s.workers(t.Query),
	}
	for _, task := range t.Query.Tasks {
		if gen > 0 {
			next.Generations[task.Name] = gen // logs are sealed by generation, and any task may have any of them
		}
	}
	r := &Result{Record: next}
	next.Params, r.Unset = s.settings(t)
	return r, nil
}

// workers are where the sinks of a query were launched last, by the tasks that they have now. Of a task with sinks of several
// workers one is named: all of them have ended.
func (s *Stopped) workers(p *dataflow.Physical) map[string]scheduler.WorkerID {
	at := map[string]scheduler.WorkerID{}
	for _, op := range s.Was.Operators {
		if id := s.Record.Workers[op.Task]; op.Sink && id != "" {
			at[op.Name] = id
		}
	}
	list := map[string]scheduler.WorkerID{}
	for _, task := range p.Tasks {
		for _, op := range task.Operators {
			if id := at[op.Name]; id != "" {
				list[task.Name] = id
			}
		}
	}
	return list
}

// trySources makes sure that the sources can go on where they are.
func (s *Stopped) trySources(p *dataflow.Physical) error {
	for _, op := range p.Graph.Operators {
		e, ok := s.sources[op.Name]
		if !op.Desc.Source() || !ok || e.Source == "" {
			continue
		}
		if err := s.trySource(op, p.Graph.Dir, e); err != nil {
			return &executor.OperatorError{Op: op, Err: err}
		}
	}
	return nil
}

func (s *Stopped) trySource(op *dataflow.Operator, dir string, e state.Epoch) error {
	src, err := s.OpenSource(&operators.Context{Op: op, Dir: dir, Counters: &operators.Counters{}})
	if err != nil {
		return err
	}
	if r, ok := src.(operators.Replayable); ok {
		err = r.Seek(e.Position)
	}
	return errors.Join(err, src.Close())
}

// settings are what users have set while the query ran, as the edited one has it, and what it cannot have.
func (s *Stopped) settings(t Target) (params []metaquery.Tuple, unset []string) {
	type setting struct{ operator, param string }
	last := map[setting]metaquery.Tuple{}
	differ := map[setting]bool{} // replicas have several values
	for _, list := range [][]metaquery.Tuple{s.Record.Params, s.Record.Changes} {
		now := map[setting]string{}
		for _, u := range list {
			at := setting{s.Was.Of(u.Operator), u.Param}
			if value, ok := now[at]; ok && value != u.Value {
				differ[at] = true
			}
			now[at] = u.Value
			if u.Param != metaquery.TargetAddr {
				last[at] = u
			}
		}
	}
	names := map[string]bool{}
	for at, u := range last {
		u.Operator, u.Epoch = at.operator, 0
		var tuples []metaquery.Tuple
		err := errors.New("the spec counts")
		if t.Catalog != nil && !differ[at] {
			tuples, err = scheduler.Expand(t.Query, u, t.Catalog)
		}
		if err != nil {
			names[at.operator+"."+at.param] = true
			continue
		}
		params = append(params, tuples...)
	}
	slices.SortFunc(params, func(a, b metaquery.Tuple) int { return cmp.Compare(a.Seq, b.Seq) })
	return params, slices.Sorted(maps.Keys(names))
}
