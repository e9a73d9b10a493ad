package service

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"sluice/executor/state/shared"
	"sluice/scheduler"
	"sluice/scheduler/api"
	"sluice/scheduler/shell"
)

// errCancelled is the cause of the end of a query that a user has cancelled.
var errCancelled = errors.New("the query has been cancelled")

// query is a query and, while it does not have ended, the shell that runs it.
type query struct {
	r    *reign
	id   string
	ctx  context.Context // done when it is to end
	halt context.CancelCauseFunc
	over chan struct{} // closed when it does not run any more

	requests chan shell.Request
	stop     chan scheduler.StopRequest
	watch    *watch

	saving sync.Mutex // held while the record is changed and stored

	mu      sync.Mutex
	rec     record
	version int64 // of the record in the store
	trouble string
}

func newQuery(r *reign, id string) *query {
	q := &query{
		r: r, id: id, over: make(chan struct{}), requests: make(chan shell.Request),
		stop: make(chan scheduler.StopRequest, 1),
	}
	q.watch = newWatch(q)
	q.ctx, q.halt = context.WithCancelCause(r.ctx)
	return q
}

// record is what is stored of the query.
func (q *query) record() record {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.rec
}

// state is the query's state for users.
func (q *query) state() string {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.rec.State == api.Running && !q.watch.begun() {
		return api.Starting
	}
	return q.rec.State
}

// change changes the record and stores it. If that fails nothing is changed here.
func (q *query) change(ctx context.Context, f func(r *record)) error {
	q.saving.Lock()
	defer q.saving.Unlock()
	q.mu.Lock()
	next, version := q.rec, q.version
	q.mu.Unlock()
	f(&next)
	text, err := json.Marshal(next)
	if err != nil {
		return err
	}
	if version, err = q.r.store.Put(ctx, queryPath(q.id), text, version); err != nil {
		return err
	}
	q.mu.Lock()
	q.rec, q.version = next, version
	q.mu.Unlock()
	return nil
}

// run runs the query until it has ended or the reign is over.
func (q *query) run() {
	defer close(q.over)
	pause := retryFirst
	for {
		began := time.Now()
		err := guarded(q.attempt)
		var end *ending
		switch {
		case errors.As(err, &end):
			q.finish(end)
			return
		case q.ctx.Err() != nil:
			if errors.Is(context.Cause(q.ctx), errCancelled) {
				q.finish(&ending{state: api.Cancelled})
			}
			return
		}
		if time.Since(began) > time.Minute {
			pause = retryFirst
		}
		q.setTrouble(err.Error())
		q.watch.alert(fmt.Sprintf("the query cannot run at the moment, and is tried again: %v", err))
		select {
		case <-q.ctx.Done():
		case <-time.After(pause):
		}
		pause = min(2*pause, retryLast)
	}
}

// guarded turns a panic of f into an error: a fault that one query meets does not end the others.
func guarded(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("a fault in the program: %v\n%s", p, debug.Stack())
		}
	}()
	return f()
}

func (q *query) setTrouble(text string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.trouble = text
}

// ending is how a query has ended, as an error of attempt.
type ending struct {
	state string
	why   string
}

func (e *ending) Error() string { return e.why }

// attempt runs the query as far as it comes. An error that is no ending is of the moment.
func (q *query) attempt() error {
	if q.record().State == api.Cancelling {
		return &ending{state: api.Cancelled}
	}
	if q.ctx.Err() != nil {
		return q.ctx.Err()
	}
	c, err := q.compile()
	if err != nil {
		return err
	}
	// Opened once as the coordinator it is there. The leadership says who uses it, wherever the lock of
	// an earlier leader may still be.
	tasks, err := shared.Open(q.record().Dir, shared.Options{})
	if err != nil {
		return err
	}
	defer tasks.Close()
	core := &coreStore{Store: tasks, ctx: q.r.ctx, store: q.r.store, path: corePath(q.id)}
	saved, err := core.load()
	if err != nil {
		return err
	}
	if saved != nil && saved.Finished {
		return &ending{state: api.Finished}
	}
	return q.runOn(c, core, saved == nil)
}

// compile compiles the query as it was when it was submitted.
func (q *query) compile() (*Compiled, error) {
	c, diags, err := q.r.s.o.Compile(q.record().Submission)
	switch {
	case err != nil:
		return nil, err
	case diags.HasErrors():
		return nil, errors.New(diags.Error())
	case c.Deploy.Graph != q.record().Graph:
		return nil, errors.New("the graph of the spec is not what it was when the query was submitted: a file of rules or the release has changed; put it back, or cancel the query")
	}
	return c, nil
}

// runOn runs the query on workers.
func (q *query) runOn(c *Compiled, core *coreStore, isNew bool) error {
	// Options of the cluster may have changed since the query was submitted.
	if err := checkTasks(q.r.clusters, c.Config.Query.Tasks); err != nil {
		return err
	}
	place, err := q.r.clusters.Place(q.ctx, PlaceOptions{ID: q.id, State: q.record().Dir})
	if err != nil {
		return err
	}
	defer place.Close()
	c.Config.Gather = place.Gather.Microseconds()
	c.Deploy.State, c.Deploy.Spill = q.record().Dir, place.Spill
	if q.state() == api.Draining {
		q.drain()
	}
	q.watch.begin(c.Config.Query)
	outcome, err := shell.Run(q.ctx, shell.Options{
		Config: c.Config, Fresh: place.Fresh, Adopt: !place.Fresh && !isNew, Deploy: c.Deploy, Catalog: q.r.s.o.Catalog, Store: core,
		Transport: q.r.s.o.Transport, Listen: place.Listen, Cluster: place.Cluster,
		Stop: q.stop, Requests: q.requests, Observer: q.watch.observer(),
	})
	switch {
	case err != nil && isNew && q.ctx.Err() == nil:
		return &ending{state: api.Failed, why: err.Error()}
	case err != nil:
		return err
	case outcome.Error != "":
		return &ending{state: api.Failed, why: outcome.Error}
	case outcome.Finished:
		return &ending{state: api.Finished}
	}
	return errors.New("the query has stopped before its end")
}

// drain tells the shell that the inputs count as ended.
func (q *query) drain() {
	select {
	case q.stop <- scheduler.StopRequest{End: true}:
	default: // it will be told
	}
}

// finish stores how the query has ended, tells it, and removes what is of no use any more.
func (q *query) finish(e *ending) {
	for {
		err := q.change(q.r.ctx, func(r *record) {
			r.State, r.Error, r.Ended = e.state, e.why, time.Now().UTC()
		})
		if err == nil {
			break
		}
		q.r.s.o.Log.Warn("the end of a query cannot be stored", "query", q.record().Name, "error", err)
		select {
		case <-q.r.ctx.Done():
			return // the next leader finds out
		case <-time.After(retryFirst):
		}
	}
	kind, text := api.EventFinished, "the query has finished"
	switch e.state {
	case api.Failed:
		kind, text = api.EventFailed, "the query has failed: "+e.why
	case api.Cancelled:
		kind, text = api.EventCancelled, "the query has been cancelled"
	}
	q.r.s.event(kind, q.record().Name, nil, "%s", text)
	if e.state == api.Failed {
		return // its state may be wanted
	}
	removeState(q.r.s.o.Log, q.record().Dir)
}
