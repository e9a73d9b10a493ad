package service

import (
	"cmp"
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
	watch    *watch

	saving sync.Mutex // held while the record is changed and stored
	keeps  sync.Mutex // held while the history is stored

	damaged error // why its record cannot be read; nil if it can

	mu      sync.Mutex
	rec     record
	version int64 // of the record in the store
	trouble string
	stop    chan scheduler.StopRequest // of the shell that runs; nil for none
	leaving bool                       // it is to come to a checkpoint, since this process is about to end
	shells  bool                       // there is a shell, which takes requests

	// Of the goroutine of run.
	rests    bool                   // it has been stopped here: what is left of its workers is being ended
	ending   shell.Cluster          // of workers of an earlier scheduler that are being ended; nil for none
	catchUp  *scheduler.StopRequest // the next run is to do what is left, and to stop
	caughtUp bool                   // the last one has

	wake chan struct{} // has an element if a pause is to end
}

func newQuery(r *reign, id string) *query {
	q := &query{r: r, id: id, over: make(chan struct{}), requests: make(chan shell.Request), wake: make(chan struct{}, 1)}
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
	if q.damaged != nil {
		return q.damaged
	}
	q.mu.Lock()
	next, version := q.rec, q.version
	q.mu.Unlock()
	f(&next)
	text, err := json.Marshal(next)
	if err != nil {
		return err
	}
	if version, err = q.r.put(ctx, queryPath(q.id), text, version); err != nil {
		q.reread()
		return err
	}
	q.mu.Lock()
	q.rec, q.version = next, version
	q.mu.Unlock()
	return nil
}

// reread reads what is stored after a change that has failed, which may have happened later all the same. Only the
// leader writes here, so that whatever is there counts.
func (q *query) reread() {
	text, version, err := q.r.store.Get(q.r.ctx, queryPath(q.id))
	var rec record
	if err != nil || json.Unmarshal(text, &rec) != nil {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.rec, q.version = rec, version
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
		case errors.Is(err, errAgain):
			continue
		case errors.Is(err, errLeft):
			q.keep(q.r.ctx)
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
		case <-q.wake:
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

// What an attempt may end with that is no fault.
var (
	errAgain = errors.New("the query is to be tried again at once")
	errLeft  = errors.New("the query is left to the next scheduler")
)

// attempt runs the query as far as it comes. An error that is none of the above is of the moment.
func (q *query) attempt() error {
	rec := q.record()
	switch {
	case rec.State == api.Cancelling:
		return &ending{state: api.Cancelled}
	case q.ctx.Err() != nil:
		return q.ctx.Err()
	case q.leaves():
		return errLeft
	}
	// Opened once as the coordinator it is there. The leadership says who uses it, wherever the lock of
	// an earlier leader may still be.
	tasks, err := shared.Open(rec.Dir, shared.Options{Fsync: fsyncModes[rec.Submission.Fsync]})
	if err != nil {
		return err
	}
	defer tasks.Close()
	core := &coreStore{Store: tasks, ctx: q.r.ctx, store: q.r.store, path: corePath(q.id, rec.Core), counts: q.watch.countsAt}
	saved, err := core.load()
	if err != nil {
		return err
	}
	if saved != nil && saved.Finished {
		return &ending{state: api.Finished}
	}
	place, err := q.r.clusters.Place(q.ctx, PlaceOptions{ID: q.id, State: rec.Dir})
	if err != nil {
		return err
	}
	defer place.Close()
	if place.Fresh {
		q.watch.resumes(core.found)
	}
	return q.goOn(&attempt{q: q, rec: rec, core: core, saved: saved, place: place})
}

// attempt is what an attempt has to run the query.
type attempt struct {
	q     *query
	rec   record
	core  *coreStore
	saved *scheduler.Record // nil if the query has never run
	place *Place
}

// goOn goes on with a query: by an edit, if one is asked for or needed and nothing of the query runs, or as it is.
func (q *query) goOn(a *attempt) error {
	rests := q.rests || a.place.Fresh || a.saved == nil
	if a.rec.State == api.Stopping && rests {
		return &ending{state: api.Stopped}
	}
	c, err := q.compile(a.rec.Submission, a.rec.Replicas)
	switch {
	case err == nil && c.Deploy.Graph != a.rec.Graph:
		c, err = nil, q.regraph(a, errRegraph)
	case err != nil && a.rec.Edit != nil:
		c, err = nil, q.regraph(a, err)
	case a.rec.Edit != nil && rests && q.catchUp == nil:
		err = q.edit(a, c, nil)
	}
	if err != nil {
		return err
	}
	if a.rec.Outputs == nil && len(c.Outputs) > 0 { // a release that did not know them has stored the query
		release, err := q.r.reserve(q, a.rec.Name, c.Outputs)
		if err != nil {
			return err
		}
		err = q.change(q.r.ctx, func(r *record) { r.Outputs = c.Outputs })
		release()
		if err != nil {
			return err
		}
	}
	// Options of the cluster may have changed since the query was submitted.
	if err := checkTasks(q.r.clusters, c.Config.Query.Tasks); err != nil {
		return err
	}
	return q.runOn(a, c)
}

// compile compiles a submission.
func (q *query) compile(sub *api.Submission, replicas map[string]int) (*Compiled, error) {
	c, diags, err := q.r.s.o.Compile(sub, replicas)
	switch {
	case err != nil:
		return nil, err
	case diags.HasErrors():
		return nil, errors.New(diags.Error())
	}
	return c, nil
}

// runOn runs the query on workers.
func (q *query) runOn(a *attempt, c *Compiled) error {
	isNew := a.saved == nil
	c.Config.Gather = a.place.Gather.Microseconds()
	c.Deploy.State, c.Deploy.Spill = a.rec.Dir, a.place.Spill
	if q.catchUp != nil {
		c.Config.Checkpoints = true // what is left is to come to a checkpoint
	}
	o := shell.Options{
		Config: c.Config, StartLimit: a.place.StartLimit, Fresh: a.place.Fresh, Adopt: !a.place.Fresh && !isNew && !q.rests, Deploy: c.Deploy, Catalog: q.r.s.o.Catalog,
		Store: a.core, Transport: q.r.s.o.Transport, Listen: a.place.Listen, Cluster: a.place.Cluster, Stop: q.listen(),
		Requests: q.requests, Observer: q.watch.observer(),
	}
	q.watch.begin(c.Config.Query, a.saved)
	q.rests, q.ending = false, nil
	outcome, err := shell.Run(q.ctx, o)
	q.mu.Lock()
	q.stop, q.shells = nil, false
	q.mu.Unlock()
	caughtUp := q.catchUp != nil
	q.catchUp, q.caughtUp = nil, caughtUp
	switch {
	case err != nil && isNew && q.ctx.Err() == nil:
		return &ending{state: api.Failed, why: err.Error()}
	case err != nil:
		return err
	case outcome.Finished:
		return &ending{state: api.Finished}
	}
	q.rests = true
	return q.stopped(outcome, caughtUp)
}

// listen gives the requests to end the query to a shell.
func (q *query) listen() <-chan scheduler.StopRequest {
	stop := make(chan scheduler.StopRequest, 1)
	q.mu.Lock()
	q.stop, q.shells = stop, true
	if q.catchUp != nil {
		stop <- *q.catchUp
		q.stop = nil // it takes no other one
	}
	q.mu.Unlock()
	q.tell()
	return stop
}

// tell tells the shell to end the query, if that is wanted. Only the first request that a shell gets counts.
func (q *query) tell() {
	q.mu.Lock()
	defer q.mu.Unlock()
	select {
	case q.wake <- struct{}{}:
	default: // there is one already
	}
	var r scheduler.StopRequest
	switch {
	case q.stop == nil:
		return
	case q.rec.State == api.Draining:
		r.End = true
	case q.rec.State == api.Stopping, q.rec.Edit != nil, q.leaving:
	default:
		return
	}
	q.stop <- r
	q.stop = nil
}

func (q *query) leaves() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.leaving
}

// stopped is what comes after a run that has ended before its inputs.
func (q *query) stopped(outcome scheduler.Outcome, caughtUp bool) error {
	rec := q.record()
	switch {
	case rec.Edit != nil && caughtUp && outcome.Error != "":
		return q.refuse(fmt.Sprintf("what has been written after the last checkpoint is of the query as it was, which cannot do that again: %s", outcome.Error))
	case rec.Edit != nil && outcome.Error != "":
		// The edited query may do better.
		err := q.change(q.r.ctx, func(r *record) {
			if r.Edit != nil {
				e := *r.Edit
				e.Failure, r.Edit = outcome.Error, &e
			}
		})
		return cmp.Or(err, errAgain)
	case rec.Edit != nil:
		return errAgain
	case outcome.Error != "":
		return &ending{state: api.Failed, why: outcome.Error}
	case rec.State == api.Stopping:
		return &ending{state: api.Stopped}
	case q.leaves():
		return errLeft
	}
	return errors.New("the query has stopped before its end")
}

// finish stores how the query has ended, tells it, and removes what is of no use any more.
func (q *query) finish(e *ending) {
	for {
		err := q.change(q.r.ctx, func(r *record) {
			r.State, r.Error, r.Ended = e.state, e.why, time.Now().UTC()
			if r.Edit != nil {
				r.refuse("the query has ended: " + e.state)
			}
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
	q.watch.passedOver()
	kind, text := api.EventFinished, "the query has finished"
	switch e.state {
	case api.Failed:
		kind, text = api.EventFailed, "the query has failed: "+e.why
	case api.Cancelled:
		kind, text = api.EventCancelled, "the query has been cancelled"
	case api.Stopped:
		kind, text = api.EventStopped, "the query is stopped, and can be resumed"
	}
	q.watch.event(kind, nil, "%s", text)
	q.keep(q.r.ctx)
	if api.Resumable(e.state) {
		return // its state may be wanted
	}
	removeState(q.r.s.o.Log, q.record().Dir)
}
