package scheduler_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"sluice/dataflow"
	"sluice/metaquery"
	"sluice/scheduler"
)

// world is a cluster in which messages are lost and processes die, and which checks what a Core does.
type world struct {
	t       *rapid.T
	cfg     scheduler.Config
	core    *scheduler.Core
	now     int64
	keys    map[string][]string // state keys of each task
	sinks   map[string][]string
	workers []*process
	wanted  []dataflow.Resources // workers that are to be started
	saved   *scheduler.Record
	store   map[int64]bool // decisions
	asked   map[int64]bool // decisions that the term has asked for
	old     []*scheduler.TaskReport
	done    *scheduler.Outcome
	healing bool // nothing fails any more

	launched map[metaquery.TaskID]bool
	complete int64
	balance
}

// process is a worker: it hears what is sent to it when it is heard itself.
type process struct {
	id      scheduler.WorkerID
	has     dataflow.Resources
	dead    bool
	silent  bool
	killed  bool            // it has been told to end, or will be
	told    bool            // Gone has been said since
	greeted *scheduler.Core // the last one to which it has come up
	inbox   []scheduler.Action
	running map[string]*runner
}

// runner is a running instance.
type runner struct {
	id     metaquery.TaskID
	orders metaquery.Orders
	report metaquery.Report
}

func newWorld(t *rapid.T, query *dataflow.Physical, checkpoints bool) *world {
	w := &world{
		t: t, now: 1_000_000_000_000_000, keys: make(map[string][]string), sinks: make(map[string][]string),
		store: make(map[int64]bool), launched: make(map[metaquery.TaskID]bool),
		cfg: scheduler.Config{Query: query, Every: 10, Flight: 4, Workers: 3, Checkpoints: checkpoints, Quiet: 200_000},
	}
	keys := dataflow.StateKeys(query.Graph)
	for _, task := range query.Tasks {
		for _, op := range task.Operators {
			if op.Desc.Sink() {
				w.sinks[task.Name] = append(w.sinks[task.Name], op.Name)
			} else if op.Type != dataflow.NetReader && op.Type != dataflow.NetWriter {
				w.keys[task.Name] = append(w.keys[task.Name], keys[op])
			}
		}
	}
	w.restart()
	return w
}

// restart begins a term.
func (w *world) restart() {
	w.asked, w.inTerm = make(map[int64]bool), 0
	core, actions := scheduler.New(w.cfg, w.saved)
	w.core = core
	w.do(actions, len(actions))
}

// handle gives the Core an event; now and then the scheduler dies between two actions.
func (w *world) handle(e scheduler.Event) {
	e.Now = w.now
	before := w.placement()
	actions := w.core.Handle(e)
	w.checkMove(actions, before)
	if len(actions) > 0 && !w.healing && rapid.IntRange(0, 39).Draw(w.t, "crash") == 39 {
		w.do(actions, rapid.IntRange(0, len(actions)-1).Draw(w.t, "after"))
		w.restart()
		return
	}
	w.do(actions, len(actions))
}

// do carries out the first n actions.
func (w *world) do(actions []scheduler.Action, n int) {
	for _, a := range actions[:n] {
		switch {
		case a.Save != nil:
			w.save(a.Save)
		case a.Start != nil:
			w.wanted = append(w.wanted, a.Start...)
		case a.Kill != "":
			p := w.process(a.Kill)
			p.killed, p.told = true, false
		case a.Launch != nil:
			w.checkLaunch(a.Launch)
			w.send(a.Launch.Worker, a)
		case a.End != nil:
			w.send(a.End.Worker, a)
		case a.Orders != nil:
			w.checkOrders(a.Orders.Orders)
			if w.healing || rapid.IntRange(0, 9).Draw(w.t, "lost") > 0 {
				w.send(a.Orders.Worker, a)
			}
		case a.Decide != nil:
			w.decide(*a.Decide)
		case a.Done != nil:
			w.done = a.Done
		}
	}
}

func (w *world) process(id scheduler.WorkerID) *process {
	i := slices.IndexFunc(w.workers, func(p *process) bool { return p.id == id })
	if i < 0 {
		w.t.Fatalf("there is no worker %s", id)
	}
	return w.workers[i]
}

func (w *world) send(id scheduler.WorkerID, a scheduler.Action) {
	p := w.process(id)
	p.inbox = append(p.inbox, a)
}

func (w *world) save(r *scheduler.Record) {
	if w.saved != nil {
		for task, gen := range w.saved.Generations {
			if r.Generations[task] < gen {
				w.t.Fatalf("the generation of %s goes back from %d to %d", task, gen, r.Generations[task])
			}
		}
		if r.Checkpoint < w.saved.Checkpoint || r.Term < w.saved.Term || r.Attempt < w.saved.Attempt {
			w.t.Fatalf("the record goes back: %+v after %+v", r, w.saved)
		}
	}
	w.saved = r
}

func (w *world) checkOrders(o metaquery.Orders) {
	if o.Complete < w.complete {
		w.t.Fatalf("checkpoint %d is announced after %d", o.Complete, w.complete)
	}
	if o.Complete > w.saved.Checkpoint {
		w.t.Fatalf("checkpoint %d is announced and not saved", o.Complete)
	}
	w.complete = o.Complete
	for task, gen := range o.Fences {
		if gen > w.saved.Generations[task] {
			w.t.Fatalf("%s is fenced below generation %d, and %d is saved", task, gen, w.saved.Generations[task])
		}
	}
}

// checkLaunch: no instance is launched twice, none before it has been recorded, none before all consumers
// that run drop what came before it, and no sink beside another one.
func (w *world) checkLaunch(l *scheduler.TaskLaunch) {
	if w.launched[l.ID] {
		w.t.Fatalf("%v is launched twice", l.ID)
	}
	w.launched[l.ID] = true
	if w.saved.Generations[l.ID.Task] != l.ID.Gen {
		w.t.Fatalf("%v is launched, and %d recorded", l.ID, w.saved.Generations[l.ID.Task])
	}
	w.checkOrders(l.Orders)
	w.checkRoom(l)
	for _, ch := range w.cfg.Query.Channels {
		if ch.FromTask.Name == l.ID.Task && l.ID.Gen > 1 {
			w.checkFence(ch.ToTask.Name, l.ID)
		}
	}
	if len(w.sinks[l.ID.Task]) == 0 {
		return
	}
	for _, p := range w.workers {
		if r := p.running[l.ID.Task]; r != nil && !p.dead {
			w.t.Fatalf("%v is launched while %v runs on %s", l.ID, r.id, p.id)
		}
	}
}

// checkRoom: a worker has what the tasks there need together. Cores may be shared.
func (w *world) checkRoom(l *scheduler.TaskLaunch) {
	p := w.process(l.Worker)
	there := []metaquery.TaskID{l.ID}
	for _, r := range p.running {
		there = append(there, r.id)
	}
	for _, a := range p.inbox {
		if a.Launch != nil {
			there = append(there, a.Launch.ID)
		}
	}
	var held dataflow.Resources
	for _, id := range there {
		if w.saved.Generations[id.Task] != id.Gen || p.ends(id) {
			continue
		}
		var agree bool
		if held, agree = held.Together(w.cfg.Query.Task(id.Task).Resources); !agree {
			w.t.Fatalf("%v is launched on %s, where attributes contradict each other: %v", l.ID, p.id, there)
		}
	}
	if !p.has.Covers(held.WithoutCPUs()) {
		w.t.Fatalf("%v is launched on %s, which has %v, and %v need %v", l.ID, p.id, p.has, there, held)
	}
}

func (w *world) checkFence(consumer string, id metaquery.TaskID) {
	for _, p := range w.workers {
		r := p.running[consumer]
		if r == nil || p.dead || p.killed || r.id.Gen != w.saved.Generations[consumer] || p.ends(r.id) {
			continue
		}
		if r.orders.Fences[id.Task] < id.Gen {
			w.t.Fatalf("%v is launched before %v on %s drops what came before it", id, r.id, p.id)
		}
	}
}

// ends tells whether the process will end an instance as soon as it hears again.
func (p *process) ends(id metaquery.TaskID) bool {
	return slices.ContainsFunc(p.inbox, func(a scheduler.Action) bool { return a.End != nil && a.End.ID == id })
}

func (w *world) decide(d scheduler.Decision) {
	if w.asked[d.Attempt] {
		w.t.Fatalf("attempt %d is decided twice", d.Attempt)
	}
	w.asked[d.Attempt] = true
	committed, known := w.store[d.Attempt]
	if !known {
		committed = d.Commit && rapid.IntRange(0, 9).Draw(w.t, "first") > 0
		w.store[d.Attempt] = committed
	}
	actions := w.core.Decided(d, committed)
	w.do(actions, len(actions))
}

// pump lets a process hear what was sent to it.
func (p *process) pump() {
	for _, a := range p.inbox {
		switch {
		case a.Launch != nil:
			p.running[a.Launch.ID.Task] = &runner{id: a.Launch.ID, orders: a.Launch.Orders, report: metaquery.Report{From: a.Launch.ID, Epoch: a.Launch.Checkpoint}}
		case a.End != nil:
			if r := p.running[a.End.ID.Task]; r != nil && r.id == a.End.ID {
				delete(p.running, a.End.ID.Task)
			}
		case a.Orders != nil:
			r := p.running[a.Orders.To.Task]
			if r != nil && r.id == a.Orders.To && (a.Orders.Term > r.orders.Term || a.Orders.Term == r.orders.Term && a.Orders.Seq > r.orders.Seq) {
				r.orders = a.Orders.Orders
			}
		}
	}
	p.inbox = nil
}

// start lets one of the workers come up that are wanted, or end before.
func (w *world) start() {
	i := rapid.IntRange(0, len(w.wanted)-1).Draw(w.t, "wanted")
	has := w.wanted[i]
	w.wanted = slices.Delete(w.wanted, i, i+1)
	p := w.newProcess(has)
	if !w.healing && rapid.IntRange(0, 7).Draw(w.t, "early") == 7 {
		w.die(p)
		return
	}
	w.up(p)
}

func (w *world) newProcess(has dataflow.Resources) *process {
	p := &process{id: scheduler.WorkerID(fmt.Sprintf("w%02d", len(w.workers)+1)), has: has, running: make(map[string]*runner)}
	w.workers = append(w.workers, p)
	return p
}

func (w *world) up(p *process) {
	p.greeted = w.core
	w.handle(scheduler.Event{Worker: &scheduler.WorkerUp{ID: p.id, Addr: string(p.id) + ":1", Capacity: p.has}})
}

// stranger is a worker that nobody has asked for, as if it had been started for an earlier form of the query: it
// has what two of those that are wanted now have, or nothing.
func (w *world) stranger() {
	var has dataflow.Resources
	all := scheduler.Capacities(w.cfg.Query, w.cfg.Workers)
	for range rapid.IntRange(0, 2).Draw(w.t, "has") {
		if sum, agree := has.Together(rapid.SampledFrom(all).Draw(w.t, "of")); agree {
			has = sum
		}
	}
	w.up(w.newProcess(has))
}

// alive lets a process hear and be heard.
func (w *world) alive(p *process) {
	for p.greeted != w.core {
		w.up(p)
	}
	p.pump()
	a := &scheduler.Alive{Worker: p.id, Addr: string(p.id) + ":1"}
	for _, task := range slices.Sorted(maps.Keys(p.running)) {
		a.Tasks = append(a.Tasks, p.running[task].id)
	}
	w.handle(scheduler.Event{Alive: a})
}

// report lets an instance go on by some epochs, or to the end, and tell.
func (w *world) report(p *process, r *runner, epochs int64) {
	rep := &r.report
	rep.Seq++
	rep.Term, rep.Obeyed = r.orders.Term, r.orders.Seq
	from := rep.Epoch
	if epochs == metaquery.LastEpoch {
		rep.Epoch = metaquery.LastEpoch
	} else if from != metaquery.LastEpoch {
		rep.Epoch += epochs
		rep.Begun, rep.Cut = rep.Epoch+1, rep.Epoch+1
	}
	rep.Snapshots, rep.Frontiers = nil, make(map[string]int64)
	for _, key := range w.keys[r.id.Task] {
		rep.Snapshots = append(rep.Snapshots, metaquery.Snapshot{Key: key, Lo: from, Hi: rep.Epoch, Ref: fmt.Sprint(key, rep.Epoch)})
	}
	for _, sink := range w.sinks[r.id.Task] {
		rep.Frontiers[sink] = rep.Epoch
	}
	rep.CaughtUp, rep.Replays = true, true
	rep.Vote = nil
	if plan := r.orders.Plan; plan != nil {
		rep.Vote = &metaquery.Vote{Attempt: plan.Attempt, Late: rep.Epoch >= plan.Epoch}
	}
	sent := *rep
	tr := &scheduler.TaskReport{Worker: p.id, Report: sent}
	w.old = append(w.old, tr)
	w.handle(scheduler.Event{Report: tr})
}

func (w *world) living() []*process {
	return slices.DeleteFunc(slices.Clone(w.workers), func(p *process) bool { return p.dead || p.silent })
}

// step is something that happens.
func (w *world) step() {
	t := w.t
	living := w.living()
	what := rapid.IntRange(0, 99).Draw(t, "what")
	switch {
	case what < 8 && len(w.wanted) > 0:
		w.start()
	case what == 8:
		w.stranger()
	case what < 30:
		w.now += rapid.Int64Range(10_000, 400_000).Draw(t, "time")
		w.handle(scheduler.Event{Tick: true})
	case what < 34:
		w.silence()
	case what < 36:
		w.restart()
	case what < 40 && len(w.old) > 0:
		w.handle(scheduler.Event{Report: w.old[rapid.IntRange(0, len(w.old)-1).Draw(t, "stale")]})
	case what < 43:
		w.handle(scheduler.Event{Set: &scheduler.SetRequest{ID: 1, Tuples: []metaquery.Tuple{
			{Operator: w.cfg.Query.Tasks[rapid.IntRange(0, len(w.cfg.Query.Tasks)-1).Draw(t, "task")].Operators[0].Name, Param: "p", Value: "v"}}}})
	case len(living) == 0:
	case what < 65:
		w.alive(living[rapid.IntRange(0, len(living)-1).Draw(t, "alive")])
	default:
		p := living[rapid.IntRange(0, len(living)-1).Draw(t, "worker")]
		p.pump()
		if len(p.running) == 0 {
			return
		}
		task := rapid.SampledFrom(slices.Sorted(maps.Keys(p.running))).Draw(t, "task")
		r := p.running[task]
		if what == 99 {
			r.report.Trimmed = true
		}
		w.report(p, r, rapid.Int64Range(0, 6).Draw(t, "epochs"))
	}
}

// silence changes whether a process is heard, or lives.
func (w *world) silence() {
	if len(w.workers) == 0 {
		return
	}
	p := w.workers[rapid.IntRange(0, len(w.workers)-1).Draw(w.t, "process")]
	switch {
	case p.dead && (p.told || !p.killed):
	case p.killed || rapid.Bool().Draw(w.t, "dies"):
		w.die(p)
	default:
		p.silent = !p.silent
	}
}

func (w *world) die(p *process) {
	p.dead, p.told = true, true
	w.handle(scheduler.Event{Gone: p.id, Had: p.has})
}

// heal lets nothing more fail, until the query is finished.
func (w *world) heal() {
	w.healing = true
	for range 200 {
		if w.done != nil && w.done.Finished {
			return
		}
		for len(w.wanted) > 0 {
			w.start()
		}
		w.now += 100_000
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
				if r := p.running[task]; r != nil {
					r.report.Trimmed = false
					w.report(p, r, metaquery.LastEpoch)
				}
			}
		}
	}
	w.t.Fatalf("the query does not end:\n%s", w.core.Status())
}

// TestRandom: whatever happens, in whatever order, the rules hold, and when nothing more happens the query
// ends.
func TestRandom(t *testing.T) {
	var queries []*dataflow.Physical
	for _, rewrites := range [][]string{
		{"pipeline:late"}, {"hot-standby:count"}, {"checkpoint:count"}, {"partition:count:k=2", "hot-standby:count.1"},
		{"standby:late", "checkpoint:count"}, {"checkpoint:count", "partition:count:k=2"}, {"hot-standby:count", "checkpoint:count"},
		{"checkpoint:count", "hot-standby:count"}, {"hot-standby:count", "partition:count:k=2"},
	} {
		queries = append(queries, compileQuery(t, rewritesOf(rewrites)))
	}
	for _, q := range [][]string{
		{"hot-standby:count", `count <resources mem="1GB" cpus="1"/>`},
		{"pipeline:late", `late <resources cpus="2"/>`, `sink <resources cpus="1"/>`, `source <resources cpus="1"/>`},
		{"partition:count:k=2", `source <resources mem="3MB"/>`, `count <resources mem="2MB" disk="1GB"/>`, `sink <resources gpus="1"/>`},
		{"standby:late", `source <resources attributes="rack=r1"/>`, `late <resources mem="1MB" attributes="rack=r2"/>`, `count <resources ports="2"/>`},
		{"checkpoint:count", `source <resources attributes="rack=r1"/>`, `late <resources attributes="rack=r2"/>`, `count <resources attributes="rack=r3"/>`,
			`sink <resources attributes="rack=r4"/>`},
		{"hot-standby:count", `source <resources attributes="rack=r1"/>`, `count <resources mem="1GB" attributes="rack=r1"/>`},
	} {
		queries = append(queries, compileQuery(t, rewritesOf(q[:1]), q[1:]...))
	}
	moves := 0
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t, queries[rapid.IntRange(0, len(queries)-1).Draw(t, "query")], rapid.Bool().Draw(t, "checkpoints"))
		for range rapid.IntRange(1, 300).Draw(t, "steps") {
			if w.done == nil {
				w.step()
			}
		}
		if w.done == nil && rapid.Bool().Draw(t, "calm") {
			w.calm()
		}
		w.heal()
		moves += w.moves
	})
	t.Logf("%d moves", moves)
	if moves == 0 {
		t.Error("no task has been moved")
	}
}

// TestForgets: a term may be long: workers that have ended are forgotten after a while, but for those that sinks were
// launched on last, and so are alerts.
func TestForgets(t *testing.T) {
	core, _ := scheduler.New(scheduler.Config{Query: compileQuery(t, ""), Every: 10, Flight: 4, Workers: 1, Checkpoints: true}, nil)
	now := int64(1_000_000_000_000_000)
	handle := func(e scheduler.Event) {
		e.Now = now
		core.Handle(e)
	}
	for i := range 3000 {
		id := scheduler.WorkerID(fmt.Sprint("w", i))
		handle(scheduler.Event{Worker: &scheduler.WorkerUp{ID: id, Addr: "a:1"}})
		handle(scheduler.Event{Gone: id})
		handle(scheduler.Event{Gone: "never-up-" + id})
		now += 500_000
		handle(scheduler.Event{Tick: true})
	}
	if workers, alerts := core.Remembered(); workers > 60 || alerts > 1000 {
		t.Errorf("%d workers and %d alerts are remembered", workers, alerts)
	}
	now += 20_000_000
	handle(scheduler.Event{Tick: true})
	if workers, _ := core.Remembered(); workers != 1 {
		t.Errorf("%d workers are remembered, not that of the sink", workers)
	}
	handle(scheduler.Event{Worker: &scheduler.WorkerUp{ID: "last", Addr: "a:1"}})
	if s := core.Status(); s.Tasks[0].State != scheduler.Launching || s.Tasks[0].Worker != "last" {
		t.Errorf("the query does not go on:\n%s", s)
	}
}
