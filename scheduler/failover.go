package scheduler

import (
	"fmt"
	"maps"
	"slices"

	"sluice/internal/protocol"
	"sluice/metaquery"
)

// bump gives a task its next generation.
func (c *Core) bump(t *task) {
	c.rec.Generations[t.Name]++
	c.changed, c.dirty = true, true
}

// fail gives up a task's instance, if it has one, and its worker. Where swap is set a standby may take
// its place.
func (c *Core) fail(t *task, swap bool) {
	had := t.live
	t.moved = ""
	if had {
		c.end(t)
		c.bump(t)
		t.failed = swap
	}
	t.worker, t.waiting = "", c.now
	c.dirty = true
	if had {
		c.lose(t)
	}
}

// retry gives up an instance that asks for another one, which comes after a pause that grows until one of
// them gets on.
func (c *Core) retry(t *task) {
	c.alert(fmt.Sprintf("task %s on worker %s: %s; it is launched again", t.Name, t.worker, t.report.Retry))
	if t.report.Epoch > t.tried {
		t.tries = 0
	}
	t.tried = max(t.tried, t.report.Epoch)
	t.notBefore = c.now + min(int64(firstPause)<<min(t.tries, 10), longestPause)
	t.tries++
	c.fail(t, false)
}

// end tells a worker to end a task's instance.
func (c *Core) end(t *task) {
	was := t.instance
	t.instance = instance{ended: c.now}
	if was.live && c.workers[t.worker].up() {
		c.do(Action{End: &TaskEnd{Worker: t.worker, ID: metaquery.TaskID{Task: t.Name, Gen: c.gen(t)}}})
	}
}

// lose does what a restart without checkpoints makes necessary. A task with state that starts again
// behind epoch 0 gives other rows than it did, so all that reads from it has to forget what it got. A new term that has
// not heard of all that runs leaves that for endCollecting: it does not know yet whether a copy still has the state.
func (c *Core) lose(t *task) {
	if c.collecting || c.cfg.Checkpoints || c.rec.Checkpoint == 0 || !t.stateful || c.copyRuns(t) {
		return
	}
	c.noteLoss(t)
	for _, u := range c.downstream(t) {
		if !c.active(u) {
			continue
		}
		if u.stateful {
			c.noteLoss(u)
		}
		if u.live {
			c.end(u)
			c.bump(u)
		}
	}
}

func (c *Core) noteLoss(t *task) {
	c.rec.setLoss(Loss{Task: t.Name, First: 1, Last: c.rec.Checkpoint})
	c.changed = true
	c.alert(fmt.Sprintf("task %s starts again without what it had kept of the epochs up to %d, since checkpoints are off", t.Name, c.rec.Checkpoint))
}

// copyRuns tells whether another copy of a task runs.
func (c *Core) copyRuns(t *task) bool {
	return slices.ContainsFunc(t.copies, func(u *task) bool { return u.live })
}

// parked tells whether a task must not run now: without checkpoints it would give other rows than the
// copy that still has its state.
func (c *Core) parked(t *task) bool {
	if c.cfg.Checkpoints || c.rec.Checkpoint == 0 || !t.stateful || t.live || !c.copyRuns(t) {
		return false
	}
	c.alert(fmt.Sprintf("task %s cannot be launched again beside its copy, since checkpoints are off", t.Name))
	return true
}

// failOver lets a standby take the place of a side of which a task has failed.
func (c *Core) failOver(s *side) {
	if !slices.ContainsFunc(s.tasks, func(t *task) bool { return t.failed }) {
		return
	}
	for _, t := range s.tasks {
		t.failed = false
	}
	for _, other := range c.sides {
		if other.replaces(s) && c.prepared(other) {
			c.swap(s, other)
			return
		}
	}
}

// prepared tells whether a side is a standby for which there are workers.
func (c *Core) prepared(s *side) bool {
	for _, t := range s.tasks {
		if c.active(t) {
			return false
		}
		c.reserve(t)
		if t.worker == "" {
			return false
		}
	}
	return true
}

func (c *Core) swap(from, to *side) {
	for _, t := range from.tasks {
		if t.live {
			c.end(t)
		}
		t.worker = ""
		c.rec.Active[t.Name] = false
	}
	for _, t := range to.tasks {
		c.rec.Active[t.Name] = true
		c.bump(t)
	}
}

// launch starts the tasks for which everything is ready.
func (c *Core) launch() {
	var ready []*task
	for _, t := range c.tasks {
		if c.active(t) && !t.live && t.worker != "" && c.now >= t.notBefore && !c.parked(t) && c.mayLaunch(t) {
			ready = append(ready, t)
		}
	}
	for _, t := range ready {
		c.begin(t)
	}
	c.save()
	for _, t := range ready {
		t.orders = c.ordersFor(t)
		t.orders.Seq = 1
		for p, gen := range t.orders.Fences {
			t.fences[p] = fence{gen: gen}
		}
		c.do(Action{Launch: &TaskLaunch{Worker: t.worker, Moved: t.moved, Launch: c.launchOf(t)}})
		t.moved = ""
	}
}

// begin makes a new instance of a task, which counts as running from now on.
func (c *Core) begin(t *task) {
	t.instance = instance{
		live: true, launched: c.now, seen: c.now, issued: c.now, sent: c.now, from: c.rec.Checkpoint, base: c.baseOf(t),
		dueSince: c.now, fences: make(map[string]fence),
	}
	if len(t.sinks) > 0 && c.rec.Workers[t.Name] != t.worker {
		c.rec.Workers[t.Name] = t.worker
		c.changed = true
	}
	c.dirty = true
}

func (c *Core) launchOf(t *task) metaquery.Launch {
	l := metaquery.Launch{
		ID: metaquery.TaskID{Task: t.Name, Gen: c.gen(t)}, Checkpoint: t.from,
		Every: c.cfg.Every, Flight: c.cfg.Flight, Interval: c.cfg.Interval,
		NoSnapshots: !c.cfg.Checkpoints, Orders: t.orders,
	}
	for _, key := range slices.Sorted(maps.Keys(t.keys)) {
		s, ok := c.rec.State[key]
		if !ok {
			continue
		}
		if l.State == nil {
			l.State = make(map[string]metaquery.Snapshot)
		}
		l.State[key] = s
		t.refs = append(t.refs, s.Ref)
	}
	return l
}

// mayLaunch tells whether nothing of earlier generations of a task can do harm any more: all consumers
// that run drop its frames, and a sink has ended.
func (c *Core) mayLaunch(t *task) bool {
	if c.cfg.Off.On(protocol.Fence) {
		for _, u := range t.consumers {
			if u.live && !c.fenced(u, t) {
				return false
			}
		}
	}
	return len(t.sinks) == 0 || !c.cfg.Off.On(protocol.Chain) || c.sinkEnded(t)
}

// fenced tells whether a consumer is known to drop the frames of earlier generations of a producer.
func (c *Core) fenced(u, producer *task) bool {
	gen := c.gen(producer)
	if gen <= 1 {
		return true
	}
	f := u.fences[producer.Name]
	return f.gen == gen && (f.seq == 0 || u.heard && u.report.Term == c.rec.Term && u.report.Obeyed >= f.seq)
}

// sinkEnded tells whether the last instance of a task with a sink is known to have ended: with its
// worker, or since the worker was told to end it and no longer names it.
func (c *Core) sinkEnded(t *task) bool {
	w := c.workers[c.rec.Workers[t.Name]]
	switch {
	case c.rec.Workers[t.Name] == "":
		return true
	case w == nil:
		return false
	case !w.up():
		return w.state == ended
	}
	if w.listed <= t.ended {
		return false
	}
	for id := range w.runs {
		if id.Task == t.Name {
			return false
		}
	}
	return true
}
