package scheduler

import (
	"fmt"
	"slices"

	"sluice/dataflow"
)

// slot is a worker that is wanted.
type slot struct {
	capacity dataflow.Resources
	worker   WorkerID // that has it; "" for none
}

// fillSlots finds out which workers the query takes, and where tasks that need resources are at home.
func (c *Core) fillSlots() {
	l := layOut(c.cfg.Query.Tasks, c.cfg.Workers)
	for _, capacity := range l.capacities() {
		c.slots = append(c.slots, slot{capacity: capacity})
	}
	for _, t := range c.tasks {
		t.home = -1
		if i, ok := l.home[t.Task]; ok {
			t.home, c.needs = i, true
		}
	}
}

// alertMore tells the user that the query gets more workers than are wanted.
func (c *Core) alertMore() {
	if more := len(c.slots) - c.cfg.Workers; more > 0 {
		c.alert(fmt.Sprintf("the query gets %d workers, %d more than are wanted, since tasks need attributes that no one machine has: name as many workers, or change <resources>",
			len(c.slots), more))
	}
}

// measure notes what a worker has.
func (c *Core) measure(w *worker, capacity dataflow.Resources) {
	w.capacity, w.measured = capacity, true
	c.started(capacity)
}

// started notes that a worker is not being started any more.
func (c *Core) started(capacity dataflow.Resources) { c.starting = Started(c.starting, capacity) }

// Started takes a worker from those that are being started. A cluster may give it more than was asked for.
func Started(starting []dataflow.Resources, capacity dataflow.Resources) []dataflow.Resources {
	best := slices.IndexFunc(starting, capacity.Equal)
	if best < 0 {
		best = slices.IndexFunc(starting, capacity.Covers)
	}
	if best < 0 {
		return starting
	}
	return slices.Delete(starting, best, best+1)
}

// vacant are the slots without a worker, by index.
func (c *Core) vacant() []int {
	var list []int
	for i := range c.slots {
		s := &c.slots[i]
		if s.worker != "" && !c.workers[s.worker].up() {
			s.worker = ""
		}
		if s.worker == "" {
			list = append(list, i)
		}
	}
	return list
}

// bind gives vacant slots to workers that have none: first to those that run the tasks that are at home there, then to
// those that have just what is wanted, then to those that have more.
func (c *Core) bind() {
	var idle []*worker
	for _, w := range c.sorted() {
		if w.slot < 0 && w.measured {
			idle = append(idle, w)
		}
	}
	if len(idle) == 0 {
		return
	}
	vacant := c.vacant()
	for _, rank := range []func(slot int, w *worker) int{
		c.atHome,
		func(slot int, w *worker) int { return oneIf(w.capacity.Equal(c.slots[slot].capacity)) },
		func(int, *worker) int { return 1 },
	} {
		vacant = slices.DeleteFunc(vacant, func(slot int) bool {
			s := &c.slots[slot]
			i := bestIndex(idle, func(w *worker) int { return oneIf(w.capacity.Covers(s.capacity)) * rank(slot, w) })
			if i >= 0 {
				s.worker, idle[i].slot = idle[i].id, slot
				idle = slices.Delete(idle, i, i+1)
			}
			return i >= 0
		})
	}
	if c.needs {
		c.dismiss(idle, len(vacant) > 0)
	}
}

// dismiss ends workers without a slot on which nothing runs, that can be of no use, or that may be in the way of others
// which are missing. The rest are there for when one ends.
func (c *Core) dismiss(idle []*worker, missing bool) {
	for _, w := range idle {
		useful := slices.ContainsFunc(c.slots, func(s slot) bool { return w.capacity.Covers(s.capacity) })
		if useful && !missing || slices.ContainsFunc(c.tasks, func(t *task) bool { return t.worker == w.id }) {
			continue
		}
		w.state = killed
		c.do(Action{Kill: w.id})
		if useful {
			c.alert(fmt.Sprintf("worker %s, which has %s, is ended: there are enough of this kind, and others are missing", w.id, w.capacity))
			continue
		}
		c.alert(fmt.Sprintf("worker %s has %s for tasks that need resources, which is not what a worker of this query has to have; it is ended", w.id, w.capacity))
	}
}

// atHome counts the tasks of a slot that a worker has.
func (c *Core) atHome(slot int, w *worker) int {
	n := 0
	for _, t := range c.tasks {
		if t.worker == w.id && t.home == slot {
			n++
		}
	}
	return n
}

func oneIf(b bool) int {
	if b {
		return 1
	}
	return 0
}

// bestIndex is the first worker of the highest rank, -1 if all have 0.
func bestIndex(list []*worker, rank func(*worker) int) int {
	best, most := -1, 0
	for i, w := range list {
		if n := rank(w); n > most {
			best, most = i, n
		}
	}
	return best
}

// askWorkers asks for the workers that are missing.
func (c *Core) askWorkers() {
	if c.now < c.startFrom {
		return
	}
	if missing := c.missing(); len(missing) > 0 {
		c.starting = append(c.starting, missing...)
		c.do(Action{Start: missing})
	}
}

// missing are the capacities of vacant slots for which no worker is being started.
func (c *Core) missing() []dataflow.Resources {
	var missing []dataflow.Resources
	for _, i := range c.vacant() {
		missing = append(missing, c.slots[i].capacity)
	}
	starting := slices.Clone(c.starting)
	for _, does := range []func(has, wanted dataflow.Resources) bool{dataflow.Resources.Equal, dataflow.Resources.Covers} {
		missing = slices.DeleteFunc(missing, func(wanted dataflow.Resources) bool {
			i := slices.IndexFunc(starting, func(has dataflow.Resources) bool { return does(has, wanted) })
			if i >= 0 {
				starting = slices.Delete(starting, i, i+1)
			}
			return i >= 0
		})
	}
	return missing
}

// full tells whether all workers that are wanted are there.
func (c *Core) full() bool { return len(c.vacant()) == 0 }

// fits tells whether a worker has room for a task: what it has covers what the tasks there and those that are at home
// there need, and this one. Where it is at home itself, that place is kept for it. With shared, cores do not count.
func (c *Core) fits(t *task, w *worker, shared bool) bool {
	if t.home < 0 {
		return !c.needs || w.slot >= 0
	}
	if w.slot < 0 {
		return false
	}
	home := t.home == w.slot
	held, agree := t.Resources, true
	for _, u := range c.tasks {
		if u == t || u.home < 0 || u.worker != w.id && (home || u.home != w.slot) {
			continue
		}
		var ok bool
		held, ok = held.Together(u.Resources)
		agree = agree && ok
	}
	if home || shared { // others may share the cores of its home
		held = held.WithoutCPUs()
	}
	return agree && w.capacity.Covers(held)
}

// mayShare tells whether a task has waited long enough for a worker with cores of its own.
func (c *Core) mayShare(t *task) bool {
	return t.home >= 0 && t.Resources.CPUs > 0 && c.now-t.waiting >= c.cfg.Liveness
}

// lacks says what a task needs if it has no worker since none has that.
func (c *Core) lacks(t *task) string {
	if t.home < 0 || t.worker != "" || !c.deployed {
		return ""
	}
	return t.Resources.String()
}
