package fakemesos

import (
	"bytes"
	"compress/gzip"
	"net/http"
	"strings"

	"github.com/mesos/mesos-go/api/v1/lib/master"
)

// operatorField is the field that an operator call of a type must have.
var operatorField = map[master.Call_Type]string{
	master.Call_TEARDOWN: "teardown", master.Call_MARK_AGENT_GONE: "mark_agent_gone", master.Call_DRAIN_AGENT: "drain_agent",
	master.Call_REACTIVATE_AGENT: "reactivate_agent", master.Call_START_MAINTENANCE: "start_maintenance",
	master.Call_STOP_MAINTENANCE: "stop_maintenance", master.Call_UPDATE_MAINTENANCE_SCHEDULE: "update_maintenance_schedule",
}

func (c *Cluster) serveOperator(w http.ResponseWriter, r *http.Request) {
	body, ok := readBody(w, r)
	if !ok {
		return
	}
	asJSON, ok := bodyKind(w, r)
	if !ok {
		return
	}
	call := new(master.Call)
	dec, err := decode("mesos.master.Call", asJSON, body, call)
	if err != nil {
		refuse(w, http.StatusBadRequest, err.Error())
		return
	}
	text := ""
	field := operatorField[call.Type]
	switch {
	case !dec.has("type"):
		text = "Expecting 'type' to be present"
	case field != "" && !dec.has(field):
		text = "Expecting '" + field + "' to be present"
	}
	if text != "" {
		refuse(w, http.StatusBadRequest, "Failed to validate master::Call: "+text)
		return
	}
	asJSON, ok = negotiate(w, r)
	if !ok {
		return
	}
	if call.Type == master.Call_SUBSCRIBE {
		c.watch(w, asJSON)
		return
	}
	c.answerOperator(w, r, call, asJSON)
}

func (c *Cluster) answerOperator(w http.ResponseWriter, r *http.Request, call *master.Call, asJSON bool) {
	if call.Type == master.Call_GET_HEALTH {
		raw, err := encode("mesos.master.Response", asJSON, &master.Response{
			Type: master.Response_GET_HEALTH, GetHealth: &master.Response_GetHealth{Healthy: true},
		})
		if err != nil {
			c.t.Error(err)
		}
		answer(w, r, asJSON, raw)
		return
	}
	c.mu.Lock()
	status, text, found := c.operate(call)
	var raw []byte
	if found != nil {
		raw = object("type", quote(call.Type.String()), lower(call.Type.String()), found)
	}
	if found != nil && !asJSON {
		status, text = http.StatusNotImplemented, c.notShown("operator call %s with an answer in protobuf", call.Type)
	}
	c.mu.Unlock()
	switch {
	case text != "":
		refuse(w, status, text)
	case raw != nil:
		answer(w, r, true, raw)
	default:
		w.WriteHeader(http.StatusOK)
	}
}

// gzipFrom is the length from which bodies are compressed for those who accept it.
const gzipFrom = 1024

func answer(w http.ResponseWriter, r *http.Request, asJSON bool, raw []byte) {
	w.Header().Set("Content-Type", (&stream{asJSON: asJSON}).media())
	if len(raw) >= gzipFrom && strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		w.Header().Set("Content-Encoding", "gzip")
		var b bytes.Buffer
		zw := gzip.NewWriter(&b)
		_, _ = zw.Write(raw) // a buffer takes all
		_ = zw.Close()
		raw = b.Bytes()
	}
	_, _ = w.Write(raw) // the client may be gone
}

// operate carries out an operator call. A text is a refusal, found is the answer of a query.
func (c *Cluster) operate(call *master.Call) (status int, text string, found []byte) {
	m := c.m
	if m == nil || c.closed {
		return http.StatusServiceUnavailable, "Master has not finished recovery", nil
	}
	switch call.Type {
	case master.Call_GET_VERSION:
		return http.StatusOK, "", object("version_info", object("version", quote(version)))
	case master.Call_GET_MASTER:
		return http.StatusOK, "", m.showMaster()
	case master.Call_GET_TASKS:
		return http.StatusOK, "", m.showTasks()
	case master.Call_GET_FRAMEWORKS:
		return http.StatusOK, "", m.showFrameworks()
	case master.Call_GET_AGENTS:
		return http.StatusOK, "", m.showAgents()
	case master.Call_GET_MAINTENANCE_STATUS:
		return http.StatusOK, "", m.showMaintenance()
	case master.Call_TEARDOWN:
		f := m.frameworks[call.Teardown.FrameworkID.Value]
		if f == nil {
			return http.StatusBadRequest, "No framework found with specified ID", nil
		}
		m.remove(f)
		return http.StatusOK, "", nil
	case master.Call_MARK_AGENT_GONE:
		return c.operateAgent(call.MarkAgentGone.AgentID.Value, c.markGone)
	case master.Call_DRAIN_AGENT:
		return c.operateAgent(call.DrainAgent.AgentID.Value, c.drain)
	case master.Call_REACTIVATE_AGENT:
		return c.operateAgent(call.ReactivateAgent.AgentID.Value, c.reactivate)
	case master.Call_UPDATE_MAINTENANCE_SCHEDULE:
		return c.schedule(call.UpdateMaintenanceSchedule.Schedule.Windows)
	case master.Call_START_MAINTENANCE:
		for _, id := range call.StartMaintenance.Machines {
			c.startMaintenance(id.GetHostname())
		}
		return http.StatusOK, "", nil
	}
	return http.StatusNotImplemented, c.notShown("operator call %s", call.Type), nil
}

func (c *Cluster) operateAgent(id string, do func(string)) (int, string, []byte) {
	if c.m.nodes[id] == nil {
		return http.StatusNotFound, "Agent '" + id + "' not found", nil
	}
	do(id)
	return http.StatusOK, "", nil
}

// serveTeardown is the older form of TEARDOWN.
func (c *Cluster) serveTeardown(w http.ResponseWriter, r *http.Request) {
	id := r.PostFormValue("frameworkId")
	c.mu.Lock()
	var f *framework
	if c.m != nil {
		f = c.m.frameworks[id]
	}
	if f != nil {
		c.m.remove(f)
	}
	c.mu.Unlock()
	if f == nil {
		refuse(w, http.StatusBadRequest, "No framework found with specified ID")
		return
	}
	w.WriteHeader(http.StatusOK)
}

// watch is the operator's SUBSCRIBE: the state, then what changes.
func (c *Cluster) watch(w http.ResponseWriter, asJSON bool) {
	c.mu.Lock()
	m := c.m
	if m == nil || c.closed || !asJSON {
		text := "Master has not finished recovery"
		if !asJSON {
			text = c.notShown("operator call SUBSCRIBE with events in protobuf")
		}
		c.mu.Unlock()
		refuse(w, http.StatusServiceUnavailable, text)
		return
	}
	s := newStream(true, "")
	m.watchers = append(m.watchers, s)
	s.send(object("type", quote("SUBSCRIBED"), "subscribed", object("get_state", m.showState(),
		"heartbeat_interval_seconds", float(c.opts.Times.Heartbeat.Seconds()))))
	c.heartbeatWatcher(m, s)
	c.mu.Unlock()
	s.serve(w)
	s.end(true)
}

func (c *Cluster) heartbeatWatcher(m *masterState, s *stream) {
	if c.m != m {
		return
	}
	s.send([]byte(`{"type":"HEARTBEAT"}`))
	c.after(c.opts.Times.Heartbeat, func() { c.heartbeatWatcher(m, s) })
}
