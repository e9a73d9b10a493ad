package service

import (
	"context"
	"time"

	"sluice/scheduler/api"
)

// Stop implements api.Backend.
func (s *Service) Stop(ctx context.Context, name string) (*api.Query, error) {
	q, err := s.find(name)
	if err != nil {
		return nil, err
	}
	if lost := q.unsaved(); len(lost) > 0 && !api.Ended(q.state()) {
		return nil, api.Errorf(api.BadRequest, "query %q has no checkpoints, so that operator %q would lose its state; drain or cancel it", name, lost[0].Operator)
	}
	var refused *api.Error
	err = q.change(ctx, func(r *record) {
		switch {
		case r.State == api.Stopping || r.State == api.Stopped:
		case r.State != api.Running:
			refused = api.Errorf(api.QueryEnded, "query %q is %s, and cannot be stopped", name, r.State)
		case r.Edit != nil:
			refused = api.Errorf(api.BadEdit, "query %q is being edited; try again", name)
		default:
			r.State = api.Stopping
		}
	})
	switch {
	case refused != nil:
		return nil, refused
	case err != nil:
		return nil, api.Errorf(api.Unavailable, "the query cannot be stopped: %v", err)
	}
	q.tell()
	return q.awaitEnd(ctx), nil
}

// awaitEnd describes the query once it has ended, or when that takes longer than who asked is to wait.
func (q *query) awaitEnd(ctx context.Context) *api.Query {
	ctx, cancel := context.WithTimeout(ctx, cancelTime)
	defer cancel()
	select {
	case <-q.over:
	case <-ctx.Done():
	}
	return q.describe()
}

// Resume implements api.Backend.
func (s *Service) Resume(ctx context.Context, name string) (*api.Query, error) {
	q, err := s.find(name)
	if err != nil {
		return nil, err
	}
	switch state := q.state(); {
	case !api.Ended(state):
		return nil, api.Errorf(api.QueryExists, "query %q runs: it is %s", name, state)
	case q.damaged != nil:
		next, err := s.repaired(q)
		if err != nil {
			return nil, err
		}
		return next.describe(), nil
	case !api.Resumable(state):
		return nil, api.Errorf(api.QueryEnded, "query %q is %s, and nothing is left of its state; submit it again", name, state)
	}
	next, err := q.r.revive(ctx, q, func(*record) {})
	if err != nil {
		return nil, err
	}
	next.watch.event(api.EventResumed, nil, "the query is resumed")
	return next.describe(), nil
}

// revive runs a query again that was stopped or has failed. f changes its record too.
func (r *reign) revive(ctx context.Context, q *query, f func(*record)) (*query, error) {
	name := q.record().Name
	release, err := r.claim(q, name)
	if err != nil {
		return nil, err
	}
	defer release()
	written, err := r.reserve(q, name, q.record().Outputs)
	if err != nil {
		return nil, err
	}
	defer written()
	select {
	case <-q.over: // it has just ended
	case <-ctx.Done():
		return nil, api.Errorf(api.Unavailable, "query %q does not answer at the moment", name)
	}
	next := newQuery(r, q.id)
	q.mu.Lock()
	next.rec, next.version = q.rec, q.version
	q.mu.Unlock()
	q.keeps.Lock() // a history of before must not be stored behind those that come
	defer q.keeps.Unlock()
	next.watch.inherit(q.watch)
	if err := next.change(ctx, func(r *record) {
		f(r)
		r.State, r.Error, r.Ended = api.Running, "", time.Time{}
	}); err != nil {
		return nil, api.Errorf(api.Unavailable, "the query cannot be resumed: %v", err)
	}
	r.mu.Lock()
	r.queries[name] = next
	r.mu.Unlock()
	q.watch.mu.Lock()
	q.watch.stored = unkept
	q.watch.mu.Unlock()
	r.start(next)
	return next, nil
}

// claim makes sure that nobody else revives, replaces or forgets a query that does not run until release.
func (r *reign) claim(q *query, name string) (release func(), err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.busy[name] || r.queries[name] != q {
		return nil, api.Errorf(api.Unavailable, "query %q is being changed; try again", name)
	}
	r.busy[name] = true
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.busy, name)
	}, nil
}

// quiet brings all queries to a checkpoint, if their workers end with this process, and waits until they are there, now is
// done, or it has taken too long.
func (r *reign) quiet(now <-chan struct{}) {
	r.mu.Lock()
	clusters := r.clusters
	r.mu.Unlock()
	if clusters == nil || clusters.Outlive() {
		return
	}
	late := time.After(quietTime)
	for _, q := range r.all() {
		q.leave()
	}
	for _, q := range r.all() {
		select {
		case <-q.over:
		case <-r.ctx.Done():
			return
		case <-now:
			return
		case <-late:
			r.s.o.Log.Warn("not all queries have come to a checkpoint; they will go on from their last one")
			return
		}
	}
}

// leave brings the query to a checkpoint, from which the next scheduler goes on.
func (q *query) leave() {
	q.mu.Lock()
	q.leaving = true
	q.mu.Unlock()
	q.tell()
}
