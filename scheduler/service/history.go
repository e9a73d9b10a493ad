package service

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"time"

	"sluice/metaquery"
	"sluice/scheduler/api"
	"sluice/scheduler/store"
)

// history is what is stored of what has happened to a query, for the next scheduler. It may be some seconds old.
type history struct {
	Restarts int64                               `json:"restarts,omitempty"`
	Sums     map[string]metaquery.OperatorReport `json:"sums,omitempty"`
	Reports  map[string]metaquery.Report         `json:"reports,omitempty"` // their counts alone
	Alerts   []api.Alert                         `json:"alerts,omitempty"`
	Events   []api.Event                         `json:"events,omitempty"`
	// Operators are those of what ran last, with all that is counted of them, for when it runs no more.
	Operators []api.Operator `json:"operators,omitempty"`
}

func historyPath(id string) string { return queryPath(id) + "/history" }

const (
	historyTime  = 5 * time.Second        // between two histories of a query that are stored
	historyPause = 50 * time.Millisecond  // between two of any
	historyLook  = 500 * time.Millisecond // between two looks at all queries
)

// unkept is the version of a history that cannot be stored.
const unkept = -1

// keeping is when the history of a query was stored.
type keeping struct {
	stored int64 // its version
	kept   time.Time
}

// history is what is to be stored.
func (w *watch) history() history {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.changed, w.kept = false, time.Now()
	h := history{
		Restarts: w.restarts, Sums: maps.Clone(w.sums), Reports: map[string]metaquery.Report{}, Alerts: slices.Clone(w.alerts),
		Events: slices.Clone(w.events), Operators: w.operators(),
	}
	for task, r := range w.reports {
		h.Reports[task] = metaquery.Report{From: r.From, Seq: r.Seq, Base: r.Base, Begun: r.Begun, Cut: r.Cut, Operators: r.Operators, Passed: r.Passed}
	}
	return h
}

// restore takes what an earlier scheduler has stored.
func (w *watch) restore(h *history, version int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.restarts, w.alerts, w.events, w.stored, w.ran = h.Restarts, h.Alerts, h.Events, version, h.Operators
	maps.Copy(w.sums, h.Sums)
	maps.Copy(w.reports, h.Reports)
}

// due tells whether the history is to be stored again.
func (w *watch) due() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.changed && time.Since(w.kept) >= historyTime
}

// readHistory reads what is stored of a query. What cannot be read is left out: nothing depends on it.
func (q *query) readHistory() error {
	text, version, err := q.r.store.Get(q.r.ctx, historyPath(q.id))
	var h history
	switch {
	case errors.Is(err, store.ErrNotFound):
		return nil
	case errors.Is(err, store.ErrDamaged):
		version = unkept // nothing can be stored in its place
	case err != nil:
		return err
	default:
		err = json.Unmarshal(text, &h)
	}
	if err != nil {
		h = history{}
		q.r.s.o.Log.Warn("what is stored of the history of a query cannot be read, and is left out", "query", q.rec.Name, "value", historyPath(q.id), "error", err)
	}
	q.watch.restore(&h, version)
	return nil
}

// keep stores the history of the query.
func (q *query) keep(ctx context.Context) {
	q.keeps.Lock()
	defer q.keeps.Unlock()
	text, err := json.Marshal(q.watch.history())
	if err == nil {
		q.watch.mu.Lock()
		version := q.watch.stored
		q.watch.mu.Unlock()
		if version == unkept {
			return
		}
		version, err = q.putHistory(ctx, text, version)
		q.watch.mu.Lock()
		if err == nil {
			q.watch.stored = version
		} else {
			q.watch.changed = true
		}
		q.watch.mu.Unlock()
	}
	if err != nil && ctx.Err() == nil {
		q.r.s.o.Log.Warn("the history of a query cannot be stored", "query", q.record().Name, "error", err)
	}
}

// putHistory stores a history. Where another one is there than was known, as after a change of unknown fate that has happened
// later, it takes its place: only the leader writes here.
func (q *query) putHistory(ctx context.Context, text []byte, version int64) (int64, error) {
	next, err := q.r.put(ctx, historyPath(q.id), text, version)
	if !errors.Is(err, store.ErrVersion) {
		return next, err
	}
	_, version, getErr := q.r.store.Get(ctx, historyPath(q.id))
	if getErr != nil && !errors.Is(getErr, store.ErrNotFound) {
		return 0, errors.Join(err, getErr)
	}
	return q.r.put(ctx, historyPath(q.id), text, version)
}

// keep stores the histories of queries that go on, again and again.
func (r *reign) keep() {
	tick := time.NewTicker(historyLook)
	defer tick.Stop()
	for {
		select {
		case <-r.ctx.Done():
			return
		case <-tick.C:
		}
		for _, q := range r.all() {
			if api.Ended(q.state()) || !q.watch.due() {
				continue
			}
			q.keep(r.ctx)
			select {
			case <-r.ctx.Done():
				return
			case <-time.After(historyPause):
			}
		}
	}
}
