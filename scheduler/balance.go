package scheduler

import (
	"cmp"
	"fmt"
	"slices"

	"sluice/metaquery"
)

const (
	defaultQuiet = 5 * second
	// moveWindow is the time in which no more tasks are moved than the query has.
	moveWindow = 600 * second
)

// balancer is what the core keeps for moving tasks to workers that have come late.
type balancer struct {
	disturbed int64   // when something last was not as it should be, or changed
	looked    int64   // when a move was last looked for
	completed int64   // when a checkpoint was last complete
	moves     []int64 // when tasks were moved, within moveWindow
}

// disturb notes that something has happened: tasks are moved only when nothing has for a while.
func (c *Core) disturb() { c.disturbed = c.now }

// balance moves one task to a worker that has clearly fewer if all has been quiet for some time, just after a
// checkpoint, so that little is done again. The next one has to wait until this one has caught up and all has been
// quiet again.
func (c *Core) balance() {
	if c.cfg.Quiet < 0 || !c.deployed {
		return
	}
	if !c.quiet() {
		c.disturb()
		return
	}
	pause := c.cfg.Quiet
	if !c.full() {
		pause *= patience // for the worker that is missing
	}
	if c.now-max(c.disturbed, c.looked) < pause || !c.timely() {
		return
	}
	c.looked = c.now
	l := c.newLoads()
	c.moveSpares(l)
	m := c.findMove(l)
	if m == nil {
		return
	}
	c.moves = slices.DeleteFunc(c.moves, func(at int64) bool { return c.now-at >= moveWindow })
	if len(c.moves) >= len(c.tasks) {
		c.alert(fmt.Sprintf("%d tasks have been moved within %d minutes to spread them; no more are for a while", len(c.moves), moveWindow/second/60))
		return
	}
	c.moves = append(c.moves, c.now)
	c.move(m)
}

// quiet tells whether all is as it should be, and nothing is under way.
func (c *Core) quiet() bool {
	if c.rec.Stop != 0 || c.rec.Plan != nil || c.change != nil || len(c.queue) > 0 {
		return false
	}
	return !slices.ContainsFunc(c.tasks, func(t *task) bool { return c.active(t) && !c.parked(t) && !c.settled(t) })
}

// settled tells whether a task runs, listens, and has caught up with its producers since it was launched. One that has
// not for long does not hold up the others: it may be that its worker has too much to do.
func (c *Core) settled(t *task) bool {
	if !t.live || !t.heard || t.report.Term != c.rec.Term || t.report.Waits != "" || t.report.Retry != "" || t.report.Trimmed {
		return false
	}
	if t.report.Obeyed < t.orders.Seq && c.now-t.dueSince > c.cfg.Liveness {
		return false
	}
	return t.caughtUp || t.finished() || c.now-t.launched >= patience*c.cfg.Quiet
}

// finished tells whether a task has nothing more to do.
func (t *task) finished() bool { return t.report.Epoch == metaquery.LastEpoch }

// timely tells whether little would be done again: a checkpoint is complete just now, or, where sources count their
// epochs, there is nothing new for another one.
func (c *Core) timely() bool {
	if c.completed == c.now {
		return true
	}
	return c.cfg.Interval == 0 && c.now-c.completed >= c.cfg.Quiet && c.high()-c.rec.Checkpoint < c.cfg.Every
}

// loads are how much each worker has to do: twice the tasks that run, and once the standbys. Tasks that have ended
// count for nothing.
type loads struct {
	workers []*worker
	of      map[WorkerID]int
	share   float64 // of each, if all had the same
}

func (c *Core) newLoads() *loads {
	l := &loads{of: make(map[WorkerID]int)}
	for _, w := range c.sorted() {
		if w.slot >= 0 || !c.needs {
			l.workers = append(l.workers, w)
		}
	}
	total := 0
	for _, t := range c.tasks {
		if t.worker != "" {
			l.of[t.worker] += c.weight(t)
			total += c.weight(t)
		}
	}
	l.share = float64(total) / float64(max(len(l.workers), 1))
	return l
}

func (c *Core) weight(t *task) int {
	switch {
	case !c.active(t):
		return 1
	case t.finished():
		return 0
	}
	return 2
}

// over tells whether a worker has clearly more than its share: two tasks, or half as much again.
func (l *loads) over(id WorkerID) bool {
	has := float64(l.of[id])
	return has >= l.share+4 || has >= 1.5*l.share
}

// gain is by how much a move makes the placement better: fewer tasks that must be apart share a worker, or else fewer
// that should be spread, or else loads are less apart. A placement cannot be made better without end.
type gain struct{ apart, spread, load int }

func (g gain) compare(o gain) int {
	return cmp.Or(cmp.Compare(g.apart, o.apart), cmp.Compare(g.spread, o.spread), cmp.Compare(g.load, o.load))
}

// gain is that of a move to a worker.
func (c *Core) gain(t *task, l *loads, to *worker) gain {
	here, there := c.neighbours(t, t.worker), c.neighbours(t, to.id)
	// The sum of the squares of two loads, of which one gives some to the other, falls by twice that times this.
	return gain{here.apart - there.apart, here.spread - there.spread, l.of[t.worker] - l.of[to.id] - c.weight(t)}
}

// neighbours counts the tasks of a worker that a task must, and should, be apart from.
func (c *Core) neighbours(t *task, id WorkerID) score {
	var s score
	for _, u := range c.tasks {
		if u == t || u.worker != id {
			continue
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

// moveSpares finds better places for standbys. Nothing of them runs, so that costs nothing.
func (c *Core) moveSpares(l *loads) {
	for again := true; again; {
		again = false
		for _, t := range c.tasks {
			if c.active(t) || t.worker == "" {
				continue
			}
			if to, _ := c.bestMove(t, l); to != nil {
				l.of[t.worker]--
				l.of[to.id]++
				t.worker, again = to.id, true
			}
		}
	}
}

// bestMove is the worker to which a move of the task gains most, nil if none gains anything.
func (c *Core) bestMove(t *task, l *loads) (*worker, gain) {
	var best *worker
	var most gain
	for _, w := range l.workers {
		if w.id == t.worker || c.now-w.heard > c.cfg.Liveness/2 || !c.fits(t, w, false) {
			continue
		}
		if g := c.gain(t, l, w); g.compare(gain{}) > 0 && (best == nil || g.compare(most) > 0) {
			best, most = w, g
		}
	}
	return best, most
}

// move is a task that is better off on another worker.
type move struct {
	task *task
	to   *worker
	gain gain
	why  string
}

// findMove finds the move that costs least, and among those the one that gains most; nil if the placement is good
// enough.
func (c *Core) findMove(l *loads) *move {
	var best *move
	for _, t := range c.tasks {
		if !c.movable(t) {
			continue
		}
		to, g := c.bestMove(t, l)
		if to == nil || g.apart == 0 && g.spread == 0 && !l.over(t.worker) {
			continue
		}
		m := &move{task: t, to: to, gain: g}
		if best == nil || cmp.Or(cmp.Compare(costs(m.task), costs(best.task)), best.gain.compare(m.gain)) < 0 {
			best = m
		}
	}
	if best != nil {
		best.why = l.reason(best)
	}
	return best
}

func (l *loads) reason(m *move) string {
	switch {
	case l.of[m.to.id] == 0:
		return "which is empty"
	case m.gain.apart > 0 || m.gain.spread > 0:
		return "where fewer of those are that it is to be apart from"
	}
	return "which has less to do"
}

// movable tells whether a task can be launched elsewhere without loss: one that is not at home, that has its state in
// checkpoints, whose sources can be read again and whose sinks undo what is not committed. Where there are copies one
// of the others must do its work meanwhile.
func (c *Core) movable(t *task) bool {
	if !t.live || t.finished() || t.home >= 0 && t.home == c.workers[t.worker].slot {
		return false
	}
	if t.stateful && !c.cfg.Checkpoints || (t.sources || len(t.sinks) > 0) && !t.report.Replays {
		return false
	}
	copied := false
	for _, u := range t.copies {
		if !c.active(u) {
			continue
		}
		if u.live && u.report.CaughtUp {
			return true
		}
		copied = true
	}
	return !copied
}

// costs tells what is cheap to move from what is not: nothing to bring along, state, an input that is opened again, an
// output that has to be closed first.
func costs(t *task) int {
	switch {
	case len(t.sinks) > 0:
		return 3
	case t.sources:
		return 2
	case t.stateful:
		return 1
	}
	return 0
}

// move ends a task where it is; it is launched elsewhere as after a failure.
func (c *Core) move(m *move) {
	t := m.task
	c.alert(fmt.Sprintf("task %s moves from worker %s to %s, %s", t.Name, t.worker, m.to.id, m.why))
	from := t.worker
	c.end(t)
	c.bump(t)
	t.worker, t.moved = m.to.id, from
	c.disturb()
}
