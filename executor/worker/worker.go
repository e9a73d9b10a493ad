package worker

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"
	"time"

	"sluice/dataflow"
	"sluice/executor"
	"sluice/executor/channel"
	"sluice/executor/transport"
	"sluice/metaquery"
	"sluice/operators"
)

// Instance is what a worker hosts: an executor.Instance. One goroutine calls it.
type Instance interface {
	Hears(channel string, gen int64) bool
	Receive(channel string, gen int64, msg []byte)
	Message(channel string, msg []byte)
	Connected(channel string)
	Flush(channel string)
	Orders(o metaquery.Orders)
	Tick()
	Cut(ctx context.Context) time.Duration
	Report() metaquery.Report
	Close() error
}

// Query is a query that a worker has compiled.
type Query struct {
	Physical   *dataflow.Physical
	Store      executor.Store
	Build      executor.Builder
	OpenSource func(*operators.Context) (operators.Source, error)
	Limits     executor.Limits
}

// Config says what a worker is made of. All fields must be set but those with a default.
type Config struct {
	ID string
	// Control carries the control stream, and Scheduler is where the scheduler listens.
	Control   transport.Transport
	Scheduler string
	// Data gives the transport of Deploy.Transport, with the address to listen at.
	Data func(name string) (transport.Transport, string, error)
	// Compile makes the query of a Deploy.
	Compile func(*metaquery.Deploy) (*Query, error)
	// New makes an instance.
	New func(executor.InstanceConfig) (Instance, error)
	// Silence is after how long without a word of the scheduler the worker ends. Default 10 s.
	Silence time.Duration
	// Log takes what a user may want to know of trouble that is no failure. Default: standard error.
	Log func(text string)
}

// Times between two messages.
const (
	aliveInterval  = 200 * time.Millisecond
	repeatInterval = 500 * time.Millisecond // of a report without changes
	tickInterval   = 50 * time.Millisecond
	retryInterval  = 2 * time.Millisecond // of a message that was not taken
	// At least, of a report with changes for which somebody waits, and of one with others.
	reportInterval   = 5 * time.Millisecond
	progressInterval = 20 * time.Millisecond
)

const usualSilence = 10 * time.Second

// backgroundWork is how many pieces of background work are done at a time.
const backgroundWork = 4

// ErrSilent says that nothing has been heard of the scheduler for too long.
var ErrSilent = errors.New("worker: no word from the scheduler; it has ended, or cannot be reached")

// EverywhereError says that a query cannot be compiled by any worker, wherever it is.
type EverywhereError struct{ Err error }

func (e *EverywhereError) Error() string { return e.Err.Error() }
func (e *EverywhereError) Unwrap() error { return e.Err }

// heapFloor is the size of memory that is held and never touched, so it costs nothing but addresses. The garbage
// collector waits until as much again has been allocated: a worker that only passes rows on has next to
// nothing that lives, and would else be collected at every few frames.
const heapFloor = 32 << 20

const controlPrefix = "control/"

// ControlChannel is the name of a worker's connection to the scheduler.
func ControlChannel(worker string) string { return controlPrefix + worker }

// ControlWorker is the worker whose connection to the scheduler has this name.
func ControlWorker(channel string) (worker string, ok bool) {
	return strings.CutPrefix(channel, controlPrefix)
}

// worker is a running worker. Its methods are called by the goroutine of Run unless they say otherwise.
type worker struct {
	cfg   Config
	inbox *mailbox[[]byte] // from the scheduler; nil: there is something new to say
	pool  chan struct{}    // has an element for each piece of background work being done
	query *Query
	// retention is what the channels of all instances share.
	retention *channel.Retention
	data      transport.Transport
	addr      string // where data comes in; set before there are hosts
	realm     string // is before the names of channels in connections; set with addr
	failed    error  // why there is no query
	leaving   bool   // the scheduler has said that all is over
	strange   error  // of the last message that could not be read

	sending sync.Mutex
	control transport.Conn

	// mu guards the fields below, which goroutines of the transport read.
	mu     sync.RWMutex
	hosts  map[metaquery.TaskID]*host
	routes map[string]*host // who reads a channel
	ended  map[string]int64 // highest generation of a task that has been ended
}

// Run is a worker's whole life. It returns nil if the scheduler said that it is over.
func Run(ctx context.Context, cfg Config) error {
	floor := make([]byte, heapFloor)
	defer runtime.KeepAlive(floor)
	if cfg.Silence == 0 {
		cfg.Silence = usualSilence
	}
	if cfg.Log == nil {
		cfg.Log = func(text string) { fmt.Fprintln(os.Stderr, text) }
	}
	w := &worker{
		cfg: cfg, inbox: newMailbox[[]byte](), pool: make(chan struct{}, backgroundWork),
		hosts: map[metaquery.TaskID]*host{}, routes: map[string]*host{}, ended: map[string]int64{},
	}
	// Held, so that Connected does not find the connection missing.
	w.sending.Lock()
	conn, err := cfg.Control.Dial(cfg.Scheduler, ControlChannel(cfg.ID), 0, controlHandler{w})
	w.control = conn
	w.sending.Unlock()
	if err != nil {
		return fmt.Errorf("worker: connecting to the scheduler at %s: %w", cfg.Scheduler, err)
	}
	defer conn.Close()
	err = w.serve(ctx)
	w.endAll()
	if w.data != nil {
		err = errors.Join(err, w.data.Close())
	}
	return err
}

func (w *worker) serve(ctx context.Context) error {
	alive := time.NewTicker(aliveInterval)
	defer alive.Stop()
	var messages [][]byte
	heard := time.Now()
	w.sayAlive()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-alive.C:
			if time.Since(heard) > w.cfg.Silence {
				return w.silent()
			}
			w.sayAlive()
		case <-w.inbox.ready:
			messages = w.inbox.takeAll(messages)
			for _, text := range messages {
				if text == nil {
					w.sayAlive()
					continue
				}
				m, err := metaquery.DecodeToWorker(text)
				if err != nil {
					w.misunderstand(err)
					continue
				}
				heard = time.Now()
				if m.Exit && w.leave() {
					return nil
				}
				w.obey(m)
			}
		}
	}
}

// misunderstand takes a message that cannot be read, and is no word of a scheduler. What is wrong is logged once: a
// scheduler of another release says such things all the time.
func (w *worker) misunderstand(err error) {
	if w.strange == nil || w.strange.Error() != err.Error() {
		w.cfg.Log(fmt.Sprintf("the scheduler: %v", err))
	}
	w.strange = err
}

// silent is the error of a worker that has not heard its scheduler.
func (w *worker) silent() error {
	if w.strange == nil {
		return ErrSilent
	}
	return fmt.Errorf("%w; what came could not be read: %w", ErrSilent, w.strange)
}

// leave ends all instances. It reports whether the worker may end: not before the scheduler has said so
// after it has heard that nothing runs here any more, and so all reports that were made before.
func (w *worker) leave() bool {
	w.mu.RLock()
	for _, h := range w.hosts {
		h.cancel()
	}
	idle := len(w.hosts) == 0
	w.mu.RUnlock()
	if idle && w.leaving {
		return true
	}
	w.leaving = true
	if idle {
		w.sayAlive()
	}
	return false
}

// sayAlive tells the scheduler what there is.
func (w *worker) sayAlive() {
	if w.query == nil {
		h := &metaquery.Hello{Worker: w.cfg.ID, PID: os.Getpid()}
		if w.failed != nil {
			var everywhere *EverywhereError
			h.Error, h.Final = w.failed.Error(), errors.As(w.failed, &everywhere)
		}
		w.say(&metaquery.ToScheduler{Hello: h})
		return
	}
	a := &metaquery.Alive{Worker: w.cfg.ID, PID: os.Getpid(), Addr: w.addr}
	w.mu.RLock()
	for id := range w.hosts {
		a.Tasks = append(a.Tasks, id)
	}
	w.mu.RUnlock()
	w.say(&metaquery.ToScheduler{Alive: a})
}

// say sends a message to the scheduler. It may be called by any goroutine. What is not taken is said again
// some time later, in its next version.
func (w *worker) say(m *metaquery.ToScheduler) {
	text, err := m.Encode()
	if err != nil {
		w.cfg.Log(err.Error())
		return
	}
	w.sending.Lock()
	defer w.sending.Unlock()
	if err := w.control.Send(text); err != nil && !errors.Is(err, transport.ErrFull) && !errors.Is(err, transport.ErrClosed) {
		w.cfg.Log(fmt.Sprintf("worker: to the scheduler: %v", err))
	}
}

// obey does what the scheduler says.
func (w *worker) obey(m *metaquery.ToWorker) {
	switch {
	case m.Deploy != nil:
		w.deploy(m.Deploy)
	case m.Launch != nil:
		w.launch(m.Launch)
	case m.Orders != nil:
		w.mu.RLock()
		h := w.hosts[m.Orders.To]
		w.mu.RUnlock()
		if h != nil {
			h.box.put(item{orders: m.Orders})
		}
	case m.End != nil:
		w.end(*m.End)
	}
}

// realmOf is what connections for rows of a query have before the names of their channels. The port of a
// worker that has ended may be that of a worker of another query next, whose channels have the same names if its
// spec is the same.
func realmOf(d *metaquery.Deploy) string {
	sum := sha256.Sum256([]byte(d.State + "\x00" + d.Graph))
	return hex.EncodeToString(sum[:8]) + "/"
}

// deploy compiles the query, unless there is one already or it has failed.
func (w *worker) deploy(d *metaquery.Deploy) {
	if w.query != nil || w.failed != nil {
		return
	}
	q, err := w.cfg.Compile(d)
	w.realm = realmOf(d)
	if err == nil {
		err = w.listen(d.Transport)
	}
	if err != nil {
		w.failed = err
	} else {
		q.Limits.Message = transport.Largest(w.addr)
		w.query, w.retention = q, q.Limits.NewRetention()
	}
	w.sayAlive()
}

func (w *worker) listen(name string) error {
	data, addr, err := w.cfg.Data(name)
	if err != nil {
		return err
	}
	w.data = data
	l, err := data.Listen(addr, dataHandler{w})
	if err != nil {
		return fmt.Errorf("worker: listening at %s: %w", addr, err)
	}
	w.addr = l.Addr()
	return nil
}

// launch starts an instance. A launch that comes again, or after the end of that instance, does nothing.
func (w *worker) launch(l *metaquery.Launch) {
	if w.query == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if gen, ended := w.ended[l.ID.Task]; w.hosts[l.ID] != nil || ended && l.ID.Gen <= gen {
		return
	}
	task := w.query.Physical.Task(l.ID.Task)
	if task == nil {
		w.cfg.Log(fmt.Sprintf("worker: the query has no task %q", l.ID.Task))
		return
	}
	h := newHost(w, task, *l)
	w.hosts[l.ID] = h
	w.route()
	go h.run()
}

// end begins to end an instance.
func (w *worker) end(id metaquery.TaskID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ended[id.Task] = max(w.ended[id.Task], id.Gen)
	if h := w.hosts[id]; h != nil {
		h.cancel()
		w.route()
	}
}

// forget is called by the goroutine of a host that has ended.
func (w *worker) forget(h *host) {
	w.mu.Lock()
	delete(w.hosts, h.id)
	w.route()
	w.mu.Unlock()
	w.inbox.put(nil)
}

// route finds who reads each channel. mu is held.
func (w *worker) route() {
	highest := map[string]*host{}
	for id, h := range w.hosts {
		if best := highest[id.Task]; h.ctx.Err() == nil && (best == nil || best.id.Gen < id.Gen) {
			highest[id.Task] = h
		}
	}
	clear(w.routes)
	for _, ch := range w.query.Physical.Channels {
		if h := highest[ch.ToTask.Name]; h != nil {
			w.routes[ch.Stream] = h
		}
	}
}

// endAll ends all instances and waits for them.
func (w *worker) endAll() {
	w.mu.RLock()
	var all []*host
	for _, h := range w.hosts {
		h.cancel()
		all = append(all, h)
	}
	w.mu.RUnlock()
	for _, h := range all {
		<-h.over
	}
}

// incoming hands a producer's message to who reads the channel. It is called by any goroutine.
func (w *worker) incoming(channel string, generation int64, msg []byte, back transport.Conn) {
	w.mu.RLock()
	h := w.routes[channel]
	w.mu.RUnlock()
	if h != nil {
		h.box.put(item{channel: channel, generation: generation, msg: msg, back: back})
	}
}

// dataHandler takes what producers send.
type dataHandler struct{ w *worker }

// Message implements transport.Handler.
func (d dataHandler) Message(name string, generation int64, msg []byte, back transport.Conn) {
	if channel, ours := strings.CutPrefix(name, d.w.realm); ours {
		d.w.incoming(channel, generation, msg, back)
	}
}

// controlHandler takes what the scheduler sends.
type controlHandler struct{ w *worker }

// Connected implements transport.DialHandler. No message, nil, stands for it in the inbox.
func (c controlHandler) Connected() { c.w.inbox.put(nil) }

// Message implements transport.DialHandler.
func (c controlHandler) Message(msg []byte) { c.w.inbox.put(msg) }

// background does work on a goroutine of its own once fewer than backgroundWork others are being done, and
// gives its error to done. It may be called by any goroutine.
func (w *worker) background(ctx context.Context, work func() error, done func(error)) {
	go func() {
		select {
		case w.pool <- struct{}{}:
			defer func() { <-w.pool }()
			done(guarded(work))
		case <-ctx.Done():
			done(ctx.Err())
		}
	}()
}
