package mesos

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"sync"
	"time"

	"sluice/scheduler"
	"sluice/scheduler/store"
)

// Framework is the shell around a Core: it speaks to masters and stores what must not be forgotten. Its methods
// may be called from any goroutine.
type Framework struct {
	opts   Options
	access access
	ctx    context.Context
	stop   context.CancelFunc
	over   sync.WaitGroup
	saver  saver

	actions *queue[Action]
	done    chan struct{} // closed when it has failed or is closed

	mu       sync.Mutex
	core     *Core
	clusters map[string]*cluster
	masters  []string // those to try
	tried    int
	session  *session
	err      error
}

// tick is the time between two looks at what is due.
const tick = 100 * time.Millisecond

// New makes a framework that begins to subscribe at once. What an earlier one has stored is taken over; only one
// may use a store at a time.
func New(o Options) (*Framework, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	a, err := o.access()
	if err != nil {
		return nil, err
	}
	if o.Log == nil {
		o.Log = func(string) {}
	}
	f := &Framework{
		opts: o, access: a, actions: newQueue[Action](), done: make(chan struct{}),
		clusters: map[string]*cluster{}, masters: o.Masters,
	}
	f.ctx, f.stop = context.WithCancel(context.Background())
	f.saver = saver{store: o.Store, versions: map[string]int64{}, log: o.Log}
	stored, err := f.saver.load(f.ctx)
	if err != nil {
		f.stop()
		return nil, err
	}
	core, actions, err := NewCore(o.Config, stored, time.Now())
	if err != nil {
		f.stop()
		return nil, err
	}
	f.core = core
	f.actions.put(actions...)
	f.over.Go(f.act)
	f.over.Go(f.tick)
	return f, nil
}

// Done is closed when the framework has ended: closed, or since another scheduler uses the store.
func (f *Framework) Done() <-chan struct{} { return f.done }

// Err says why the framework has ended by itself, nil if it was closed or runs.
func (f *Framework) Err() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.err
}

// Close ends the connection and leaves the workers alone: another scheduler takes them over, or Mesos ends them
// after the failover timeout.
func (f *Framework) Close() {
	f.fail(nil)
	f.over.Wait()
}

// fail ends everything here.
func (f *Framework) fail(err error) {
	f.mu.Lock()
	select {
	case <-f.done:
	default:
		f.err = err
		close(f.done)
	}
	s := f.session
	f.mu.Unlock()
	f.stop()
	if s != nil {
		s.cancel()
	}
}

// Retain ends the workers of all queries but these. A new leader calls it when it knows which queries there are.
func (f *Framework) Retain(queries ...string) { f.handle(Event{Retain: &Retain{Queries: queries}}) }

// WorkerInfo is what is known of a worker.
type WorkerInfo struct {
	ID                     scheduler.WorkerID
	Query, Agent, Hostname string
	State                  string // as Mesos says, "" before it has said anything
	Since                  time.Time
	Lost, Killed           bool
}

// Workers are all workers that have not ended, by name.
func (f *Framework) Workers() []WorkerInfo {
	f.mu.Lock()
	defer f.mu.Unlock()
	var out []WorkerInfo
	for _, w := range f.core.sorted() {
		out = append(out, WorkerInfo{
			ID: w.id, Query: w.rec.Query, Agent: w.rec.Agent, Hostname: w.rec.Hostname, State: w.rec.State, Since: w.rec.Began,
			Lost: !w.rec.Lost.IsZero(), Killed: !w.rec.Killed.IsZero(),
		})
	}
	return out
}

// ID is the framework's id, and whether it is subscribed.
func (f *Framework) ID() (id string, up bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.core.id, f.core.phase == subscribed
}

// handle gives an event to the core and lets its actions be done.
func (f *Framework) handle(e Event) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.handleLocked(e)
}

func (f *Framework) handleLocked(e Event) {
	e.Now, e.Jitter = time.Now(), rand.Float64()
	actions := f.core.Handle(e)
	f.actions.put(actions...)
	for _, a := range actions {
		if s := f.session; s != nil && a.Disconnect == s.sub {
			s.cancel() // a call under way must not hold it up
		}
	}
}

// tick lets the core look at the time, and hears which master leads.
func (f *Framework) tick() {
	var masters <-chan string
	if f.opts.Detector != nil {
		masters = f.opts.Detector.Masters()
	}
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	for {
		select {
		case <-f.ctx.Done():
			return
		case <-ticker.C:
			f.handle(Event{})
		case m, ok := <-masters:
			if !ok {
				masters = nil
				continue
			}
			f.leads(m)
		}
	}
}

// leads notes which master leads.
func (f *Framework) leads(master string) {
	f.mu.Lock()
	now := ""
	if len(f.masters) > 0 {
		now = f.masters[0]
	}
	f.masters = nil
	if master != "" {
		f.masters = []string{master}
	}
	f.mu.Unlock()
	if master != "" && master != now {
		f.handle(Event{Leader: true})
	}
}

// act does the actions, one behind the other.
func (f *Framework) act() {
	defer f.endSession()
	for {
		select {
		case <-f.ctx.Done():
			return
		case <-f.actions.ready:
		}
		for _, a := range f.actions.takeAll() {
			if err := f.do(a); err != nil {
				if f.ctx.Err() == nil {
					f.opts.Log(err.Error())
					f.fail(err)
				}
				return
			}
		}
	}
}

// do does one action. An error is the end of the framework.
func (f *Framework) do(a Action) error {
	switch {
	case a.Subscribe != nil:
		f.subscribe(a.Subscribe)
	case a.Disconnect != 0:
		f.endSession()
	case a.Call != nil:
		f.call(a.Call)
	case a.Save != nil:
		return f.saver.save(f.ctx, a.Save)
	case a.Ended != nil:
		f.ended(a.Ended)
	case a.Alert != nil:
		f.alert(a.Alert)
	case a.Forgotten != "":
		f.forget(a.Forgotten)
	}
	return nil
}

func (f *Framework) endSession() {
	f.mu.Lock()
	s := f.session
	f.session = nil
	f.mu.Unlock()
	if s != nil {
		s.cancel()
	}
}

// spawn runs a goroutine, unless the framework has ended.
func (f *Framework) spawn(run func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	select {
	case <-f.done:
	default:
		f.over.Go(run)
	}
}

// subscribe opens a stream on a goroutine of its own, which hands over what comes.
func (f *Framework) subscribe(a *Subscribe) {
	f.endSession()
	s := newSession(f.ctx, f.access, a.Sub)
	f.mu.Lock()
	f.session = s
	master := ""
	if len(f.masters) > 0 {
		master = f.masters[f.tried%len(f.masters)]
	}
	f.mu.Unlock()
	f.over.Go(func() {
		defer s.close()
		err := errors.New("no master is known to lead")
		if master != "" {
			err = s.subscribe(master, a.Call)
		}
		if err == nil {
			err = f.listen(s)
		} else {
			f.tryAnother()
		}
		f.handle(Event{Lost: &Lost{Sub: a.Sub, Cause: err.Error()}})
	})
}

// tryAnother turns to the next master.
func (f *Framework) tryAnother() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.tried++
}

func (f *Framework) listen(s *session) error {
	for {
		e, err := s.next()
		if errors.Is(err, io.EOF) {
			return errors.New("the master has ended the stream")
		}
		if err != nil {
			return err
		}
		f.handle(Event{Received: &Received{Sub: s.sub, Event: e}})
	}
}

// call says something if its subscription is the last one still.
func (f *Framework) call(a *Call) {
	f.mu.Lock()
	s := f.session
	f.mu.Unlock()
	if s == nil || s.sub != a.Sub {
		return
	}
	err := s.call(a.Call)
	switch {
	case err == nil:
	case refusal(err):
		f.handle(Event{Refused: &Refused{Sub: a.Sub, Call: a.Call, Cause: err.Error()}})
	default:
		f.handle(Event{Lost: &Lost{Sub: a.Sub, Cause: fmt.Sprintf("%s: %v", a.Call.Type, err)}})
	}
}

// saver stores values, again and again until they are stored.
type saver struct {
	store    store.Store
	versions map[string]int64
	log      func(string)
}

const savePause = 200 * time.Millisecond

// load reads everything that an earlier framework has stored.
func (s *saver) load(ctx context.Context) (map[string][]byte, error) {
	names, err := s.store.List(ctx, workersPath)
	if err != nil {
		return nil, fmt.Errorf("mesos: reading the workers: %w", err)
	}
	paths := []string{frameworkPath}
	for _, n := range names {
		paths = append(paths, workersPath+"/"+n)
	}
	out := map[string][]byte{}
	for _, p := range paths {
		value, version, err := s.store.Get(ctx, p)
		if errors.Is(err, store.ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("mesos: reading %s: %w", p, err)
		}
		out[p], s.versions[p] = value, version
	}
	return out, nil
}

// save stores or removes a value. It fails when another scheduler uses the store, and when ctx ends.
func (s *saver) save(ctx context.Context, a *Save) error {
	for told := false; ; {
		err := s.once(ctx, a)
		if err == nil {
			return nil
		}
		for _, final := range []error{store.ErrVersion, store.ErrNotLeader, store.ErrPath, store.ErrClosed} {
			if errors.Is(err, final) {
				return fmt.Errorf("mesos: storing %s: %w", a.Path, err)
			}
		}
		if !told {
			told = true
			s.log(fmt.Sprintf("mesos: storing %s: %v; nothing is launched until it can be", a.Path, err))
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(savePause):
		}
	}
}

func (s *saver) once(ctx context.Context, a *Save) error {
	version := s.versions[a.Path]
	if a.Value == nil {
		if version == 0 {
			return nil
		}
		err := s.store.Delete(ctx, a.Path, version)
		if err == nil || errors.Is(err, store.ErrNotFound) {
			delete(s.versions, a.Path)
			return nil
		}
		return err
	}
	next, err := s.store.Put(ctx, a.Path, a.Value, version)
	if err == nil {
		s.versions[a.Path] = next
		return nil
	}
	// An attempt that failed may have stored the value nevertheless.
	value, found, readErr := s.store.Get(ctx, a.Path)
	if readErr == nil && found != version && string(value) == string(a.Value) {
		s.versions[a.Path] = found
		return nil
	}
	return err
}
