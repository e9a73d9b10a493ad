package shell

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"sluice/dataflow"
	"sluice/executor/transport"
	"sluice/executor/worker"
	"sluice/metaquery"
	"sluice/scheduler"
)

// Store is what a scheduler must not forget, and what it decides for the store of the query.
type Store interface {
	// Begin gives the record that was saved last, nil if there is none, to a new core. All that was saved
	// before by others is in it, and they cannot save any more.
	Begin() (*scheduler.Record, error)
	// Save saves a record in the place of the one before. After an error Begin comes next.
	Save(r *scheduler.Record) error
	// Decide is executor.Store.Decide.
	Decide(attempt int64, commit bool) (committed bool, err error)
	// Trim forgets what is below a complete checkpoint and not named.
	Trim(epoch int64, refs []string) error
}

// Options say what is to be run, and how.
type Options struct {
	Config scheduler.Config
	// Fresh says that nothing of an earlier shell runs any longer.
	Fresh bool
	// Adopt says that workers of an earlier shell may run. The core is made once all those have been heard that the
	// cluster has, or some seconds have passed: it takes what it does not find at once for failed.
	Adopt   bool
	Deploy  metaquery.Deploy
	Catalog dataflow.Catalog // by which requests of users are checked
	Store   Store
	// Transport carries the control stream. The scheduler listens at Listen.
	Transport transport.Transport
	Listen    string
	// Cluster gives the workers, which are to connect to control.
	Cluster func(control string) (Cluster, error)
	// StartLimit is for how long workers may fail, one after the other, before any has been able to run tasks. Until then
	// others are tried, after the pauses of the Cluster. With 0 the query is given up when five have ended so, or the first
	// one that answers says that it cannot run the query.
	StartLimit time.Duration
	// Stop gives requests to end the query.
	Stop <-chan scheduler.StopRequest
	// Requests are those of users; nil for none.
	Requests <-chan Request
	Observer
}

// Observer is told what happens, by the goroutine of Run. Its fields may be nil, but for Alert.
type Observer struct {
	// Alert takes messages for the user.
	Alert func(text string)
	// Reported takes each report of a task.
	Reported func(worker scheduler.WorkerID, r *metaquery.Report)
	// Launched takes each launch of a task.
	Launched func(l *scheduler.TaskLaunch)
	// Saved takes each record that has been saved.
	Saved func(r *scheduler.Record)
}

// ErrLeave is the cause of a context that ends the shell and leaves the workers alone.
var ErrLeave = errors.New("scheduler: another one is to go on")

// Times of the shell.
const (
	tickInterval = 50 * time.Millisecond
	hereInterval = time.Second
	exitGrace    = 5 * time.Second // for workers to end by themselves
	killGrace    = 2 * time.Second // and then to be told of
	redoPause    = 100 * time.Millisecond
)

// adoptTime is the most time for workers of an earlier shell to be heard.
var adoptTime = 3 * time.Second

// inboxSize is how many messages of workers may wait.
const inboxSize = 4096

// mostQuick is how many workers may fail, one after the other, before the query is given up, or the user is told that none
// can run so far.
const mostQuick = 5

// shell is a query that runs. One goroutine, that of Run, does everything.
type shell struct {
	o       Options
	core    *scheduler.Core
	redo    time.Time // when to make another core; zero: there is a good one
	fresh   bool      // the next core is the first one
	cluster Cluster
	inbox   chan incoming
	peers   map[scheduler.WorkerID]*peer
	ever    bool // a worker has been able to run tasks
	failed  failed
	// starting are workers that have been asked for, and neither are up nor have ended.
	starting []dataflow.Resources
	killed   map[scheduler.WorkerID]bool // those that have not ended yet
	refused  map[scheduler.WorkerID]bool // those of another release that have not ended yet
	replaced int                         // of those how many others have taken the place of
	stop     *scheduler.StopRequest      // the last one, which each core is told
	asked    map[int64]chan<- Response
	lastAsk  int64
	here     time.Time
	outcome  *scheduler.Outcome
	failure  error // of the workers, not of the query
}

// incoming is a message of a worker.
type incoming struct {
	worker scheduler.WorkerID // as its connection is named
	msg    []byte
	back   transport.Conn
}

// peer is a worker that has been heard.
type peer struct {
	back transport.Conn
	up   bool // it can run tasks
	addr string
}

// Run runs a query until it is over, and then ends the workers. If ctx is done before, they are killed or left
// alone, and the error is the cause. Other errors say that the workers cannot run.
func Run(ctx context.Context, o Options) (scheduler.Outcome, error) {
	s := &shell{
		o: o, inbox: make(chan incoming, inboxSize), peers: map[scheduler.WorkerID]*peer{},
		asked: map[int64]chan<- Response{}, fresh: o.Fresh, killed: map[scheduler.WorkerID]bool{}, refused: map[scheduler.WorkerID]bool{},
	}
	listener, err := o.Transport.Listen(o.Listen, controlHandler{s.inbox})
	if err != nil {
		return scheduler.Outcome{}, fmt.Errorf("scheduler: listening for workers: %w", err)
	}
	if s.cluster, err = o.Cluster(listener.Addr()); err == nil {
		err = s.loop(ctx)
		s.end(err)
	}
	err = errors.Join(err, listener.Close())
	if err != nil || s.outcome == nil {
		return scheduler.Outcome{}, err
	}
	return *s.outcome, nil
}

// controlHandler takes what workers send. What comes while the shell waits for its Store, and is more than the
// inbox holds, is lost: it is said again. The connections would be lost if the handler waited.
type controlHandler struct{ inbox chan<- incoming }

// Message implements transport.Handler.
func (c controlHandler) Message(channel string, _ int64, msg []byte, back transport.Conn) {
	id, ok := worker.ControlWorker(channel)
	if !ok {
		return
	}
	select {
	case c.inbox <- incoming{scheduler.WorkerID(id), msg, back}:
	default:
	}
}

func (s *shell) loop(ctx context.Context) error {
	if s.o.Adopt {
		s.redo = time.Now().Add(adoptTime)
	} else {
		s.begin()
	}
	tick := time.NewTicker(tickInterval)
	defer tick.Stop()
	for s.outcome == nil && s.failure == nil {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
			s.tick()
		case m := <-s.inbox:
			s.incoming(m)
		case e := <-s.cluster.Ended():
			s.ended(e)
		case text := <-s.cluster.Alerts():
			s.o.Alert(text)
		case r := <-s.o.Stop:
			s.stop = &r
			s.handle(scheduler.Event{Stop: &r})
		case r := <-s.o.Requests:
			s.request(r)
		}
	}
	return s.failure
}

// begin makes a core from what was saved last.
func (s *shell) begin() {
	record, err := s.o.Store.Begin()
	if err != nil {
		s.giveUp(fmt.Errorf("the scheduler's record cannot be read: %w", err))
		return
	}
	var actions []scheduler.Action
	s.redo = time.Time{}
	config := s.o.Config
	config.Fresh, s.fresh = s.fresh, false
	config.Starting = s.expected()
	s.core, actions = scheduler.New(config, record)
	s.do(actions)
	for _, id := range slices.Sorted(maps.Keys(s.peers)) {
		if p := s.peers[id]; p.up {
			s.welcome(id, p)
		}
	}
	if s.stop != nil {
		s.handle(scheduler.Event{Stop: s.stop})
	}
}

// tick does what time brings.
func (s *shell) tick() {
	now := time.Now()
	if now.Sub(s.here) >= hereInterval {
		s.here = now
		for id := range s.peers {
			s.tell(id, &metaquery.ToWorker{Here: true})
		}
	}
	if s.redo.IsZero() {
		s.handle(scheduler.Event{Tick: true})
	} else if now.After(s.redo) || s.core == nil && s.o.Adopt && s.allUp() {
		s.begin()
	}
}

// handle hands the core an event. While there is no good core it is lost, as it is in a crash; whatever
// matters is said again.
func (s *shell) handle(e scheduler.Event) {
	if s.redo.IsZero() {
		e.Now = time.Now().UnixMicro()
		s.do(s.core.Handle(e))
	}
}

// do carries out actions, and those that follow from decisions.
func (s *shell) do(actions []scheduler.Action) {
	for len(actions) > 0 {
		a := actions[0]
		actions = actions[1:]
		switch {
		case a.Save != nil:
			if err := s.o.Store.Save(a.Save); err != nil {
				s.giveUp(fmt.Errorf("the scheduler's record cannot be saved: %w", err))
				return
			}
			if s.o.Saved != nil {
				s.o.Saved(a.Save)
			}
		case a.Decide != nil:
			committed, err := s.o.Store.Decide(a.Decide.Attempt, a.Decide.Commit)
			if err != nil {
				s.giveUp(fmt.Errorf("a decision cannot be recorded: %w", err))
				return
			}
			actions = append(actions, s.core.Decided(*a.Decide, committed)...)
		default:
			s.act(a)
		}
	}
}

// giveUp gives up the core; another one is made a little later.
func (s *shell) giveUp(err error) {
	s.o.Alert(err.Error())
	s.redo = time.Now().Add(redoPause)
	s.answerAll(fmt.Errorf("%w: %w", ErrUnsaved, err))
}

func (s *shell) act(a scheduler.Action) {
	switch {
	case a.Start != nil:
		s.starting = append(s.starting, a.Start...)
		s.cluster.Start(a.Start)
	case a.Kill != "":
		s.kill(a.Kill)
	case a.Launch != nil:
		s.tell(a.Launch.Worker, &metaquery.ToWorker{Launch: &a.Launch.Launch})
		if s.o.Launched != nil {
			s.o.Launched(a.Launch)
		}
	case a.End != nil:
		s.tell(a.End.Worker, &metaquery.ToWorker{End: &a.End.ID})
	case a.Orders != nil:
		s.tell(a.Orders.Worker, &metaquery.ToWorker{Orders: &a.Orders.Orders})
	case a.Answer != nil:
		s.decided(a.Answer)
	case a.Trim != nil:
		if err := s.o.Store.Trim(a.Trim.Epoch, a.Trim.Refs); err != nil {
			s.o.Alert(fmt.Sprintf("what is no longer needed cannot be removed: %v", err))
		}
	case a.Alert != "":
		s.o.Alert(a.Alert)
	case a.Done != nil:
		s.outcome = a.Done
	}
}

// kill ends a worker, whose end is then nothing to be told of.
func (s *shell) kill(id scheduler.WorkerID) {
	s.killed[id] = true
	s.cluster.Kill(id)
}

// tell sends a message to a worker. What is lost is said again by the core, which finds out.
func (s *shell) tell(id scheduler.WorkerID, m *metaquery.ToWorker) {
	p := s.peers[id]
	if p == nil {
		return
	}
	text, err := m.Encode()
	if err != nil {
		s.failure = err
		return
	}
	if err := p.back.Send(text); err != nil && !errors.Is(err, transport.ErrFull) && !errors.Is(err, transport.ErrClosed) {
		s.o.Alert(fmt.Sprintf("worker %s cannot be told what to do: %v", id, err))
	}
}

// open decodes a message of a worker, and notes where that can be reached. It returns nil if the worker is
// none of ours or has ended.
func (s *shell) open(in incoming) *metaquery.ToScheduler {
	if !s.cluster.Known(in.worker) {
		return nil
	}
	m, err := metaquery.DecodeToScheduler(in.msg)
	if err != nil {
		s.misunderstood(in.worker, err)
		return nil
	}
	p := s.peers[in.worker]
	if p == nil {
		p = &peer{}
		s.peers[in.worker] = p
	}
	p.back = in.back
	return m
}

// misunderstood takes a message of a worker that cannot be read. A worker of another release is replaced; if none of those
// that take its place can be understood either, the query cannot run.
func (s *shell) misunderstood(id scheduler.WorkerID, err error) {
	var other *metaquery.VersionError
	switch {
	case !errors.As(err, &other):
		s.o.Alert(fmt.Sprintf("worker %s: %v", id, err))
	case s.refused[id] || s.outcome != nil:
	case s.o.Adopt && s.replaced < s.o.Config.Workers:
		s.refused[id] = true
		s.replaced++
		s.o.Alert(fmt.Sprintf("worker %s, which an earlier scheduler has started, speaks %v; another one takes its place", id, other))
		s.kill(id)
	default:
		s.refused[id] = true
		s.unable(id, fmt.Sprintf("it speaks %v; the program that workers run must be the scheduler's", other), false)
	}
}

// incoming takes a message of a worker.
func (s *shell) incoming(in incoming) {
	m := s.open(in)
	if m == nil {
		return
	}
	switch {
	case m.Hello != nil && m.Hello.Error != "":
		s.unable(in.worker, m.Hello.Error, m.Hello.Final)
	case m.Hello != nil:
		s.tell(in.worker, &metaquery.ToWorker{Deploy: &s.o.Deploy})
	case m.Alive != nil:
		s.alive(in.worker, m.Alive)
	case m.Report != nil:
		if s.o.Reported != nil {
			s.o.Reported(in.worker, m.Report)
		}
		s.handle(scheduler.Event{Report: &scheduler.TaskReport{Worker: in.worker, Report: *m.Report}})
	}
}

// unable takes the word of a worker that it cannot run the query. It is replaced, unless no other one could either: none has
// been able to, and this one says so or others are not to be tried.
func (s *shell) unable(id scheduler.WorkerID, why string, final bool) {
	switch {
	case s.killed[id]: // it has said so before
		return
	case !s.ever && (final || s.o.StartLimit == 0):
		s.failure = fmt.Errorf("worker %s cannot run the query: %s", id, why)
		return
	}
	s.killed[id] = true
	s.cluster.Unable(id, why)
	s.failedStart(why)
}

func (s *shell) alive(id scheduler.WorkerID, a *metaquery.Alive) {
	p := s.peers[id]
	p.addr = a.Addr
	if !p.up {
		p.up, s.ever = true, true
		s.starting = scheduler.Started(s.starting, s.cluster.Capacity(id))
		s.welcome(id, p)
	}
	s.handle(scheduler.Event{Alive: &scheduler.Alive{Worker: id, Addr: a.Addr, Tasks: a.Tasks}})
}

// welcome tells the core of a worker that can run tasks.
func (s *shell) welcome(id scheduler.WorkerID, p *peer) {
	s.handle(scheduler.Event{Worker: &scheduler.WorkerUp{ID: id, Addr: p.addr, Capacity: s.cluster.Capacity(id)}})
}

// ended takes the end of a worker, and tells of it if nobody has asked for it. Of those that fail before one can run tasks the
// first ones are told, the others together.
func (s *shell) ended(e Ended) {
	p := s.peers[e.ID]
	up := p != nil && p.up
	if !up {
		s.starting = scheduler.Started(s.starting, e.Capacity)
	}
	delete(s.killed, e.ID)
	delete(s.refused, e.ID)
	delete(s.peers, e.ID)
	if !e.Killed {
		if s.ever || s.failed.n < mostQuick {
			text := fmt.Sprintf("worker %s has ended: %s", e.ID, e.Status)
			if e.Quick > 1 {
				text += fmt.Sprintf("; %d in a row have ended soon after their start, so the next one waits", e.Quick)
			}
			s.o.Alert(text)
		}
		if !up {
			s.failedStart(e.Status)
		}
	}
	if s.failure == nil {
		s.handle(scheduler.Event{Gone: e.ID, Had: e.Capacity})
	}
}

// end ends all workers: by telling them to if the query is over. What they have still to report is heard.
func (s *shell) end(err error) {
	s.answerAll(ErrEnded)
	if errors.Is(err, ErrLeave) {
		return
	}
	grace := time.Duration(0)
	if err == nil {
		grace = exitGrace
		for id := range s.peers {
			s.tell(id, &metaquery.ToWorker{Exit: true})
		}
	}
	closed := make(chan struct{})
	go func() {
		s.cluster.Close(grace)
		close(closed)
	}()
	s.seeOff(closed, time.After(grace+killGrace))
}

// seeOff waits until the cluster has been closed and all workers that have been heard have ended, or until
// it is late and the former holds.
func (s *shell) seeOff(closed <-chan struct{}, late <-chan time.Time) {
	for closed != nil || late != nil && len(s.peers) > 0 {
		select {
		case <-closed:
			closed = nil
		case <-late:
			late = nil
		case e := <-s.cluster.Ended():
			delete(s.peers, e.ID)
		case m := <-s.inbox:
			s.farewell(m)
		}
	}
}

// farewell takes a message of a worker when the query is over.
func (s *shell) farewell(in incoming) {
	m := s.open(in)
	switch {
	case m == nil:
	case m.Report != nil && s.o.Reported != nil:
		s.o.Reported(in.worker, m.Report)
	case m.Hello != nil, m.Alive != nil && len(m.Alive.Tasks) == 0:
		s.tell(in.worker, &metaquery.ToWorker{Exit: true})
	}
}
