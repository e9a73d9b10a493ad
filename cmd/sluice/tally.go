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

// tally adds up what the tasks of a query report. What a task has done again after a failure counts again.
type tally struct {
	p *plan

	mu   sync.Mutex
	last map[metaquery.TaskID]metaquery.Report
}

func newTally(p *plan) *tally {
	return &tally{p: p, last: map[metaquery.TaskID]metaquery.Report{}}
}

// report takes a report of a task.
func (t *tally) report(_ scheduler.WorkerID, r *metaquery.Report) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if r.Seq >= t.last[r.From].Seq && len(r.Operators) > 0 {
		t.last[r.From] = *r
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
			s.In, s.Out, s.Skipped, s.Dead = s.In+o.In, s.Out+o.Out, s.Skipped+o.Skipped, s.Dead+o.Dead
			s.Late, s.Lost, s.Gaps = s.Late+o.Late, s.Lost+o.Lost, s.Gaps+o.Gaps
		}
	}
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
