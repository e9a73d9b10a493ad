package scheduler

import (
	"sluice/dataflow"
	"sluice/internal/protocol"
	"sluice/metaquery"
)

// Config is what a Core is made of. Times are in microseconds.
type Config struct {
	Query    *dataflow.Physical // with network operators
	Every    int64              // metaquery.Launch
	Flight   int64
	Interval int64
	// Checkpoints says that stateful operators are snapshotted. Otherwise a task with state restarts
	// empty, and all that reads from it restarts too.
	Checkpoints bool
	// Liveness is after how long without a word a worker counts as failed. Default 1 s.
	Liveness int64
	// Gather is how long the first launches wait for all workers once one is there, as it takes for workers to
	// start one after the other. Default 2 Liveness.
	Gather int64
	// Quiet is how long nothing must have happened before a task is moved to a worker that has clearly less to do than
	// the one where it is. Default 5 s; below 0 tasks stay where they are.
	Quiet int64
	// Fresh says that nothing of an earlier term runs any longer: a new term need not look for it.
	Fresh bool
	// Workers is how many workers are wanted, at least one. There are more if Capacities says so.
	Workers int
	// Starting are workers that an earlier Core has asked for, and that are to come up to this one: no others are
	// asked for in their place.
	Starting []dataflow.Resources
	Off      protocol.Off // rules that are switched off, in simulations
}

// WorkerID names a worker process; it is never used again.
type WorkerID string

// Event is what a Core is told. Exactly one field besides Now and Had is set.
type Event struct {
	Now    int64 // microseconds since 1970
	Worker *WorkerUp
	Gone   WorkerID // the process has ended: nothing of it runs any longer
	// Had goes with Gone: what the worker was started with.
	Had    dataflow.Resources
	Report *TaskReport
	// Alive says that a worker has been heard; what it runs, with the last report of each.
	Alive *Alive
	// Set is a change that has been checked, of the parameters of operators of the physical graph.
	Set *SetRequest
	// Stop ends the query: a task's sources stop at an epoch, or their inputs count as ended.
	Stop *StopRequest
	Tick bool // time has passed
}

// WorkerUp is a worker that can take tasks.
type WorkerUp struct {
	ID   WorkerID
	Addr string // where its consumers listen
	// Capacity is what the worker has for tasks that need resources: what it was started with.
	Capacity dataflow.Resources
}

// TaskReport is a report of a task.
type TaskReport struct {
	Worker WorkerID
	metaquery.Report
}

// Alive is a sign of life of a worker, with all that runs there.
type Alive struct {
	Worker WorkerID
	Addr   string
	Tasks  []metaquery.TaskID
}

// SetRequest is a change of parameters, all of them at one epoch. Those that do not affect rows take
// effect at once.
type SetRequest struct {
	ID     int64 // names the request in Answer
	Tuples []metaquery.Tuple
}

// StopRequest ends a query.
type StopRequest struct {
	// End says that the inputs count as ended: what has been read is finished and written. Otherwise the
	// query stops at an epoch, with a checkpoint, and can go on later.
	End bool
	// CatchUp says that tasks are yet to be launched, that their sources are to do again what they have logged
	// and then to stop, and that the query takes all the time that it needs to come to a checkpoint there.
	CatchUp bool
	// Logged is an epoch up to which sources are known to have cut.
	Logged int64
}

// Action is what the shell is to do, in the order given. Exactly one field is set. Save comes before
// whatever relies on it: if it fails, none of the actions behind it may be done, and the shell must give
// up the Core and make another one from what was saved last.
type Action struct {
	Save *Record
	// Start says to start a worker for each element, which has that much for tasks that need resources.
	Start []dataflow.Resources
	// Kill ends a worker for good; Event.Gone follows, also if it has ended long ago. Of one that may
	// still run unseen Gone is never said.
	Kill   WorkerID
	Launch *TaskLaunch // start a task on a worker
	End    *TaskEnd    // end a task on a worker; it needs no answer
	Orders *TaskOrders // send orders to a task
	// Decide is to record a decision in the store, unless there is one already of the attempt. It is the
	// last of the actions; Core.Decided gets what is recorded before any other event.
	Decide *Decision
	Answer *Answer  // of a request
	Trim   *Trim    // the store may forget what a checkpoint does not need
	Alert  string   // a message for the user
	Done   *Outcome // the query is over; all tasks have been ended
}

// TaskLaunch starts a task.
type TaskLaunch struct {
	Worker WorkerID
	Moved  WorkerID // where it was before, if it has been moved; "" at first and after failures
	metaquery.Launch
}

// TaskEnd ends a task.
type TaskEnd struct {
	Worker WorkerID
	ID     metaquery.TaskID
}

// TaskOrders are orders for a task.
type TaskOrders struct {
	Worker WorkerID
	metaquery.Orders
}

// Decision is the decision of an attempt.
type Decision struct {
	Attempt int64
	Commit  bool
}

// Answer tells what became of a SetRequest.
type Answer struct {
	ID    int64
	Epoch int64 // at which it takes effect; 0: at once
	Error string
}

// Trim names what is still needed.
type Trim struct {
	Epoch int64
	Refs  []string // of the snapshots of the complete checkpoint
}

// Outcome is how a query ended.
type Outcome struct {
	Error    string // "" if all went well
	Input    bool   // the query could not begin
	Finished bool   // all inputs have ended and all is written; otherwise it can go on later
}

// Record is what a scheduler must not forget. It is saved as a whole.
type Record struct {
	Term        int64            // of the scheduler
	Generations map[string]int64 // highest of each task, launched or about to be
	Active      map[string]bool  // standbys that have been activated, and tasks that have become standbys (false)
	// Workers says for each task with a sink where its last instance was launched: that has to have
	// ended before the next one begins.
	Workers    map[string]WorkerID
	Checkpoint int64                         // last complete one
	State      map[string]metaquery.Snapshot // of it, by state key
	Finished   bool
	Attempt    int64             // last one used
	Plan       *metaquery.Plan   // under way
	Changes    []metaquery.Tuple // committed, of epochs above Checkpoint
	Params     []metaquery.Tuple // committed, of epochs at or below it, and those at once; one for each parameter
	Stop       int64             // metaquery.Orders, while the query is being stopped
	Lost       []Loss            // the last of each task
}

// Loss is state that was lost since there are no checkpoints.
type Loss struct {
	Task        string
	First, Last int64 // epochs whose rows are not in the state
}
