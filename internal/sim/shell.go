package sim

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"sluice/executor/state/shared"
	"sluice/internal/protocol"
	"sluice/scheduler"
)

// shell is a scheduler's process: it feeds the core and does what the core wants.
type shell struct {
	world *world
	name  string
	store *shared.Process
	saved int64 // version of the record
	core  *scheduler.Core
	term  int64
	ended bool
	busy  bool // it does something, or would if it were awake
	// asleep: it does nothing until it wakes up, and goes on then with left and all that has come.
	asleep bool
	left   []scheduler.Action
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
	s := &shell{world: w, name: fmt.Sprintf("scheduler-%d", w.terms), term: w.terms, known: map[scheduler.WorkerID]bool{}}
	record, err := s.load()
	if err != nil {
		w.fail("the scheduler cannot start: %v", err)
		return
	}
	w.tracef("a scheduler starts")
	w.shell = s
	core, actions := scheduler.New(w.schedulerConfig(), record)
	s.core = core
	if s.work(actions); s.ended {
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
	if s.store, err = s.world.disk.memory.Open(s.name, len(s.world.former) == 0); err != nil {
		return nil, err
	}
	if err := s.store.Claim(s.term); err != nil {
		return nil, err
	}
	text, version, err := s.store.Load()
	s.saved = version
	if err != nil || text == nil {
		return nil, err
	}
	r := &scheduler.Record{}
	err = json.Unmarshal(text, r)
	r.Term = s.term - 1
	return r, err
}

func (w *world) schedulerConfig() scheduler.Config {
	p := &w.plan
	return scheduler.Config{
		Query: w.query, Every: p.Every, Flight: p.Flight, Interval: p.Interval,
		Checkpoints: !p.NoCheckpoints, Liveness: p.Liveness, Workers: p.Workers, Quiet: p.Quiet, Off: p.Off,
	}
}

// end is the end of the scheduler's process; another one comes later, unless there is one.
func (s *shell) end(why string) {
	if s.ended {
		return
	}
	w := s.world
	w.tracef("%s ends: %s", s.name, why)
	w.counts["schedulers that ended"]++
	s.ended = true
	w.disk.memory.Crash(s.name, nil)
	if w.shell == s {
		w.nextScheduler()
		return
	}
	w.former = slices.DeleteFunc(w.former, func(o *shell) bool { return o == s })
}

// nextScheduler is for when the one that there was is there no longer, or is no longer heard of.
func (w *world) nextScheduler() {
	w.shell = nil
	w.after(w.between(10*millisecond, w.plan.Takeover), w.startScheduler)
}

// shells are all schedulers that run: the one that leads, and those that once did and do not know better.
func (w *world) shells() []*shell {
	all := slices.Clone(w.former)
	if w.shell != nil {
		all = append(all, w.shell)
	}
	return all
}

// depose lets another scheduler take over from one that goes on, at once or, if it falls asleep, with what is left
// to be done when it wakes up.
func (s *shell) depose(sleeps bool, left []scheduler.Action) {
	w := s.world
	if s.ended || w.shell != s {
		return
	}
	w.tracef("%s is taken for dead, and is asleep: %v", s.name, sleeps)
	w.counts["schedulers that were deposed"]++
	w.former = append(w.former, s)
	w.nextScheduler()
	if !sleeps {
		return
	}
	s.asleep, s.left = true, left
	w.after(w.between(100*millisecond, w.plan.Takeover+3*second), func() {
		if s.ended {
			return
		}
		w.tracef("%s wakes up", s.name)
		wasBusy := s.busy
		s.asleep, s.left, s.busy = false, nil, false
		if wasBusy || len(left) > 0 {
			s.work(left)
		}
		s.catchUp()
	})
}

// tick tells the core that time has passed.
func (s *shell) tick() {
	if s.ended {
		return
	}
	if !s.asleep {
		s.event(scheduler.Event{Tick: true})
	}
	w := s.world
	w.after(w.between(40*millisecond, 60*millisecond), s.tick)
}

// mostWaiting is how many events wait for a scheduler that is asleep; later ones are lost.
const mostWaiting = 1000

// event gives the core an event and does what follows, unless the process ends meanwhile.
func (s *shell) event(e scheduler.Event) {
	switch {
	case s.ended:
	case s.busy || s.asleep:
		if len(s.later) < mostWaiting {
			s.later = append(s.later, e)
		}
	default:
		e.Now = s.world.now
		s.work(s.core.Handle(e))
		s.catchUp()
	}
}

// catchUp gives the core what has come meanwhile.
func (s *shell) catchUp() {
	for len(s.later) > 0 && !s.ended && !s.busy && !s.asleep {
		e := s.later[0]
		s.later = s.later[1:]
		e.Now = s.world.now
		s.work(s.core.Handle(e))
	}
}

// work does what the core wants; nothing else is done before, though it may be after a long sleep.
func (s *shell) work(actions []scheduler.Action) {
	s.busy = true
	s.do(actions)
	s.busy = s.asleep
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
		if w.shell == s && w.faults() && w.chance(w.plan.SleepsActing) {
			w.fault()
			s.depose(true, actions[i:])
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
	s.count(a)
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
		if l.Moved != "" {
			w.counts["moves"]++
		}
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
		if w.shell != s {
			s.end("it takes the query for over, and nobody asks")
			return
		}
		if p := &w.plan; !a.Done.Finished && a.Done.Error == "" && p.StopAt > 0 && !p.StopEnds {
			s.goOn()
			return
		}
		w.outcome = &outcome{*a.Done}
	}
}

// count counts what a scheduler does that another one has replaced.
func (s *shell) count(a scheduler.Action) {
	if s.world.shell == s {
		return
	}
	for what, is := range map[string]bool{
		"launches by former schedulers": a.Launch != nil, "orders of former schedulers": a.Orders != nil,
		"kills by former schedulers": a.Kill != "", "ends by former schedulers": a.End != nil,
	} {
		if is {
			s.world.counts[what]++
		}
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
	for _, o := range w.shells() {
		o.end("the query is over")
	}
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
	version, err := s.store.Save(text, s.saved)
	switch {
	case errors.Is(err, shared.ErrSuperseded) && w.shell != s && w.on(protocol.Term):
		w.counts["saves refused"]++
		s.end("another one has taken over")
		return
	case errors.Is(err, shared.ErrSuperseded) && !w.on(protocol.Term):
		version, err = s.overwrite(text)
	}
	if err != nil {
		w.fail("save: %v", err)
	}
	s.saved = version
	w.checks.saved(w, r)
}

// overwrite saves a record whoever has saved one before.
func (s *shell) overwrite(text []byte) (version int64, err error) {
	s.world.terms++
	if err := s.store.Claim(s.world.terms); err != nil {
		return 0, err
	}
	_, version, err = s.store.Load()
	if err != nil {
		return 0, err
	}
	return s.store.Save(text, version)
}

// kill ends a worker's process at some later time.
func (s *shell) kill(id scheduler.WorkerID) {
	w := s.world
	k := w.worker(id)
	w.tracef("kill %s", id)
	w.after(w.between(millisecond, w.plan.KillDelay), func() {
		if k == nil || k.dead {
			for _, o := range w.shells() {
				o.event(scheduler.Event{Gone: id})
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
