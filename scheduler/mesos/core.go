package mesos

import (
	"cmp"
	"maps"
	"slices"
	"time"

	pb "github.com/mesos/mesos-go/api/v1/lib"
	sched "github.com/mesos/mesos-go/api/v1/lib/scheduler"

	"sluice/dataflow"
	"sluice/scheduler"
)

// Core decides what a framework says to Mesos. It is told events and returns actions, which are to be done
// in their order; it has neither goroutine nor clock, socket or randomness.
type Core struct {
	cfg Config
	now time.Time
	// jitter of the event that is handled, in [0, 1).
	jitter float64
	out    []Action

	id      string // of the framework
	sub     int64  // number of the last subscription
	phase   phase
	since   time.Time // when the phase began
	heard   time.Time // last event of the subscription
	beat    time.Duration
	retryAt time.Time
	fails   int // subscriptions in a row that came to nothing

	queries map[string]*query
	workers map[scheduler.WorkerID]*worker
	order   []*worker      // all, by name; nil if it is to be made
	on      map[string]int // workers of each agent
	onQuery map[place]int  // and those of a query
	agents  map[string]*agent
	next    int // number of the next worker

	suppressed  bool
	reviveDue   bool
	due         bool      // all workers are to be looked at
	looked      time.Time // when they were
	revived     time.Time // when REVIVE was said last
	reconcileAt time.Time // the next explicit reconciliation, zero if all have answered
	reconciled  int       // how many there were since the subscription
	implicitAt  time.Time
	toldError   string
	toldErrorAt time.Time
	strangers   map[string]time.Time // tasks of nobody, and when they were last killed
}

type phase uint8

const (
	idle       phase = iota // until retryAt
	connecting              // SUBSCRIBE is under way
	subscribed
)

// query is a query that wants, or has wanted, workers.
type query struct {
	name     string
	need     Need
	executor ExecutorSpec
	closed   bool
	wants    []*want // workers to launch; those that fewest agents can have first
	// asked are the capacities with attributes that workers of the query have, or have had, by key.
	asked map[string]dataflow.Resources
	quick int // workers in a row that ended soon
	// notBefore is when the next worker may be launched after some have ended soon.
	notBefore time.Time
	wantSince time.Time // when wants became more than none
	told      string    // the last alert about what is missing
	toldAt    time.Time
	tells     int       // since wantSince
	lookedAt  time.Time // when it was last found out what is missing
	// unable are the agents of which the user was told that the query cannot run there, and when.
	unable map[string]time.Time
}

// ExecutorSpec is how a worker is started on an agent.
type ExecutorSpec struct {
	Command string   // for the shell of the agent
	URIs    []string // fetched, and extracted, before
	Env     map[string]string
	Control string // where the query's control stream is
	// Machine is where the program of URIs runs, "linux/amd64", and CLibrary the least version of the C library there:
	// what users are told if it does not run.
	Machine, CLibrary string
}

// Event is something that has happened, at most one of its pointers is set: none is a tick.
type Event struct {
	Now    time.Time
	Jitter float64 // in [0, 1), for pauses

	Received *Received
	Lost     *Lost
	// Leader says that another master leads.
	Leader  bool
	Refused *Refused
	Query   *Query
	Start   *Start
	Kill    scheduler.WorkerID
	Unable  *Unable
	Close   *Close
	Retain  *Retain
	Forget  string // a query that is closed
}

// Events, for Event.
type (
	// Received is an event of a subscription.
	Received struct {
		Sub   int64
		Event *sched.Event
	}
	// Lost says that a subscription has ended, or could not be had.
	Lost struct {
		Sub   int64
		Cause string
	}
	// Refused says that the master has refused a call as malformed, so that it has had no effect.
	Refused struct {
		Sub   int64
		Call  *sched.Call
		Cause string
	}
	// Query makes a query known, or gives it another executor. Need is what each of its workers takes at least.
	Query struct {
		Name     string
		Need     Need
		Executor ExecutorSpec
	}
	// Start asks for more workers of a query, each with a capacity beside what all take.
	Start struct {
		Query      string
		Capacities []dataflow.Resources
	}
	// Unable is a worker that has said why it cannot run its query. It is killed.
	Unable struct {
		Worker scheduler.WorkerID
		Why    string
	}
	// Close says that a query needs no more workers, and with Kill that those it has are to end.
	Close struct {
		Query string
		Kill  bool
	}
	// Retain ends the workers of all queries but these.
	Retain struct {
		Queries []string
	}
)

// Action is what is to be done; exactly one of its fields is set.
type Action struct {
	Subscribe *Subscribe
	// Disconnect ends the stream of a subscription.
	Disconnect int64
	Call       *Call
	Save       *Save
	Ended      *Ended
	Alert      *Alert
	// Forgotten is a query of which nothing more comes.
	Forgotten string
}

// Actions, for Action.
type (
	// Subscribe opens a stream with a connection and a caller of its own.
	Subscribe struct {
		Sub  int64
		Call *sched.Call
	}
	// Call says something on a subscription. It is dropped if that is not the last one any more.
	Call struct {
		Sub  int64
		Call *sched.Call
	}
	// Save stores a value, or removes it if it is nil. What comes behind it may only be done once it is stored.
	Save struct {
		Path  string
		Value []byte
	}
	// Ended says that nothing of a worker runs any longer.
	Ended struct {
		Query  string
		ID     scheduler.WorkerID
		Status string
		Quick  int
		Killed bool // it was killed through the Cluster before
		// Capacity is what the worker was asked for with.
		Capacity dataflow.Resources
	}
	// Alert is a message for the user, of one query or of all.
	Alert struct {
		Query string // "" means all
		Text  string
	}
)

// NewCore makes a core from what is stored, by path; it returns what is to be done first. Paths are those of
// Save actions.
func NewCore(cfg Config, stored map[string][]byte, now time.Time) (*Core, []Action, error) {
	c := &Core{
		cfg: cfg.withDefaults(), now: now, queries: map[string]*query{}, workers: map[scheduler.WorkerID]*worker{},
		agents: map[string]*agent{}, on: map[string]int{}, onQuery: map[place]int{}, strangers: map[string]time.Time{}, retryAt: now, since: now,
	}
	if err := c.load(stored); err != nil {
		return nil, nil, err
	}
	if c.id == "" {
		c.renew()
	}
	return c, c.taken(), nil
}

func (c *Core) taken() []Action {
	out := c.out
	c.out = nil
	return out
}

func (c *Core) do(a Action) { c.out = append(c.out, a) }

// alert tells the users of a query, or of all.
func (c *Core) alert(query, text string) { c.do(Action{Alert: &Alert{Query: query, Text: text}}) }

// call says something to the master; without a subscription it is not said.
func (c *Core) call(call *sched.Call) {
	if c.phase != subscribed {
		return
	}
	call.FrameworkID = &pb.FrameworkID{Value: c.id}
	c.do(Action{Call: &Call{Sub: c.sub, Call: call}})
}

// Handle takes an event and returns what is to be done.
func (c *Core) Handle(e Event) []Action {
	if e.Now.After(c.now) {
		c.now = e.Now
	}
	c.jitter = e.Jitter
	switch {
	case e.Received != nil:
		c.received(e.Received)
	case e.Lost != nil && e.Lost.Sub == c.sub && c.phase != idle:
		c.disconnected(e.Lost.Cause)
	case e.Leader:
		c.leader()
	case e.Refused != nil:
		c.refused(e.Refused)
	case e.Query != nil:
		c.know(e.Query)
	case e.Start != nil:
		c.start(e.Start)
	case e.Kill != "":
		c.giveUp(e.Kill)
		c.unwanted(c.workers[e.Kill])
	case e.Unable != nil:
		c.unable(e.Unable)
	case e.Close != nil:
		c.closeQuery(e.Close)
	case e.Retain != nil:
		c.retain(e.Retain)
	case e.Forget != "":
		if q := c.queries[e.Forget]; q != nil && q.closed {
			delete(c.queries, e.Forget)
			c.do(Action{Forgotten: e.Forget})
		}
	}
	c.advance()
	return c.taken()
}

// advance does what has become due.
func (c *Core) advance() {
	c.connection()
	look := c.due || c.now.Sub(c.looked) >= lookEvery
	if look {
		c.due, c.looked = false, c.now
		c.overdue()
	}
	if c.phase != subscribed {
		return
	}
	c.reconcile()
	if look {
		c.nag()
		c.maintain()
	}
	c.demand()
	if look {
		for _, q := range c.byName() {
			c.tellMissing(q)
		}
	}
}

// lookEvery is the time between two looks at all workers, unless one is due.
const lookEvery = 50 * time.Millisecond

func (c *Core) know(q *Query) {
	have := c.queries[q.Name]
	if have == nil {
		have = &query{name: q.Name, unable: map[string]time.Time{}, asked: map[string]dataflow.Resources{}}
		c.queries[q.Name] = have
	}
	have.need, have.executor, have.closed, c.due = q.Need, q.Executor, false, true
	for _, w := range have.wants {
		c.measure(have, w)
	}
	for _, w := range c.sorted() {
		if w.rec.Query == q.Name {
			w.address(q.Executor.Control)
			have.note(w.rec.Capacity.resources())
		}
	}
}

func (c *Core) start(s *Start) {
	q := c.queries[s.Query]
	if q == nil || q.closed {
		return
	}
	for _, capacity := range s.Capacities {
		c.ask(q, capacity)
	}
}

func (c *Core) closeQuery(e *Close) {
	q := c.queries[e.Query]
	if q == nil {
		return
	}
	q.wants, q.closed = nil, true
	if e.Kill {
		c.killAll(func(w *worker) bool { return w.rec.Query == e.Query })
	}
}

func (c *Core) retain(r *Retain) {
	c.killAll(func(w *worker) bool { return !slices.Contains(r.Queries, w.rec.Query) })
	for name, q := range c.queries {
		if !slices.Contains(r.Queries, name) && len(q.wants) > 0 {
			q.wants, q.closed = nil, true
		}
	}
}

func (c *Core) killAll(which func(*worker) bool) {
	for _, w := range c.sorted() {
		if which(w) {
			c.kill(w.id)
		}
	}
}

// place is an agent as a query uses it.
type place struct{ query, agent string }

func (c *Core) add(w *worker) {
	c.workers[w.id], c.order = w, nil
	w.key = w.rec.Capacity.resources().String()
	c.on[w.rec.Agent]++
	c.onQuery[place{w.rec.Query, w.rec.Agent}]++
}

func (c *Core) remove(w *worker) {
	delete(c.workers, w.id)
	c.order, c.due = nil, true
	less(c.on, w.rec.Agent)
	c.vacate(w)
}

// vacate makes room for another worker of the query on the agent of one that has ended, or is being ended by the agent.
func (c *Core) vacate(w *worker) {
	if !w.vacated {
		w.vacated = true
		less(c.onQuery, place{w.rec.Query, w.rec.Agent})
	}
}

// less takes one off a count, and forgets it at none.
func less[K comparable](counts map[K]int, key K) {
	counts[key]--
	if counts[key] <= 0 {
		delete(counts, key)
	}
}

// sorted are the workers, by name. The slice is never changed.
func (c *Core) sorted() []*worker {
	if c.order == nil {
		c.order = slices.SortedFunc(maps.Values(c.workers), func(a, b *worker) int { return cmp.Compare(a.id, b.id) })
	}
	return c.order
}

// byName are the queries, by name.
func (c *Core) byName() []*query {
	return slices.SortedFunc(maps.Values(c.queries), func(a, b *query) int { return cmp.Compare(a.name, b.name) })
}
