package mesos

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	pb "github.com/mesos/mesos-go/api/v1/lib"
	sched "github.com/mesos/mesos-go/api/v1/lib/scheduler"

	"sluice/scheduler"
)

// Paths of what is stored.
const (
	frameworkPath = "mesos/framework"
	workersPath   = "mesos/workers"
)

// frameworkRecord is what is stored of the framework.
type frameworkRecord struct {
	ID    string    `json:"id"`
	Since time.Time `json:"since"`
}

// workerRecord is what is stored of a worker, from before its launch until it has ended.
type workerRecord struct {
	Query     string    `json:"query"`
	Framework string    `json:"framework"`
	Agent     string    `json:"agent"`
	Hostname  string    `json:"hostname"`
	Offers    []string  `json:"offers"`
	Resources string    `json:"resources"`
	Capacity  capacity  `json:"capacity,omitzero"`        // beside what each worker of the query takes
	Ports     []uint64  `json:"ports,omitempty"`          // for itself: it listens at the first
	Operators []uint64  `json:"operator_ports,omitempty"` // those of its capacity
	Began     time.Time `json:"began"`
	State     string    `json:"state,omitempty"` // as Mesos says; "" before it has said anything. May be older.
	Killed    time.Time `json:"killed,omitzero"`
	Lost      time.Time `json:"lost,omitzero"` // since when Mesos does not know how it is
}

// worker is a Mesos task with an executor of its own. Task, executor and worker have the same name, which is
// never used again.
type worker struct {
	id       scheduler.WorkerID
	rec      workerRecord
	key      string // of its capacity
	asked    bool   // by the scheduler that runs now, which waits for it
	answered bool   // Mesos has told its state since the subscription, or will not
	uuid     string // of the last update that was handled
	exit     string // how its executor ended
	quick    int    // how many ended soon in a row up to this one, since it cannot run the query; else 0
	nextKill time.Time
	kills    int    // how often KILL was said since the subscription
	control  string // where it should look for the scheduler, "" if that is known to it
	nextMove time.Time
	moves    int
	extra    bool // it was launched beside one whose agent is to be maintained
	replaces bool // that one was killed, and it is there instead
	// replaced is when another one was asked for, since its agent is to be maintained.
	replaced time.Time
	ran      time.Time // since when it runs
	vacated  bool      // another worker of the query may be on its agent
}

func workerID(task string) scheduler.WorkerID { return scheduler.WorkerID(task) }

func (w *worker) lose(now time.Time) {
	if w.rec.Lost.IsZero() {
		w.rec.Lost = now
	}
}

func (w *worker) markKilled(now time.Time) {
	if w.rec.Killed.IsZero() {
		w.rec.Killed = now
	}
}

// address makes the worker look for the scheduler elsewhere.
func (w *worker) address(control string) { w.control, w.nextMove, w.moves = control, time.Time{}, 0 }

// about says where the worker runs.
func (w *worker) about() string {
	return fmt.Sprintf("agent %s (%s)", w.rec.Hostname, w.rec.Agent)
}

// save stores a record. That it can be encoded is known: it holds texts, numbers and times.
func (c *Core) save(path string, record any) {
	value, err := json.Marshal(record)
	if err != nil {
		c.alert("", fmt.Sprintf("mesos: %s cannot be stored: %v", path, err))
		return
	}
	c.do(Action{Save: &Save{Path: path, Value: value}})
}

func (c *Core) saveWorker(w *worker) { c.save(workersPath+"/"+string(w.id), w.rec) }

// load takes what is stored.
func (c *Core) load(stored map[string][]byte) error {
	for path, value := range stored {
		if path == frameworkPath {
			var f frameworkRecord
			if err := json.Unmarshal(value, &f); err != nil || f.ID == "" {
				return fmt.Errorf("mesos: what is stored at %s is no framework: %q (%w)", path, value, err)
			}
			c.id = f.ID
			continue
		}
		id, ok := strings.CutPrefix(path, workersPath+"/")
		if !ok {
			continue
		}
		w := &worker{id: scheduler.WorkerID(id)}
		if err := json.Unmarshal(value, &w.rec); err != nil {
			return fmt.Errorf("mesos: what is stored at %s is no worker: %w", path, err)
		}
		c.add(w)
	}
	for _, w := range c.workers {
		if w.rec.Framework != c.id && !w.rec.Killed.IsZero() {
			c.vacate(w)
		}
	}
	return nil
}

// kill ends a worker for good.
func (c *Core) kill(id scheduler.WorkerID) {
	w := c.workers[id]
	if w == nil {
		return
	}
	if w.rec.Killed.IsZero() {
		w.markKilled(c.now)
		c.saveWorker(w)
		w.nextKill, c.due = c.now, true
	}
}

// nag says again what may have been lost.
func (c *Core) nag() {
	for _, w := range c.sorted() {
		if w.rec.Framework != c.id {
			continue
		}
		c.nagKill(w)
		c.nagMove(w)
	}
	for id, at := range c.strangers {
		if c.now.Sub(at) > time.Minute {
			delete(c.strangers, id)
		}
	}
}

// pause is the one before something is said again, doubled each time up to sixteenfold.
func (c *Core) pause(said *int) time.Duration {
	p := c.cfg.Repeat << min(*said, 4)
	*said++
	return p
}

// nagKill says KILL, and ends the whole executor if that has not helped.
func (c *Core) nagKill(w *worker) {
	if w.rec.Killed.IsZero() || c.now.Before(w.nextKill) {
		return
	}
	graceOver := c.now.Sub(w.rec.Killed) >= c.cfg.KillGrace
	w.nextKill = w.rec.Killed.Add(c.cfg.KillGrace)
	if graceOver {
		w.nextKill = c.now.Add(c.pause(&w.kills))
	}
	c.killTask(string(w.id), w.rec.Agent)
	if graceOver {
		c.call(&sched.Call{Type: sched.Call_SHUTDOWN, Shutdown: &sched.Call_Shutdown{
			ExecutorID: pb.ExecutorID{Value: string(w.id)}, AgentID: pb.AgentID{Value: w.rec.Agent},
		}})
	}
}

func (c *Core) killTask(id, agent string) {
	k := &sched.Call_Kill{
		TaskID:     pb.TaskID{Value: id},
		KillPolicy: &pb.KillPolicy{GracePeriod: &pb.DurationInfo{Nanoseconds: c.cfg.KillGrace.Nanoseconds()}},
	}
	if agent != "" {
		k.AgentID = &pb.AgentID{Value: agent}
	}
	c.call(&sched.Call{Type: sched.Call_KILL, Kill: k})
}

// nagMove tells a worker where the scheduler is, until its executor says that it knows.
func (c *Core) nagMove(w *worker) {
	if w.control == "" || c.now.Before(w.nextMove) || !w.rec.Killed.IsZero() {
		return
	}
	w.nextMove = c.now.Add(c.pause(&w.moves))
	c.call(&sched.Call{Type: sched.Call_MESSAGE, Message: &sched.Call_Message{
		AgentID: pb.AgentID{Value: w.rec.Agent}, ExecutorID: pb.ExecutorID{Value: string(w.id)}, Data: []byte(w.control),
	}})
}

// message is what an executor says: where it knows the scheduler to be.
func (c *Core) message(m *sched.Event_Message) {
	if w := c.workers[workerID(m.ExecutorID.Value)]; w != nil && string(m.Data) == w.control {
		w.control = ""
	}
}

// overdue ends workers of which nothing can run any longer, and kills those that do not begin.
func (c *Core) overdue() {
	for _, w := range c.sorted() {
		if at, ok := c.certainEnd(w); ok && !c.now.Before(at) {
			c.end(w, fmt.Sprintf("could not be reached; it has ended by itself, %v after it was given up", c.cfg.Silence+c.cfg.Margin), false)
			continue
		}
		if w.asked && w.rec.State == "" && w.rec.Killed.IsZero() && c.now.Sub(w.rec.Began) > c.cfg.LaunchTimeout {
			c.alert(w.rec.Query, fmt.Sprintf("worker %s on %s has not begun within %v; it is given up", w.id, w.about(), c.cfg.LaunchTimeout))
			c.kill(w.id)
		}
	}
}

// certainEnd is when a worker of which Mesos does not say that it runs has ended for certain. It must have been
// killed, since when nothing more is said to it: it ends Silence after it has heard the scheduler last.
func (c *Core) certainEnd(w *worker) (time.Time, bool) {
	says := c.phase == subscribed && w.answered && w.rec.Lost.IsZero()
	if says || w.rec.Killed.IsZero() {
		return time.Time{}, false
	}
	return w.rec.Killed.Add(c.cfg.Silence + c.cfg.Margin), true
}

// end forgets a worker of which nothing runs any longer. Blame says whether the agent may be the cause.
func (c *Core) end(w *worker, status string, blame bool) {
	c.remove(w)
	c.do(Action{Save: &Save{Path: workersPath + "/" + string(w.id)}})
	q := c.queries[w.rec.Query]
	quick := w.quick
	if q != nil && quick == 0 {
		quick = c.endedQuick(q, w, blame)
	}
	if blame {
		c.blame(w, false)
	}
	if w.exit != "" {
		status += " (" + w.exit + ")"
	}
	c.do(Action{Ended: &Ended{Query: w.rec.Query, ID: w.id, Status: status, Quick: quick, Killed: !w.rec.Killed.IsZero(), Capacity: w.rec.Capacity.resources()}})
}

// endedQuick counts a worker that has ended without having been told to, if that was soon after its start, or if it has failed
// before it was connected to the scheduler.
func (c *Core) endedQuick(q *query, w *worker, failed bool) int {
	never := failed && w.asked && w.ran.IsZero()
	if !w.rec.Killed.IsZero() || c.now.Sub(w.rec.Began) > c.cfg.QuickEnd && !never {
		q.quick = 0
		clear(q.unable)
		return 0
	}
	c.countQuick(q)
	return q.quick
}

// countQuick counts workers in a row that were of no use, and makes the next one wait.
func (c *Core) countQuick(q *query) time.Duration {
	q.quick++
	pause := min(c.cfg.QuickFirst<<min(q.quick-1, 16), c.cfg.QuickMax)
	pause = time.Duration(float64(pause) * (0.5 + c.jitter/2))
	q.notBefore = c.now.Add(pause)
	return pause
}
