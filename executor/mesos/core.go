package mesos

import (
	"fmt"
	"time"

	pb "github.com/mesos/mesos-go/api/v1/lib"
	exec "github.com/mesos/mesos-go/api/v1/lib/executor"
)

// core decides what the executor does. It is told events and returns actions, to be done in their order.
type core struct {
	cfg    settings
	newID  func() []byte // 16 bytes that nobody else has
	now    time.Time
	jitter float64 // in [0, 1)
	out    []action

	connected bool
	ever      bool      // has been connected
	lostAt    time.Time // when the connection was lost, or the executor began
	retryAt   time.Time // zero: a subscription is under way
	killing   bool      // the framework knows TASK_KILLING

	task     *pb.TaskInfo
	work     Work
	state    pb.TaskState
	unseen   bool               // no update of the task has been acknowledged
	updates  []exec.Call_Update // not acknowledged, the oldest first
	life     life
	deadline time.Time // when the process ends at the latest; zero: not yet
	why      string    // what ends it
	cause    string    // why the worker is killed, if no framework said so
	dialing  time.Time // since when it connects to where the scheduler is
	unheard  bool      // it could not for too long, which is why it is killed
}

// life is how far a worker is.
type life uint8

const (
	none life = iota
	running
	stopping
	ended
)

// settings are what the agent says to the executor.
type settings struct {
	framework, executor string
	checkpoint          bool
	recovery            time.Duration // for how long the agent may be away, with checkpoint
	backoffMax          time.Duration
	grace               time.Duration // from SHUTDOWN to SIGKILL
}

// event is something that has happened; one of the fields besides the first two is set, or none for a tick.
type event struct {
	now    time.Time
	jitter float64

	received *exec.Event
	lost     string // why there is no subscription
	up       bool   // the worker is connected to the scheduler
	over     *over  // the worker has ended
	heard    time.Time
}

// over is how the worker has ended; nil means that the scheduler told it to.
type over struct{ err error }

// action is what is to be done; one field is set.
type action struct {
	subscribe *exec.Call
	call      *exec.Call
	start     *Work
	move      string // the address of the scheduler
	stop      bool   // end the worker
	exit      *exit
	log       string
}

// exit ends the process, also if the worker runs still.
type exit struct {
	code int
	why  string
}

// Times that are not for others to set.
const (
	retryLeast = 10 * time.Millisecond
	usualGrace = 5 * time.Second
	// ackWait is how long the executor waits for the agent to have its last updates.
	ackWait = 10 * time.Second
	// lastMoment is what of a grace period is left for ending by oneself.
	lastMoment = 500 * time.Millisecond
	// usualBackoff is the longest pause between two subscriptions if the agent says nothing.
	usualBackoff = 2 * time.Second
	// connectWait is how long a worker may take to connect to the scheduler, if it may be without one for as long.
	connectWait = 20 * time.Second
)

func newCore(cfg settings, newID func() []byte, now time.Time) (*core, []action) {
	c := &core{cfg: cfg, newID: newID, now: now, lostAt: now}
	c.subscribe()
	return c, c.taken()
}

func (c *core) taken() []action {
	out := c.out
	c.out = nil
	return out
}

func (c *core) do(a action) { c.out = append(c.out, a) }

// handle takes an event and returns what is to be done.
func (c *core) handle(e event) []action {
	if e.now.After(c.now) {
		c.now = e.now
	}
	c.jitter = e.jitter
	switch {
	case e.received != nil:
		c.received(e.received)
	case e.lost != "":
		c.lost(e.lost)
	case e.up:
		c.up()
	case e.over != nil:
		c.over(e.over.err)
	}
	c.advance(e.heard)
	return c.taken()
}

// advance does what has become due.
func (c *core) advance(heard time.Time) {
	if !c.deadline.IsZero() && (!c.now.Before(c.deadline) || c.life == ended && len(c.updates) == 0) {
		code := 0
		if c.life == running || c.life == stopping {
			code = 1
		}
		c.do(action{exit: &exit{code, c.why}})
		return
	}
	if c.life == running && !heard.IsZero() && c.now.Sub(heard) > c.work.Silence+c.work.Margin/2 {
		c.do(action{exit: &exit{1, "the worker has not ended although nothing was heard of the scheduler"}})
		return
	}
	if c.life == running && c.unconnected() > connectWait {
		c.unreachable()
	}
	if c.connected {
		return
	}
	if c.now.Sub(c.lostAt) > c.patience() && c.life != stopping && c.deadline.IsZero() {
		c.finish("the agent has been away for too long")
	}
	if !c.retryAt.IsZero() && !c.now.Before(c.retryAt) {
		c.subscribe()
	}
}

// unconnected is for how long the worker tries to connect to where the scheduler is, 0 if it has been connected.
func (c *core) unconnected() time.Duration {
	if c.state != pb.TASK_STARTING {
		return 0
	}
	return c.now.Sub(c.dialing)
}

// unreachable ends a worker that cannot connect to the scheduler, which knows nothing of it and so can tell nobody.
func (c *core) unreachable() {
	c.unheard = true
	c.life = stopping
	c.why, c.deadline = "the worker has not ended", c.now.Add(c.cfg.grace)
	c.do(action{stop: true})
}

// unheardText says what is to be looked at if a worker could not connect.
func (c *core) unheardText() string {
	return fmt.Sprintf("the worker could not connect to the scheduler at %s within %v: the agent must reach every port of that host, "+
		"whose name --mesos-control of the scheduler sets, and with --keys the file of --mesos-keys must have the keys of the scheduler",
		c.work.Control, min(connectWait, c.work.Silence))
}

// patience is for how long the agent may be away.
func (c *core) patience() time.Duration {
	if c.cfg.checkpoint {
		return c.cfg.recovery
	}
	if c.ever {
		return 0
	}
	return ackWait
}

// subscribe names the updates that may be unknown to the agent, and the task if nothing of it is known.
func (c *core) subscribe() {
	s := &exec.Call_Subscribe{UnacknowledgedUpdates: c.updates}
	if c.task != nil && c.unseen {
		s.UnacknowledgedTasks = []pb.TaskInfo{*c.task}
	}
	c.retryAt = time.Time{}
	c.do(action{subscribe: c.calling(&exec.Call{Type: exec.Call_SUBSCRIBE, Subscribe: s})})
}

func (c *core) calling(call *exec.Call) *exec.Call {
	call.ExecutorID.Value, call.FrameworkID.Value = c.cfg.executor, c.cfg.framework
	return call
}

// lost plans the next subscription.
func (c *core) lost(why string) {
	if c.connected {
		c.do(action{log: "the connection to the agent: " + why})
		c.connected, c.lostAt = false, c.now
	}
	// Half of what is allowed: an agent that has recovered waits about as long before it kills the executor.
	pause := time.Duration(float64(c.cfg.backoffMax/2) * c.jitter)
	c.retryAt = c.now.Add(max(pause, retryLeast))
}

// finish ends the worker and then the process.
func (c *core) finish(why string) {
	c.why = why
	c.deadline = c.now.Add(c.cfg.grace - min(lastMoment, c.cfg.grace/2))
	if c.life == running {
		c.life, c.cause = stopping, why
		c.do(action{stop: true})
	}
	if c.life == none {
		c.life = ended
	}
}

// received takes an event of the agent.
func (c *core) received(e *exec.Event) {
	switch {
	case e.Type == exec.Event_SUBSCRIBED && e.Subscribed != nil:
		c.connected, c.ever = true, true
		for _, x := range e.Subscribed.FrameworkInfo.Capabilities {
			c.killing = c.killing || x.Type == pb.FrameworkInfo_Capability_TASK_KILLING_STATE
		}
	case e.Type == exec.Event_LAUNCH && e.Launch != nil:
		c.launch(&e.Launch.Task)
	case e.Type == exec.Event_KILL && e.Kill != nil:
		c.kill(e.Kill)
	case e.Type == exec.Event_ACKNOWLEDGED && e.Acknowledged != nil:
		c.acknowledged(e.Acknowledged)
	case e.Type == exec.Event_MESSAGE && e.Message != nil:
		c.moved(e.Message.Data)
	case e.Type == exec.Event_SHUTDOWN:
		c.finish("the agent said SHUTDOWN")
	case e.Type == exec.Event_ERROR && e.Error != nil:
		c.do(action{log: "the agent says: " + e.Error.Message})
	}
}

// launch begins the worker. An executor has one task in its life.
func (c *core) launch(t *pb.TaskInfo) {
	if c.task != nil {
		if t.TaskID.Value != c.task.TaskID.Value {
			c.tell(t.TaskID, pb.TASK_FAILED, "this executor has a task already: "+c.task.TaskID.Value)
		}
		return
	}
	c.task, c.unseen = t, true
	w, err := decodeWork(t.Data)
	if err != nil {
		c.life = ended
		c.update(pb.TASK_FAILED, err.Error())
		c.why, c.deadline = err.Error(), c.now.Add(ackWait)
		return
	}
	c.work = w
	c.update(pb.TASK_STARTING, "")
	c.life, c.dialing = running, c.now
	c.do(action{start: &w})
}

// up says that the worker runs and is connected to the scheduler.
func (c *core) up() {
	if c.life == running && c.state == pb.TASK_STARTING {
		c.update(pb.TASK_RUNNING, "")
	}
}

// moved is another address of the scheduler. The answer says that it is known.
func (c *core) moved(addr []byte) {
	if len(addr) == 0 || c.task == nil {
		return
	}
	if c.life == running && string(addr) != c.work.Control {
		c.work.Control, c.dialing = string(addr), c.now
		c.do(action{move: c.work.Control})
	}
	c.do(action{call: c.calling(&exec.Call{Type: exec.Call_MESSAGE, Message: &exec.Call_Message{Data: addr}})})
}

// kill ends the worker, which may write its state within the grace period. If it does not end, the process does.
func (c *core) kill(k *exec.Event_Kill) {
	if c.task == nil || k.TaskID.Value != c.task.TaskID.Value || c.life != running {
		return
	}
	grace := usualGrace
	if g := k.GetKillPolicy().GetGracePeriod(); g != nil && g.Nanoseconds > 0 {
		grace = time.Duration(g.Nanoseconds)
	}
	if c.killing {
		c.update(pb.TASK_KILLING, "")
	}
	c.life = stopping
	c.why, c.deadline = "the worker has not ended within the grace period", c.now.Add(grace)
	c.do(action{stop: true})
}

// over is the end of the worker: nothing of it runs any longer. The process ends when the agent knows it.
func (c *core) over(err error) {
	switch {
	case c.unheard, c.life == running && err != nil && c.unconnected() >= c.work.Silence:
		text := c.unheardText()
		c.do(action{log: text})
		c.update(pb.TASK_FAILED, text)
	case c.life == stopping:
		c.update(pb.TASK_KILLED, c.cause)
	case err != nil:
		c.update(pb.TASK_FAILED, err.Error())
	default:
		c.update(pb.TASK_FINISHED, "")
	}
	c.life = ended
	c.why, c.deadline = "the worker has ended", c.now.Add(ackWait)
}

func (c *core) update(state pb.TaskState, message string) {
	c.state = state
	c.tell(c.task.TaskID, state, message)
}

// maxMessage bounds the message of an update, in bytes.
const maxMessage = 4 << 10

// tell makes an update, which is kept until the agent has it.
func (c *core) tell(id pb.TaskID, state pb.TaskState, message string) {
	source, seconds := pb.SOURCE_EXECUTOR, float64(c.now.UnixNano())/1e9
	u := exec.Call_Update{Status: pb.TaskStatus{
		TaskID: id, State: &state, Source: &source, UUID: c.newID(), Timestamp: &seconds,
		ExecutorID: &pb.ExecutorID{Value: c.cfg.executor},
	}}
	if len(message) > maxMessage {
		message = fmt.Sprintf("%s... (%d bytes more)", message[:maxMessage], len(message)-maxMessage)
	}
	if message != "" {
		u.Status.Message = &message
	}
	c.updates = append(c.updates, u)
	if c.connected {
		c.do(action{call: c.calling(&exec.Call{Type: exec.Call_UPDATE, Update: &u})})
	}
}

// acknowledged says that the agent has an update.
func (c *core) acknowledged(a *exec.Event_Acknowledged) {
	for i, u := range c.updates {
		if string(u.Status.UUID) != string(a.UUID) {
			continue
		}
		c.updates = append(c.updates[:i:i], c.updates[i+1:]...)
		if c.task != nil && a.TaskID.Value == c.task.TaskID.Value {
			c.unseen = false
		}
		return
	}
}
