package service

import (
	"maps"

	"sluice/dataflow"
	"sluice/metaquery"
)

// counts adds up the rows of operators over the generations of their tasks, over edits, and over schedulers.
//
// Of a source rows count once: a task that is launched again begins to count at its checkpoint, and what the one before it had
// counted by then is known (Report.Passed). A sink says how many rows it had written before (OperatorReport.Before). What an
// operator of which there are snapshots has taken is in these; replicas that an edit has made begin with the count of one whose
// state they have. What other operators have done again counts again.
type counts struct {
	sums    map[string]metaquery.OperatorReport // of generations that are over
	reports map[string]metaquery.Report         // the last one of each task
	kinds   map[string]kind                     // of operators that rows are counted of once
	shown   map[string]metaquery.OperatorReport // the highest that has been said
}

// kind is what an operator is.
type kind int

const (
	source kind = iota + 1
	sink
	keeper // its snapshots have what it has taken
)

func newCounts() counts {
	return counts{sums: map[string]metaquery.OperatorReport{}, reports: map[string]metaquery.Report{}, kinds: map[string]kind{}, shown: map[string]metaquery.OperatorReport{}}
}

func (c *counts) clone() counts {
	return counts{maps.Clone(c.sums), maps.Clone(c.reports), maps.Clone(c.kinds), maps.Clone(c.shown)}
}

// of notes the query that is about to run, with checkpoints or without.
func (c *counts) of(p *dataflow.Physical, checkpoints bool) {
	for _, op := range p.Graph.Operators {
		delete(c.kinds, op.Name)
		switch {
		case op.Desc.Source():
			c.kinds[op.Name] = source
		case op.Desc.Sink():
			c.kinds[op.Name] = sink
		case op.Desc.Races:
		case len(op.Inputs) > 1, checkpoints && !op.Properties().Stateless:
			c.kinds[op.Name] = keeper
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
			c.sums[o.Name] = plus(c.sums[o.Name], c.lasting(o, &last, r.Base))
		}
	}
	c.reports[r.From.Task] = *r
}

// lasting is what stays of the counts of an operator whose task is launched again from a checkpoint.
func (c *counts) lasting(o metaquery.OperatorReport, last *metaquery.Report, checkpoint int64) metaquery.OperatorReport {
	switch c.kinds[o.Name] {
	case source:
		again := int64(0)
		if max(last.Begun, last.Cut) > checkpoint {
			again = o.In - passed(last.Passed, o.Name, checkpoint)
		}
		o.In, o.Out = o.In-again, max(0, o.Out-again)
	case sink:
		o.In, o.Out = 0, 0 // the next one says it
	case keeper:
		o.In = 0
	}
	return o
}

// passed is what the count of a source was at a checkpoint.
func passed(list []metaquery.Passed, operator string, checkpoint int64) int64 {
	rows := int64(0)
	for _, p := range list {
		if p.Operator == operator && p.Lo <= checkpoint {
			rows = max(rows, p.Rows)
		}
	}
	return rows
}

// totals are the rows of all operators. While rows are worked on again they stay what they were, and do not go back.
func (c *counts) totals() map[string]metaquery.OperatorReport {
	all := maps.Clone(c.sums)
	for _, r := range c.reports {
		for _, o := range r.Operators {
			sum := plus(all[o.Name], o)
			switch before := all[o.Name]; c.kinds[o.Name] {
			case sink:
				sum.Out = max(before.Out, o.Before+o.Out)
				sum.In = sum.Out
			case keeper:
				sum.In = max(before.In, o.In)
			}
			all[o.Name] = sum
		}
	}
	for name, o := range all {
		before := c.shown[name]
		o.In, o.Out = max(o.In, before.In), max(o.Out, before.Out)
		all[name], c.shown[name] = o, o
	}
	return all
}

func plus(a, b metaquery.OperatorReport) metaquery.OperatorReport {
	return metaquery.OperatorReport{
		Name: b.Name, In: a.In + b.In, Out: a.Out + b.Out, Skipped: a.Skipped + b.Skipped, Dead: a.Dead + b.Dead,
		Late: a.Late + b.Late, Lost: a.Lost + b.Lost, Gaps: a.Gaps + b.Gaps,
	}
}
