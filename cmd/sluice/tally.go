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

// tally adds up what the tasks of a query report. Rows count once, whatever is done again after a failure (almost always:
// see metaquery.Report.At).
type tally struct {
	p *plan

	mu    sync.Mutex
	last  map[metaquery.TaskID]metaquery.Report
	lines map[string]*line
}

// line is a task over its generations.
type line struct {
	gen   int64                               // the last one
	first int64                               // the first one of this run
	begun map[string]metaquery.OperatorReport // rows of operators before what the last one counts
	known map[string]int64                    // rows of sinks that had been written before this run
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
		l = &line{gen: r.From.Gen, first: r.From.Gen, begun: map[string]metaquery.OperatorReport{}, known: map[string]int64{}}
		t.lines[r.From.Task] = l
	}
	if r.From.Gen > l.gen {
		before := t.last[metaquery.TaskID{Task: r.From.Task, Gen: l.gen}]
		for _, o := range r.Operators {
			l.begun[o.Name] = l.begun[o.Name].Plus(before.At(o.Name, r.Base))
		}
		l.gen = r.From.Gen
	}
	if r.From.Gen == l.first {
		for _, o := range r.Operators {
			l.known[o.Name] = o.Before
		}
	}
}

// once adds the rows of all operators to sums, each counted once. A sink says how many it had written before.
func (t *tally) once(sums map[string]*executor.OperatorStats) {
	for task, l := range t.lines {
		for _, o := range t.last[metaquery.TaskID{Task: task, Gen: l.gen}].Operators {
			s := sums[o.Name]
			if s == nil {
				s = &executor.OperatorStats{}
				sums[o.Name] = s
			}
			all := l.begun[o.Name].Plus(o)
			if op := t.p.tasks.Graph.Operator(o.Name); op != nil && op.Desc.Sink() {
				all.Out = o.Before + o.Out - l.known[o.Name]
			}
			s.In, s.Out = s.In+all.In, s.Out+all.Out
			s.Skipped, s.Dead = s.Skipped+all.Skipped, s.Dead+all.Dead
			s.Late, s.Lost, s.Gaps = s.Late+all.Late, s.Lost+all.Lost, s.Gaps+all.Gaps
		}
	}
}

// stats is what the query has done so far.
func (t *tally) stats() executor.Stats {
	t.mu.Lock()
	defer t.mu.Unlock()
	sums := map[string]*executor.OperatorStats{}
	t.once(sums)
	var stats executor.Stats
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
