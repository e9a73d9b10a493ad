package scheduler

import (
	"fmt"
	"slices"

	"sluice/metaquery"
)

// stop takes the request to end the query.
func (c *Core) stop(r *StopRequest) {
	if r.End {
		c.rec.Stop = -1
	} else {
		c.stopLead = leadEpochs
		c.rec.Stop = max(c.high(), r.Logged) + c.stopLead
	}
	c.stopped, c.catchUp = c.now, r.CatchUp
	c.changed, c.dirty = true, true
}

// advanceStop ends a query whose sources have stopped, once a checkpoint has all that they gave.
func (c *Core) advanceStop() {
	if c.rec.Stop == 0 && c.enough() {
		c.rec.Stop = -1
		c.changed, c.dirty = true, true
	}
	if c.rec.Stop <= 0 || c.collecting {
		return
	}
	if c.overshot() {
		c.stopLead = 2 * max(c.stopLead, leadEpochs)
		c.rec.Stop = c.high() + c.stopLead
		c.changed, c.dirty = true, true
	}
	cut := c.stopCut()
	switch {
	case cut > 0 && c.rec.Checkpoint >= cut:
		c.finish(Outcome{})
	case c.catchUp:
	case !c.anyLive():
		c.finish(Outcome{})
	case c.now-c.stopped >= stopTimeout:
		c.alert(fmt.Sprintf("the query has not come to a checkpoint within %d s of being stopped; it will go on from checkpoint %d", stopTimeout/second, c.rec.Checkpoint))
		c.finish(Outcome{})
	}
}

// overshot tells whether a source has cut the epoch at which it was to stop before it heard of it. All sources
// then stop further ahead, for their last epochs have to have one number.
func (c *Core) overshot() bool {
	return slices.ContainsFunc(c.tasks, func(t *task) bool {
		return t.sources && t.live && t.heard && !t.report.Stopped && t.report.Cut >= c.rec.Stop && t.report.Epoch != metaquery.LastEpoch
	})
}

// enough tells whether no sink wants more rows. Then the inputs count as ended.
func (c *Core) enough() bool {
	for _, t := range c.tasks {
		if len(t.sinks) > 0 && (!t.live || !t.report.Done) {
			return false
		}
	}
	return true
}

func (c *Core) anyLive() bool {
	for _, t := range c.tasks {
		if t.live {
			return true
		}
	}
	return false
}

// stopCut is the last epoch of all sources once they have stopped as told, 0 before.
func (c *Core) stopCut() int64 {
	if c.rec.Stop <= 0 {
		return 0
	}
	cut := int64(0)
	for _, t := range c.tasks {
		if !t.sources || !c.active(t) {
			continue
		}
		if !t.live || !t.report.Stopped && t.report.Epoch != metaquery.LastEpoch {
			return 0
		}
		if t.report.Cut < farEpoch {
			cut = max(cut, t.report.Cut)
		}
	}
	return cut
}

// finish ends all tasks and the query.
func (c *Core) finish(o Outcome) {
	if c.rec.Stop != 0 {
		c.rec.Stop, c.changed = 0, true
	}
	c.save()
	if c.change != nil {
		c.answer(Answer{Error: "the query has ended"})
	}
	for _, r := range c.queue {
		c.do(Action{Answer: &Answer{ID: r.ID, Error: "the query has ended"}})
	}
	c.queue = nil
	for _, t := range c.tasks {
		if t.live && c.workers[t.worker].up() {
			c.do(Action{End: &TaskEnd{Worker: t.worker, ID: metaquery.TaskID{Task: t.Name, Gen: c.gen(t)}}})
		}
		t.live = false
	}
	c.done = true
	c.do(Action{Done: &o})
}

// endStragglers ends what still runs after the end, and refuses requests.
func (c *Core) endStragglers(e Event) {
	switch {
	case e.Alive != nil:
		for _, id := range e.Alive.Tasks {
			c.do(Action{End: &TaskEnd{Worker: e.Alive.Worker, ID: id}})
		}
	case e.Set != nil:
		c.do(Action{Answer: &Answer{ID: e.Set.ID, Error: "the query has ended"}})
	}
}
