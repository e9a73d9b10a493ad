package service

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"sluice/dataflow"
	"sluice/dataflow/batch"
	"sluice/metaquery"
	"sluice/scheduler"
	"sluice/scheduler/api"
	"sluice/scheduler/shell"
)

const (
	mostAlerts      = 20
	mostEvents      = 100              // of a query that are stored
	alertPause      = 10 * time.Second // before the same text is an event again
	checkpointPause = time.Second      // between two events of checkpoints
)

// watch notes what happens to a query. Its methods may be called from any goroutine.
type watch struct {
	q *query

	mu         sync.Mutex
	physical   *dataflow.Physical
	running    bool            // a task has been launched or heard
	seen       map[string]bool // tasks that have been
	restarts   int64
	checkpoint int64
	completed  time.Time // when the checkpoint was heard of
	told       time.Time // when a checkpoint was an event
	alerts     []api.Alert
	status     *shell.Status // the last one
	counts
	ran      []api.Operator // operators before anything runs here
	settings []api.Setting  // that have been made while it runs
	events   []api.Event    // the last ones, but for checkpoints
	changed  bool           // something is not stored yet
	keeping
}

func newWatch(q *query) *watch {
	return &watch{q: q, counts: newCounts()}
}

// inherit takes what another watch knows of the query.
func (w *watch) inherit(from *watch) {
	from.mu.Lock()
	defer from.mu.Unlock()
	w.restarts, w.checkpoint, w.completed, w.alerts = from.restarts, from.checkpoint, from.completed, slices.Clone(from.alerts)
	w.counts, w.events, w.stored = from.counts.clone(), slices.Clone(from.events), from.stored
}

// begin notes that the query is about to run.
func (w *watch) begin(p *dataflow.Physical, saved *scheduler.Record) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if saved != nil {
		w.settings = settingsOf(saved)
	}
	w.physical, w.running, w.seen, w.status = p, false, map[string]bool{}, nil
	w.of(p)
}

// countsAt are the counts at a checkpoint.
func (w *watch) countsAt(checkpoint int64) operatorCounts {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.at(checkpoint)
}

// resumes notes the counts at the checkpoint from which everything is launched again, unless they are known from what has run
// here. Those of the history may be older.
func (w *watch) resumes(at operatorCounts) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.physical == nil && at != nil {
		w.restart(at)
	}
}

// begun tells whether something of the query runs.
func (w *watch) begun() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.running
}

// event tells what has happened to the query.
func (w *watch) event(kind string, data *api.EventData, format string, args ...any) {
	e := w.q.r.s.event(kind, w.q.record().Name, data, format, args...)
	if kind == api.EventCheckpoint {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.events = append(w.events, e)
	w.events = slices.Clone(w.events[max(0, len(w.events)-mostEvents):])
	w.changed = true
}

func (w *watch) observer() shell.Observer {
	return shell.Observer{Alert: w.alert, Reported: w.reported, Launched: w.launched, Saved: w.saved}
}

// alert notes a message for the user. What goes wrong because the query is to end is none.
func (w *watch) alert(text string) {
	if w.q.ctx.Err() != nil {
		return
	}
	now := time.Now().UTC()
	w.mu.Lock()
	again := slices.ContainsFunc(w.alerts, func(a api.Alert) bool { return a.Text == text && now.Sub(a.Time) < alertPause })
	if !again {
		w.alerts = append(w.alerts, api.Alert{Time: now, Text: text})
		w.alerts = w.alerts[max(0, len(w.alerts)-mostAlerts):]
	}
	w.mu.Unlock()
	if !again {
		w.event(api.EventAlert, nil, "%s", text)
	}
}

// heard notes that a task runs, and reports whether it is known to have run before.
func (w *watch) heard(task string) (before bool) {
	w.mu.Lock()
	first := !w.running
	w.running = true
	before = w.seen[task]
	w.seen[task] = true
	w.mu.Unlock()
	if first {
		w.q.setTrouble("")
		w.event(api.EventStarted, nil, "the query runs")
	}
	return before
}

func (w *watch) launched(l *scheduler.TaskLaunch) {
	before := w.heard(l.ID.Task)
	data := &api.EventData{Task: l.ID.Task, Worker: string(l.Worker), Generation: l.ID.Gen, Epoch: wire(l.Checkpoint)}
	task := w.physical.Task(l.ID.Task)
	if !before && (task == nil || !task.Standby) {
		w.event(api.EventLaunched, data, "task %s is launched on %s, generation %d", l.ID.Task, l.Worker, l.ID.Gen)
		return
	}
	if l.Moved != "" {
		w.event(api.EventLaunched, data, "task %s has moved from %s to %s, generation %d, and goes on from checkpoint %d", l.ID.Task, l.Moved, l.Worker, l.ID.Gen, l.Checkpoint)
		return
	}
	w.mu.Lock()
	w.restarts++
	w.mu.Unlock()
	w.event(api.EventFailover, data, "task %s is launched again on %s, generation %d, from checkpoint %d", l.ID.Task, l.Worker, l.ID.Gen, l.Checkpoint)
}

func (w *watch) saved(r *scheduler.Record) {
	now := time.Now().UTC()
	w.mu.Lock()
	w.settings = settingsOf(r)
	changed := r.Checkpoint != w.checkpoint
	if changed {
		w.checkpoint, w.completed = r.Checkpoint, now
	}
	tell := changed && r.Checkpoint != 0 && (now.Sub(w.told) >= checkpointPause || r.Checkpoint == metaquery.LastEpoch)
	if tell {
		w.told = now
	}
	w.mu.Unlock()
	if !tell {
		return
	}
	text := fmt.Sprintf("checkpoint %d is complete", r.Checkpoint)
	if r.Checkpoint == metaquery.LastEpoch {
		text = "the last checkpoint is complete"
	}
	w.event(api.EventCheckpoint, &api.EventData{Epoch: wire(r.Checkpoint)}, "%s", text)
}

// reported adds up what a task reports.
func (w *watch) reported(_ scheduler.WorkerID, r *metaquery.Report) {
	w.heard(r.From.Task)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.add(r)
	w.changed = true
}

// fill adds to a query what is known of it.
func (w *watch) fill(q *api.Query) {
	w.mu.Lock()
	defer w.mu.Unlock()
	q.Restarts, q.Alerts, q.Settings = w.restarts, slices.Clone(w.alerts), w.settings
	q.Checkpoint = wire(w.checkpoint)
	if !w.completed.IsZero() {
		at := w.completed
		q.CheckpointTime = &at
	}
	if w.status != nil {
		fillStatus(q, w.status)
	}
	q.Operators = w.operators()
	if w.physical != nil {
		q.Watermark = w.watermark()
	}
}

// operators are the operators of what runs here, or ran last, with their counts.
func (w *watch) operators() []api.Operator {
	if w.physical == nil {
		return w.ran
	}
	var list []api.Operator
	totals := w.totals()
	for _, op := range w.physical.Graph.Operators {
		if op.Type == dataflow.NetReader || op.Type == dataflow.NetWriter {
			continue
		}
		o := totals[op.Name]
		list = append(list, api.Operator{
			Name: op.Name, Type: op.Type, In: o.In, Out: o.Out, Skipped: o.Skipped, Dead: o.Dead, Late: o.Late,
			Lost: o.Lost, Gaps: o.Gaps,
		})
	}
	return list
}

// passedOver tells, as alerts, which rows the query has not worked on.
func (w *watch) passedOver() {
	w.mu.Lock()
	w.ended = true
	list := w.operators()
	w.mu.Unlock()
	for _, o := range list {
		for _, text := range o.PassedOver() {
			w.alert(text)
		}
	}
}

// watermark is the least of the tasks that have sources, nil if one is not known or all have ended.
func (w *watch) watermark() *time.Time {
	least := batch.MaxWatermark
	for _, task := range w.physical.Tasks {
		if slices.ContainsFunc(task.Operators, func(op *dataflow.Operator) bool { return op.Desc.Source() }) {
			least = min(least, w.reports[task.Name].Watermark)
		}
	}
	if least <= 0 || least == batch.MaxWatermark {
		return nil
	}
	t := time.UnixMicro(least).UTC()
	return &t
}

// fillStatus adds what the core says.
func fillStatus(q *api.Query, s *shell.Status) {
	q.Term, q.Checkpoint, q.Present = s.Term, wire(s.Checkpoint), len(s.Workers)
	for _, worker := range s.Workers {
		q.Processes = append(q.Processes, api.Worker{ID: string(worker.ID), Addr: worker.Addr, About: s.About[worker.ID]})
	}
	for _, t := range s.Tasks {
		q.Tasks = append(q.Tasks, api.Task{
			Name: t.Task, State: string(t.State), Role: string(t.Role), Worker: string(t.Worker), Generation: t.Gen,
			Epoch: wire(t.Epoch), Unprotected: t.Unprotected, Waits: t.Waits(), Backlog: t.Report.Backlog,
			Retained: t.Report.Retained, Received: t.Report.Received,
		})
	}
	if s.Plan != nil {
		q.Plan = &api.Plan{Attempt: s.Plan.Attempt, Epoch: s.Plan.Epoch}
	}
	for _, l := range s.Losses {
		q.Losses = append(q.Losses, api.Loss{Task: l.Task, First: l.First, Last: wire(l.Last)})
	}
}

// wire is an epoch in JSON, where numbers as large as the last one lose digits.
func wire(epoch int64) int64 {
	if epoch == metaquery.LastEpoch {
		return api.Last
	}
	return epoch
}
