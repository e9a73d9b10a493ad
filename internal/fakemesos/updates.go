package fakemesos

import (
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"github.com/mesos/mesos-go/api/v1/lib/scheduler"
)

// status is an update by the master: without a uuid, not to be acknowledged (rule 30).
func (m *masterState) status(id string, state mesos.TaskState, reason mesos.TaskStatus_Reason, text string) mesos.TaskStatus {
	source := mesos.SOURCE_MASTER
	return mesos.TaskStatus{
		TaskID: mesos.TaskID{Value: id}, State: &state, Source: &source, Reason: &reason, Message: &text,
		Timestamp: ptr(seconds(time.Now())),
	}
}

// tellState tells a task that the master knows.
func (m *masterState) tellState(f *framework, t *task, state mesos.TaskState, reason mesos.TaskStatus_Reason, text string) {
	st := m.status(t.id, state, reason, text)
	st.AgentID = &mesos.AgentID{Value: t.agent}
	st.ContainerStatus, st.Healthy = t.container, t.healthy
	f.update(st)
}

func (f *framework) update(st mesos.TaskStatus) {
	f.send(&scheduler.Event{Type: scheduler.Event_UPDATE, Update: &scheduler.Event_Update{Status: st}})
}

// fromAgent is an update that an agent forwards, with the latest state that it knows (rule 31).
func (m *masterState) fromAgent(framework string, st mesos.TaskStatus, latest mesos.TaskState) {
	f := m.frameworks[framework]
	if f == nil {
		return
	}
	t := f.tasks[st.TaskID.Value]
	if t == nil || t.agent != st.AgentID.GetValue() {
		f.update(st) // the master does not know the task: the framework shall
		return
	}
	repeated := string(t.shownUUID) == string(st.UUID)
	t.shown, t.shownUUID, t.state = *st.State, st.UUID, latest
	if st.ContainerStatus != nil {
		t.container = st.ContainerStatus
	}
	t.healthy = st.Healthy
	if !repeated {
		t.statuses = append(t.statuses, st)
		m.announceTask(t, st)
	}
	if terminal(latest) {
		m.free(t)
	}
	f.update(st)
}

// lose ends or hides the tasks of an agent that is lost, the youngest first.
func (m *masterState) lose(agent string, only func(*framework) bool, tell func(f *framework, t *task)) {
	for _, f := range m.sortedFrameworks() {
		if only != nil && !only(f) {
			continue
		}
		tasks := sorted(f.tasks)
		for i := len(tasks) - 1; i >= 0; i-- {
			if tasks[i].agent == agent {
				tell(f, tasks[i])
			}
		}
	}
}

// lost ends a task for good, by the master's word.
func (m *masterState) lost(f *framework, t *task, state mesos.TaskState, reason mesos.TaskStatus_Reason, text string) {
	st := m.status(t.id, state, reason, text)
	st.AgentID = &mesos.AgentID{Value: t.agent}
	if t.executor != "" {
		st.ExecutorID = &mesos.ExecutorID{Value: t.executor}
	}
	t.state, t.shown, t.shownUUID = state, state, nil
	t.statuses = append(t.statuses, st)
	m.forget(f, t)
	m.announceTask(t, st)
	f.update(st)
}
