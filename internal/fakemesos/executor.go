package fakemesos

import (
	"net/http"
	"path/filepath"
	"slices"
	"time"

	"github.com/google/uuid"
	mesos "github.com/mesos/mesos-go/api/v1/lib"
	exec "github.com/mesos/mesos-go/api/v1/lib/executor"
)

// executor is one run of an executor on an agent.
type executor struct {
	seq        int // in the order of their start
	a          *agent
	fw         *agentFramework
	id         string
	info       *mesos.ExecutorInfo
	command    bool // Mesos' own executor for a task with a command
	container  string
	dir        string
	pid        uint32
	stream     *stream
	subscribed bool // at least once since the agent's process started
	stopping   bool
	ended      bool
	orphan     bool             // its framework is gone
	exited     bool             // while the agent's process was away
	waitStatus int              // when it exited while the agent was away
	queued     []mesos.TaskInfo // not delivered yet
	tasks      []*agentTask     // delivered, in order
	proc       *process
	register   *time.Timer
	end        ending // how its tasks end with it
}

// agentTask is a task that was delivered to an executor.
type agentTask struct {
	info  mesos.TaskInfo
	state mesos.TaskState
}

// ending is the update for the tasks that an executor leaves.
type ending struct {
	state  mesos.TaskState
	reason mesos.TaskStatus_Reason
	text   string
}

func (a *agent) newExecutor(f *agentFramework, id string, info mesos.TaskInfo) *executor {
	a.c.started++
	e := &executor{
		seq: a.c.started, a: a, fw: f, id: id, container: uuid.NewString(), command: info.Executor == nil, info: info.Executor,
		end: ending{mesos.TASK_FAILED, mesos.REASON_EXECUTOR_TERMINATED, "Executor terminated"},
	}
	if e.command {
		e.info = &mesos.ExecutorInfo{
			Type: mesos.ExecutorInfo_CUSTOM, ExecutorID: mesos.ExecutorID{Value: id}, FrameworkID: f.info.ID, Command: info.Command,
		}
	}
	e.dir = filepath.Join(a.dir, "slaves", a.id, "frameworks", f.info.GetID().GetValue(), "executors", id, "runs", e.container)
	return e
}

// start runs the executor. One that does not subscribe in time is killed.
func (e *executor) start() {
	if e.a.spec.Simulate {
		e.subscribed = true
		return
	}
	e.proc = e.a.c.startProcess(e)
	if e.command {
		e.subscribed = true
		return
	}
	wait := e.a.c.opts.Times.Register
	e.register = e.a.c.after(wait, func() {
		if e.subscribed || e.ended {
			return
		}
		e.end = ending{mesos.TASK_FAILED, mesos.REASON_EXECUTOR_REGISTRATION_TIMEOUT,
			"Executor did not register within " + mesosDuration(wait)}
		e.kill()
	})
}

func (e *executor) has(task string) bool {
	return e.task(task) != nil || slices.ContainsFunc(e.queued, func(t mesos.TaskInfo) bool { return t.TaskID.Value == task })
}

func (e *executor) task(id string) *agentTask {
	for _, t := range e.tasks {
		if t.info.TaskID.Value == id && !terminal(t.state) {
			return t
		}
	}
	return nil
}

func (e *executor) launch(info mesos.TaskInfo) {
	switch {
	case e.a.spec.Simulate || e.command:
		e.tasks = append(e.tasks, &agentTask{info: info, state: mesos.TASK_STAGING})
		if e.a.spec.Simulate {
			e.a.c.after(0, func() { e.own(info.TaskID.Value, mesos.TASK_RUNNING, "") })
		}
	case !e.subscribed || e.stream == nil:
		e.queued = append(e.queued, info)
	default:
		e.deliver(info)
	}
}

func (e *executor) deliver(info mesos.TaskInfo) {
	e.tasks = append(e.tasks, &agentTask{info: info, state: mesos.TASK_STAGING})
	e.send(&exec.Event{Type: exec.Event_LAUNCH, Launch: &exec.Event_Launch{Task: info}})
}

// send is lost when the executor has no stream (rule 47).
func (e *executor) send(ev *exec.Event) {
	if e.stream == nil {
		return
	}
	raw, err := encode("mesos.executor.Event", e.stream.asJSON, ev)
	if err != nil {
		e.a.c.t.Error(err)
		return
	}
	e.stream.send(raw)
}

func (e *executor) message(data []byte) {
	e.send(&exec.Event{Type: exec.Event_MESSAGE, Message: &exec.Event_Message{Data: data}})
}

// own is an update that a built-in executor makes.
func (e *executor) own(task string, state mesos.TaskState, text string) {
	if e.ended || e.task(task) == nil {
		return
	}
	st := mesos.TaskStatus{TaskID: mesos.TaskID{Value: task}, State: &state, UUID: newUUID()}
	if text != "" {
		st.Message = &text
	}
	e.update(st)
}

// update takes an update from the executor and acknowledges that the agent has it.
func (e *executor) update(st mesos.TaskStatus) {
	id, key := st.TaskID.Value, st.UUID
	source := mesos.SOURCE_EXECUTOR
	st.Source, st.AgentID, st.ExecutorID = &source, &mesos.AgentID{Value: e.a.id}, &mesos.ExecutorID{Value: e.id}
	if st.Timestamp == nil {
		st.Timestamp = ptr(seconds(time.Now()))
	}
	if !e.stopping || e.task(id) != nil {
		st.ContainerStatus = e.containerStatus()
	}
	if t := e.task(id); t != nil {
		t.state = *st.State
	}
	if n := e.a.c.nodeOf(e.a.id); n != nil && n.draining && *st.State == mesos.TASK_KILLED {
		st.Reason = ptr(mesos.REASON_AGENT_DRAINING)
	}
	if u := e.fw.updates[id]; !e.orphan && (u == nil || !u.seen[string(key)]) {
		e.a.add(e.fw, st)
	}
	e.send(&exec.Event{Type: exec.Event_ACKNOWLEDGED, Acknowledged: &exec.Event_Acknowledged{TaskID: st.TaskID, UUID: key}})
}

// killTask is KILL: a task that was not delivered ends at once.
func (e *executor) killTask(id string, policy *mesos.KillPolicy) {
	for i, t := range e.queued {
		if t.TaskID.Value != id {
			continue
		}
		e.queued = slices.Delete(e.queued, i, i+1)
		e.a.made(e, id, mesos.TASK_KILLED, mesos.REASON_TASK_KILLED_DURING_LAUNCH, "Killed before delivery to the executor")
		if len(e.queued) == 0 && len(e.tasks) == 0 {
			e.shutdown()
		}
		return
	}
	switch {
	case e.a.spec.Simulate:
		e.own(id, mesos.TASK_KILLED, "")
		if e.command {
			e.ended = true
		}
	case e.command:
		grace := 3 * time.Second
		if g := policy.GetGracePeriod(); g != nil {
			grace = time.Duration(g.Nanoseconds)
		}
		e.proc.terminate(e.a.c.opts.scaled(grace.Seconds()))
	default:
		e.send(&exec.Event{Type: exec.Event_KILL, Kill: &exec.Event_Kill{TaskID: mesos.TaskID{Value: id}, KillPolicy: policy}})
	}
}

// shutdown asks the executor to end, and kills it after the grace period.
func (e *executor) shutdown() {
	if e.stopping {
		return
	}
	e.stopping = true
	if e.a.spec.Simulate || e.command {
		e.kill()
		return
	}
	e.send(&exec.Event{Type: exec.Event_SHUTDOWN})
	grace := e.a.c.opts.Times.ShutdownGrace
	if d := e.info.ShutdownGracePeriod; d != nil {
		grace = e.a.c.opts.scaled(float64(d.Nanoseconds) / 1e9)
	}
	e.a.c.after(grace+grace/16, e.kill) // the end of a container takes a moment
}

// kill ends the process; the rest follows when it has ended.
func (e *executor) kill() {
	if e.ended {
		return
	}
	if e.proc != nil {
		e.proc.kill()
		return
	}
	e.finish(9)
}

// finish is the end of the executor's process, with its wait status.
func (e *executor) finish(status int) {
	if e.ended {
		return
	}
	e.a.c.drop(e.register)
	if e.stream != nil {
		e.stream.end(false)
		e.stream = nil
	}
	if !e.a.running || e.a.recovering { // the agent finds out when it is back
		e.exited, e.waitStatus = true, status
		return
	}
	e.ended = true
	if m := e.a.master(); m != nil {
		m.executorEnded(e.fw.info.GetID().GetValue(), m.nodes[e.a.id], e.id, status, !e.command && !e.orphan)
	}
	e.endTasks()
}

// endTasks makes the last update of each task that the executor left.
func (e *executor) endTasks() {
	if e.orphan {
		return
	}
	for _, t := range e.tasks {
		if !terminal(t.state) {
			t.state = e.end.state
			e.a.made(e, t.info.TaskID.Value, e.end.state, e.end.reason, e.end.text)
		}
	}
	for _, t := range e.queued {
		e.a.made(e, t.TaskID.Value, e.end.state, e.end.reason, e.end.text)
	}
	e.queued = nil
}

// ServeHTTP is an agent's process: the executor API.
func (a *agent) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/api/v1/executor", "/slave(1)/api/v1/executor":
		a.serveExecutor(w, r)
	case "/health", "/slave(1)/health":
		w.WriteHeader(http.StatusOK)
	default:
		a.c.mu.Lock()
		text := a.c.notShown("agent: %s %s", r.Method, r.URL.Path)
		a.c.mu.Unlock()
		refuse(w, http.StatusNotImplemented, text)
	}
}

func (a *agent) serveExecutor(w http.ResponseWriter, r *http.Request) {
	body, ok := readBody(w, r)
	if !ok {
		return
	}
	asJSON, ok := bodyKind(w, r)
	if !ok {
		return
	}
	call := new(exec.Call)
	dec, err := decode("mesos.executor.Call", asJSON, body, call)
	if err != nil {
		refuse(w, http.StatusBadRequest, err.Error())
		return
	}
	if text := invalidExecutorCall(call, dec); text != "" {
		refuse(w, http.StatusBadRequest, "Failed to validate Executor::Call: "+text)
		return
	}
	if call.Type == exec.Call_SUBSCRIBE {
		if asJSON, ok = negotiate(w, r); ok {
			a.serveSubscribe(w, call, newStream(asJSON, ""))
		}
		return
	}
	status, text := a.take(call)
	if text != "" {
		refuse(w, status, text)
		return
	}
	accepted(w)
}

func invalidExecutorCall(call *exec.Call, dec decoded) string {
	if !dec.has("type") {
		return "Expecting 'type' to be present"
	}
	field := map[exec.Call_Type]string{
		exec.Call_SUBSCRIBE: "subscribe", exec.Call_UPDATE: "update", exec.Call_MESSAGE: "message",
	}[call.Type]
	if field != "" && !dec.has(field) {
		return "Expecting '" + field + "' to be present"
	}
	return ""
}

// find is the executor of a call, or the refusal. The lock is held.
func (a *agent) find(call *exec.Call) (*executor, string) {
	f := a.frameworks[call.FrameworkID.Value]
	if f == nil {
		return nil, "Framework cannot be found"
	}
	e := f.executors[call.ExecutorID.Value]
	if e == nil || e.ended {
		return nil, "Executor cannot be found"
	}
	return e, ""
}

func (a *agent) take(call *exec.Call) (status int, text string) {
	a.c.mu.Lock()
	defer a.c.mu.Unlock()
	e, text := a.find(call)
	switch {
	case text != "":
		return http.StatusBadRequest, text
	case !e.subscribed:
		return http.StatusForbidden, "Executor is not subscribed"
	}
	switch call.Type {
	case exec.Call_UPDATE:
		e.update(call.Update.Status)
	case exec.Call_MESSAGE:
		if m := a.master(); m != nil {
			m.executorMessage(call.FrameworkID.Value, a.id, e.id, call.Message.Data)
		}
	default:
		return http.StatusNotImplemented, a.c.notShown("executor call %s", call.Type)
	}
	return http.StatusAccepted, ""
}

func (a *agent) serveSubscribe(w http.ResponseWriter, call *exec.Call, s *stream) {
	a.c.mu.Lock()
	e, text := a.find(call)
	if text != "" || a.c.closed || !a.running {
		a.c.mu.Unlock()
		refuse(w, http.StatusBadRequest, text)
		return
	}
	e.subscribe(call.Subscribe, s)
	a.c.mu.Unlock()
	s.serve(w)
	a.c.mu.Lock()
	defer a.c.mu.Unlock()
	if e.stream == s {
		e.stream = nil
	}
}

// subscribe opens the executor's stream (rule 46).
func (e *executor) subscribe(sub *exec.Call_Subscribe, s *stream) {
	again := e.subscribed || e.a.recovering
	if e.stream != nil {
		e.stream.end(false)
	}
	e.stream, e.subscribed = s, true
	e.a.c.drop(e.register)
	e.dropForgotten(sub)
	if e.stopping || again && len(sub.UnacknowledgedUpdates) == 0 && !e.alive() {
		e.stopping = false // so that it is told again
		e.shutdown()
		return
	}
	e.send(&exec.Event{Type: exec.Event_SUBSCRIBED, Subscribed: &exec.Event_Subscribed{
		ExecutorInfo: *e.info, FrameworkInfo: e.fw.info, AgentInfo: e.a.info(), ContainerID: &mesos.ContainerID{Value: e.container},
	}})
	for _, u := range sub.UnacknowledgedUpdates {
		e.update(u.Status)
	}
	queued := e.queued
	e.queued = nil
	for _, t := range queued {
		e.deliver(t)
	}
}

// alive says whether the executor has tasks that have not ended.
func (e *executor) alive() bool {
	return len(e.queued) > 0 || slices.ContainsFunc(e.tasks, func(t *agentTask) bool { return !terminal(t.state) })
}

// dropForgotten ends the delivered tasks of which the executor knows nothing.
func (e *executor) dropForgotten(sub *exec.Call_Subscribe) {
	for _, t := range e.tasks {
		id := t.info.TaskID.Value
		named := slices.ContainsFunc(sub.UnacknowledgedTasks, func(x mesos.TaskInfo) bool { return x.TaskID.Value == id }) ||
			slices.ContainsFunc(sub.UnacknowledgedUpdates, func(x exec.Call_Update) bool { return x.Status.TaskID.Value == id })
		if t.state != mesos.TASK_STAGING || named {
			continue
		}
		state := mesos.TASK_LOST
		if (&framework{info: &e.fw.info}).aware() {
			state = mesos.TASK_DROPPED
		}
		t.state = state
		e.a.made(e, id, state, mesos.REASON_AGENT_RESTARTED, "Task launched during agent restart")
	}
}
