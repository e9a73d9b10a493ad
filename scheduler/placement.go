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
	if w, s := c.choose(t); w != nil && s.apart == 0 {
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
		if w, s := c.choose(t); w != nil && s.apart == 0 {
			c.fail(t, false)
			return
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
	n := len(c.sorted())
	return n >= c.cfg.Workers || n > 0 && c.now-c.began >= c.cfg.Gather
}

// settleDown finds a worker for a task that is to run.
func (c *Core) settleDown(t *task) {
	w, s := c.choose(t)
	if w == nil || s.apart > 0 && c.mayWait(t) || c.crowded(t, s) {
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

// mayWait tells whether a task can wait for a worker that is being started: a copy of it does its work.
func (c *Core) mayWait(t *task) bool {
	if len(c.sorted()) >= c.cfg.Workers || c.now-t.waiting >= patience*c.cfg.Liveness {
		return false
	}
	return slices.ContainsFunc(t.copies, func(u *task) bool { return c.active(u) && u.worker != "" })
}

// crowded tells whether a task is better off with a worker that is being started, which will be there within
// moments, than with the best there is: that one has more than one task beyond its share already. Else all that
// a failure of several workers leaves without one would end up with the first that is left, and stay there.
func (c *Core) crowded(t *task, s score) bool {
	if c.starting == 0 || len(c.sorted()) >= c.cfg.Workers || c.now-t.waiting >= c.cfg.Liveness {
		return false
	}
	active := 0
	for _, u := range c.tasks {
		if c.active(u) {
			active++
		}
	}
	share := (active + c.cfg.Workers - 1) / c.cfg.Workers
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

// choose finds the best worker; nil if there is none.
func (c *Core) choose(t *task) (*worker, score) {
	var best *worker
	var least score
	for _, w := range c.sorted() {
		if s := c.score(t, w.id); best == nil || s.compare(least) < 0 {
			best, least = w, s
		}
	}
	return best, least
}

func (c *Core) score(t *task, id WorkerID) score {
	var s score
	for _, u := range c.tasks {
		if u == t || u.worker != id {
			continue
		}
		s.load++
		if c.active(u) {
			s.load++
		}
		if t.Apart(u.Task) {
			s.apart++
		}
		if t.spreadFrom(u) {
			s.spread++
		}
	}
	return s
}

// spreadFrom tells whether two tasks should be spread over workers.
func (t *task) spreadFrom(u *task) bool {
	for _, p := range t.Placement {
		for _, q := range u.Placement {
			if p.Group == q.Group && p.Label != q.Label && p.Spread && q.Spread {
				return true
			}
		}
	}
	return false
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
