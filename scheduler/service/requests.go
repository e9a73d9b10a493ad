package service

import (
	"context"
	"errors"
	"strconv"
	"time"

	"sluice/metaquery"
	"sluice/scheduler/api"
	"sluice/scheduler/shell"
)

const (
	askTime    = 2 * time.Second  // for the store or a shell to answer
	cancelTime = 20 * time.Second // for all workers of a query to end
	editTime   = 50 * time.Second // for an edit
	quietTime  = 10 * time.Second // for all queries to come to a checkpoint
)

// describe is the query as it is known without asking.
func (q *query) describe() *api.Query {
	state := q.state()
	q.mu.Lock()
	rec, trouble := q.rec, q.trouble
	q.mu.Unlock()
	d := &api.Query{
		Name: rec.Name, State: state, Error: rec.Error, Submitted: rec.Submitted, File: rec.Submission.File,
		Dir: rec.Submission.Dir, Set: rec.Submission.Set, Partitions: rec.Submission.Partitions, Workers: rec.Submission.Workers, Revision: rec.Revision,
	}
	if !rec.Ended.IsZero() {
		d.Ended = &rec.Ended
	}
	if state == api.Starting || state == api.Draining {
		d.Error = trouble
	}
	d.Edit = rec.LastEdit
	if rec.Edit != nil {
		d.Edit = &api.Edit{State: api.EditPending, Asked: rec.Edit.Asked}
	}
	q.watch.fill(d)
	if api.Ended(state) {
		d.Tasks, d.Processes, d.Present = nil, nil, 0
	}
	if state == api.Finished {
		d.Checkpoint = api.Last
	}
	return d
}

// look describes the query after it has been asked how it is. If it does not answer in time, the last answer
// counts.
func (q *query) look(ctx context.Context) *api.Query {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	q.mu.Lock()
	shells := q.shells
	q.mu.Unlock()
	if !shells {
		return q.describe()
	}
	if a, err := q.ask(ctx, nil); err == nil && a.Status != nil {
		q.watch.mu.Lock()
		q.watch.status = a.Status
		q.watch.mu.Unlock()
	}
	return q.describe()
}

// ask asks the shell, or sets something.
func (q *query) ask(ctx context.Context, set *metaquery.Tuple) (shell.Response, error) {
	if api.Ended(q.state()) {
		return shell.Response{}, shell.ErrEnded
	}
	answer := make(chan shell.Response, 1)
	select {
	case q.requests <- shell.Request{Set: set, Answer: answer}:
	case <-q.over:
		return shell.Response{}, shell.ErrEnded
	case <-ctx.Done():
		return shell.Response{}, context.Cause(ctx)
	}
	select {
	case a := <-answer:
		return a, a.Err
	case <-ctx.Done():
		return shell.Response{}, context.Cause(ctx)
	}
}

// Queries implements api.Backend.
func (s *Service) Queries(ctx context.Context) ([]api.Query, error) {
	r, err := s.leads()
	if err != nil {
		return nil, err
	}
	all := r.all()
	list := make([]api.Query, len(all))
	done := make(chan struct{}, len(all))
	for i, q := range all {
		go func() {
			list[i] = *q.look(ctx)
			done <- struct{}{}
		}()
	}
	for range all {
		<-done
	}
	return list, nil
}

// find is a query of the leader.
func (s *Service) find(name string) (*query, error) {
	r, err := s.leads()
	if err != nil {
		return nil, err
	}
	return r.named(name)
}

// Query implements api.Backend.
func (s *Service) Query(ctx context.Context, name string) (*api.Query, error) {
	q, err := s.find(name)
	if err != nil {
		return nil, err
	}
	return q.look(ctx), nil
}

// Submission implements api.Backend.
func (s *Service) Submission(_ context.Context, name string) (*api.Submission, error) {
	q, err := s.find(name)
	if err != nil {
		return nil, err
	}
	if q.damaged != nil {
		return nil, api.Errorf(api.QueryEnded, "query %q: %v", name, q.damaged)
	}
	return q.record().Submission, nil
}

// Cancel implements api.Backend.
func (s *Service) Cancel(ctx context.Context, name string) (*api.Query, error) {
	q, err := s.find(name)
	if err != nil {
		return nil, err
	}
	if api.Ended(q.state()) {
		release, err := q.r.claim(q, name)
		if err != nil {
			return nil, err
		}
		defer release()
		d := q.describe()
		if err := q.r.forget(q); err != nil {
			return nil, api.Errorf(api.Unavailable, "the query cannot be forgotten: %v", err)
		}
		q.r.drop(q, nil)
		return d, nil
	}
	// Stored first: whoever leads next ends it too.
	if err := q.change(ctx, func(r *record) {
		if !api.Ended(r.State) {
			r.State = api.Cancelling
		}
	}); err != nil {
		return nil, api.Errorf(api.Unavailable, "the query cannot be cancelled: %v", err)
	}
	q.halt(errCancelled)
	return q.awaitEnd(ctx), nil
}

// Drain implements api.Backend.
func (s *Service) Drain(ctx context.Context, name string) (*api.Query, error) {
	q, err := s.find(name)
	if err != nil {
		return nil, err
	}
	ended := false
	err = q.change(ctx, func(r *record) {
		if ended = r.State != api.Running && r.State != api.Draining; !ended {
			r.State = api.Draining
		}
	})
	switch {
	case err != nil:
		return nil, api.Errorf(api.Unavailable, "the query cannot be drained: %v", err)
	case ended:
		return nil, api.Errorf(api.QueryEnded, "query %q does not run any more", name)
	}
	q.tell()
	return q.look(ctx), nil
}

// Set implements api.Backend.
func (s *Service) Set(ctx context.Context, name string, set api.Setting) (*api.SetResult, error) {
	q, err := s.find(name)
	if err != nil {
		return nil, err
	}
	a, err := q.ask(ctx, &metaquery.Tuple{Query: name, Operator: set.Operator, Param: set.Param, Value: set.Value})
	switch {
	case errors.Is(err, shell.ErrEnded):
		return nil, api.Errorf(api.QueryEnded, "query %q does not run any more", name)
	case errors.Is(err, shell.ErrUnsaved), err != nil && ctx.Err() != nil:
		return nil, api.Errorf(api.Unavailable, "query %q does not answer at the moment: %v", name, err)
	case err != nil:
		return nil, api.Errorf(api.BadSetting, "%v", err)
	}
	data := &api.EventData{Operator: set.Operator, Param: set.Param, Value: set.Value, Epoch: a.Epoch}
	when := "at once"
	if a.Epoch > 0 {
		when = "from epoch " + strconv.FormatInt(a.Epoch, 10) + " on"
	}
	q.watch.event(api.EventChange, data, "%s of %s is %q %s", set.Param, set.Operator, set.Value, when)
	return &api.SetResult{Epoch: a.Epoch}, nil
}
