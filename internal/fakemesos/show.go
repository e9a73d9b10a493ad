package fakemesos

import (
	"bytes"
	"strings"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
)

// object writes a JSON object of names and encoded values; an empty value is left out.
func object(pairs ...any) []byte {
	var b bytes.Buffer
	b.WriteByte('{')
	for i := 0; i+1 < len(pairs); i += 2 {
		name, _ := pairs[i].(string)
		val, _ := pairs[i+1].([]byte)
		if len(val) == 0 {
			continue
		}
		if b.Len() > 1 {
			b.WriteByte(',')
		}
		b.Write(quote(name))
		b.WriteByte(':')
		b.Write(val)
	}
	b.WriteByte('}')
	return b.Bytes()
}

func array(items [][]byte) []byte {
	return append(append([]byte{'['}, bytes.Join(items, []byte{','})...), ']')
}

func quote(s string) []byte {
	var b bytes.Buffer
	writeString(&b, s)
	return b.Bytes()
}

func float(x float64) []byte {
	var b bytes.Buffer
	writeFloat(&b, x)
	return b.Bytes()
}

func truth(v bool) []byte {
	if v {
		return []byte("true")
	}
	return []byte("false")
}

func lower(s string) string { return strings.ToLower(s) }

// shown encodes a value of mesos-go.
func (m *masterState) shown(name string, v wire) []byte {
	raw, err := encode("mesos."+name, true, v)
	if err != nil {
		m.c.t.Error(err)
	}
	return raw
}

func (m *masterState) nanos(t mesos.TimeInfo) []byte { return m.shown("TimeInfo", &t) }

func (m *masterState) list(rs resources, v view) []byte {
	var items [][]byte
	for _, r := range rs.show(v) {
		items = append(items, m.shown("Resource", &r))
	}
	return array(items)
}

func (m *masterState) showMaster() []byte {
	info := m.info()
	at := float(seconds(m.started))
	return object("master_info", m.shown("MasterInfo", &info), "start_time", at, "elected_time", at)
}

func (m *masterState) showState() []byte {
	return object("get_tasks", m.showTasks(), "get_executors", object("executors", array(nil)),
		"get_frameworks", m.showFrameworks(), "get_agents", m.showAgents())
}

func (m *masterState) showTasks() []byte {
	var live, lost, ended [][]byte
	for _, f := range m.sortedFrameworks() {
		for _, t := range sorted(f.tasks) {
			live = append(live, m.showTask(t))
		}
		for _, t := range sorted(f.unreachable) {
			lost = append(lost, m.showTask(t))
		}
		for _, t := range f.ended {
			ended = append(ended, m.showTask(t))
		}
	}
	for _, f := range m.completed {
		for _, t := range f.ended {
			ended = append(ended, m.showTask(t))
		}
	}
	return object("tasks", array(live), "unreachable_tasks", array(lost), "completed_tasks", array(ended))
}

func (m *masterState) showTask(t *task) []byte {
	out := mesos.Task{
		Name: t.info.Name, TaskID: t.info.TaskID, FrameworkID: mesos.FrameworkID{Value: t.fw.id}, AgentID: mesos.AgentID{Value: t.agent},
		State: ptr(t.shown), Resources: t.info.Resources, Statuses: t.statuses, Labels: t.info.Labels,
	}
	if t.executor != "" {
		out.ExecutorID = &mesos.ExecutorID{Value: t.executor}
	}
	if t.shownUUID != nil {
		out.StatusUpdateState, out.StatusUpdateUUID = ptr(t.shown), t.shownUUID
	}
	return m.shown("Task", &out)
}

func (m *masterState) showFrameworks() []byte {
	var live, done [][]byte
	for _, f := range m.sortedFrameworks() {
		live = append(live, m.showFramework(f, true))
	}
	for _, f := range m.completed {
		done = append(done, m.showFramework(f, true))
	}
	return object("frameworks", array(live), "completed_frameworks", array(done))
}

func (m *masterState) showFramework(f *framework, full bool) []byte {
	var offers [][]byte
	var allocated, offered []byte
	if full {
		for _, o := range m.openOffers(f.id) {
			shown := m.show(o)
			offers = append(offers, m.shown("Offer", &shown))
			offered = m.list(o.resources, view{allocation: o.role})
		}
		allocated = m.allocated(f)
	}
	var constraints, listed, left []byte
	if full {
		constraints = []byte("{}")
	}
	if len(offers) > 0 {
		listed = array(offers)
	}
	if !f.unregistered.IsZero() || !full {
		left = m.nanos(mesos.TimeInfo{Nanoseconds: max(0, f.unregistered.UnixNano())})
	}
	return object("framework_info", m.shown("FrameworkInfo", f.info), "active", truth(f.connected), "connected", truth(f.connected),
		"recovered", truth(f.recovered), "registered_time", m.nanos(mesos.TimeInfo{Nanoseconds: f.registered.UnixNano()}),
		"reregistered_time", m.nanos(mesos.TimeInfo{Nanoseconds: f.reregistered.UnixNano()}), "unregistered_time", left,
		"offers", listed, "allocated_resources", allocated, "offered_resources", offered, "offer_constraints", constraints)
}

func (m *masterState) allocated(f *framework) []byte {
	var sum resources
	role := ""
	for _, t := range f.tasks {
		if !t.freed {
			sum, role = sum.plus(t.resources), t.role
		}
	}
	if len(sum) == 0 {
		return nil
	}
	return m.list(sum, view{allocation: role})
}

func (m *masterState) showAgents() []byte {
	var items [][]byte
	for _, n := range m.sortedNodes() {
		items = append(items, m.showAgent(n))
	}
	return object("agents", array(items), "recovered_agents", array(nil))
}

var agentCapabilities = []string{
	"MULTI_ROLE", "HIERARCHICAL_ROLE", "RESERVATION_REFINEMENT", "RESOURCE_PROVIDER", "RESIZE_VOLUME",
	"AGENT_OPERATION_FEEDBACK", "AGENT_DRAINING", "TASK_RESOURCE_LIMITS",
}

func (m *masterState) showAgent(n *node) []byte {
	info := n.a.info()
	var can [][]byte
	for _, c := range agentCapabilities {
		can = append(can, object("type", quote(c)))
	}
	var again []byte
	if n.reregistered.After(n.registered) {
		again = m.nanos(mesos.TimeInfo{Nanoseconds: n.reregistered.UnixNano()})
	}
	return object("agent_info", m.shown("AgentInfo", &info), "active", truth(n.connected && !n.deactivated),
		"deactivated", truth(n.deactivated), "version", quote(version), "pid", quote("slave(1)@"+n.a.addr),
		"registered_time", m.nanos(mesos.TimeInfo{Nanoseconds: n.registered.UnixNano()}), "reregistered_time", again,
		"total_resources", m.list(n.a.flagOrder(), view{}), "capabilities", array(can))
}

// announce tells the watchers.
func (m *masterState) announce(kind string, body []byte) {
	if len(m.watchers) == 0 {
		return
	}
	raw := object("type", quote(kind), lower(kind), body)
	for _, s := range m.watchers {
		s.send(raw)
	}
}

func (m *masterState) announceFramework(kind string, f *framework) {
	switch {
	case len(m.watchers) == 0:
	case kind == "FRAMEWORK_REMOVED":
		m.announce(kind, object("framework_info", m.shown("FrameworkInfo", f.info)))
	default:
		m.announce(kind, object("framework", m.showFramework(f, false)))
	}
}

func (m *masterState) announceAdded(t *task) {
	if len(m.watchers) > 0 {
		m.announce("TASK_ADDED", object("task", m.showTask(t)))
	}
}

func (m *masterState) announceTask(t *task, st mesos.TaskStatus) {
	if len(m.watchers) > 0 {
		m.announce("TASK_UPDATED", object("framework_id", object("value", quote(t.fw.id)), "status", m.shown("TaskStatus", &st),
			"state", quote(t.state.String())))
	}
}

func (m *masterState) announceAgent(kind string, n *node) {
	switch {
	case len(m.watchers) == 0:
	case kind == "AGENT_REMOVED":
		m.announce(kind, object("agent_id", object("value", quote(n.a.id))))
	default:
		m.announce(kind, object("agent", m.showAgent(n)))
	}
}
