package scheduler

import (
	"slices"
	"strconv"

	"sluice/dataflow"
	"sluice/metaquery"
)

// A selector may be told to take its rows from one of its inputs (metaquery.Active). While that one is whole, the
// channels of the others go nowhere: these copies do all their work and retain what they make, as one does whose consumer
// is being launched, but send nothing. When anything fails above the input, the others are connected.

// idles tells whether a channel is to carry nothing, since the selector that it leads to has its rows from another input.
func (c *Core) idles(ch *dataflow.Channel) bool {
	if !c.cfg.Checkpoints || len(ch.To) != 1 {
		return false // a copy that cannot go back to a checkpoint must not fall behind
	}
	reader := ch.To[0].Op
	if reader.Type != dataflow.NetReader || len(reader.Outputs[0].Consumers) != 1 {
		return false
	}
	to := reader.Outputs[0].Consumers[0]
	if !to.Op.Desc.Races {
		return false
	}
	preferred := c.preferred(to.Op)
	return preferred >= 0 && preferred != to.Input && c.whole(to.Op, preferred)
}

// preferred is the input, from 0, from which a selector is to have its rows; -1 if from any.
func (c *Core) preferred(selector *dataflow.Operator) int {
	value := selector.Value(metaquery.Active)
	for _, p := range c.rec.Params {
		if p.Operator == selector.Name && p.Param == metaquery.Active {
			value = p.Value
		}
	}
	n, err := strconv.Atoi(value)
	if err != nil || n > len(selector.Inputs) {
		return -1
	}
	return n - 1
}

// whole tells whether all tasks that have something above an input of a selector, and above no other one, run and have
// caught up.
func (c *Core) whole(selector *dataflow.Operator, input int) bool {
	above, others := make(map[string]bool), make(map[string]bool)
	for i, in := range selector.Inputs {
		if i == input {
			ancestors(in.From, above)
		} else {
			ancestors(in.From, others)
		}
	}
	within := func(t *task) bool { return !t.only(func(name string) bool { return !above[name] || others[name] }) }
	works := func(t *task) bool { return within(t) && t.live && t.heard && t.report.CaughtUp }
	for _, t := range c.tasks {
		// A standby does nothing; within the input, another one works in its place, or the input gives nothing.
		if within(t) && !works(t) && (c.active(t) || !slices.ContainsFunc(t.copies, works)) {
			return false
		}
	}
	return true
}
