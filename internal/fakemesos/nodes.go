package fakemesos

import (
	"cmp"
	"maps"
	"slices"
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"github.com/mesos/mesos-go/api/v1/lib/scheduler"
)

func (m *masterState) sortedFrameworks() []*framework {
	out := make([]*framework, 0, len(m.frameworks))
	for _, f := range m.frameworks {
		out = append(out, f)
	}
	slices.SortFunc(out, func(a, b *framework) int { return cmp.Compare(a.id, b.id) })
	return out
}

// register takes an agent that is new, or back. What it runs is known from it.
func (m *masterState) register(a *agent) {
	now := time.Now()
	n := m.nodes[a.id]
	fresh := n == nil
	if fresh {
		n = &node{a: a, registered: now, executors: map[execKey]resources{}, answers: map[string]inverseAnswer{}}
		m.nodes[a.id] = n
		defer m.announceAgent("AGENT_ADDED", n)
	} else {
		n.reregistered = now
	}
	m.c.drop(n.pinger)
	n.connected = true
	delete(m.unreachable, a.id)
	delete(m.recovering, a.id)
	known := map[execKey]bool{}
	for _, id := range slices.Sorted(maps.Keys(a.frameworks)) {
		f := a.frameworks[id]
		m.recoverFramework(id, f, now)
		for _, e := range f.inOrder() {
			for _, t := range e.tasks {
				known[execKey{id, t.info.TaskID.Value}] = true
				m.recoverTask(n, m.frameworks[id], e, t)
			}
			for _, t := range e.queued {
				known[execKey{id, t.TaskID.Value}] = true
				m.recoverTask(n, m.frameworks[id], e, &agentTask{info: t, state: mesos.TASK_STAGING})
			}
			m.recoverExecutor(n, id, e)
		}
	}
	m.dropUnknown(n, known)
	for _, f := range a.frameworks { // twice, once for the recovery and once for the registration (rule 33)
		for _, id := range slices.Sorted(maps.Keys(f.updates)) {
			a.sendOldest(f, f.updates[id])
		}
		for _, id := range slices.Sorted(maps.Keys(f.updates)) {
			u := f.updates[id]
			u.wait = m.c.opts.Times.Resend
			a.forward(f, u)
		}
	}
	if fresh {
		m.c.after(0, m.c.allocate)
	}
}

// recoverFramework makes a framework that only agents know: a new master has not heard of it.
func (m *masterState) recoverFramework(id string, f *agentFramework, now time.Time) {
	if m.frameworks[id] != nil || slices.ContainsFunc(m.completed, func(x *framework) bool { return x.id == id }) {
		return
	}
	live := false
	for _, e := range f.inOrder() {
		live = live || !e.ended
	}
	for _, u := range f.updates {
		live = live || len(u.pending) > 0
	}
	if !live {
		return
	}
	info := f.info
	fw := &framework{
		m: m, id: id, info: &info, recovered: true, tasks: map[string]*task{}, unreachable: map[string]*task{},
		registered: now, reregistered: now, suppressed: map[string]bool{}, principal: info.GetPrincipal(),
	}
	m.frameworks[id] = fw
	m.expireLater(fw)
}

func (m *masterState) recoverTask(n *node, f *framework, e *executor, at *agentTask) {
	if f == nil || f.tasks[at.info.TaskID.Value] != nil {
		return
	}
	id := at.info.TaskID.Value
	pending := e.fw.updates[id]
	if terminal(at.state) && (pending == nil || len(pending.pending) == 0) {
		return
	}
	t := f.unreachable[id]
	back := t != nil
	if back {
		delete(f.unreachable, id)
	} else {
		t = &task{seq: m.seq, id: id, fw: f, agent: n.a.id, info: at.info, resources: readResources(at.info.Resources), shown: at.state}
		m.seq++
		if len(at.info.Resources) > 0 {
			t.role = at.info.Resources[0].GetAllocationInfo().GetRole()
		}
		if !e.command {
			t.executor = e.id
		}
		if at.state != mesos.TASK_STAGING {
			t.container = e.containerStatus()
		}
		if pending != nil && len(pending.pending) > 0 {
			t.shown, t.shownUUID = *pending.pending[0].State, pending.pending[0].UUID
		}
	}
	t.state, t.freed = at.state, terminal(at.state)
	if !t.freed {
		m.hold(t.agent, t.resources)
	}
	f.tasks[id] = t
	if back {
		m.tellState(f, t, t.shown, mesos.REASON_AGENT_REREGISTERED, "Unreachable agent re-reregistered")
	}
}

func (m *masterState) recoverExecutor(n *node, framework string, e *executor) {
	k := execKey{framework, e.id}
	if _, ok := n.executors[k]; ok || e.ended || e.command || m.frameworks[framework] == nil {
		return
	}
	rs := readResources(e.info.Resources)
	n.executors[k] = rs
	m.hold(n.a.id, rs)
}

// dropUnknown ends the tasks that were on their way to the agent and never came there.
func (m *masterState) dropUnknown(n *node, known map[execKey]bool) {
	for _, f := range m.sortedFrameworks() {
		for _, t := range sorted(f.tasks) {
			if t.agent != n.a.id || known[execKey{f.id, t.id}] || terminal(t.state) {
				continue
			}
			m.lost(f, t, f.either(mesos.TASK_DROPPED), mesos.REASON_RECONCILIATION, "Reconciliation: task unknown to the agent")
		}
	}
	for k := range n.executors {
		if e := n.a.executor(k.framework, k.executor); e == nil || e.ended {
			m.dropExecutor(n, k)
		}
	}
}

// rescindAll takes back the open offers of an agent.
func (m *masterState) rescindAll(agent string) {
	for _, f := range m.sortedFrameworks() {
		for _, o := range m.openOffers(f.id) {
			if o.agent == agent {
				m.rescind(o)
			}
		}
	}
}

func (m *masterState) fail(agent string) {
	for _, f := range m.sortedFrameworks() {
		f.send(&scheduler.Event{Type: scheduler.Event_FAILURE, Failure: &scheduler.Event_Failure{AgentID: &mesos.AgentID{Value: agent}}})
	}
}

// pingLater finds an agent unreachable when it is still away then.
func (m *masterState) pingLater(n *node) {
	m.c.drop(n.pinger)
	n.pinger = m.c.after(m.c.opts.Times.PingTimeout, func() {
		if m.c.m == m && m.nodes[n.a.id] == n && !n.reachable() {
			m.markUnreachable(n)
		}
	})
}

// markUnreachable is rule 40: updates, RESCIND, FAILURE.
func (m *masterState) markUnreachable(n *node) {
	since := mesos.TimeInfo{Nanoseconds: time.Now().UnixNano()}
	m.unreachable[n.a.id] = since
	m.lose(n.a.id, nil, func(f *framework, t *task) {
		delete(f.tasks, t.id)
		m.free(t)
		if terminal(t.state) {
			f.ended = append(f.ended, t)
			return
		}
		f.unreachable[t.id] = t
		st := m.status(t.id, f.either(mesos.TASK_UNREACHABLE), mesos.REASON_AGENT_REMOVED, "health check timed out")
		st.AgentID, st.UnreachableTime = &mesos.AgentID{Value: t.agent}, &since
		if t.executor != "" {
			st.ExecutorID = &mesos.ExecutorID{Value: t.executor}
		}
		m.announceTask(t, st)
		f.update(st)
	})
	m.removeNode(n)
}

func (m *masterState) removeNode(n *node) {
	m.rescindAll(n.a.id)
	m.dropInverseOf(n.a.id)
	m.c.drop(n.pinger)
	n.connected = false
	delete(m.nodes, n.a.id)
	m.fail(n.a.id)
	m.announceAgent("AGENT_REMOVED", n)
}

// disconnect is the end of an agent's process as the master sees it (rule 41).
func (m *masterState) disconnect(n *node) {
	n.connected = false
	m.rescindAll(n.a.id)
	plain := func(f *framework) bool { return !f.info.GetCheckpoint() }
	m.lose(n.a.id, plain, func(f *framework, t *task) {
		m.lost(f, t, mesos.TASK_LOST, mesos.REASON_AGENT_DISCONNECTED, "Agent "+n.a.hostname+" disconnected")
	})
	for k := range n.executors {
		if f := m.frameworks[k.framework]; f == nil || plain(f) {
			m.dropExecutor(n, k)
		}
	}
	m.pingLater(n)
}

// removed is an agent that is gone for good: it left, is in maintenance, or was marked gone.
func (m *masterState) removed(n *node, state func(*framework) mesos.TaskState, reason mesos.TaskStatus_Reason, text string) {
	m.lose(n.a.id, nil, func(f *framework, t *task) { m.lost(f, t, state(f), reason, text) })
	m.removeNode(n)
}

func always(s mesos.TaskState) func(*framework) mesos.TaskState {
	return func(*framework) mesos.TaskState { return s }
}

func (e *executor) containerStatus() *mesos.ContainerStatus {
	return &mesos.ContainerStatus{
		ContainerID: &mesos.ContainerID{Value: e.container}, ExecutorPID: ptr(e.pid),
		NetworkInfos: []mesos.NetworkInfo{{IPAddresses: []mesos.NetworkInfo_IPAddress{
			{Protocol: ptr(mesos.IPv4), IPAddress: ptr("127.0.0.1")},
		}}},
	}
}

// executorMessage goes to the framework, when it is there.
func (m *masterState) executorMessage(framework, agent, executor string, data []byte) {
	f := m.frameworks[framework]
	if f == nil {
		return
	}
	f.send(&scheduler.Event{Type: scheduler.Event_MESSAGE, Message: &scheduler.Event_Message{
		AgentID: mesos.AgentID{Value: agent}, ExecutorID: mesos.ExecutorID{Value: executor}, Data: data,
	}})
}

// agentOf finds an agent by id. The lock is held.
func (c *Cluster) agentOf(id string) *agent {
	for _, a := range c.agents {
		if a.id == id {
			return a
		}
	}
	c.t.Errorf("fakemesos: no agent %q", id)
	return &agent{c: c, frameworks: map[string]*agentFramework{}}
}

func (c *Cluster) nodeOf(id string) *node {
	if c.m == nil {
		return nil
	}
	return c.m.nodes[id]
}
