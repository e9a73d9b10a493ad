package fakemesos

import (
	"net/http"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"github.com/mesos/mesos-go/api/v1/lib/scheduler"
)

// callField is the field that a call of a type must have.
var callField = map[scheduler.Call_Type]string{
	scheduler.Call_SUBSCRIBE: "subscribe", scheduler.Call_ACCEPT: "accept", scheduler.Call_DECLINE: "decline",
	scheduler.Call_KILL: "kill", scheduler.Call_SHUTDOWN: "shutdown", scheduler.Call_ACKNOWLEDGE: "acknowledge",
	scheduler.Call_RECONCILE: "reconcile", scheduler.Call_MESSAGE: "message", scheduler.Call_REQUEST: "request",
	scheduler.Call_ACCEPT_INVERSE_OFFERS: "accept_inverse_offers", scheduler.Call_DECLINE_INVERSE_OFFERS: "decline_inverse_offers",
	scheduler.Call_UPDATE_FRAMEWORK: "update_framework",
}

// invalidCall is what a master has against a well-formed call.
func invalidCall(call *scheduler.Call, dec decoded, principal string) string {
	if !dec.has("type") {
		return "Expecting 'type' to be present"
	}
	field := callField[call.Type]
	if call.Type == scheduler.Call_SUBSCRIBE {
		if !dec.has(field) {
			return "Expecting 'subscribe' to be present"
		}
		info := call.Subscribe.FrameworkInfo
		if info.GetID().GetValue() != call.FrameworkID.GetValue() {
			return "'framework_id' differs from 'subscribe.framework_info.id'"
		}
		if p := info.GetPrincipal(); principal != "" && info.Principal != nil && p != principal {
			return "Authenticated principal '" + principal + "' does not match principal '" + p + "' set in `FrameworkInfo`"
		}
		return ""
	}
	if !dec.has("framework_id") {
		return "Expecting 'framework_id' to be present"
	}
	if field != "" && !dec.has(field) {
		return "Expecting '" + field + "' to be present"
	}
	if call.Type == scheduler.Call_ACKNOWLEDGE && len(call.Acknowledge.UUID) != 16 {
		return "Not a valid UUID"
	}
	return ""
}

// do carries out a call of a subscribed framework.
func (m *masterState) do(f *framework, call *scheduler.Call) (status int, text string) {
	status = http.StatusAccepted
	switch call.Type {
	case scheduler.Call_TEARDOWN:
		m.remove(f)
	case scheduler.Call_ACCEPT:
		return m.accept(f, call.Accept)
	case scheduler.Call_DECLINE:
		m.decline(f, call.Decline.OfferIDs, call.Decline.Filters)
	case scheduler.Call_REVIVE:
		f.suppress(call.Revive.GetRoles(), false)
		m.c.after(0, m.c.allocate)
	case scheduler.Call_SUPPRESS:
		f.suppress(call.Suppress.GetRoles(), true)
	case scheduler.Call_KILL:
		m.kill(f, call.Kill)
	case scheduler.Call_SHUTDOWN:
		if n := m.nodes[call.Shutdown.AgentID.Value]; n != nil && n.reachable() {
			n.a.shutdownExecutor(f.id, call.Shutdown.ExecutorID.Value)
		}
	case scheduler.Call_ACKNOWLEDGE:
		m.acknowledge(f, call.Acknowledge)
	case scheduler.Call_RECONCILE:
		m.reconcile(f, call.Reconcile.Tasks)
	case scheduler.Call_MESSAGE:
		if n := m.nodes[call.Message.AgentID.Value]; n != nil && n.reachable() {
			n.a.message(f.id, call.Message.ExecutorID.Value, call.Message.Data)
		}
	case scheduler.Call_REQUEST: // has no effect
	case scheduler.Call_UPDATE_FRAMEWORK:
		return m.update(f, call.UpdateFramework)
	case scheduler.Call_ACCEPT_INVERSE_OFFERS:
		m.answerInverse(f, "ACCEPT", call.AcceptInverseOffers.InverseOfferIDs, call.AcceptInverseOffers.Filters)
	case scheduler.Call_DECLINE_INVERSE_OFFERS:
		m.answerInverse(f, "DECLINE", call.DeclineInverseOffers.InverseOfferIDs, call.DeclineInverseOffers.Filters)
	default:
		return http.StatusNotImplemented, m.c.notShown("scheduler call %s", call.Type)
	}
	return status, ""
}

// update is UPDATE_FRAMEWORK: open offers for roles that are no longer the framework's are rescinded.
func (m *masterState) update(f *framework, u *scheduler.Call_UpdateFramework) (int, string) {
	info := u.FrameworkInfo
	if text := wrongInfo(&info); text != "" {
		return http.StatusBadRequest, m.c.notShown("UPDATE_FRAMEWORK: %s", text)
	}
	info.User, info.Checkpoint, info.ID = f.info.User, f.info.Checkpoint, f.info.ID
	f.info = &info
	f.suppressed = map[string]bool{}
	for _, r := range u.SuppressedRoles {
		f.suppressed[r] = true
	}
	for _, o := range m.openOffers(f.id) {
		if !hasRole(f, o.role) {
			m.rescind(o)
		}
	}
	m.announceFramework("FRAMEWORK_UPDATED", f)
	m.c.after(0, m.c.allocate)
	return http.StatusOK, ""
}

func hasRole(f *framework, role string) bool {
	for _, r := range f.roles() {
		if r == role {
			return true
		}
	}
	return false
}

// kill of a task that is not known is answered like a reconciliation (rule 35).
func (m *masterState) kill(f *framework, k *scheduler.Call_Kill) {
	t := f.tasks[k.TaskID.Value]
	if t == nil {
		m.reconcileTask(f, k.TaskID.Value, k.AgentID)
		return
	}
	if n := m.nodes[t.agent]; n != nil && n.reachable() {
		n.a.kill(f.id, t.id, k.KillPolicy)
	}
}

func (m *masterState) acknowledge(f *framework, a *scheduler.Call_Acknowledge) {
	n := m.nodes[a.AgentID.Value]
	if n == nil {
		return
	}
	if t := f.tasks[a.TaskID.Value]; t != nil && t.agent == a.AgentID.Value &&
		string(t.shownUUID) == string(a.UUID) && terminal(t.shown) {
		m.forget(f, t)
	}
	if n.reachable() {
		n.a.acknowledged(f.id, a.TaskID.Value, a.UUID)
	}
}

// forget moves a task that has ended away: the master knows its end only for the operator.
func (m *masterState) forget(f *framework, t *task) {
	m.free(t)
	delete(f.tasks, t.id)
	f.ended = append(f.ended, t)
}

func (m *masterState) reconcile(f *framework, tasks []scheduler.Call_Reconcile_Task) {
	if len(tasks) == 0 {
		for _, t := range sorted(f.tasks) {
			if !terminal(t.shown) {
				m.tellState(f, t, t.shown, mesos.REASON_RECONCILIATION, "Reconciliation: Latest task state")
			}
		}
		return
	}
	for _, t := range tasks {
		m.reconcileTask(f, t.TaskID.Value, t.AgentID)
	}
}

// reconcileTask is explicit reconciliation (rules 36 and 38).
func (m *masterState) reconcileTask(f *framework, id string, agent *mesos.AgentID) {
	if t := f.tasks[id]; t != nil && (agent == nil || agent.Value == t.agent) {
		m.tellState(f, t, t.shown, mesos.REASON_RECONCILIATION, "Reconciliation: Latest task state")
		return
	}
	if agent == nil && len(m.recovering) > 0 || agent != nil && m.recovering[agent.Value] {
		return
	}
	st := m.status(id, mesos.TASK_UNKNOWN, mesos.REASON_RECONCILIATION, "Reconciliation: Task is unknown")
	st.AgentID = agent
	if agent != nil {
		since, lost := m.unreachable[agent.Value]
		switch {
		case m.nodes[agent.Value] != nil:
			st.State, st.Message = ptr(mesos.TASK_GONE), ptr("Reconciliation: Task is unknown to the agent")
		case m.gone[agent.Value]:
			st.State, st.Message = ptr(mesos.TASK_GONE_BY_OPERATOR), ptr("Reconciliation: Task is gone")
		case lost:
			st.State, st.Message = ptr(mesos.TASK_UNREACHABLE), ptr("Reconciliation: Task is unreachable")
			st.UnreachableTime = &since
		}
	}
	st.State = ptr(f.either(*st.State))
	f.update(st)
}
