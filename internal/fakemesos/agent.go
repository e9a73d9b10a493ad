package fakemesos

import (
	"cmp"
	"fmt"
	"maps"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"github.com/mesos/mesos-go/api/v1/lib/scheduler"
)

// agent is one agent: what its process and its work directory hold.
type agent struct {
	c           *Cluster
	index       int
	id          string // "" until a master has registered it
	spec        AgentSpec
	hostname    string
	total       resources
	attributes  []mesos.Attribute
	addr        string
	dir         string
	server      *http.Server
	running     bool // the process
	recovering  bool // after a restart, executors may subscribe and the master is not told yet
	partitioned bool // its messages and those to it are lost
	left        bool // for good
	frameworks  map[string]*agentFramework
}

// agentFramework is a framework that has had executors on the agent.
type agentFramework struct {
	info      mesos.FrameworkInfo
	executors map[string]*executor
	updates   map[string]*updates // of tasks with updates that are not acknowledged
}

// inOrder lists the executors in the order of their start.
func (f *agentFramework) inOrder() []*executor {
	return slices.SortedFunc(maps.Values(f.executors), func(x, y *executor) int { return cmp.Compare(x.seq, y.seq) })
}

// updates are the unacknowledged updates of a task, oldest first. Only the first one is sent. They are forgotten when the
// end of the task is acknowledged.
type updates struct {
	pending []mesos.TaskStatus
	latest  mesos.TaskState
	seen    map[string]bool // uuids of all updates of the task; one that comes again is only acknowledged to the executor
	timer   *time.Timer
	wait    time.Duration // to the next re-send
}

// AddAgent starts an agent and registers it. The result is its id.
func (c *Cluster) AddAgent(spec AgentSpec) string {
	c.t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	res := cmp.Or(spec.Resources, defaultResources)
	total, err := parseResources(res)
	if err != nil {
		c.t.Fatal(err)
	}
	a := &agent{
		c: c, index: len(c.agents), spec: spec, hostname: cmp.Or(spec.Hostname, "localhost"), total: total,
		attributes: parseAttributes(spec.Attributes), addr: "127.0.0.1:0", frameworks: map[string]*agentFramework{},
	}
	a.dir = filepath.Join(c.opts.WorkDir, fmt.Sprintf("agent%d", a.index))
	c.agents = append(c.agents, a)
	if err := a.listen(); err != nil {
		c.t.Fatal(err)
	}
	if c.m == nil {
		c.t.Fatal("fakemesos: AddAgent: no master leads")
	}
	a.id = fmt.Sprintf("%s-S%d", c.m.id, a.index)
	c.registry[a.id] = true
	c.m.register(a)
	return a.id
}

func (a *agent) listen() error {
	l, err := net.Listen("tcp", a.addr)
	if err != nil {
		return fmt.Errorf("fakemesos: agent %d: %w", a.index, err)
	}
	a.addr, a.running = l.Addr().String(), true
	a.server = &http.Server{Handler: a}
	go func(s *http.Server) { _ = s.Serve(l) }(a.server) // ends with Close
	return nil
}

func (a *agent) url() *mesos.URL {
	return &mesos.URL{
		Scheme: "http", Path: ptr("/slave(1)"),
		Address: mesos.Address{Hostname: ptr(a.hostname), IP: ptr("127.0.0.1"), Port: portOf(a.addr)},
	}
}

// info is what executors are told of their agent.
func (a *agent) info() mesos.AgentInfo {
	return mesos.AgentInfo{
		Hostname: a.hostname, Port: ptr(portOf(a.addr)), Resources: a.flagOrder().show(view{refined: true}),
		Attributes: a.attributes, ID: &mesos.AgentID{Value: a.id},
	}
}

// flagOrder is all that the agent has, ranges last.
func (a *agent) flagOrder() resources {
	rs := a.total.clone()
	slices.SortStableFunc(rs, func(x, y resource) int { return cmp.Compare(flagRank(x), flagRank(y)) })
	return rs
}

func flagRank(r resource) int {
	if r.isRanges {
		return 100
	}
	return r.rank()
}

// close kills what runs and gives the streams to end.
func (a *agent) close() []*stream {
	if a.running {
		_ = a.server.Close()
	}
	var out []*stream
	for _, f := range a.frameworks {
		for _, e := range f.inOrder() {
			if e.stream != nil {
				out = append(out, e.stream)
			}
			e.kill()
		}
	}
	return out
}

func (a *agent) executor(framework, id string) *executor {
	f := a.frameworks[framework]
	if f == nil {
		return nil
	}
	return f.executors[id]
}

// master is the one that the agent's messages reach, nil when none does.
func (a *agent) master() *masterState {
	if !a.running || a.recovering || a.partitioned || a.left || a.c.m == nil {
		return nil
	}
	if n := a.c.m.nodes[a.id]; n == nil || !n.connected {
		return nil
	}
	return a.c.m
}

// runTask takes a task from the master.
func (a *agent) runTask(f *framework, info mesos.TaskInfo) {
	af := a.frameworks[f.id]
	if af == nil {
		af = &agentFramework{executors: map[string]*executor{}, updates: map[string]*updates{}}
		a.frameworks[f.id] = af
	}
	af.info = *f.info
	id := info.TaskID.Value
	if info.Executor != nil {
		id = info.Executor.ExecutorID.Value
	}
	e := af.executors[id]
	if e == nil || e.ended {
		e = a.newExecutor(af, id, info)
		af.executors[id] = e
		e.start()
	}
	e.launch(info)
}

// add takes an update of a task and sends it on.
func (a *agent) add(f *agentFramework, st mesos.TaskStatus) {
	id := st.TaskID.Value
	u := f.updates[id]
	if u == nil {
		u = &updates{seen: map[string]bool{}}
		f.updates[id] = u
	}
	u.latest, u.seen[string(st.UUID)] = *st.State, true
	u.pending = append(u.pending, st)
	if len(u.pending) == 1 {
		u.wait = a.c.opts.Times.Resend
		a.forward(f, u)
	}
}

// forward sends the oldest unacknowledged update, now and again until it is acknowledged.
func (a *agent) forward(f *agentFramework, u *updates) {
	if len(u.pending) == 0 {
		return
	}
	a.sendOldest(f, u)
	a.c.drop(u.timer)
	u.timer = a.c.after(u.wait, func() {
		u.wait = min(2*u.wait, a.c.opts.Times.ResendMax)
		a.forward(f, u)
	})
}

func (a *agent) sendOldest(f *agentFramework, u *updates) {
	if len(u.pending) == 0 {
		return
	}
	if m := a.master(); m != nil {
		m.fromAgent(f.info.GetID().GetValue(), u.pending[0], u.latest)
	}
}

// acknowledged is the framework's word that it has an update. Others than the oldest are not heeded.
func (a *agent) acknowledged(framework, task string, id []byte) {
	f := a.frameworks[framework]
	if f == nil || f.updates[task] == nil {
		return
	}
	u := f.updates[task]
	if len(u.pending) == 0 || string(u.pending[0].UUID) != string(id) {
		return
	}
	a.c.drop(u.timer)
	ended := terminal(*u.pending[0].State)
	u.pending = u.pending[1:]
	if len(u.pending) == 0 && ended {
		delete(f.updates, task)
		return
	}
	u.wait = a.c.opts.Times.Resend
	a.forward(f, u)
}

// made is an update by the agent itself.
func (a *agent) made(e *executor, task string, state mesos.TaskState, reason mesos.TaskStatus_Reason, text string) {
	source := mesos.SOURCE_AGENT
	a.add(e.fw, mesos.TaskStatus{
		TaskID: mesos.TaskID{Value: task}, State: &state, Source: &source, Reason: &reason, Message: &text,
		AgentID: &mesos.AgentID{Value: a.id}, ExecutorID: &mesos.ExecutorID{Value: e.id},
		Timestamp: ptr(seconds(time.Now())), UUID: newUUID(),
	})
}

func (a *agent) kill(framework, task string, policy *mesos.KillPolicy) {
	f := a.frameworks[framework]
	if f == nil {
		return
	}
	for _, e := range f.inOrder() {
		if e.has(task) {
			e.killTask(task, policy)
			return
		}
	}
}

func (a *agent) message(framework, executor string, data []byte) {
	if e := a.executor(framework, executor); e != nil {
		e.message(data)
	}
}

func (a *agent) shutdownExecutor(framework, executor string) {
	if e := a.executor(framework, executor); e != nil && !e.ended {
		e.shutdown()
	}
}

// shutdownFramework ends all executors of a framework; its updates are of no use any more.
func (a *agent) shutdownFramework(id string) {
	f := a.frameworks[id]
	if f == nil {
		return
	}
	for task, u := range f.updates {
		a.c.drop(u.timer)
		delete(f.updates, task)
	}
	for _, e := range f.inOrder() {
		e.orphan = true
		if !e.ended {
			e.shutdown()
		}
	}
}

// executorEnded tells the framework that an executor has ended.
func (m *masterState) executorEnded(framework string, n *node, executor string, status int, tell bool) {
	m.dropExecutor(n, execKey{framework, executor})
	f := m.frameworks[framework]
	if f == nil || !tell {
		return
	}
	f.send(&scheduler.Event{Type: scheduler.Event_FAILURE, Failure: &scheduler.Event_Failure{
		AgentID: &mesos.AgentID{Value: n.a.id}, ExecutorID: &mesos.ExecutorID{Value: executor}, Status: ptr(int32(status)),
	}})
}
