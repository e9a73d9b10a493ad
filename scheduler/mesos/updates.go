package mesos

import (
	"fmt"
	"strings"
	"time"

	pb "github.com/mesos/mesos-go/api/v1/lib"
	sched "github.com/mesos/mesos-go/api/v1/lib/scheduler"

	"sluice/scheduler"
)

// update takes the state of a task. It is acknowledged behind what was stored of it. An update may come
// again, and is then only acknowledged.
func (c *Core) update(s *pb.TaskStatus) {
	defer c.acknowledge(s)
	w := c.workers[workerID(s.TaskID.Value)]
	if w == nil {
		c.stranger(s)
		return
	}
	w.answered = true
	if len(s.UUID) > 0 && w.uuid == string(s.UUID) {
		return
	}
	w.uuid = string(s.UUID)
	state := s.GetState()
	text := stateText(s) + c.advice(w, s)
	if !strings.Contains(text, w.about()) && w.exit == "" {
		text += "; that was on " + w.about()
	}
	switch {
	case state == pb.TASK_DROPPED && s.GetReason() == pb.REASON_INVALID_OFFERS:
		c.again(w)
	case state == pb.TASK_GONE && s.GetReason() == pb.REASON_RECONCILIATION && w.rec.State == "":
		// ACCEPT was lost with its subscription.
		c.again(w)
	case runs(state):
		c.runs(w, s)
	case state == pb.TASK_UNREACHABLE || state == pb.TASK_LOST || state == pb.TASK_UNKNOWN:
		c.lose(w, text)
	default:
		// Of the others Mesos knows that nothing runs: the executor has said so, or it is gone, or it never was.
		if state == pb.TASK_GONE_BY_OPERATOR && !w.rec.Killed.IsZero() {
			c.alert(w.rec.Query, fmt.Sprintf("worker %s, which had been given up: %s", w.id, text))
		}
		c.end(w, text, blamed(state) && s.GetReason() != pb.REASON_AGENT_DRAINING)
	}
}

// runs says whether a task in this state may run and Mesos can tell.
func runs(s pb.TaskState) bool {
	switch s {
	case pb.TASK_STAGING, pb.TASK_STARTING, pb.TASK_RUNNING, pb.TASK_KILLING:
		return true
	}
	return false
}

// blamed says whether the agent may be the cause of this end.
func blamed(s pb.TaskState) bool { return s == pb.TASK_FAILED || s == pb.TASK_DROPPED }

// stateText is a state with what was said of it.
func stateText(s *pb.TaskStatus) string {
	text := strings.ToLower(strings.TrimPrefix(s.GetState().String(), "TASK_"))
	if s.Message != nil && *s.Message != "" {
		text += ": " + *s.Message
	}
	if s.Reason != nil {
		text += " [" + strings.ToLower(strings.TrimPrefix(s.Reason.String(), "REASON_")) + "]"
	}
	return text
}

// again launches another worker in place of one that was never launched: its offer was gone, or the master has
// not heard of it.
func (c *Core) again(w *worker) {
	c.remove(w)
	c.do(Action{Save: &Save{Path: workersPath + "/" + string(w.id)}})
	if q := c.queries[w.rec.Query]; q != nil && !q.closed && w.asked && w.rec.Killed.IsZero() {
		c.ask(q, w.rec.Capacity.resources())
		return
	}
	c.do(Action{Ended: &Ended{Query: w.rec.Query, ID: w.id, Status: "was never launched", Killed: !w.rec.Killed.IsZero(), Capacity: w.rec.Capacity.resources()}})
}

func (c *Core) runs(w *worker, s *pb.TaskStatus) {
	state := s.GetState().String()
	wasLost := !w.rec.Lost.IsZero()
	if s.GetState() == pb.TASK_RUNNING && w.ran.IsZero() {
		w.ran = c.now
	}
	if !wasLost && w.rec.State == state {
		return
	}
	w.rec.State = state
	if !wasLost {
		return // a new scheduler learns it from a reconciliation
	}
	w.rec.Lost = time.Time{}
	c.saveWorker(w)
	c.alert(w.rec.Query, fmt.Sprintf("worker %s on %s can be reached again", w.id, w.about()))
}

// lose notes that Mesos cannot tell how a worker is.
func (c *Core) lose(w *worker, text string) {
	if !w.rec.Lost.IsZero() {
		return
	}
	w.lose(c.now)
	if w.rec.State == "" && w.asked {
		c.replaceUnborn(w)
	}
	c.saveWorker(w)
	if at, ok := c.certainEnd(w); ok {
		c.alert(w.rec.Query, fmt.Sprintf("worker %s: %s; it has been given up, and %s", w.id, text, waits(at)))
		return
	}
	c.alert(w.rec.Query, fmt.Sprintf("worker %s: %s; if the scheduler does not hear it either, it counts as ended %v after it was given up",
		w.id, text, c.cfg.Silence+c.cfg.Margin))
}

// waits says until when a query waits for a worker of which Mesos cannot tell whether it has ended.
func waits(at time.Time) string {
	return fmt.Sprintf("what must not run twice, such as a sink that writes a file, waits until %s, when it has ended for certain, unless Mesos says so before", clock(at))
}

// giveUp kills a worker, and says for how long the query waits for its end if Mesos cannot tell of that.
func (c *Core) giveUp(id scheduler.WorkerID) {
	w := c.workers[id]
	first := w != nil && w.rec.Killed.IsZero()
	c.kill(id)
	if !first || w.rec.Lost.IsZero() {
		return
	}
	if at, ok := c.certainEnd(w); ok {
		c.alert(w.rec.Query, fmt.Sprintf("worker %s on %s is given up: %s", w.id, w.about(), waits(at)))
	}
}

// replaceUnborn gives up a worker that is lost before Mesos has said anything of it. The scheduler may wait for
// it, so another one is launched at once.
func (c *Core) replaceUnborn(w *worker) {
	if !w.rec.Killed.IsZero() {
		return
	}
	w.markKilled(c.now)
	c.due = true
	if q := c.queries[w.rec.Query]; q != nil && !q.closed {
		c.ask(q, w.rec.Capacity.resources())
	}
}

// acknowledge answers an update that has a uuid; those of the master have none.
func (c *Core) acknowledge(s *pb.TaskStatus) {
	if len(s.UUID) == 0 || s.AgentID == nil {
		return
	}
	c.call(&sched.Call{Type: sched.Call_ACKNOWLEDGE, Acknowledge: &sched.Call_Acknowledge{
		AgentID: *s.AgentID, TaskID: s.TaskID, UUID: s.UUID,
	}})
}

// stranger takes the state of a task that nobody knows, and kills it if it runs.
func (c *Core) stranger(s *pb.TaskStatus) {
	id := s.TaskID.Value
	if _, done := c.strangers[id]; done || !runs(s.GetState()) {
		return
	}
	c.strangers[id] = c.now
	c.alert("", fmt.Sprintf("task %s runs on agent %s and belongs to nobody; it is killed", id, s.AgentID.GetValue()))
	c.killTask(id, s.AgentID.GetValue())
}

// failure is an ended executor or a lost agent. What became of the tasks is told by updates.
func (c *Core) failure(f *sched.Event_Failure) {
	if f.ExecutorID == nil {
		id := f.AgentID.GetValue()
		c.alertOn(id, func(w *worker) string { return w.about() + " is lost" })
		delete(c.agents, id)
		return
	}
	if w := c.workers[workerID(f.ExecutorID.Value)]; w != nil && f.Status != nil {
		w.exit = c.aboutExit(w, *f.Status)
	}
}

// exitText tells a wait status.
func exitText(status int32) string {
	if signal := status & 0x7f; signal != 0 {
		return fmt.Sprintf("its executor ended by signal %d", signal)
	}
	return fmt.Sprintf("its executor ended with exit status %d", status>>8&0xff)
}

// reconcile asks for the state of all tasks of which none was told since the subscription, with growing
// pauses until it was told, and from time to time for all.
func (c *Core) reconcile() {
	if !c.reconcileAt.IsZero() && !c.now.Before(c.reconcileAt) {
		c.reconcileOpen()
	}
	if c.now.Before(c.implicitAt) {
		return
	}
	c.implicitAt = c.now.Add(c.cfg.Implicit)
	c.call(&sched.Call{Type: sched.Call_RECONCILE, Reconcile: &sched.Call_Reconcile{}})
}

func (c *Core) reconcileOpen() {
	var open []sched.Call_Reconcile_Task
	for _, w := range c.sorted() {
		if !w.answered {
			open = append(open, sched.Call_Reconcile_Task{
				TaskID: pb.TaskID{Value: string(w.id)}, AgentID: &pb.AgentID{Value: w.rec.Agent},
			})
		}
	}
	if len(open) == 0 {
		c.reconcileAt = time.Time{}
		return
	}
	c.call(&sched.Call{Type: sched.Call_RECONCILE, Reconcile: &sched.Call_Reconcile{Tasks: open}})
	c.reconcileAt = c.now.Add(min(c.cfg.ReconcileFirst<<min(c.reconciled, 16), c.cfg.ReconcileMax))
	c.reconciled++
}
