package service

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"sluice/dataflow"
	"sluice/executor/state"
	"sluice/executor/state/shared"
	"sluice/scheduler/api"
)

// possibleName is what a query may be called: its name is part of paths.
var possibleName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$`)

// fsyncModes are the values of Submission.Fsync.
var fsyncModes = map[string]state.FsyncMode{
	"never": state.FsyncNever, "grouped": state.FsyncGrouped, "always": state.FsyncAlways,
}

// Submit implements api.Backend.
func (s *Service) Submit(ctx context.Context, sub *api.Submission) (*api.Query, error) {
	r, err := s.leads()
	if err != nil {
		return nil, err
	}
	own, c, diags, err := r.check(sub)
	if err != nil {
		return nil, err
	}
	name := c.Config.Query.Graph.Name
	if own.Name != "" {
		name = own.Name
	}
	if !possibleName.MatchString(name) {
		return nil, api.Errorf(api.BadRequest, "a query cannot be called %q: a name has up to 64 letters, digits, \"-\", \"_\" and \".\", and begins with a letter or a digit; give it another one (name; sluice submit --name)", name)
	}
	q := newQuery(r, r.newID(name))
	q.rec = record{
		Name: name, Submission: own, Graph: c.Deploy.Graph, State: api.Running, Submitted: time.Now().UTC(),
		Dir: filepath.Join(s.o.StateRoot, q.id), Outputs: c.Outputs, Shape: shapeOf(c),
	}
	if err := r.accept(ctx, q); err != nil {
		return nil, err
	}
	answer := q.describe()
	answer.Diagnostics = api.Diagnostics(diags)
	return answer, nil
}

// check compiles a submission, to which it adds the defaults.
func (r *reign) check(sub *api.Submission) (*api.Submission, *Compiled, dataflow.Diagnostics, error) {
	own := *sub
	if err := r.complete(&own); err != nil {
		return nil, nil, nil, err
	}
	c, diags, err := r.s.o.Compile(&own, nil)
	if err != nil {
		return nil, nil, nil, err
	}
	if diags.HasErrors() {
		e := api.Errorf(api.BadSpec, "the spec is wrong: %s", diags[0])
		e.Diagnostics = api.Diagnostics(diags)
		return nil, nil, nil, e
	}
	if err := checkTasks(r.clusters, c.Config.Query.Tasks); err != nil {
		return nil, nil, nil, api.Errorf(api.BadRequest, "%v", err)
	}
	own.Env = c.Deploy.Env // what the spec names no more need not be stored
	return &own, c, diags, nil
}

// complete checks the options of a submission and adds the defaults.
func (r *reign) complete(s *api.Submission) error {
	usual, most := r.clusters.Workers()
	if s.Spec == "" {
		return api.Errorf(api.BadRequest, "there is no spec")
	}
	if s.File == "" {
		s.File = "spec.xml"
	}
	if s.Partitions == 0 {
		s.Partitions = 1
	}
	if s.Workers == 0 {
		s.Workers = usual
	}
	if s.Fsync == "" {
		s.Fsync = "grouped"
	}
	if s.Dir == "" {
		dir, err := os.Getwd()
		if err != nil {
			return err
		}
		s.Dir = dir
	}
	_, known := fsyncModes[s.Fsync]
	switch {
	case strings.ContainsAny(s.File, "\r\n"):
		return api.Errorf(api.BadRequest, "file must be one line")
	case !filepath.IsAbs(s.Dir):
		return api.Errorf(api.BadRequest, "dir must be an absolute path; it is %q", s.Dir)
	case s.Workers < 1 || s.Workers > most:
		return api.Errorf(api.BadRequest, "workers must be from 1 to %d", most)
	case !known:
		return api.Errorf(api.BadRequest, "fsync must be never, grouped or always; it is %q", s.Fsync)
	case s.Limit != nil && *s.Limit < 0:
		return api.Errorf(api.BadRequest, "limit must not be negative")
	}
	return nil
}

// accept stores a new query and starts it.
func (r *reign) accept(ctx context.Context, q *query) error {
	before, err := r.add(q)
	if err != nil {
		return err
	}
	if err := r.establish(ctx, q); err != nil {
		r.drop(q, before)
		return err
	}
	if before != nil {
		if err := r.forget(before); err != nil {
			r.s.o.Log.Warn("an earlier query of this name cannot be forgotten", "query", q.rec.Name, "error", err)
		}
	}
	r.prune()
	q.watch.event(api.EventSubmitted, nil, "the query is submitted, with %d workers", q.record().Submission.Workers)
	r.start(q)
	return nil
}

// establish makes the state directory and stores the query. After an error there is neither, or what there is
// will be found and run by the next leader.
func (r *reign) establish(ctx context.Context, q *query) error {
	o := shared.Options{Coordinator: true, Fsync: fsyncModes[q.rec.Submission.Fsync]}
	tasks, err := shared.Open(q.rec.Dir, o)
	if err == nil {
		err = tasks.Close()
	}
	if err != nil {
		return api.Errorf(api.Unavailable, "the state directory cannot be made: %v", err)
	}
	text, err := json.Marshal(q.rec)
	if err != nil {
		return err
	}
	if q.version, err = r.put(ctx, queryPath(q.id), text, 0); err != nil {
		return api.Errorf(api.Unavailable, "the query cannot be stored, and may run later all the same: %v", err)
	}
	return nil
}
