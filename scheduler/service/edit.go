package service

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"sluice/dataflow"
	"sluice/executor"
	"sluice/scheduler"
	"sluice/scheduler/api"
	"sluice/scheduler/edit"
	"sluice/scheduler/store"
)

// A query is edited in these steps, after each of which its scheduler may end:
//
//  1. The edit is stored with the query (record.Edit). From then on whoever leads finishes it or takes it back.
//  2. The query is stopped at an epoch, with a checkpoint. If it cannot have come to one, as after a crash, it does
//     again what its sinks have written, and stops there.
//  3. When none of its workers is left its checkpoint is converted. What is written lies beside what there was.
//  4. The record of the core of the edited query is stored, under another name (record.Core).
//  5. The record of the query is stored: submission, graph and core are those of the edited one, and the edit is over.
//
// Before 5 the query is what it was, and after an error it goes on so: the edit is refused.

// edited is an edit that is under way.
type edited struct {
	Submission *api.Submission `json:"submission"`
	AllowDrop  bool            `json:"allowDrop,omitempty"`
	Asked      time.Time       `json:"asked"`
	Outputs    []Output        `json:"outputs,omitempty"` // that it is to have
	// What the query was before, to be that again if the edit is refused.
	Failure string `json:"failure,omitempty"`
	Stopped bool   `json:"stopped,omitempty"`
}

// refuse notes that the edit that is under way is refused.
func (r *record) refuse(why string) {
	now := time.Now().UTC()
	r.LastEdit = &api.Edit{State: api.EditRefused, Asked: r.Edit.Asked, Ended: &now, Reason: why}
	r.Edit = nil
}

func shapeOf(c *Compiled) *executor.Shape {
	shape := executor.ShapeOf(c.Config.Query)
	return &shape
}

// refuse takes the edit back; what it returns is for the end of an attempt.
func (q *query) refuse(why string) error {
	e := q.record().Edit
	if e == nil {
		return errAgain
	}
	q.caughtUp = false
	if err := q.change(q.r.ctx, func(r *record) {
		if r.Edit != nil {
			r.refuse(why)
		}
	}); err != nil {
		return err
	}
	q.watch.event(api.EventEdit, nil, "the edit is refused: %s", why)
	switch {
	case e.Failure != "":
		return &ending{state: api.Failed, why: e.Failure}
	case e.Stopped:
		return &ending{state: api.Stopped}
	}
	return errAgain
}

// edit makes the query the edited one. old is nil if the query cannot be run any more as it was, for the reason oldErr.
// Without an error the query is first to be run as it was.
func (q *query) edit(a *attempt, old *Compiled, oldErr error) error {
	if err := q.alone(a, nil); err != nil {
		return err
	}
	e := a.rec.Edit
	n, err := q.convert(a, old, e.Submission, e.AllowDrop)
	switch {
	case err != nil:
		return q.refuse(err.Error())
	case n.left && old == nil:
		return q.refuse(fmt.Sprintf("what has been written after the last checkpoint is of the query as it was, which cannot be run any more: %v", oldErr))
	case n.left && (q.caughtUp || n.catchUp == nil):
		return q.refuse("the query does not come to a checkpoint; see its alerts, mend what keeps it from one, and edit it again")
	case n.left:
		q.catchUp = n.catchUp
		return nil
	}
	n.report.Asked = e.Asked
	return q.become(a, n)
}

// errRegraph is why a query cannot be run any more as it was, if its submission can.
var errRegraph = errors.New("the graph of the spec is not what it was, since a file of rules or the release has changed")

// regraph goes on with a query that cannot be run any more as it was: as the edited one, or under the graph that its
// submission has now.
func (q *query) regraph(a *attempt, why error) error {
	back := func(err error) error {
		return fmt.Errorf("%w: %w; put it back, or cancel the query", why, err)
	}
	if !q.rests && !a.place.Fresh && a.saved != nil {
		if err := q.endWorkers(a); err != nil {
			return err
		}
	}
	if a.rec.Edit != nil {
		return q.edit(a, nil, why)
	}
	if err := q.alone(a, nil); err != nil {
		return err
	}
	n, err := q.convert(a, nil, a.rec.Submission, false)
	switch {
	case err != nil:
		return back(err)
	case n.left:
		return back(errors.New("what has been written after the last checkpoint is of the graph as it was, which has to do that again first"))
	}
	n.report.Asked, n.report.Reason = time.Now().UTC(), why.Error()
	return q.become(a, n)
}

// endWorkers ends workers of an earlier scheduler, which this release does not know what to tell.
func (q *query) endWorkers(a *attempt) error {
	if q.ending == nil {
		cluster, err := a.place.Cluster(a.place.Listen)
		if err != nil {
			return err
		}
		cluster.Close(0)
		q.ending = cluster
	}
	if err := q.alone(a, q.ending); err != nil {
		return err
	}
	q.ending, q.rests = nil, true
	return nil
}

// converted is what a query is to become.
type converted struct {
	submission *api.Submission
	replicas   map[string]int
	compiled   *Compiled
	core       *scheduler.Record // nil: the one that there is
	report     api.Edit

	left    bool // the query as it was has something left to do
	catchUp *scheduler.StopRequest
}

// convert makes what the query has left that of the edited one. Nothing of it runs.
func (q *query) convert(a *attempt, old *Compiled, sub *api.Submission, allowDrop bool) (*converted, error) {
	n := &converted{submission: sub, report: api.Edit{State: api.EditDone}}
	var err error
	if n.compiled, err = q.compile(sub, nil); err != nil {
		return nil, err
	}
	was := edit.Stopped{
		Record: a.saved, Store: a.core.Store, Build: n.compiled.Build, OpenSource: n.compiled.OpenSource(a.rec.Dir),
	}
	if was.Record == nil {
		was.Record = &scheduler.Record{}
	}
	switch {
	case a.rec.Shape != nil:
		was.Was = *a.rec.Shape
	case old != nil:
		was.Was = *shapeOf(old)
	default:
		return nil, errors.New("another release has stored the query, which says nothing of its state")
	}
	if n.replicas, err = was.Replicas(); err != nil {
		return nil, err
	}
	if len(n.replicas) > 0 {
		if n.compiled, err = q.compile(sub, n.replicas); err != nil {
			return nil, err
		}
	}
	lost := q.unsaved()
	if n.compiled.Deploy.Graph == a.rec.Graph && len(lost) == 0 {
		n.replicas = a.rec.Replicas
		return n, nil
	}
	sinks := n.compiled.Config.Query
	if old != nil {
		sinks = old.Config.Query
	}
	if n.left, err = was.Left(sinks); err != nil || n.left {
		n.catchUp = was.CatchUp()
		return n, err
	}
	target := edit.Target{Query: n.compiled.Config.Query, Changed: func(c executor.Change) error {
		if was.Record.Checkpoint > 0 {
			c.Dropped = append(c.Dropped, lost...)
		}
		return n.changed(c, allowDrop)
	}}
	if sameQuery(sub, a.rec.Submission) {
		target.Catalog = q.r.s.o.Catalog
	}
	result, err := was.Convert(target)
	if err != nil {
		return nil, err
	}
	n.core, n.report.Unset = result.Record, result.Unset
	return n, nil
}

// sameQuery tells whether two submissions have the same spec with the same values, so that what was set while it ran
// holds for both.
func sameQuery(a, b *api.Submission) bool {
	return a.Spec == b.Spec && slices.Equal(a.Set, b.Set) && reflect.DeepEqual(a.Env, b.Env)
}

// unsaved is the state of a query without checkpoints.
func unsaved(was executor.Shape) []executor.Dropped {
	var list []executor.Dropped
	for _, op := range was.Operators {
		if op.Stateful {
			list = append(list, executor.Dropped{Operator: op.Name, Why: "the query has no checkpoints"})
		}
	}
	return list
}

// changed notes how the state fits. That some is dropped is an error without consent.
func (n *converted) changed(c executor.Change, allowDrop bool) error {
	n.report.Kept, n.report.New = c.Kept, c.New
	var lines []string
	for _, d := range c.Dropped {
		n.report.Dropped = append(n.report.Dropped, api.Dropped(d))
		lines = append(lines, fmt.Sprintf("operator %q: %s", d.Operator, d.Why))
	}
	if len(lines) > 0 && !allowDrop {
		return fmt.Errorf("state of it would be lost: %s; it may be dropped with allowDrop (sluice submit --replace --allow-drop)", strings.Join(lines, "; "))
	}
	return nil
}

// become makes the query what it has been converted to.
func (q *query) become(a *attempt, n *converted) error {
	core := a.rec.Core
	if n.core != nil {
		core++
		text, err := json.Marshal(savedCore{n.core, q.watch.countsAt(n.core.Checkpoint)})
		if err != nil {
			return err
		}
		// One that is there already is of an edit that has come no further.
		_, version, err := q.r.store.Get(q.r.ctx, corePath(q.id, core))
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return err
		}
		if _, err := q.r.put(q.r.ctx, corePath(q.id, core), text, version); err != nil {
			return err
		}
	}
	now := time.Now().UTC()
	n.report.Ended = &now
	err := q.change(q.r.ctx, func(r *record) {
		r.Submission, r.Graph, r.Shape, r.Replicas = n.submission, n.compiled.Deploy.Graph, shapeOf(n.compiled), n.replicas
		r.Revision++
		r.Core, r.Edit, r.LastEdit, r.Outputs = core, nil, &n.report, n.compiled.Outputs
	})
	if err != nil {
		return err
	}
	q.rests, q.caughtUp = true, false
	q.watch.event(api.EventEdit, nil, "the query is edited: %s", editText(&n.report))
	if core != a.rec.Core {
		q.forgetCore(a.rec.Core)
	}
	return errAgain
}

// editText says what has become of the state of a query that has been edited.
func editText(e *api.Edit) string {
	var parts []string
	add := func(names []string, what string) {
		if len(names) > 0 {
			parts = append(parts, strings.Join(names, ", ")+" "+what)
		}
	}
	if e.Reason != "" {
		parts = append(parts, e.Reason)
	}
	add(e.Kept, "with state")
	add(e.New, "without state")
	var dropped []string
	for _, d := range e.Dropped {
		dropped = append(dropped, d.Operator)
	}
	add(dropped, "dropped")
	add(e.Unset, "no longer set")
	if len(parts) == 0 {
		return "there was no state"
	}
	return strings.Join(parts, "; ")
}

// forgetCore removes a record of a core that does not count any more. If that fails it goes with the query.
func (q *query) forgetCore(n int64) {
	path := corePath(q.id, n)
	_, version, err := q.r.store.Get(q.r.ctx, path)
	if err == nil {
		err = q.r.store.Delete(q.r.ctx, path, version)
	}
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		q.r.s.o.Log.Warn("what an edit has left cannot be removed", "query", q.record().Name, "error", err)
	}
}

// Replace implements api.Backend.
func (s *Service) Replace(ctx context.Context, name string, sub *api.Submission, o api.ReplaceOptions) (*api.Query, error) {
	r, err := s.leads()
	if err != nil {
		return nil, err
	}
	q, err := r.named(name)
	if err != nil {
		return nil, err
	}
	named := *sub
	if named.Name != "" && named.Name != name {
		return nil, api.Errorf(api.BadRequest, "the query is called %q and cannot be called %q", name, named.Name)
	}
	if q.damaged != nil {
		return nil, api.Errorf(api.QueryEnded, "query %q: %v", name, q.damaged)
	}
	named.Name = q.record().Submission.Name
	own, c, diags, err := r.check(&named)
	if err != nil {
		return nil, err
	}
	release, err := r.reserve(q, name, c.Outputs)
	if err != nil {
		return nil, err
	}
	defer release()
	if rec := q.record(); reflect.DeepEqual(own, rec.Submission) && rec.State == api.Running && rec.Edit == nil {
		d := q.describe()
		d.Edit, d.Diagnostics = nil, api.Diagnostics(diags) // there is nothing to do
		return d, nil
	}
	e := &edited{Submission: own, AllowDrop: o.AllowDrop, Asked: time.Now().UTC(), Outputs: c.Outputs}
	if q, err = q.begins(ctx, e, o.Revision); err != nil {
		return nil, err
	}
	release() // its record says it
	return q.edits(ctx, e, diags)
}

// begins stores an edit, and starts a query that does not run.
func (q *query) begins(ctx context.Context, e *edited, revision *int64) (*query, error) {
	if err := q.record().is(revision); err != nil {
		return nil, err
	}
	if err := q.foresee(e); err != nil {
		return nil, err
	}
	if rec := q.record(); api.Resumable(rec.State) {
		e.Failure, e.Stopped = rec.Error, rec.State == api.Stopped
		return q.r.revive(ctx, q, func(r *record) { r.Edit = e })
	}
	var refused *api.Error
	err := q.change(ctx, func(r *record) {
		switch {
		case r.State != api.Running:
			refused = api.Errorf(api.QueryEnded, "query %q is %s, and cannot be edited", r.Name, r.State)
		case r.Edit != nil:
			refused = api.Errorf(api.BadEdit, "another edit of query %q is under way", r.Name)
		default:
			if refused = r.is(revision); refused == nil {
				r.Edit = e
			}
		}
	})
	switch {
	case refused != nil:
		return nil, refused
	case err != nil:
		return nil, api.Errorf(api.Unavailable, "the edit cannot be stored: %v", err)
	}
	q.watch.event(api.EventEdit, nil, "the query is being edited")
	q.tell()
	return q, nil
}

// is refuses an edit that is for another revision of the query, unless it is for any.
func (r record) is(revision *int64) *api.Error {
	if revision == nil || *revision == r.Revision {
		return nil
	}
	return api.Errorf(api.BadEdit, "query %q has been edited: it has revision %d, and not %d", r.Name, r.Revision, *revision)
}

// editPause is how long a call waits before it looks again how an edit goes.
const editPause = 10 * time.Millisecond

// edits waits until an edit is over, if that does not take too long.
func (q *query) edits(ctx context.Context, e *edited, diags dataflow.Diagnostics) (*api.Query, error) {
	ctx, cancel := context.WithTimeout(ctx, editTime)
	defer cancel()
	for {
		rec := q.record()
		last := rec.LastEdit
		switch {
		case rec.Edit == nil && last != nil && last.Asked.Equal(e.Asked) && last.State == api.EditRefused:
			return nil, api.Errorf(api.BadEdit, "%s", last.Reason)
		case rec.Edit == nil || ctx.Err() != nil:
			d := q.describe()
			d.Diagnostics = api.Diagnostics(diags)
			return d, nil
		}
		select {
		case <-q.r.ctx.Done():
			return nil, api.Errorf(api.Unavailable, "this scheduler leads no longer; the next one goes on with the edit of query %q", rec.Name)
		case <-ctx.Done():
		case <-time.After(editPause):
		}
	}
}
