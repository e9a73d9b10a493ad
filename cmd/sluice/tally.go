package main

import (
	"slices"
	"sync"

	"sluice/dataflow"
	"sluice/dataflow/batch"
	"sluice/executor"
	"sluice/metaquery"
	"sluice/scheduler"
)

// tally adds up what the tasks of a query report. The rows of sources and sinks count once, whatever is done
// again after a failure (almost always those of sources: see passed); what is said of bad and late rows is that of all
// generations.
type tally struct {
	p *plan

	mu    sync.Mutex
	last  map[metaquery.TaskID]metaquery.Report
	lines map[string]*line
}

// line is a task over its generations.
type line struct {
	gen   int64            // the last one
	first int64            // the first one of this run
	begun map[string]int64 // rows of sources, by operator, before what the last one counts
	known map[string]int64 // rows of sinks that had been written before this run
}

func newTally(p *plan) *tally {
	return &tally{p: p, last: map[metaquery.TaskID]metaquery.Report{}, lines: map[string]*line{}}
}

// report takes a report of a task.
func (t *tally) report(_ scheduler.WorkerID, r *metaquery.Report) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if r.Seq >= t.last[r.From].Seq && len(r.Operators) > 0 {
		t.follow(r)
		t.last[r.From] = *r
	}
}

// follow takes a report into the line of its task.
func (t *tally) follow(r *metaquery.Report) {
	l := t.lines[r.From.Task]
	if l == nil {
		l = &line{gen: r.From.Gen, first: r.From.Gen, begun: map[string]int64{}, known: map[string]int64{}}
		t.lines[r.From.Task] = l
	}
	if r.From.Gen > l.gen {
		before := t.last[metaquery.TaskID{Task: r.From.Task, Gen: l.gen}]
		for _, o := range r.Operators {
			l.begun[o.Name] += passed(before.Passed, o.Name, r.Base)
		}
		l.gen = r.From.Gen
	}
	if r.From.Gen == l.first {
		for _, o := range r.Operators {
			l.known[o.Name] = o.Before
		}
	}
}

// passed is what the count of an operator was at a checkpoint. Without any boundary since its launch nothing
// counts: that was from the same checkpoint. A checkpoint may be complete some milliseconds before a source reports
// its count there; if the source fails in between, this is the count at the last boundary before.
func passed(list []metaquery.Passed, operator string, checkpoint int64) int64 {
	rows := int64(0)
	for _, p := range list {
		if p.Operator == operator && p.Lo <= checkpoint {
			rows = max(rows, p.Rows)
		}
	}
	return rows
}

// once adds the rows of sources and sinks to sums, each counted once.
func (t *tally) once(sums map[string]*executor.OperatorStats) {
	for task, l := range t.lines {
		for _, o := range t.last[metaquery.TaskID{Task: task, Gen: l.gen}].Operators {
			s := sums[o.Name]
			s.In += l.begun[o.Name] + o.In
			s.Out += o.Before + o.Out - l.known[o.Name]
		}
	}
}

// stats is what the query has done so far.
func (t *tally) stats() executor.Stats {
	t.mu.Lock()
	defer t.mu.Unlock()
	sums := map[string]*executor.OperatorStats{}
	var stats executor.Stats
	for _, r := range t.last {
		for _, o := range r.Operators {
			s := sums[o.Name]
			if s == nil {
				s = &executor.OperatorStats{}
				sums[o.Name] = s
			}
			s.Skipped, s.Dead = s.Skipped+o.Skipped, s.Dead+o.Dead
			s.Late, s.Lost, s.Gaps = s.Late+o.Late, s.Lost+o.Lost, s.Gaps+o.Gaps
		}
	}
	t.once(sums)
	for _, op := range t.p.tasks.Graph.Operators {
		if s := sums[op.Name]; s != nil {
			s.Op = op
			stats.Operators = append(stats.Operators, *s)
		}
	}
	stats.Watermark = t.watermark()
	return stats
}

// watermark is the least of the last instances of the tasks that have sources.
func (t *tally) watermark() int64 {
	least := batch.MaxWatermark
	for _, task := range t.p.tasks.Tasks {
		if !slices.ContainsFunc(task.Operators, func(op *dataflow.Operator) bool { return op.Desc.Source() }) {
			continue
		}
		gen, watermark := int64(-1), batch.MinWatermark
		for id, r := range t.last {
			if id.Task == task.Name && id.Gen > gen {
				gen, watermark = id.Gen, r.Watermark
			}
		}
		least = min(least, watermark)
	}
	return least
}
