package fakemesos

import (
	"net/http"
	"slices"
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"github.com/mesos/mesos-go/api/v1/lib/scheduler"
)

// EventAction is what a fault does to an event.
type EventAction int

// What can be done to events.
const (
	DropEvent EventAction = iota
	DuplicateEvent
	DelayEvent   // by EventFault.For
	ReorderEvent // it is sent after the next event that is no heartbeat
)

// EventFault changes the events that a framework gets.
type EventFault struct {
	Match func(framework string, ev *scheduler.Event) bool // nil matches all
	Do    EventAction
	For   time.Duration
	Times int // how often it strikes; 0 is always
}

// CallAction is what a fault does to a scheduler call.
type CallAction int

// What can be done to calls.
const (
	LoseCall   CallAction = iota // the connection breaks, the call has no effect
	LoseAnswer                   // the call takes effect, the connection breaks before the answer
	SlowCall                     // the call waits for CallFault.For
	RefuseCall                   // 503, as by a master that is not ready
)

// CallFault changes what becomes of scheduler calls.
type CallFault struct {
	Match func(call *scheduler.Call) bool // nil matches all
	Do    CallAction
	For   time.Duration
	Times int // how often it strikes; 0 is always
}

type faults struct {
	events     []*EventFault
	calls      []*CallFault
	deadLeader string // the address to which masters redirect while its session has not expired
}

// FaultEvents adds a fault of events.
func (c *Cluster) FaultEvents(f EventFault) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.faults.events = append(c.faults.events, &f)
}

// FaultCalls adds a fault of calls.
func (c *Cluster) FaultCalls(f CallFault) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.faults.calls = append(c.faults.calls, &f)
}

// ClearFaults ends all faults of events and calls.
func (c *Cluster) ClearFaults() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.faults.events, c.faults.calls = nil, nil
}

// struck counts a fault down; the result is what to keep.
func struck(times *int) (keep bool) {
	if *times == 0 {
		return true
	}
	*times--
	return *times > 0
}

func (x *faults) event(framework string, ev *scheduler.Event) *EventFault {
	for i, f := range x.events {
		if f.Match != nil && !f.Match(framework, ev) {
			continue
		}
		if !struck(&f.Times) {
			x.events = slices.Delete(slices.Clone(x.events), i, i+1)
		}
		return f
	}
	return nil
}

func (x *faults) call(call *scheduler.Call) callVerdict {
	for i, f := range x.calls {
		if f.Match != nil && !f.Match(call) {
			continue
		}
		if !struck(&f.Times) {
			x.calls = slices.Delete(slices.Clone(x.calls), i, i+1)
		}
		return callVerdict{f}
	}
	return callVerdict{}
}

// callVerdict is the fault that a call meets, if any.
type callVerdict struct{ f *CallFault }

// before strikes before the call takes effect; true means that it is over.
func (v callVerdict) before(c *Cluster, w http.ResponseWriter) bool {
	if v.f == nil {
		return false
	}
	switch v.f.Do {
	case LoseCall:
		breakOff(w)
		return true
	case RefuseCall:
		refuse(w, http.StatusServiceUnavailable, "Master has not finished recovery")
		return true
	case SlowCall:
		select {
		case <-time.After(v.f.For):
		case <-c.ctx.Done():
		}
	}
	return false
}

// loses says whether the answer is to be lost.
func (v callVerdict) loses() bool { return v.f != nil && v.f.Do == LoseAnswer }

// breakOff closes the connection without an answer.
func breakOff(w http.ResponseWriter) {
	if h, ok := w.(http.Hijacker); ok {
		if conn, _, err := h.Hijack(); err == nil {
			_ = conn.Close()
		}
	}
}

// send gives an event to the framework if it is connected, by way of the faults.
func (f *framework) send(ev *scheduler.Event) {
	if !f.connected || f.stream == nil {
		return
	}
	c, s := f.m.c, f.stream
	x := c.faults.event(f.id, ev)
	if x == nil {
		f.put(ev)
		return
	}
	switch x.Do {
	case DropEvent:
	case DuplicateEvent:
		f.put(ev)
		c.put(s, ev)
	case ReorderEvent:
		f.held = ev
	case DelayEvent:
		c.after(x.For, func() {
			if f.stream == s {
				c.put(s, ev)
			}
		})
	}
}

// put sends an event, and after it the one that was held back.
func (f *framework) put(ev *scheduler.Event) {
	f.m.c.put(f.stream, ev)
	if held := f.held; held != nil && ev.Type != scheduler.Event_HEARTBEAT {
		f.held = nil
		f.m.c.put(f.stream, held)
	}
}

// Rescind takes back the open offers of an agent.
func (c *Cluster) Rescind(agent string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.m != nil {
		c.m.rescindAll(agent)
	}
}

// CutStream breaks the stream of a framework without a last chunk.
func (c *Cluster) CutStream(framework string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.m == nil || c.m.frameworks[framework] == nil {
		return
	}
	f := c.m.frameworks[framework]
	if s := f.stream; s != nil {
		s.end(true)
		c.m.left(f, s)
	}
}

// Partition loses all messages between an agent and the masters, until Heal.
func (c *Cluster) Partition(agent string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.agentOf(agent).partitioned = true
	if n := c.nodeOf(agent); n != nil {
		c.m.pingLater(n)
	}
}

// Heal ends a Partition: the agent registers again. Messages that were lost meanwhile stay lost; a launch among them ends
// as TASK_DROPPED.
func (c *Cluster) Heal(agent string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	a := c.agentOf(agent)
	a.partitioned = false
	if c.m != nil && !c.m.gone[agent] && a.running && !a.recovering && !a.left {
		c.m.register(a)
	}
}

// StopAgent kills the process of an agent. Its executors live on, those of frameworks with checkpoint.
func (c *Cluster) StopAgent(agent string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.agentOf(agent).crash()
	if n := c.nodeOf(agent); n != nil && n.connected {
		c.m.disconnect(n)
	}
}

// StartAgent starts the process of an agent again, with its work directory.
func (c *Cluster) StartAgent(agent string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	a := c.agentOf(agent)
	if a.running {
		return
	}
	if err := a.listen(); err != nil {
		c.t.Error(err)
		return
	}
	a.recover()
}

// LeaveAgent tells an agent to leave for good, as SIGUSR1 does.
func (c *Cluster) LeaveAgent(agent string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	a := c.agentOf(agent)
	n := c.nodeOf(agent)
	a.left = true
	delete(c.registry, agent)
	if n != nil {
		c.m.removed(n, always(mesos.TASK_LOST), mesos.REASON_AGENT_REMOVED, "Agent "+a.hostname+" removed: the agent unregistered")
	}
	a.crash()
	a.killAll()
}

// MarkGone is the operator's MARK_AGENT_GONE.
func (c *Cluster) MarkGone(agent string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.markGone(agent)
}

func (c *Cluster) markGone(agent string) {
	if c.m == nil {
		return
	}
	c.m.gone[agent] = true
	delete(c.registry, agent)
	if n := c.m.nodes[agent]; n != nil {
		c.m.removed(n, func(f *framework) mesos.TaskState { return f.either(mesos.TASK_GONE_BY_OPERATOR) },
			mesos.REASON_AGENT_REMOVED_BY_OPERATOR, "Agent has been marked gone")
	}
	delete(c.m.unreachable, agent)
	a := c.agentOf(agent)
	for id := range a.frameworks {
		a.shutdownFramework(id)
	}
}

// KillExecutor kills the process of an executor.
func (c *Cluster) KillExecutor(agent, framework, executor string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e := c.agentOf(agent).executor(framework, executor); e != nil {
		e.kill()
		return
	}
	c.t.Errorf("fakemesos: no executor %q of framework %q on agent %q", executor, framework, agent)
}

// RestartMaster kills the leading master and starts it again after a time, at the same address. Agents register again at
// once, as with ZooKeeper. Frameworks must subscribe again.
func (c *Cluster) RestartMaster(away time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	i := c.leader
	if i < 0 {
		return
	}
	c.killLeader()
	c.after(away, func() {
		if err := c.masters[i].start(); err != nil {
			c.t.Error(err)
			return
		}
		c.masters[i].retire()
		c.lead(i)
		if err := c.announceFront(c.masters[i]); err != nil {
			c.t.Error(err)
		}
	})
}

// FailOver kills the leading master. The next one leads when the session of the dead one has expired
// (Times.LeaderExpiration); till then the others redirect to the dead one.
func (c *Cluster) FailOver() {
	c.mu.Lock()
	defer c.mu.Unlock()
	i := c.leader
	if i < 0 {
		return
	}
	c.killLeader()
	c.faults.deadLeader = c.masters[i].addr
	c.after(c.opts.Times.LeaderExpiration, func() { c.elect(i) })
}

// Leaderless kills the leading master; the others know of no leader (503) until one of them leads after a time.
func (c *Cluster) Leaderless(wait time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	i := c.leader
	if i < 0 {
		return
	}
	c.killLeader()
	c.after(wait, func() { c.elect(i) })
}

// elect makes the next living master lead, since the session of the dead one has expired.
func (c *Cluster) elect(dead int) {
	if c.leader >= 0 {
		return
	}
	c.faults.deadLeader = ""
	c.masters[dead].retire()
	for k := range c.masters {
		if next := (dead + 1 + k) % len(c.masters); c.masters[next].up {
			c.lead(next)
			return
		}
	}
}

func (c *Cluster) killLeader() {
	f := c.masters[c.leader]
	_ = f.server.Close()
	f.up = false
	for _, fw := range c.m.frameworks {
		c.drop(fw.expire)
		if fw.stream != nil {
			fw.stream.end(true)
		}
	}
	for _, s := range c.m.watchers {
		s.end(true)
	}
	for _, o := range c.m.offers {
		c.drop(o.timeout)
	}
	c.m, c.leader = nil, -1
}

// lead makes a master the leader. It knows the agents of the registry, which register at once.
func (c *Cluster) lead(i int) {
	c.leader = i
	c.m = c.newMaster()
	for id := range c.registry {
		c.m.recovering[id] = true
	}
	for _, a := range c.agents {
		if a.running && !a.recovering && !a.partitioned && !a.left && c.registry[a.id] {
			c.after(c.opts.Times.Allocation/2, func() {
				if c.m != nil && a.running && !a.partitioned {
					c.m.register(a)
				}
			})
		}
	}
}
