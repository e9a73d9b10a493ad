package scheduler_test

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"sluice/dataflow"
	"sluice/metaquery"
	"sluice/scheduler"
)

// balance is what the world keeps of the moves of tasks.
type balance struct {
	moves  int
	inTerm int   // of them
	last   int64 // when
}

// placement is how good it is where tasks are: the pairs of tasks that share a worker and must be apart, those that
// should be spread, and the squares of what workers have to do. The less the better.
type placement struct{ apart, spread, squares int }

func (p placement) compare(o placement) int {
	return cmp.Or(cmp.Compare(p.apart, o.apart), cmp.Compare(p.spread, o.spread), cmp.Compare(p.squares, o.squares))
}

// placement is that of the core, but for tasks that move, which are given with where they come to.
func (w *world) placement() placement { return w.placed(w.core.Status()) }

func (w *world) placed(s scheduler.Status) placement {
	var p placement
	loads := map[scheduler.WorkerID]int{}
	for i, t := range s.Tasks {
		if t.Worker == "" {
			continue
		}
		loads[t.Worker] += weight(t)
		for _, u := range s.Tasks[:i] {
			a, b := w.cfg.Query.Task(t.Task), w.cfg.Query.Task(u.Task)
			switch {
			case u.Worker != t.Worker:
			case a.Apart(b):
				p.apart++
			case spreads(a, b):
				p.spread++
			}
		}
	}
	for _, load := range loads {
		p.squares += load * load
	}
	return p
}

func weight(t scheduler.TaskStatus) int {
	switch {
	case t.Role == scheduler.Spare:
		return 1
	case t.Report.Epoch == metaquery.LastEpoch:
		return 0
	}
	return 2
}

func spreads(t, u *dataflow.Task) bool {
	for _, p := range t.Placement {
		for _, q := range u.Placement {
			if p.Group == q.Group && p.Label != q.Label && p.Spread && q.Spread {
				return true
			}
		}
	}
	return false
}

// checkMove: each move makes the placement better, and a term, which is shorter here than ten minutes, has no more of them
// than there are tasks.
func (w *world) checkMove(actions []scheduler.Action, before placement) {
	for _, a := range actions {
		var task, from, to string
		if n, _ := fmt.Sscanf(a.Alert, "task %s moves from worker %s to %s", &task, &from, &to); n < 3 {
			continue
		}
		w.moves, w.inTerm, w.last = w.moves+1, w.inTerm+1, w.now
		if w.inTerm > len(w.cfg.Query.Tasks) {
			w.t.Fatalf("%s: it is move %d of the term", a.Alert, w.inTerm)
		}
		if after := w.placement(); after.compare(before) >= 0 {
			w.t.Fatalf("%s: the placement was %+v, and is %+v", a.Alert, before, after)
		}
	}
}

// calm lets nothing more fail for a while: then tasks move until no move makes the placement clearly better, and stay.
func (w *world) calm() {
	w.healing = true
	began := w.now
	for w.done == nil {
		for len(w.wanted) > 0 {
			w.start()
		}
		w.now += 50_000
		w.handle(scheduler.Event{Tick: true})
		for _, p := range w.workers {
			if p.killed && !p.told {
				w.die(p)
			}
			p.silent = false
			if p.dead {
				continue
			}
			w.alive(p)
			for _, task := range slices.Sorted(maps.Keys(p.running)) {
				if r := p.running[task]; r != nil && r.report.Epoch != metaquery.LastEpoch {
					r.report.Trimmed = false
					w.report(p, r, 3)
				}
			}
		}
		switch quiet := w.now - max(began, w.last); {
		case w.now-began > 100_000_000:
			w.t.Fatalf("%d moves, and no end:\n%s", w.moves, w.core.Status())
		case quiet > 5_000_000:
			w.checkBalance()
			return
		}
	}
}

// checkBalance: no task that may move would be clearly better off elsewhere, where nothing stands in its way.
func (w *world) checkBalance() {
	s := w.core.Status()
	if !w.cfg.Checkpoints || w.moves >= len(s.Tasks) || len(s.Workers) != w.cfg.Workers {
		return
	}
	total := 0
	loads := map[scheduler.WorkerID]int{}
	for _, t := range s.Tasks {
		if t.State == scheduler.Waiting || !w.cfg.Query.Task(t.Task).Resources.IsZero() {
			return
		}
		loads[t.Worker] += weight(t)
		total += weight(t)
	}
	now, share := w.placed(s), float64(total)/float64(len(s.Workers))
	for i := range s.Tasks {
		t := s.Tasks[i]
		if t.State != scheduler.Running {
			continue
		}
		for _, to := range s.Workers {
			moved := s
			moved.Tasks = slices.Clone(s.Tasks)
			moved.Tasks[i].Worker = to.ID
			then, load := w.placed(moved), float64(loads[t.Worker])
			fewer := then.apart < now.apart || then.apart == now.apart && then.spread < now.spread
			if fewer || then.compare(now) < 0 && (load >= share+4 || load >= 1.5*share) {
				w.t.Fatalf("task %s stays on %s, and would be better off on %s:\n%s", t.Task, t.Worker, to.ID, s)
			}
		}
	}
}
