package scheduler

import (
	"fmt"
	"strings"

	"sluice/metaquery"
)

// Status is how a query is.
type Status struct {
	Term       int64
	Checkpoint int64
	Finished   bool
	Stop       int64
	Workers    []WorkerStatus // that are up, by name
	Tasks      []TaskStatus   // in the order of the query
	Plan       *metaquery.Plan
	Changes    int // committed, and not yet behind all tasks
	Losses     []Loss
}

// WorkerStatus is how a worker is.
type WorkerStatus struct {
	ID   WorkerID
	Addr string
}

// TaskStatus is how a task is.
type TaskStatus struct {
	Task   string
	Gen    int64
	Worker WorkerID // where it runs, is to run or would run; "" for none
	State  TaskState
	Role   Role
	Epoch  int64 // the last one that it has ended
	// Unprotected says that a pattern promises a second copy or a prepared standby, and none has caught up.
	Unprotected bool
	// Lacks is what it needs if there is no worker that has it free.
	Lacks  string
	Report metaquery.Report // the last one
}

// TaskState is what a task does.
type TaskState string

// The states of a task.
const (
	Waiting   TaskState = "waiting"   // for a worker
	Fencing   TaskState = "fencing"   // its consumers are being told to drop what its predecessor sends
	Launching TaskState = "launching" // it has not been heard yet
	Running   TaskState = "running"
	AtRest    TaskState = "standby" // it would be launched if another one failed
	Ended     TaskState = "finished"
)

// Role is what a task is for.
type Role string

// The roles of a task.
const (
	Single  Role = "single"
	Copy    Role = "copy"    // one of several that run
	Primary Role = "primary" // it has a standby
	Spare   Role = "standby"
)

// Status tells how the query is. It can be kept.
func (c *Core) Status() Status {
	s := Status{
		Term: c.rec.Term, Checkpoint: c.rec.Checkpoint, Finished: c.rec.Finished, Stop: c.rec.Stop,
		Changes: len(c.rec.Changes),
	}
	copied := c.rec.Clone()
	s.Plan, s.Losses = copied.Plan, copied.Lost
	for _, w := range c.sorted() {
		s.Workers = append(s.Workers, WorkerStatus{ID: w.id, Addr: w.addr})
	}
	for _, t := range c.tasks {
		s.Tasks = append(s.Tasks, TaskStatus{
			Task: t.Name, Gen: c.gen(t), Worker: t.worker, State: c.state(t), Role: c.role(t),
			Epoch: t.report.Epoch, Unprotected: c.unprotected(t), Lacks: c.lacks(t), Report: t.report,
		})
	}
	return s
}

func (c *Core) state(t *task) TaskState {
	switch {
	case !c.active(t):
		return AtRest
	case c.rec.Finished:
		return Ended
	case t.live && t.report.Epoch == metaquery.LastEpoch:
		return Ended
	case t.live && t.heard:
		return Running
	case t.live:
		return Launching
	case t.worker != "":
		return Fencing
	}
	return Waiting
}

func (c *Core) role(t *task) Role {
	switch {
	case !c.active(t):
		return Spare
	case t.side != nil:
		return Primary
	case len(t.copies) > 0:
		return Copy
	}
	return Single
}

// String gives the status as text, one thing a line:
//
//	term 2, checkpoint 40
//	worker w1 tcp://127.0.0.1:4000
//	task late.1: running on w1, generation 2, copy, epoch 47, unprotected, 1200 rows received
//	plan 3 at epoch 60: late.1.condition = "delay > 5"
//	lost: count, epochs 1 to 30
func (s Status) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "term %d, checkpoint %s", s.Term, epochText(s.Checkpoint))
	if s.Finished {
		b.WriteString(", finished")
	}
	if s.Stop != 0 {
		fmt.Fprintf(&b, ", stopping")
	}
	b.WriteByte('\n')
	for _, w := range s.Workers {
		fmt.Fprintf(&b, "worker %s %s\n", w.ID, w.Addr)
	}
	for _, t := range s.Tasks {
		b.WriteString(t.String() + "\n")
	}
	if s.Plan != nil {
		fmt.Fprintf(&b, "plan %d at epoch %d:", s.Plan.Attempt, s.Plan.Epoch)
		for _, t := range s.Plan.Tuples {
			fmt.Fprintf(&b, " %s.%s = %q", t.Operator, t.Param, t.Value)
		}
		b.WriteByte('\n')
	}
	if s.Changes > 0 {
		fmt.Fprintf(&b, "changes under way: %d\n", s.Changes)
	}
	for _, l := range s.Losses {
		fmt.Fprintf(&b, "lost: %s, epochs %d to %d\n", l.Task, l.First, l.Last)
	}
	return b.String()
}

// String gives the status of a task as one line.
func (t TaskStatus) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "task %s: %s", t.Task, t.State)
	if t.Worker != "" {
		fmt.Fprintf(&b, " on %s", t.Worker)
	}
	fmt.Fprintf(&b, ", generation %d, %s, epoch %s", t.Gen, t.Role, epochText(t.Epoch))
	if t.Unprotected {
		b.WriteString(", unprotected")
	}
	if n := t.Report.Received; n > 0 {
		fmt.Fprintf(&b, ", %d rows received", n)
	}
	if waits := t.Waits(); waits != "" {
		fmt.Fprintf(&b, ", waits: %s", waits)
	}
	return b.String()
}

// Waits says for what the task waits, "" for nothing: it has said so, or needs a worker that has more.
func (t TaskStatus) Waits() string {
	if t.Lacks != "" {
		return fmt.Sprintf("it needs %s, and no worker has that free", t.Lacks)
	}
	return t.Report.Waits
}

func epochText(e int64) string {
	if e == metaquery.LastEpoch {
		return "last"
	}
	return fmt.Sprint(e)
}
