package sim

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"sluice/executor/state/shared"
	"sluice/scheduler"
)

// shell is a scheduler's process: it feeds the core and does what the core wants.
type shell struct {
	world *world
	name  string
	store *shared.Process
	saved int64 // version of the record
	core  *scheduler.Core
	ended bool
	busy  bool
	// stopped: the core has been told to stop.
	stopped bool
	known   map[scheduler.WorkerID]bool // workers that the core has been told of
	later   []scheduler.Event           // that came while another one was worked on
	// asked are decisions that have been recorded and that the core is to be told.
	asked []decided
}

// decided is a decision with what has been recorded.
type decided struct {
	scheduler.Decision
	committed bool
}

// outcome is how the query ended.
type outcome struct{ scheduler.Outcome }

// startScheduler makes a scheduler from what was saved last; the workers find it.
func (w *world) startScheduler() {
	if w.shell != nil || w.outcome != nil {
		return
	}
	w.terms++
	s := &shell{world: w, name: fmt.Sprintf("scheduler-%d", w.terms), known: map[scheduler.WorkerID]bool{}}
	record, err := s.load()
	if err != nil {
		w.fail("the scheduler cannot start: %v", err)
		return
	}
	w.tracef("a scheduler starts")
	w.shell = s
	core, actions := scheduler.New(w.schedulerConfig(), record)
	s.core = core
	s.busy = true
	s.do(actions)
	s.busy = false
	if s.ended {
		return
	}
	for _, k := range w.workers {
		if !k.dead {
			k.register()
		}
	}
	for i := range w.changes {
		w.changes[i].asked = false
	}
	s.tick()
	w.after(w.between(0, 300*millisecond), func() { s.requests() })
}

// load opens the store, and reads what was saved last; nil if the query is new.
func (s *shell) load() (*scheduler.Record, error) {
	var err error
	if s.store, err = s.world.disk.memory.Open(s.name, true); err != nil {
		return nil, err
	}
	if err := s.store.Claim(s.world.terms); err != nil {
		return nil, err
	}
	text, version, err := s.store.Load()
	s.saved = version
	if err != nil || text == nil {
		return nil, err
	}
	r := &scheduler.Record{}
	return r, json.Unmarshal(text, r)
}

func (w *world) schedulerConfig() scheduler.Config {
	p := &w.plan
	return scheduler.Config{
		Query: w.query, Every: p.Every, Flight: p.Flight, Interval: p.Interval,
		Checkpoints: !p.NoCheckpoints, Liveness: p.Liveness, Workers: p.Workers, Off: p.Off,
	}
}

// end is the end of the scheduler's process; another one comes later.
func (s *shell) end(why string) {
	if s.ended {
		return
	}
	w := s.world
	w.tracef("the scheduler ends: %s", why)
	w.counts["schedulers that ended"]++
	s.ended = true
	w.shell = nil
	w.disk.memory.Crash(s.name, nil)
	w.after(w.between(10*millisecond, w.plan.Takeover), w.startScheduler)
}

// tick tells the core that time has passed.
func (s *shell) tick() {
	if s.ended {
		return
	}
	s.event(scheduler.Event{Tick: true})
	w := s.world
	w.after(w.between(40*millisecond, 60*millisecond), s.tick)
}

// event gives the core an event and does what follows, unless the process ends meanwhile.
func (s *shell) event(e scheduler.Event) {
	if s.ended {
		return
	}
	if s.busy {
		s.later = append(s.later, e)
		return
	}
	s.busy = true
	e.Now = s.world.now
	s.do(s.core.Handle(e))
	s.busy = false
	for len(s.later) > 0 && !s.ended {
		e := s.later[0]
		s.later = s.later[1:]
		s.event(e)
	}
}

// welcome tells the core of a worker that has been heard for the first time.
func (s *shell) welcome(k *worker) {
	if !s.known[k.id] {
		s.known[k.id] = true
		s.event(scheduler.Event{Worker: &scheduler.WorkerUp{ID: k.id, Addr: k.addr, Capacity: k.has}})
	}
}

// do carries out actions in order.
func (s *shell) do(actions []scheduler.Action) {
	w := s.world
	for i := 0; i < len(actions) && !s.ended && w.err == nil; i++ {
		if w.faults() && w.chance(w.plan.DiesActing) {
			w.fault()
			s.end("before an action")
			return
		}
		s.action(actions[i])
	}
	if len(s.asked) > 0 && !s.ended {
		d := s.asked[0]
		s.asked = s.asked[1:]
		s.do(s.core.Decided(d.Decision, d.committed))
	}
}

func (s *shell) action(a scheduler.Action) {
	w := s.world
	switch {
	case a.Save != nil:
		s.save(a.Save)
	case a.Start != nil:
		for _, has := range a.Start {
			w.startWorker(has)
		}
	case a.Kill != "":
		s.kill(a.Kill)
	case a.Launch != nil:
		l := *a.Launch
		w.tracef("launch %s/%d at %d on %s", l.ID.Task, l.ID.Gen, l.Checkpoint, l.Worker)
		s.to(l.Worker, func(k *worker) { k.launch(l.Launch) })
	case a.End != nil:
		e := *a.End
		s.to(e.Worker, func(k *worker) { k.endTask(e.ID) })
	case a.Orders != nil:
		o := *a.Orders
		if k := w.worker(o.Worker); k != nil {
			w.control(fmt.Sprintf("orders %d/%d for %s", o.Term, o.Seq, o.To.Task), func() { k.orders(o.Orders) })
		}
	case a.Decide != nil:
		s.decide(*a.Decide)
	case a.Answer != nil:
		s.answered(*a.Answer)
	case a.Trim != nil:
		if err := s.store.Trim(a.Trim.Epoch, a.Trim.Refs); err != nil {
			w.fail("trim: %v", err)
		}
	case a.Alert != "":
		w.tracef("alert: %s", a.Alert)
		if strings.Contains(a.Alert, "has not come to a checkpoint") {
			w.counts["stops without a checkpoint"]++
		}
	case a.Done != nil:
		w.tracef("done: %+v", *a.Done)
		if p := &w.plan; !a.Done.Finished && a.Done.Error == "" && p.StopAt > 0 && !p.StopEnds {
			s.goOn()
			return
		}
		w.outcome = &outcome{*a.Done}
	}
}

// goOn is what becomes of a query that has been stopped: other processes go on with it later, to the end.
func (s *shell) goOn() {
	w := s.world
	w.plan.StopAt = 0
	w.checks.stopping = false
	for _, in := range w.inputs {
		in.endless = false
	}
	for _, k := range w.alive() {
		k.kill("the query is over")
	}
	s.end("the query is over")
}

// save keeps the record, or fails: then it may have been kept nevertheless, and the core is given up.
func (s *shell) save(r *scheduler.Record) {
	w := s.world
	text, err := json.Marshal(r)
	if err != nil {
		w.fail("the record cannot be written: %v", err)
		return
	}
	if w.faults() && w.chance(w.plan.SaveFails) {
		w.fault()
		if w.chance(0.5) {
			s.keep(r, text)
		}
		s.end("it could not save")
		return
	}
	s.keep(r, text)
}

// keep is the moment from which on a record counts.
func (s *shell) keep(r *scheduler.Record, text []byte) {
	w := s.world
	var err error
	if s.saved, err = s.store.Save(text, s.saved); err != nil {
		w.fail("save: %v", err)
	}
	w.checks.saved(w, r)
}

// kill ends a worker's process at some later time.
func (s *shell) kill(id scheduler.WorkerID) {
	w := s.world
	k := w.worker(id)
	w.tracef("kill %s", id)
	w.after(w.between(millisecond, w.plan.KillDelay), func() {
		if k == nil || k.dead {
			if w.shell != nil {
				w.shell.event(scheduler.Event{Gone: id})
			}
			return
		}
		k.kill("the scheduler wants it")
	})
}

// to carries something to a worker that must not come twice.
func (s *shell) to(id scheduler.WorkerID, do func(*worker)) {
	w := s.world
	if k := w.worker(id); k != nil && !w.chance(w.plan.Lost/2) {
		w.after(w.controlDelay(), func() {
			if !k.dead && !k.cut {
				do(k)
			}
		})
	}
}

func (w *world) worker(id scheduler.WorkerID) *worker {
	for _, k := range w.workers {
		if k.id == id {
			return k
		}
	}
	return nil
}

// decide records a decision in the store, which may fail for a while.
func (s *shell) decide(d scheduler.Decision) {
	committed, err := s.store.Decide(d.Attempt, d.Commit)
	if s.world.faults() && s.world.chance(s.world.plan.SaveFails) {
		err = errors.New("sim: the answer is lost")
	}
	if err != nil {
		s.world.fault()
		s.end("it could not decide")
		return
	}
	s.asked = append(s.asked, decided{d, committed})
}
