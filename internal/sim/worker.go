package sim

import (
	"cmp"
	"fmt"
	"slices"

	"sluice/dataflow"
	"sluice/executor/channel"
	"sluice/internal/protocol"
	"sluice/metaquery"
	"sluice/scheduler"
)

// worker is a process that hosts instances of tasks.
type worker struct {
	world *world
	id    scheduler.WorkerID
	addr  string
	dead  bool             // it has ended
	cut   bool             // nothing comes to it from the scheduler, and nothing of it gets there
	hosts []*host          // that have not ended, by task and generation
	told  int64            // when there was a scheduler to be heard last
	seen  map[string]int64 // highest generation of each task that was launched here
	skew  int64            // of its clock, in microseconds
	has   dataflow.Resources

	retained  *channel.Retention // nil: each instance has its own
	fullUntil int64              // its disk takes no retained rows until then
	roomUntil int64              // and then takes them at least until then
}

// silence is after how long without a word of the scheduler a worker ends.
const silence = 10 * second

// startWorker makes a process, which comes up after a while.
func (w *world) startWorker(has dataflow.Resources) {
	n := len(w.workers) + 1
	k := &worker{world: w, id: scheduler.WorkerID(fmt.Sprintf("worker-%d", n)), addr: fmt.Sprintf("addr-%d", n), has: has, seen: map[string]int64{}, told: w.now, skew: w.between(-w.plan.Skew, w.plan.Skew)}
	k.retained = k.retention()
	w.workers = append(w.workers, k)
	soon := 100 * int64(millisecond)
	if w.faults() && w.chance(w.plan.Uneven/4) {
		w.fault()
		w.counts["workers that ended before they were up"]++
		w.after(w.between(0, 2*soon), func() { k.kill("before it is up, or just after") })
	}
	if w.chance(w.plan.Uneven / 2) {
		soon = 3 * second
	}
	w.after(w.between(5*millisecond, soon), func() {
		k.register()
		k.pulse()
	})
}

// register tells the scheduler that the worker is there.
func (k *worker) register() {
	w := k.world
	if k.dead || k.cut {
		return
	}
	for _, s := range w.shells() {
		w.after(w.controlDelay(), func() {
			if !s.ended && !k.dead {
				s.welcome(k)
			}
		})
	}
}

// pulse gives signs of life, with all reports, as long as the worker lives.
func (k *worker) pulse() {
	if k.dead {
		return
	}
	w := k.world
	if !k.cut && slices.ContainsFunc(w.shells(), func(s *shell) bool { return !s.asleep }) {
		k.told = w.now
	}
	if w.now-k.told > silence {
		k.kill("no word from the scheduler")
		return
	}
	k.alive()
	if w.on(protocol.Restate) {
		for _, h := range k.hosts {
			h.report()
		}
	}
	w.after(w.between(150*millisecond, 250*millisecond), k.pulse)
}

func (k *worker) alive() {
	a := scheduler.Alive{Worker: k.id, Addr: k.addr}
	for _, h := range k.hosts {
		a.Tasks = append(a.Tasks, h.id)
	}
	if k.cut {
		return
	}
	w := k.world
	w.control(fmt.Sprintf("alive %s", k.id), func() {
		for _, s := range w.shells() {
			s.welcome(k)
			s.event(scheduler.Event{Alive: &a})
		}
	})
}

// tell sends an event to the schedulers that run when it arrives.
func (k *worker) tell(what string, e scheduler.Event) {
	if k.cut {
		return
	}
	w := k.world
	w.control(what, func() {
		for _, s := range w.shells() {
			s.event(e)
		}
	})
}

// launch starts a task, once.
func (k *worker) launch(l metaquery.Launch) {
	if k.dead || k.cut || k.seen[l.ID.Task] >= l.ID.Gen {
		return
	}
	k.seen[l.ID.Task] = l.ID.Gen
	k.world.checks.launched(k.world, k, l)
	h := &host{worker: k, id: l.ID, launch: l, conns: map[string]*connection{}, heard: map[string]*connection{}}
	h.spec = k.world.query.Task(l.ID.Task)
	if h.spec == nil {
		k.world.fail("launch of a task %q that is not in the query", l.ID.Task)
		return
	}
	k.hosts = append(k.hosts, h)
	slices.SortFunc(k.hosts, func(a, b *host) int {
		return cmp.Or(cmp.Compare(a.id.Task, b.id.Task), cmp.Compare(a.id.Gen, b.id.Gen))
	})
	h.begin()
}

// endTask ends an instance.
func (k *worker) endTask(id metaquery.TaskID) {
	for _, h := range slices.Clone(k.hosts) {
		if h.id == id && !k.cut {
			h.end()
		}
	}
}

// kill ends the process, wherever it is.
func (k *worker) kill(why string) {
	if k.dead {
		return
	}
	w := k.world
	w.tracef("%s ends: %s", k.id, why)
	k.dead = true
	w.counts["processes that ended"]++
	late := w.chance(0.5) // what it has sent is on its way already
	for _, h := range k.hosts {
		h.ended = true
		for _, name := range sorted(h.conns) {
			c := h.conns[name]
			if !late {
				c.close()
			}
		}
	}
	for _, other := range w.workers {
		for _, h := range other.hosts {
			for _, name := range sorted(h.conns) {
				if c := h.conns[name]; c.to == k && !other.dead {
					c.breakDown()
				}
			}
		}
	}
	w.disk.crashed(k, w.chance(w.plan.Power))
	// The cluster notices at some time, if somebody is there to be told.
	w.after(w.between(millisecond, w.plan.Notice), func() { k.gone() })
}

// gone tells the scheduler that the process has ended.
func (k *worker) gone() {
	for _, s := range k.world.shells() {
		s.event(scheduler.Event{Gone: k.id, Had: k.has})
	}
}

// arrive takes a message of a producer.
func (k *worker) arrive(c *connection, msg []byte) {
	if k.dead {
		return
	}
	var to *host // the highest generation
	for _, h := range k.hosts {
		if h.task != nil && h.reads(c.channel) {
			to = h
		}
	}
	if to != nil {
		to.heard[c.channel] = c
		to.call(func() { to.task.Receive(c.channel, c.from.id.Gen, msg) })
	}
}

func (h *host) reads(channel string) bool {
	return slices.ContainsFunc(h.worker.world.query.Channels, func(ch *dataflow.Channel) bool {
		return ch.Stream == channel && ch.ToTask == h.spec
	})
}

func sorted[V any](m map[string]V) []string {
	names := make([]string, 0, len(m))
	for n := range m {
		names = append(names, n)
	}
	slices.Sort(names)
	return names
}

// orders hands orders to the instance for which they are.
func (k *worker) orders(o metaquery.Orders) {
	if k.dead || k.cut {
		return
	}
	for _, h := range k.hosts {
		if h.id == o.To {
			h.call(func() { h.task.Orders(o) })
			return
		}
	}
}
