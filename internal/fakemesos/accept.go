package fakemesos

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"

	gogo "github.com/gogo/protobuf/proto"
	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"github.com/mesos/mesos-go/api/v1/lib/scheduler"
)

// accept is ACCEPT: launches tasks on what one or more offers of an agent hold.
func (m *masterState) accept(f *framework, a *scheduler.Call_Accept) (int, string) {
	for _, op := range a.Operations {
		if op.Type != mesos.Offer_Operation_LAUNCH {
			return http.StatusNotImplemented, m.c.notShown("operation %s", op.Type)
		}
	}
	offers, text := m.usable(f, a.OfferIDs)
	var pool resources
	for _, o := range offers {
		m.withdraw(o)
		pool = pool.plus(o.resources)
	}
	if text != "" {
		m.invalidOffers(f, a, text)
		for _, o := range offers {
			m.refuse(f, o.agent, o.role, o.resources, a.Filters)
		}
		return http.StatusAccepted, ""
	}
	if len(offers) == 0 {
		return http.StatusAccepted, ""
	}
	agent, role := offers[0].agent, offers[0].role
	l := &launcher{m: m, f: f, n: m.nodes[agent], role: role, pool: pool}
	for _, op := range a.Operations {
		for _, t := range op.Launch.GetTaskInfos() {
			l.launch(t)
		}
	}
	m.refuse(f, agent, role, l.pool, a.Filters)
	return http.StatusAccepted, ""
}

// usable finds the offers of an ACCEPT; a text says why they cannot be used together.
func (m *masterState) usable(f *framework, ids []mesos.OfferID) ([]*offer, string) {
	var out []*offer
	text := ""
	for _, id := range ids {
		o := m.offers[id.Value]
		switch {
		case o == nil:
			text = "Offer " + id.Value + " is no longer valid"
		case o.fw != f:
			text = fmt.Sprintf("Offer %s has invalid framework %s while framework %s is expected", id.Value, o.fw.id, f.id)
		case len(out) > 0 && out[0].agent != o.agent:
			text = "Aggregated offers must belong to one single agent. Offer " + id.Value + " uses agent " + o.agent + " and agent " + out[0].agent
		case len(out) > 0 && out[0].role != o.role:
			text = "Aggregated offers must be allocated to the same role. Offer " + id.Value + " uses role " + o.role + " but another is using role " + out[0].role
		default:
			out = append(out, o)
		}
	}
	return out, text
}

func (m *masterState) invalidOffers(f *framework, a *scheduler.Call_Accept, text string) {
	for _, op := range a.Operations {
		for _, t := range op.Launch.GetTaskInfos() {
			st := m.status(t.TaskID.Value, f.either(mesos.TASK_DROPPED), mesos.REASON_INVALID_OFFERS,
				"Task launched with invalid offers: "+text)
			st.AgentID = &mesos.AgentID{Value: t.AgentID.Value}
			f.update(st)
		}
	}
}

// launcher launches the tasks of one ACCEPT.
type launcher struct {
	m    *masterState
	f    *framework
	n    *node
	role string
	pool resources // what is left of the offers
}

func (l *launcher) launch(info mesos.TaskInfo) {
	if info.Executor != nil { // an own copy: the master fills it in
		ex := *info.Executor
		ex.FrameworkID = &mesos.FrameworkID{Value: l.f.id}
		info.Executor = &ex
	}
	if text := l.invalid(&info); text != "" {
		st := l.m.status(info.TaskID.Value, mesos.TASK_ERROR, mesos.REASON_TASK_INVALID, text)
		st.AgentID = &mesos.AgentID{Value: info.AgentID.Value}
		l.f.update(st)
		return
	}
	own, extra := l.needs(&info)
	l.pool = l.pool.minus(own).minus(extra)
	v := view{refined: true, allocation: l.role}
	info.Resources = own.show(v)
	t := &task{
		seq: l.m.seq, id: info.TaskID.Value, fw: l.f, agent: l.n.a.id, info: info, role: l.role, resources: own,
		state: mesos.TASK_STAGING, shown: mesos.TASK_STAGING,
	}
	l.m.seq++
	if info.Executor != nil {
		info.Executor.Resources = readResources(info.Executor.Resources).show(v)
		t.executor = info.Executor.ExecutorID.Value
		k := execKey{l.f.id, t.executor}
		if _, ok := l.n.executors[k]; !ok {
			l.n.executors[k] = extra
			l.m.hold(t.agent, extra)
		}
	}
	t.info = info
	l.m.hold(t.agent, own)
	l.f.tasks[t.id] = t
	l.m.announceAdded(t)
	if l.n.reachable() {
		l.n.a.runTask(l.f, info)
	}
}

// needs is what a task takes, and what its executor takes when it is the first one there.
func (l *launcher) needs(info *mesos.TaskInfo) (own, extra resources) {
	own = readResources(info.Resources)
	if info.Executor == nil {
		return own, nil
	}
	if _, ok := l.n.executors[execKey{l.f.id, info.Executor.ExecutorID.Value}]; ok {
		return own, nil
	}
	return own, readResources(info.Executor.Resources)
}

// invalid is why a task cannot be launched, in the order in which a master looks.
func (l *launcher) invalid(info *mesos.TaskInfo) string {
	id := info.TaskID.Value
	own, extra := l.needs(info)
	switch {
	case strings.ContainsAny(id, "/\\"):
		return "'" + id + "' contains invalid characters"
	case l.f.tasks[id] != nil || l.f.unreachable[id] != nil:
		return "Task has duplicate ID: " + id
	case info.AgentID.Value != l.n.a.id:
		return "Task uses invalid agent " + info.AgentID.Value + " while agent " + l.n.a.id + " is expected"
	case len(own) == 0:
		return "Task uses no resources"
	case (info.Command == nil) == (info.Executor == nil):
		return "Task should have at least one (but not both) of CommandInfo or ExecutorInfo present"
	}
	if text := l.otherExecutor(info.Executor); text != "" {
		return text
	}
	if all := own.plus(extra); !l.pool.contains(all) {
		return "Total resources " + asWritten(info, extra).text(l.role) +
			" required by task and its executor is more than available " + l.pool.text(l.role)
	}
	return ""
}

// asWritten keeps the order in which the framework wrote the resources.
func asWritten(info *mesos.TaskInfo, extra resources) resources {
	var out resources
	for _, r := range info.Resources {
		out = append(out, readResource(r))
	}
	for _, r := range extra {
		if i := out.find(r); i >= 0 {
			out[i].milli += r.milli
			continue
		}
		out = append(out, r)
	}
	return out
}

// otherExecutor compares an executor with the one of the same id that runs.
func (l *launcher) otherExecutor(info *mesos.ExecutorInfo) string {
	if info == nil {
		return ""
	}
	e := l.n.a.executor(l.f.id, info.ExecutorID.Value)
	if e == nil || e.ended {
		return ""
	}
	mine, theirs := plainExecutor(info), plainExecutor(e.info)
	if bytes.Equal(mine, theirs) {
		return ""
	}
	line := strings.Repeat("-", 60) + "\n"
	return "ExecutorInfo is not compatible with existing ExecutorInfo with same ExecutorID.\n" + line +
		"Existing ExecutorInfo:\n" + gogo.MarshalTextString(e.info) + "\n" + line +
		"ExecutorInfo:\n" + gogo.MarshalTextString(info) + "\n" + line
}

// plainExecutor is an ExecutorInfo without what master and agent add.
func plainExecutor(info *mesos.ExecutorInfo) []byte {
	c := *info
	c.FrameworkID = nil
	c.Resources = readResources(c.Resources).show(view{refined: true})
	raw, err := c.Marshal()
	if err != nil {
		return nil
	}
	return raw
}
