package fakemesos

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"github.com/mesos/mesos-go/api/v1/lib/scheduler"
)

// version is what the masters and agents of the transcripts call themselves.
const version = "1.12.0"

// masterState is the state of the leading master. It dies with it.
type masterState struct {
	c             *Cluster
	id            string
	front         *front
	started       time.Time
	frameworks    map[string]*framework
	completed     []*framework
	nodes         map[string]*node
	offers        map[string]*offer
	inverse       map[string]*inverseOffer
	nextFramework int
	nextOffer     int
	unreachable   map[string]mesos.TimeInfo // agents that are
	gone          map[string]bool           // agents that an operator marked so
	recovering    map[string]bool           // agents of the registry that have not come back
	watchers      []*stream                 // of the operator API
	seq           int                       // numbers tasks in the order of their launch
}

// node is what the master knows of a registered agent.
type node struct {
	a            *agent
	connected    bool
	deactivated  bool // offers nothing: draining
	draining     bool
	unavailable  *mesos.Unavailability
	answers      map[string]inverseAnswer // by framework
	registered   time.Time
	reregistered time.Time
	executors    map[execKey]resources
	pinger       *time.Timer
	used         resources // by tasks and executors
	offered      resources // in open offers
	rest         resources // neither used nor offered, nil when it is to be computed again
}

type execKey struct{ framework, executor string }

// framework is one framework of the master.
type framework struct {
	m            *masterState
	id           string
	info         *mesos.FrameworkInfo
	principal    string
	stream       *stream
	connected    bool
	recovered    bool // known from agents only
	suppressed   map[string]bool
	filters      map[filterKey][]filter
	tasks        map[string]*task // those that have not ended, or whose end is not acknowledged
	unreachable  map[string]*task
	ended        []*task
	registered   time.Time
	reregistered time.Time
	unregistered time.Time
	expire       *time.Timer
	held         *scheduler.Event // by the fault Reorder
}

// task is the master's view of a task.
type task struct {
	seq       int
	id        string
	fw        *framework
	agent     string
	executor  string // "" for a command task
	info      mesos.TaskInfo
	role      string
	resources resources
	freed     bool            // its resources are free again
	state     mesos.TaskState // the latest one that the master knows
	shown     mesos.TaskState // of the latest update that was forwarded
	shownUUID []byte
	statuses  []mesos.TaskStatus
	container *mesos.ContainerStatus
	healthy   *bool
}

func (c *Cluster) newMaster() *masterState {
	return &masterState{
		c: c, id: uuid.NewString(), front: c.masters[c.leader], started: time.Now(),
		frameworks: map[string]*framework{}, nodes: map[string]*node{}, offers: map[string]*offer{},
		inverse: map[string]*inverseOffer{}, unreachable: map[string]mesos.TimeInfo{}, gone: map[string]bool{},
		recovering: map[string]bool{},
	}
}

func (m *masterState) info() mesos.MasterInfo {
	port := portOf(m.front.addr)
	return mesos.MasterInfo{
		ID: m.id, IP: 16777343, Port: ptr(uint32(port)), PID: ptr("master@" + m.front.addr), Hostname: ptr("localhost"),
		Version: ptr(version), Address: &mesos.Address{Hostname: ptr("localhost"), IP: ptr("127.0.0.1"), Port: port},
		Capabilities: []mesos.MasterInfo_Capability{
			{Type: mesos.MasterInfo_Capability_AGENT_UPDATE}, {Type: mesos.MasterInfo_Capability_AGENT_DRAINING}, {Type: quotaV2},
		},
	}
}

func (f *framework) can(want mesos.FrameworkInfo_Capability_Type) bool {
	return slices.ContainsFunc(f.info.Capabilities, func(c mesos.FrameworkInfo_Capability) bool { return c.Type == want })
}

func (f *framework) aware() bool { return f.can(mesos.FrameworkInfo_Capability_PARTITION_AWARE) }

// either is one of two states: that of a partition-aware framework, or TASK_LOST.
func (f *framework) either(aware mesos.TaskState) mesos.TaskState {
	if f.aware() {
		return aware
	}
	return mesos.TASK_LOST
}

func (f *framework) roles() []string {
	if f.can(mesos.FrameworkInfo_Capability_MULTI_ROLE) {
		return f.info.Roles
	}
	if f.info.Role != nil {
		return []string{*f.info.Role}
	}
	return []string{"*"}
}

// view is how resources allocated to a role are shown to the framework.
func (f *framework) view(role string) view {
	v := view{refined: f.can(mesos.FrameworkInfo_Capability_RESERVATION_REFINEMENT)}
	if f.can(mesos.FrameworkInfo_Capability_MULTI_ROLE) {
		v.allocation = role
	}
	return v
}

// sorted lists tasks in the order of their launch.
func sorted(tasks map[string]*task) []*task {
	out := make([]*task, 0, len(tasks))
	for _, t := range tasks {
		out = append(out, t)
	}
	slices.SortFunc(out, func(a, b *task) int { return cmp.Compare(a.seq, b.seq) })
	return out
}

// subscribe is SUBSCRIBE after all that is refused with 400.
func (m *masterState) subscribe(call *scheduler.Call, principal string, s *stream) *framework {
	info := call.Subscribe.FrameworkInfo
	id := info.GetID().GetValue()
	if text := wrongInfo(info); text != "" {
		m.c.sendError(s, text)
		return nil
	}
	if slices.ContainsFunc(m.completed, func(f *framework) bool { return f.id == id && id != "" }) {
		m.c.sendError(s, "Framework has been removed")
		return nil
	}
	now := time.Now()
	f := m.frameworks[id]
	if f == nil {
		if id == "" {
			id = fmt.Sprintf("%s-%04d", m.id, m.nextFramework)
			m.nextFramework++
		}
		f = &framework{m: m, id: id, info: info, tasks: map[string]*task{}, unreachable: map[string]*task{}, registered: now}
		m.frameworks[id] = f
		defer m.announceFramework("FRAMEWORK_ADDED", f)
	} else {
		m.takeOver(f, info)
		defer m.announceFramework("FRAMEWORK_UPDATED", f)
	}
	f.info.ID = &mesos.FrameworkID{Value: id}
	f.reregistered, f.recovered = now, false
	f.principal = principal
	f.stream, f.connected = s, true
	f.filters = nil
	f.suppressed = map[string]bool{}
	for _, r := range call.Subscribe.SuppressedRoles {
		f.suppressed[r] = true
	}
	mi := m.info()
	f.send(&scheduler.Event{Type: scheduler.Event_SUBSCRIBED, Subscribed: &scheduler.Event_Subscribed{
		FrameworkID: f.info.ID, HeartbeatIntervalSeconds: ptr(m.c.opts.Times.Heartbeat.Seconds()), MasterInfo: &mi,
	}})
	m.c.heartbeat(f, s)
	m.c.after(0, m.c.allocate)
	return f
}

// takeOver is a second SUBSCRIBE with the id of a framework (rules 6 and 7).
func (m *masterState) takeOver(f *framework, info *mesos.FrameworkInfo) {
	if f.connected && f.stream != nil {
		m.c.sendError(f.stream, "Framework failed over")
	}
	m.c.drop(f.expire)
	f.expire, f.held = nil, nil
	for _, o := range m.openOffers(f.id) {
		m.withdraw(o)
	}
	m.dropInverse(f.id)
	if !f.recovered { // user and checkpoint stay as they were, without a word
		info.User, info.Checkpoint = f.info.User, f.info.Checkpoint
	}
	f.info = info
}

// wrongInfo is what a master has against a FrameworkInfo: it says so on the stream.
func wrongInfo(info *mesos.FrameworkInfo) string {
	multi := (&framework{info: info}).can(mesos.FrameworkInfo_Capability_MULTI_ROLE)
	if multi && info.Role != nil {
		return "'FrameworkInfo.role' must not be set when the framework is MULTI_ROLE capable"
	}
	if !multi && len(info.Roles) > 0 {
		return "'FrameworkInfo.roles' must not be set when the framework is not MULTI_ROLE capable"
	}
	for _, r := range info.Roles {
		if strings.HasPrefix(r, "-") {
			return fmt.Sprintf("'FrameworkInfo.roles' contains invalid role: Role component '%s' is invalid because it starts with a dash", r)
		}
	}
	if d := info.GetFailoverTimeout(); d > 9.2e9 { // the largest duration, in seconds
		return fmt.Sprintf("The framework failover_timeout (%g) is invalid", d)
	}
	return ""
}

func (c *Cluster) sendError(s *stream, text string) {
	c.put(s, &scheduler.Event{Type: scheduler.Event_ERROR, Error: &scheduler.Event_Error{Message: text}})
	s.end(false)
}

func (c *Cluster) put(s *stream, ev *scheduler.Event) {
	raw, err := encode("mesos.scheduler.Event", s.asJSON, ev)
	if err != nil {
		c.t.Error(err)
		return
	}
	s.send(raw)
}

func (c *Cluster) heartbeat(f *framework, s *stream) {
	if f.stream != s || !f.connected {
		return
	}
	f.send(&scheduler.Event{Type: scheduler.Event_HEARTBEAT})
	c.after(c.opts.Times.Heartbeat, func() { c.heartbeat(f, s) })
}

// left is the end of a framework's stream from the client's side.
func (m *masterState) left(f *framework, s *stream) {
	if m.c.m != m || f.stream != s || m.frameworks[f.id] != f {
		return
	}
	f.connected, f.stream = false, nil
	for _, o := range m.openOffers(f.id) {
		m.withdraw(o)
	}
	m.dropInverse(f.id)
	m.announceFramework("FRAMEWORK_UPDATED", f)
	m.expireLater(f)
}

func (m *masterState) expireLater(f *framework) {
	timeout := m.c.opts.scaled(max(0, f.info.GetFailoverTimeout()))
	f.expire = m.c.after(timeout, func() {
		if m.c.m == m && !f.connected && m.frameworks[f.id] == f {
			m.remove(f)
		}
	})
}

// remove completes a framework: its executors are shut down, its stream ends, no updates are sent.
func (m *masterState) remove(f *framework) {
	for _, o := range m.openOffers(f.id) {
		m.withdraw(o)
	}
	m.dropInverse(f.id)
	delete(m.frameworks, f.id)
	m.completed = append(m.completed, f)
	f.unregistered = time.Now()
	f.connected = false
	if f.stream != nil {
		f.stream.end(false)
	}
	for _, t := range sorted(f.tasks) {
		m.free(t)
		if !terminal(t.state) {
			t.state = mesos.TASK_KILLED
		}
		f.ended = append(f.ended, t)
	}
	f.tasks = map[string]*task{}
	for _, n := range m.nodes {
		for k := range n.executors {
			if k.framework == f.id {
				m.dropExecutor(n, k)
			}
		}
		if n.reachable() {
			n.a.shutdownFramework(f.id)
		}
	}
	m.announceFramework("FRAMEWORK_REMOVED", f)
}

// accepted answers 202, which only says that the call was well formed.
func accepted(w http.ResponseWriter) {
	w.Header().Set("Content-Length", "0")
	w.WriteHeader(http.StatusAccepted)
}

func terminal(s mesos.TaskState) bool {
	switch s {
	case mesos.TASK_FINISHED, mesos.TASK_FAILED, mesos.TASK_KILLED, mesos.TASK_ERROR, mesos.TASK_LOST,
		mesos.TASK_DROPPED, mesos.TASK_GONE, mesos.TASK_GONE_BY_OPERATOR:
		return true
	}
	return false
}
