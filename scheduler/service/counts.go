package service

import (
	"maps"

	"sluice/dataflow"
	"sluice/metaquery"
)

// counts adds up the rows of operators over the generations of their tasks, over edits, and over schedulers. Rows count once,
// though they are worked on again after a failure: a task that is launched again begins to count at its checkpoint, and what the
// one before it had counted by then is known (Report.Passed). What it had counted behind it does not count. A sink says itself
// how many rows it had written before (OperatorReport.Before).
type counts struct {
	sums    map[string]metaquery.OperatorReport // of generations that are over, up to where the next ones have begun
	reports map[string]metaquery.Report         // the last one of each task
	sinks   map[string]bool                     // operators that are sinks
	shown   map[string]metaquery.OperatorReport // the highest that has been said
	ended   bool                                // nothing is worked on any more
}

func newCounts() counts {
	return counts{sums: map[string]metaquery.OperatorReport{}, reports: map[string]metaquery.Report{}, sinks: map[string]bool{}, shown: map[string]metaquery.OperatorReport{}}
}

func (c *counts) clone() counts {
	return counts{maps.Clone(c.sums), maps.Clone(c.reports), maps.Clone(c.sinks), maps.Clone(c.shown), false}
}

// of notes the query that is about to run.
func (c *counts) of(p *dataflow.Physical) {
	for _, op := range p.Graph.Operators {
		delete(c.sinks, op.Name)
		if op.Desc.Sink() {
			c.sinks[op.Name] = true
		}
	}
}

// add takes a report.
func (c *counts) add(r *metaquery.Report) {
	last := c.reports[r.From.Task]
	if r.From.Gen < last.From.Gen || r.From.Gen == last.From.Gen && r.Seq < last.Seq {
		return
	}
	if r.From.Gen > last.From.Gen {
		if len(r.Operators) == 0 {
			return // it has not begun
		}
		for _, o := range last.Operators {
			before := last.At(o.Name, r.Base)
			if c.sinks[o.Name] {
				before.In, before.Out = 0, 0 // the next one says it
			}
			c.sums[o.Name] = c.sums[o.Name].Plus(before)
		}
	}
	c.reports[r.From.Task] = *r
}

// at are the counts of all operators in the state at a checkpoint. Sinks are left out, which know theirs themselves.
func (c *counts) at(checkpoint int64) operatorCounts {
	all := operatorCounts(maps.Clone(c.sums))
	for _, r := range c.reports {
		for _, o := range r.Operators {
			all[o.Name] = all[o.Name].Plus(r.At(o.Name, checkpoint))
		}
	}
	for name := range c.sinks {
		delete(all, name)
	}
	return all
}

// restart makes the counts those at a checkpoint from which all tasks are launched again.
func (c *counts) restart(at operatorCounts) {
	c.sums, c.reports = maps.Clone(at), map[string]metaquery.Report{}
}

// totals are the rows of all operators. While rows are worked on again they stay what they were, and do not go back; in the
// end they are exact.
func (c *counts) totals() map[string]metaquery.OperatorReport {
	all := maps.Clone(c.sums)
	for _, r := range c.reports {
		for _, o := range r.Operators {
			sum := all[o.Name].Plus(o)
			if c.sinks[o.Name] {
				sum.Out = max(all[o.Name].Out, o.Before+o.Out)
				sum.In = sum.Out
			}
			all[o.Name] = sum
		}
	}
	if c.ended {
		return all
	}
	for name, o := range all {
		before := c.shown[name]
		o.In, o.Out = max(o.In, before.In), max(o.Out, before.Out)
		o.Skipped, o.Dead, o.Late = max(o.Skipped, before.Skipped), max(o.Dead, before.Dead), max(o.Late, before.Late)
		o.Lost, o.Gaps = max(o.Lost, before.Lost), max(o.Gaps, before.Gaps)
		all[name], c.shown[name] = o, o
	}
	return all
}
