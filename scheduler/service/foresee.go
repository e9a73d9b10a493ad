package service

import (
	"sluice/executor"
	"sluice/scheduler/api"
)

// foresee refuses an edit that would lose state, before the query is stopped for it. What it lets pass may still be
// refused when there is the state to look at.
func (q *query) foresee(e *edited) error {
	rec := q.record()
	if e.AllowDrop || rec.Shape == nil {
		return nil
	}
	if lost := q.unsaved(); len(lost) > 0 {
		return api.Errorf(api.BadEdit, "%v", (&converted{}).changed(executor.Change{Dropped: lost}, false))
	}
	if !q.watch.completes() {
		return nil
	}
	old, err := q.compile(rec.Submission, rec.Replicas)
	if err != nil || old.Deploy.Graph != rec.Graph {
		return nil // the edit may be what it needs
	}
	next, err := q.compile(e.Submission, rec.Shape.Unmovable())
	if err != nil {
		return api.Errorf(api.BadEdit, "%v", err)
	}
	change, err := executor.Foresee(old.Config.Query, next.Config.Query, next.Build)
	if err == nil {
		err = (&converted{}).changed(change, false)
	}
	if err != nil {
		return api.Errorf(api.BadEdit, "%v", err)
	}
	return nil
}

// unsaved is the state that a query without checkpoints loses when it is stopped.
func (q *query) unsaved() []executor.Dropped {
	rec := q.record()
	if rec.Submission.Checkpoint != "off" || rec.Shape == nil {
		return nil
	}
	return unsaved(*rec.Shape)
}

// completes tells whether a checkpoint has been completed, so that there is state of all operators.
func (w *watch) completes() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.checkpoint > 0
}
