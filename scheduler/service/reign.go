package service

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"sluice/scheduler/api"
	"sluice/scheduler/shell"
	"sluice/scheduler/store"
)

// reign is the time for which this process leads, with all queries.
type reign struct {
	s        *Service
	term     int64
	store    store.Store // of the leader
	clusters Clusters
	ctx      context.Context // done when it is over, with the cause shell.ErrLeave
	cancel   context.CancelCauseFunc
	over     sync.WaitGroup // goroutines
	leaving  atomic.Bool    // it is about to end, and takes no requests

	mu      sync.Mutex
	queries map[string]*query // by name
	busy    map[string]bool   // names of queries that do not run and are being changed
	last    int64             // number of the last id

	reserved map[*reservation]bool
}

// newReign begins a reign, which ends in order when ctx is done, and at once when now is.
func newReign(ctx, now context.Context, s *Service, l store.Leadership) *reign {
	r := &reign{s: s, term: l.Term(), store: l.Store(), queries: map[string]*query{}, busy: map[string]bool{}, reserved: map[*reservation]bool{}}
	r.ctx, r.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	r.over.Go(func() {
		select {
		case <-l.Lost():
		case <-now.Done():
		case <-ctx.Done():
			r.leaving.Store(true)
			r.quiet(now.Done())
		case <-r.ctx.Done():
		}
		r.cancel(shell.ErrLeave)
	})
	return r
}

// begin takes over all queries.
func (r *reign) begin() error {
	r.s.ring.Begin(r.term)
	ids, err := r.load()
	if err != nil {
		return err
	}
	clusters, err := r.s.o.Clusters(r.ctx, r.store)
	if err != nil {
		return err
	}
	r.mu.Lock()
	r.clusters = clusters
	r.mu.Unlock()
	r.clusters.Retain(ids)
	r.over.Go(func() {
		select {
		case <-r.clusters.Lost():
			r.cancel(shell.ErrLeave)
		case <-r.ctx.Done():
		}
	})
	r.over.Go(r.keep)
	r.s.event(api.EventLeader, "", nil, "the scheduler at %s leads, term %d", r.s.o.URL, r.term)
	for _, q := range r.all() {
		r.takeOver(q)
	}
	r.sweep()
	return nil
}

// takeOver goes on with a query as it is stored.
func (r *reign) takeOver(q *query) {
	switch q.state() {
	case api.Finished, api.Cancelled:
		removeState(r.s.o.Log, q.record().Dir) // an earlier leader may not have come to it
		close(q.over)
	case api.Failed, api.Stopped:
		close(q.over)
	default:
		r.start(q)
	}
	if q.damaged != nil {
		q.watch.event(api.EventFailed, nil, "the query has failed: %v", q.damaged)
	}
}

// end waits until nothing runs here any more.
func (r *reign) end() {
	r.cancel(shell.ErrLeave)
	r.over.Wait()
	if r.clusters != nil {
		r.clusters.Close()
	}
}

// load reads all queries, and gives the ids of those that run.
func (r *reign) load() ([]string, error) {
	ids, err := r.store.List(r.ctx, queriesPath)
	if err != nil {
		return nil, err
	}
	var running []string
	for _, id := range ids {
		q, err := r.read(id)
		if err != nil {
			return nil, err
		}
		if q == nil {
			continue
		}
		if other := r.queries[q.rec.Name]; other != nil {
			// Its successor was stored, and it has not been forgotten yet.
			if newer(other.id, q.id) {
				q, other = other, q
			}
			if err := r.forget(other); err != nil {
				r.s.o.Log.Warn("an earlier query of a name cannot be forgotten", "query", other.rec.Name, "id", other.id, "error", err)
			}
		}
		r.queries[q.rec.Name] = q
	}
	var events []api.Event
	for _, q := range r.queries {
		if err := q.readHistory(); err != nil {
			return nil, err
		}
		events = append(events, q.watch.events...)
		if !api.Ended(q.rec.State) && q.rec.State != api.Cancelling {
			running = append(running, q.id)
		}
	}
	r.s.ring.Restore(events)
	slices.Sort(running)
	return running, nil
}

// read reads a query; nil if nothing but the record of a core is left of it.
func (r *reign) read(id string) (*query, error) {
	text, version, err := r.store.Get(r.ctx, queryPath(id))
	switch {
	case errors.Is(err, store.ErrNotFound):
		return nil, nil
	case errors.Is(err, store.ErrDamaged):
		return r.damagedQuery(id, err), nil
	case err != nil:
		return nil, err
	}
	q := newQuery(r, id)
	err = json.Unmarshal(text, &q.rec)
	if err == nil {
		err = q.rec.check(id)
	}
	if err != nil {
		q = r.damagedQuery(id, err)
	}
	q.version = version
	return q, nil
}

// put stores a value in the place of the one with this version. If it is not known whether that has happened, it looks.
func (r *reign) put(ctx context.Context, path string, text []byte, version int64) (int64, error) {
	next, err := r.store.Put(ctx, path, text, version)
	if err == nil || errors.Is(err, store.ErrNotLeader) || errors.Is(err, store.ErrPath) {
		return next, err
	}
	ctx, cancel := context.WithTimeout(r.ctx, askTime)
	defer cancel()
	found, version, getErr := r.store.Get(ctx, path)
	switch {
	case getErr == nil && bytes.Equal(found, text):
		return version, nil // it is there after all
	case getErr == nil || errors.Is(getErr, store.ErrNotFound):
		return 0, err
	}
	return 0, fmt.Errorf("%w (%w)", err, getErr)
}

// all are all queries, by name.
func (r *reign) all() []*query {
	r.mu.Lock()
	defer r.mu.Unlock()
	var list []*query
	for _, q := range r.queries {
		list = append(list, q)
	}
	slices.SortFunc(list, func(a, b *query) int { return strings.Compare(a.record().Name, b.record().Name) })
	return list
}

// named finds a query.
func (r *reign) named(name string) (*query, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if q := r.queries[name]; q != nil {
		return q, nil
	}
	return nil, api.Errorf(api.UnknownQuery, "there is no query %q", name)
}

// add takes a new query, if its name is free.
func (r *reign) add(q *query) (before *query, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	before = r.queries[q.rec.Name]
	if before != nil && !api.Ended(before.state()) {
		return nil, api.Errorf(api.QueryExists, "a query %q runs already", q.rec.Name)
	}
	if before != nil && before.state() == api.Stopped {
		return nil, api.Errorf(api.QueryExists, "a query %q is stopped, and its state is kept; resume, replace or cancel it", q.rec.Name)
	}
	if r.busy[q.rec.Name] {
		return nil, api.Errorf(api.Unavailable, "query %q is being changed; try again", q.rec.Name)
	}
	if running := r.running(q); running >= r.s.o.MaxQueries {
		return nil, api.Errorf(api.TooMany, "%d queries run already", running)
	}
	if err := r.free(q, q.rec.Outputs); err != nil {
		return nil, err
	}
	r.queries[q.rec.Name] = q
	return before, nil
}

// drop takes a query out of the list, or puts the one before back in its place.
func (r *reign) drop(q, before *query) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.queries[q.rec.Name] != q {
		return
	}
	delete(r.queries, q.rec.Name)
	if before != nil {
		r.queries[q.rec.Name] = before
	}
}

// newID is an id that no query has had.
func (r *reign) newID(name string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last++
	return fmt.Sprintf("%s.%d.%d", name, r.term, r.last)
}

// forget removes all that there is of a query that does not run.
func (r *reign) forget(q *query) error {
	removeState(r.s.o.Log, q.record().Dir)
	q.mu.Lock()
	version := q.version
	q.mu.Unlock()
	err := r.store.Delete(r.ctx, queryPath(q.id), version)
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	return err
}

// mostEnded is how many queries that have ended are kept.
const mostEnded = 200

// prune forgets the queries that ended first if there are too many that have ended.
func (r *reign) prune() {
	ended := r.all()
	ended = slices.DeleteFunc(ended, func(q *query) bool { return !api.Ended(q.state()) || q.state() == api.Stopped || q.damaged != nil })
	slices.SortFunc(ended, func(a, b *query) int { return a.record().Ended.Compare(b.record().Ended) })
	for _, q := range ended[:max(0, len(ended)-mostEnded)] {
		if err := r.forget(q); err != nil {
			r.s.o.Log.Warn("a query that has ended cannot be forgotten", "query", q.record().Name, "error", err)
			continue
		}
		r.drop(q, nil)
	}
}

func removeState(log *slog.Logger, dir string) {
	if err := os.RemoveAll(dir); err != nil {
		log.Warn("a state directory cannot be removed", "dir", dir, "error", err)
	}
}

// start runs a query on a goroutine of its own.
func (r *reign) start(q *query) { r.over.Go(q.run) }

// retryFirst and retryLast are the shortest and longest pause before a query that could not run is tried
// again.
const (
	retryFirst = time.Second
	retryLast  = 30 * time.Second
)
