package scheduler

import (
	"slices"

	"sluice/dataflow"
	"sluice/metaquery"
)

// second is the unit of the times below: microseconds.
const second = 1_000_000

const (
	defaultLiveness = second
	resend          = second / 5 // orders that have not been obeyed are sent again after that long
	planTimeout     = 5 * second
	stopTimeout     = 5 * second
	firstPause      = second / 10 // before a task that asked for it is launched again
	longestPause    = 5 * second
)

// Core decides for one query. It is not safe for concurrent use.
type Core struct {
	cfg Config
	rec Record
	*topology
	workers map[WorkerID]*worker

	wall, lag  int64 // the time by the clock, and by how much that has been set back so far
	now, began int64 // without that
	ticked     int64
	collecting bool // a new term that finds out what runs
	deployed   bool // tasks may be launched
	done       bool

	slots     []slot               // one for each worker that is wanted
	needs     bool                 // there are tasks that need resources
	starting  []dataflow.Resources // of workers that have been asked for and are not up
	startFrom int64                // before which no more are asked for

	balancer

	snapshots map[string][]metaquery.Snapshot // by state key, above the checkpoint
	frontiers map[string]int64                // by sink

	addrs   map[string]address // by channel
	queue   []SetRequest
	change  *change
	decided int64 // attempt for which a decision has been asked for
	// decision is to be asked for behind all other actions, for the answer changes the record.
	decision *Decision
	stopped  int64 // when the query was told to stop
	stopLead int64 // how far ahead of all epochs the sources are to stop
	catchUp  bool  // StopRequest

	seq     int64 // of tuples, within the term
	alerted map[string]bool
	changed bool // rec is to be saved
	dirty   bool // orders are to be made
	actions []Action
}

// address is where a channel goes.
type address struct {
	value string
	seq   int64
}

// New begins a term. Without a record the query is new; with one, the Core finds out what runs of it. The
// record is not changed.
func New(cfg Config, rec *Record) (*Core, []Action) {
	if cfg.Liveness <= 0 {
		cfg.Liveness = defaultLiveness
	}
	if cfg.Gather <= 0 {
		cfg.Gather = 2 * cfg.Liveness
	}
	if cfg.Quiet == 0 {
		cfg.Quiet = defaultQuiet
	}
	cfg.Every, cfg.Workers = max(cfg.Every, 1), max(cfg.Workers, 1)
	c := &Core{
		cfg: cfg, topology: newTopology(cfg.Query, cfg.Checkpoints),
		workers: make(map[WorkerID]*worker), snapshots: make(map[string][]metaquery.Snapshot),
		frontiers: make(map[string]int64), addrs: make(map[string]address), alerted: make(map[string]bool),
		changed: true, dirty: true,
	}
	c.fillSlots()
	c.starting = slices.Clone(cfg.Starting)
	if rec != nil {
		c.rec = *rec.Clone()
		c.collecting = !cfg.Fresh
	}
	c.rec.fill()
	c.rec.Term++
	if rec != nil && cfg.Fresh {
		clear(c.rec.Workers)
		c.rec.Stop = min(c.rec.Stop, 0) // who begins again wants it to go on; an end of the input stays
		c.endCollecting()
	}
	c.save()
	if !c.rec.Finished {
		c.alertMore()
	}
	if !c.collecting && !c.rec.Finished {
		c.askWorkers()
	}
	if c.rec.Plan != nil {
		c.decide(false)
	}
	return c, c.take()
}

// Handle takes an event and returns what is to be done.
func (c *Core) Handle(e Event) []Action {
	c.clock(e.Now)
	switch {
	case c.done:
		c.endStragglers(e)
		return c.take()
	case e.Worker != nil:
		c.welcome(e.Worker)
	case e.Gone != "":
		c.gone(e.Gone, e.Had)
	case e.Alive != nil:
		c.alive(e.Alive)
	case e.Report != nil:
		c.report(e.Report)
	case e.Set != nil:
		c.set(e.Set)
	case e.Stop != nil:
		c.stop(e.Stop)
	case e.Tick:
		c.tick()
	}
	c.advance()
	return c.take()
}

// Decided tells what the store has recorded for an attempt.
func (c *Core) Decided(d Decision, committed bool) []Action {
	if !c.done {
		c.settle(d.Attempt, committed)
		c.advance()
	}
	return c.take()
}

// clock sets the time. It goes on when the clock is set back: else no silence would be noticed, and nothing
// repeated, until the clock is where it was.
func (c *Core) clock(wall int64) {
	c.lag += max(0, c.wall-wall)
	c.wall = wall
	now := wall + c.lag
	if c.began == 0 {
		c.began, c.ticked = now, now
		c.stopped, c.disturbed, c.completed = now, now, now
		for _, t := range c.tasks {
			t.waiting = now
		}
	}
	c.now = now
}

// tick does what time brings.
func (c *Core) tick() {
	// Who has slept has heard nobody: that is no sign that the workers are silent.
	if gap := c.now - c.ticked; gap > c.cfg.Liveness/2 {
		for _, w := range c.workers {
			w.heard = max(w.heard, min(w.heard+gap, c.now))
		}
	}
	c.ticked = c.now
	c.findSilent()
	if c.collecting && c.now-c.began >= c.cfg.Liveness {
		c.endCollecting()
	}
	c.repeat()
	c.forgetEnded()
}

// advance does all that has become possible.
func (c *Core) advance() {
	if c.done {
		return
	}
	c.complete()
	if c.done {
		return
	}
	c.advancePlan()
	if !c.collecting {
		c.foldChanges()
	}
	c.advanceStop()
	if c.done {
		return
	}
	if !c.collecting {
		c.bind()
		c.askWorkers()
		c.place()
		c.balance()
	}
	c.save() // before the fences, which are for ever
	c.sendOrders()
	if !c.collecting {
		c.launch()
		c.sendOrders() // where the launched ones are
	}
}

// save gives the record out if it has changed.
func (c *Core) save() {
	if c.changed {
		c.changed = false
		c.do(Action{Save: c.rec.Clone()})
	}
}

// prove saves the record though it is the same: what comes behind that is not done if another scheduler has taken
// over. It is for what would do harm to what another one has launched.
func (c *Core) prove() {
	c.changed = true
	c.save()
}

func (c *Core) do(a Action) { c.actions = append(c.actions, a) }

func (c *Core) take() []Action {
	if c.decision != nil && !c.done {
		c.do(Action{Decide: c.decision})
	}
	c.decision = nil
	a := c.actions
	c.actions = nil
	return a
}

// mostAlerted bounds the texts that are remembered.
const mostAlerted = 1000

// alert tells the user something once, or again after very much else.
func (c *Core) alert(text string) {
	if len(c.alerted) >= mostAlerted {
		clear(c.alerted)
	}
	if !c.alerted[text] {
		c.alerted[text] = true
		c.do(Action{Alert: text})
	}
}

// nextSeq is above all that earlier terms have given.
func (c *Core) nextSeq() int64 {
	c.seq++
	return c.rec.Term<<32 + c.seq
}

// active tells whether the task is to run: it is no standby, or has taken the place of another.
func (c *Core) active(t *task) bool {
	if a, ok := c.rec.Active[t.Name]; ok {
		return a
	}
	return !t.Standby
}

func (c *Core) gen(t *task) int64 { return c.rec.Generations[t.Name] }

// high is the highest epoch that is known to have been begun.
func (c *Core) high() int64 {
	high := c.rec.Checkpoint
	if c.cfg.Interval > 0 {
		high = max(high, c.wall/c.cfg.Interval)
	}
	for _, t := range c.tasks {
		for _, e := range []int64{t.report.Begun, t.report.Cut} {
			if e < farEpoch {
				high = max(high, e)
			}
		}
	}
	return high
}

// farEpoch is above all epochs with rows; it leaves room to add to one.
const farEpoch = metaquery.LastEpoch / 2
