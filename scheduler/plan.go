package scheduler

import (
	"fmt"
	"slices"

	"sluice/internal/protocol"
	"sluice/metaquery"
)

const (
	mostTries = 10
	mostQueue = 64 // requests that wait
	// A plan is made for an epoch this far ahead at first: long enough for all tasks to hear of it.
	leadTime   = second / 5
	leadEpochs = 4
)

// change is the request for which a plan is made.
type change struct {
	id     int64
	tuples []metaquery.Tuple
	lead   int64 // epochs
	tries  int
	begun  int64 // when
	// What is to be done when the plan comes to nothing.
	failure string
	again   bool
}

// set takes a request. What does not affect rows is set at once, the rest goes through a plan.
func (c *Core) set(r *SetRequest) {
	for _, t := range r.Tuples {
		if err := c.refuses(t); err != "" {
			c.do(Action{Answer: &Answer{ID: r.ID, Error: err}})
			return
		}
	}
	if len(c.queue) >= mostQueue {
		c.do(Action{Answer: &Answer{ID: r.ID, Error: fmt.Sprintf("%d changes wait already; try again later", mostQueue)}})
		return
	}
	later := SetRequest{ID: r.ID}
	for _, t := range r.Tuples {
		if affectsRows(t.Param) {
			later.Tuples = append(later.Tuples, t)
			continue
		}
		t.Epoch, t.Seq = 0, c.nextSeq()
		c.rec.Params = setTuple(c.rec.Params, t)
		c.changed, c.dirty = true, true
	}
	if len(later.Tuples) == 0 {
		c.save()
		c.do(Action{Answer: &Answer{ID: r.ID}})
		return
	}
	c.queue = append(c.queue, later)
}

// refuses tells what is wrong with a tuple; Expand has done the rest.
func (c *Core) refuses(t metaquery.Tuple) string {
	if t.Param == metaquery.TargetAddr {
		return "target-addr is set by the scheduler; it cannot be set by a user"
	}
	if !slices.ContainsFunc(c.tasks, func(u *task) bool { return u.operators[t.Operator] }) {
		return fmt.Sprintf("no operator %q runs", t.Operator)
	}
	return ""
}

// advancePlan begins the next plan, or sees to the one under way.
func (c *Core) advancePlan() {
	switch {
	case c.collecting:
	case c.rec.Plan == nil && c.change == nil && len(c.queue) > 0 && c.deployed:
		r := c.queue[0]
		c.queue = c.queue[1:]
		c.change = &change{id: r.ID, tuples: r.Tuples, lead: leadEpochs, begun: c.now}
		if c.cfg.Interval > 0 {
			c.change.lead = max(leadEpochs, leadTime/c.cfg.Interval)
		}
		c.prepare()
	case c.rec.Plan != nil && c.decided != c.rec.Plan.Attempt:
		c.count()
	}
}

// prepare makes a plan for the change.
func (c *Core) prepare() {
	c.change.tries++
	c.change.failure, c.change.again = "", false
	c.rec.Attempt++
	p := &metaquery.Plan{Attempt: c.rec.Attempt, Epoch: c.high() + c.change.lead}
	for _, t := range c.rec.Changes {
		p.Epoch = max(p.Epoch, t.Epoch) // so that the last change counts
	}
	for _, t := range c.change.tuples {
		t.Epoch, t.Seq = p.Epoch, c.nextSeq()
		p.Tuples = append(p.Tuples, t)
	}
	c.rec.Plan = p
	c.changed, c.dirty = true, true
}

// planFor is the part of the plan that concerns a task. All sources vote and hold the epoch: their logs know
// whether an instance that is no more has been past it, and no epoch begins that they have not cut.
func (c *Core) planFor(t *task) *metaquery.Plan {
	if c.rec.Plan == nil {
		return nil
	}
	p := &metaquery.Plan{Attempt: c.rec.Plan.Attempt, Epoch: c.rec.Plan.Epoch}
	for _, tuple := range c.rec.Plan.Tuples {
		if t.operators[tuple.Operator] {
			p.Tuples = append(p.Tuples, tuple)
		}
	}
	if len(p.Tuples) == 0 && !t.sources {
		return nil
	}
	return p
}

// count looks at the votes of the instances that run now. Those of earlier ones count for nothing: an
// instance that has been launched since has to hold the epoch itself. One that will be launched after the
// decision begins with it; but all sources have to be asked.
func (c *Core) count() {
	missing := false
	for _, t := range c.tasks {
		if !c.active(t) || c.planFor(t) == nil || !t.live && !t.sources && c.mayLaunch(t) {
			continue
		}
		v := t.report.Vote
		switch {
		case !t.live || v == nil || v.Attempt != c.rec.Plan.Attempt && c.cfg.Off.On(protocol.Attempt):
			missing = true
		case v.Error != "":
			c.cancel(fmt.Sprintf("task %s: %s", t.Name, v.Error), false)
			return
		case v.Late:
			c.cancel(fmt.Sprintf("task %s was past the epoch of the change each time", t.Name), true)
			return
		}
	}
	switch {
	case !missing || !c.cfg.Off.On(protocol.AllVote):
		c.decide(true)
	case c.change == nil || c.now-c.change.begun >= planTimeout:
		c.cancel(fmt.Sprintf("not all tasks concerned have answered within %d s; nothing was changed", planTimeout/second), false)
	}
}

// cancel asks for the plan to come to nothing, and notes why.
func (c *Core) cancel(why string, again bool) {
	if c.change != nil {
		c.change.failure, c.change.again = why, again
	}
	c.decide(false)
}

// decide asks for a decision, once for each attempt.
func (c *Core) decide(commit bool) {
	if c.decided == c.rec.Plan.Attempt {
		return
	}
	c.decided = c.rec.Plan.Attempt
	c.decision = &Decision{Attempt: c.decided, Commit: commit}
}

// settle does what has been decided, which need not be what was asked for: a task may have been first.
func (c *Core) settle(attempt int64, committed bool) {
	p := c.rec.Plan
	if p == nil || p.Attempt != attempt || c.decided != attempt {
		return
	}
	c.rec.Plan = nil
	c.changed, c.dirty = true, true
	if committed {
		c.rec.Changes = append(c.rec.Changes, p.Tuples...)
		c.answer(Answer{Epoch: p.Epoch})
		return
	}
	if c.change == nil {
		return
	}
	if c.change.failure == "" {
		c.change.failure, c.change.again = "a task has cancelled the change", true
	}
	if !c.change.again || c.change.tries >= mostTries || c.rec.Finished {
		c.answer(Answer{Error: c.change.failure})
		return
	}
	c.change.lead *= 2
	c.change.begun = c.now
	c.prepare()
}

// answer ends the change.
func (c *Core) answer(a Answer) {
	c.save()
	if c.change != nil {
		a.ID = c.change.id
		c.do(Action{Answer: &a})
	}
	c.change = nil
}
