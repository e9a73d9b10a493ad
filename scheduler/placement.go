package scheduler

import (
	"cmp"
	"fmt"
	"slices"
)

// patience is how many liveness bounds a task that is not needed waits for a worker of its own, and after
// how many the user is told of orders that are not obeyed.
const patience = 10

// place finds workers for tasks that have none, and swaps failed tasks with their standbys.
func (c *Core) place() {
	if !c.deployed && !c.enoughWorkers() {
		return
	}
	c.deployed = true
	c.moveApart()
	c.moveHome()
	for _, s := range c.sides {
		c.failOver(s)
	}
	for _, t := range c.tasks {
		if c.active(t) && t.worker == "" && !c.parked(t) {
			c.settleDown(t)
		}
	}
	for _, t := range c.tasks {
		if !c.active(t) {
			c.reserve(t)
		}
	}
}

// reserve finds a worker for a standby, where it would be of use.
func (c *Core) reserve(t *task) {
	if t.worker != "" {
		return
	}
	if w, s := c.choose(t, false); w != nil && s.apart == 0 {
		t.worker = w.id
	}
}

// moveApart gives up a copy that shares its worker with another one, if there is a worker for it now and the
// other one can do the work until it is back.
func (c *Core) moveApart() {
	for _, t := range c.tasks {
		if !t.live || t.stateful && !c.cfg.Checkpoints || !slices.ContainsFunc(t.copies, func(u *task) bool { return c.carries(u, t) }) {
			continue
		}
		if w, s := c.choose(t, false); w != nil && s.apart == 0 {
			c.fail(t, false)
			return
		}
	}
}

// moveHome gives up a task that is where there is not enough for all, if its home is there by now. If only cores are
// too few, those stay of which it is not known that they go on with what they had: sources, and state without
// checkpoints.
func (c *Core) moveHome() {
	for _, t := range c.tasks {
		if !t.live || t.home < 0 {
			continue
		}
		w, home := c.workers[t.worker], c.workers[c.slots[t.home].worker]
		stays := t.sources || t.stateful && !c.cfg.Checkpoints
		if home.up() && w != home && !c.fits(t, w, stays) && c.fits(t, home, false) {
			c.fail(t, false)
		}
	}
}

// carries tells whether a copy on the worker of t is as far as it should be.
func (c *Core) carries(u, t *task) bool {
	return u.live && u.worker == t.worker && u.report.CaughtUp && u.Apart(t.Task)
}

// enoughWorkers tells whether the first launches may begin: all workers are there, or waiting for more of
// them has been long enough.
func (c *Core) enoughWorkers() bool {
	return c.full() || len(c.sorted()) > 0 && c.now-c.began >= c.cfg.Gather
}

// settleDown finds a worker for a task that is to run.
func (c *Core) settleDown(t *task) {
	w, s := c.choose(t, false)
	if w == nil && c.mayShare(t) {
		if w, s = c.choose(t, true); w != nil {
			c.alert(fmt.Sprintf("task %s shares the cores of worker %s, which has not as many free as it needs: no other one has them", t.Name, w.id))
		}
	}
	if w == nil {
		c.alertLack(t)
		return
	}
	atHome := t.home >= 0 && t.home == w.slot
	if s.apart > 0 && c.mayWait(t) || !atHome && c.crowded(t, s) {
		return
	}
	if s.apart > 0 {
		c.alert(fmt.Sprintf("task %s shares worker %s with a task that it should be apart from: there are not enough workers", t.Name, w.id))
	}
	t.worker = w.id
	c.dirty = true
	if c.gen(t) == 0 {
		c.bump(t)
	}
}

// alertLack tells the user of a task that has waited for long.
func (c *Core) alertLack(t *task) {
	if needs := c.lacks(t); needs != "" && c.now-t.waiting >= patience*c.cfg.Liveness {
		c.alert(fmt.Sprintf("task %s waits: it needs %s, and no worker has that free", t.Name, needs))
	}
}

// mayWait tells whether a task can wait for a worker that is being started: a copy of it does its work.
func (c *Core) mayWait(t *task) bool {
	if c.full() || c.now-t.waiting >= patience*c.cfg.Liveness {
		return false
	}
	return slices.ContainsFunc(t.copies, func(u *task) bool { return c.active(u) && u.worker != "" })
}

// crowded tells whether a task is better off with a worker that is being started, which will be there within
// moments, than with the best there is: that one has more than one task beyond its share already. Else all that
// a failure of several workers leaves without one would end up with the first that is left, and stay there.
func (c *Core) crowded(t *task, s score) bool {
	if len(c.starting) == 0 || c.full() || c.now-t.waiting >= c.cfg.Liveness {
		return false
	}
	active := 0
	for _, u := range c.tasks {
		if c.active(u) {
			active++
		}
	}
	share := (active + len(c.slots) - 1) / len(c.slots)
	return s.load > 2*(share+1)
}

// score is how badly a task fits a worker: the less the better.
type score struct {
	apart  int // tasks there that it must not share a worker with
	spread int // tasks there that it should not share a worker with
	load   int // twice the tasks there that run, and once the standbys
}

func (s score) compare(o score) int {
	return cmp.Or(cmp.Compare(s.apart, o.apart), cmp.Compare(s.spread, o.spread), cmp.Compare(s.load, o.load))
}

// choose finds the best worker that has room; nil if there is none. With shared, it may have too few cores.
func (c *Core) choose(t *task, shared bool) (*worker, score) {
	var best *worker
	var least score
	for _, w := range c.sorted() {
		if !c.fits(t, w, shared) {
			continue
		}
		if s := c.score(t, w); best == nil || s.compare(least) < 0 {
			best, least = w, s
		}
	}
	return best, least
}

// score counts the tasks of a worker, and those that wait for it as their home.
func (c *Core) score(t *task, w *worker) score {
	var s score
	for _, u := range c.tasks {
		awaited := u.worker == "" && u.home >= 0 && u.home == w.slot
		if u == t || u.worker != w.id && !awaited {
			continue
		}
		s.load++
		if c.active(u) {
			s.load++
		}
		if t.Apart(u.Task) {
			s.apart++
		}
		if spread(t.Task, u.Task) {
			s.spread++
		}
	}
	return s
}

// unprotected tells whether a pattern promises a second copy of a task, or a prepared standby, and there
// is none.
func (c *Core) unprotected(t *task) bool {
	if len(t.copies) == 0 || !c.active(t) {
		return false
	}
	for _, u := range t.copies {
		if u.worker == "" || u.worker == t.worker || !c.workers[u.worker].up() {
			continue
		}
		if !c.active(u) || u.live && u.report.CaughtUp {
			return false
		}
	}
	return true
}
