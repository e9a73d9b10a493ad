package scheduler

import (
	"maps"
	"slices"

	"sluice/metaquery"
)

// Clone is a copy that shares nothing with r that changes.
func (r *Record) Clone() *Record {
	c := *r
	c.Generations = maps.Clone(r.Generations)
	c.Active = maps.Clone(r.Active)
	c.Workers = maps.Clone(r.Workers)
	c.State = maps.Clone(r.State)
	c.Changes = slices.Clone(r.Changes)
	c.Params = slices.Clone(r.Params)
	c.Lost = slices.Clone(r.Lost)
	if r.Plan != nil {
		p := *r.Plan
		p.Tuples = slices.Clone(p.Tuples)
		c.Plan = &p
	}
	return &c
}

// fill makes the maps of a record that has none.
func (r *Record) fill() {
	if r.Generations == nil {
		r.Generations = make(map[string]int64)
	}
	if r.Active == nil {
		r.Active = make(map[string]bool)
	}
	if r.Workers == nil {
		r.Workers = make(map[string]WorkerID)
	}
	if r.State == nil {
		r.State = make(map[string]metaquery.Snapshot)
	}
}

// setTuple puts a tuple in the place of the one of the same operator and parameter.
func setTuple(list []metaquery.Tuple, t metaquery.Tuple) []metaquery.Tuple {
	i := slices.IndexFunc(list, func(o metaquery.Tuple) bool { return o.Operator == t.Operator && o.Param == t.Param })
	if i < 0 {
		return append(list, t)
	}
	list[i] = t
	return list
}

// affectsRows tells whether a parameter takes effect at an epoch. The others take effect at once.
func affectsRows(param string) bool {
	return param != metaquery.TargetAddr && param != metaquery.Active && param != metaquery.Rate
}

// setLoss notes the last loss of a task.
func (r *Record) setLoss(l Loss) {
	i := slices.IndexFunc(r.Lost, func(o Loss) bool { return o.Task == l.Task })
	if i < 0 {
		r.Lost = append(r.Lost, l)
		return
	}
	r.Lost[i] = l
}

// foldChanges moves the changes that no launch and no running instance has still to apply at their epoch
// into Params.
func (c *Core) foldChanges() {
	n := 0
	for n < len(c.rec.Changes) && c.passed(c.rec.Changes[n]) {
		t := c.rec.Changes[n]
		t.Epoch, t.Seq = 0, c.nextSeq()
		c.rec.Params = setTuple(c.rec.Params, t)
		n++
	}
	if n > 0 {
		c.rec.Changes = slices.Clone(c.rec.Changes[n:])
		c.changed, c.dirty = true, true
	}
}

// passed tells whether a change lies behind the checkpoint and behind every instance that it concerns.
func (c *Core) passed(change metaquery.Tuple) bool {
	if change.Epoch > c.rec.Checkpoint {
		return false
	}
	for _, t := range c.tasks {
		if t.live && t.operators[change.Operator] && t.from < change.Epoch && t.report.Epoch < change.Epoch {
			return false
		}
	}
	return true
}
