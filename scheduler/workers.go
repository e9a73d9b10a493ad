package scheduler

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"sluice/dataflow"
	"sluice/metaquery"
)

// worker is a process, or what is known of one that was.
type worker struct {
	id     WorkerID
	addr   string
	state  workerState
	heard  int64
	over   int64                     // when it was known to have ended
	listed int64                     // when it last said what it runs
	runs   map[metaquery.TaskID]bool // what it said

	capacity dataflow.Resources
	measured bool // the capacity is known
	slot     int  // whose place it takes; -1 for none
}

type workerState uint8

const (
	up     workerState = iota
	killed             // it may still run
	ended
)

func (w *worker) up() bool { return w != nil && w.state == up }

// sorted are the workers that are up, by name.
func (c *Core) sorted() []*worker {
	list := slices.Collect(maps.Values(c.workers))
	list = slices.DeleteFunc(list, func(w *worker) bool { return !w.up() })
	slices.SortFunc(list, func(a, b *worker) int { return cmp.Compare(a.id, b.id) })
	return list
}

// hear notes a sign of life. Of a worker that has been given up it counts for nothing.
func (c *Core) hear(id WorkerID, addr string) *worker {
	w := c.workers[id]
	if w == nil {
		w = &worker{id: id, slot: -1}
		c.workers[id] = w
		c.disturb()
		if !c.needs {
			c.measure(w, dataflow.Resources{})
		}
	}
	if !w.up() {
		return w
	}
	w.heard = c.now
	if addr != "" && addr != w.addr {
		w.addr, c.dirty = addr, true
	}
	return w
}

// welcome takes a worker that is up.
func (c *Core) welcome(up *WorkerUp) {
	if w := c.hear(up.ID, up.Addr); w.up() && !w.measured {
		c.measure(w, up.Capacity)
	}
}

// alive compares what a worker runs with what it should.
func (c *Core) alive(a *Alive) {
	w := c.hear(a.Worker, a.Addr)
	if !w.up() {
		c.do(Action{Kill: w.id})
		return
	}
	w.listed, w.runs = c.now, make(map[metaquery.TaskID]bool, len(a.Tasks))
	for _, id := range a.Tasks {
		w.runs[id] = true
		t := c.byName[id.Task]
		if t != nil && c.isCurrent(t, id.Gen, w.id) {
			t.seen = c.now
			continue
		}
		if t != nil && id.Gen > c.gen(t) {
			c.prove()
		}
		c.do(Action{End: &TaskEnd{Worker: w.id, ID: id}})
	}
	for _, t := range c.tasks {
		if t.live && t.worker == w.id && c.now-t.seen > c.cfg.Liveness {
			c.alert(fmt.Sprintf("worker %s no longer runs task %s, generation %d; it is launched again", w.id, t.Name, c.gen(t)))
			c.fail(t, true)
		}
	}
}

// isCurrent tells whether an instance is the one that should run. A new term adopts it.
func (c *Core) isCurrent(t *task, gen int64, id WorkerID) bool {
	if gen != c.gen(t) || gen == 0 || !c.active(t) {
		return false
	}
	if c.collecting && !t.live {
		t.instance = instance{live: true, from: -1, launched: c.now, seen: c.now, dueSince: c.now, fences: make(map[string]fence)}
		t.worker = id
		c.deployed, c.dirty = true, true
	}
	return t.live && t.worker == id
}

// findSilent gives up the workers that have not been heard.
func (c *Core) findSilent() {
	for _, w := range c.sorted() {
		if c.now-w.heard <= c.cfg.Liveness {
			continue
		}
		w.state = killed
		c.disturb()
		c.prove()
		c.do(Action{Kill: w.id})
		c.alert(fmt.Sprintf("worker %s has been silent for %d ms; what it runs is launched elsewhere", w.id, (c.now-w.heard)/1000))
		c.failAll(w)
	}
}

// gone notes that a worker has ended.
func (c *Core) gone(id WorkerID, had dataflow.Resources) {
	w := c.workers[id]
	if w == nil {
		// It ended before it was up: not at once again.
		c.workers[id] = &worker{id: id, state: ended, over: c.now, slot: -1}
		c.started(had)
		c.startFrom = c.now + c.cfg.Liveness
		return
	}
	was := w.state
	if was == up && !w.measured {
		c.started(had)
	}
	w.state, w.runs, w.over = ended, nil, c.now
	if was == up {
		c.disturb()
		c.alert(fmt.Sprintf("worker %s has ended; what it ran is launched elsewhere", w.id))
		c.failAll(w)
	}
}

func (c *Core) failAll(w *worker) {
	for _, t := range c.tasks {
		if t.worker == w.id {
			c.fail(t, true)
		}
	}
}

// forgetEnded forgets workers that have ended some time ago, so that nothing of them is under way any more. Where the
// last instance of a sink was launched is of interest for longer.
func (c *Core) forgetEnded() {
	maps.DeleteFunc(c.workers, func(id WorkerID, w *worker) bool {
		old := w.state == ended && c.now-w.over >= patience*c.cfg.Liveness
		return old && !slices.Contains(slices.Collect(maps.Values(c.rec.Workers)), id)
	})
}

// endCollecting is where a new term begins to launch.
func (c *Core) endCollecting() {
	c.collecting = false
	for _, t := range c.tasks {
		if t.live || c.gen(t) == 0 || !c.active(t) {
			continue
		}
		// The last one may run somewhere, unheard.
		c.bump(t)
		t.failed = c.deployed
		c.lose(t)
		c.killUnheard(c.rec.Workers[t.Name])
	}
}

// killUnheard makes sure that a worker of an earlier term has ended.
func (c *Core) killUnheard(id WorkerID) {
	if id != "" && c.workers[id] == nil {
		c.workers[id] = &worker{id: id, state: killed, slot: -1}
		c.do(Action{Kill: id})
	}
}
