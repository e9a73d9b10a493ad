package api

import "time"

// Submission is a query that is to run.
type Submission struct {
	// Name is that of the spec if it is empty: letters, digits, "-", "_" and ".".
	Name string `json:"name,omitempty"`
	Spec string `json:"spec"` // XML
	// File is what messages call the spec, "spec.xml" if it is empty.
	File string `json:"file,omitempty"`
	// Dir is the folder, by its absolute path, against which relative paths of the spec are taken. The
	// default is the scheduler's.
	Dir string   `json:"dir,omitempty"`
	Set []string `json:"set,omitempty"` // OPERATOR.PARAMETER=VALUE
	// Env are the variables that the spec names: "${DAY}" is Env["DAY"]. The scheduler's own environment does not
	// count. They are stored with the query, and are no place for secrets.
	Env        map[string]string `json:"env,omitempty"`
	Partitions int               `json:"partitions,omitempty"` // default 1
	Workers    int               `json:"workers,omitempty"`    // default: as many as the cluster is for
	Checkpoint string            `json:"checkpoint,omitempty"` // time between two checkpoints, or off; default 1s
	Fsync      string            `json:"fsync,omitempty"`      // never, grouped or always; default grouped
	Transport  string            `json:"transport,omitempty"`  // how rows go between workers; default tcp
	Limit      *int64            `json:"limit,omitempty"`      // most rows that each writer writes
}

// The states of a query.
const (
	Starting   = "starting" // nothing runs yet; Query.Error may say why not
	Running    = "running"
	Draining   = "draining" // its inputs count as ended
	Stopping   = "stopping" // it is being brought to a checkpoint
	Stopped    = "stopped"  // it can be resumed from there
	Finished   = "finished"
	Failed     = "failed"
	Cancelling = "cancelling" // its workers are being ended
	Cancelled  = "cancelled"
)

// States are all states of a query.
var States = []string{Starting, Running, Draining, Stopping, Stopped, Finished, Failed, Cancelling, Cancelled}

// Ended tells whether a query in this state runs no more, unless it is resumed.
func Ended(state string) bool { return Resumable(state) || state == Finished || state == Cancelled }

// Resumable tells whether a query in this state has ended and can go on.
func Resumable(state string) bool { return state == Stopped || state == Failed }

// Last stands for the epoch after all others in JSON.
const Last int64 = -1

// Query is a query and how it is. Tasks, Workers and Operators are there while it runs.
type Query struct {
	Name       string     `json:"name"`
	State      string     `json:"state"`
	Error      string     `json:"error,omitempty"` // why it has failed, or does not start
	Submitted  time.Time  `json:"submitted"`
	Ended      *time.Time `json:"ended,omitempty"`
	File       string     `json:"file"`
	Dir        string     `json:"dir"`
	Set        []string   `json:"set,omitempty"`
	Partitions int        `json:"partitions"`
	Workers    int        `json:"workers"` // that it is to have
	Present    int        `json:"present"` // workers that it has
	// Checkpoint is the epoch of the last complete one, 0 for none, -1 at the end.
	Checkpoint     int64      `json:"checkpoint"`
	CheckpointTime *time.Time `json:"checkpointTime,omitempty"` // when this scheduler has heard of it
	// Watermark is the least of all sources.
	Watermark *time.Time `json:"watermark,omitempty"`
	Term      int64      `json:"term,omitempty"` // of the query's scheduler
	// Restarts counts the tasks that were launched again.
	Restarts  int64      `json:"restarts"`
	Processes []Worker   `json:"processes,omitempty"`
	Tasks     []Task     `json:"tasks,omitempty"`
	Operators []Operator `json:"operators,omitempty"`
	// Settings are parameters that have been set while it runs, with their last values.
	Settings []Setting `json:"settings,omitempty"`
	Plan     *Plan     `json:"plan,omitempty"`
	Losses   []Loss    `json:"losses,omitempty"`
	Alerts   []Alert   `json:"alerts,omitempty"` // the last ones
	// Edit is the last one: the query has been replaced by an edited one, or is to be.
	Edit *Edit `json:"edit,omitempty"`
	// Revision counts the edits that were done.
	Revision int64 `json:"revision"`
	// Diagnostics are warnings of the spec, in the answer to its submission.
	Diagnostics []Diagnostic `json:"diagnostics,omitempty"`
}

// Worker is a worker process of a query.
type Worker struct {
	ID    string `json:"id"`
	Addr  string `json:"addr"`  // where its tasks take rows
	About string `json:"about"` // where it runs
}

// Task is a task of a query.
type Task struct {
	Name        string `json:"name"`
	State       string `json:"state"` // waiting, fencing, launching, running, standby or finished
	Role        string `json:"role"`  // single, copy, primary or standby
	Worker      string `json:"worker,omitempty"`
	Generation  int64  `json:"generation"`
	Epoch       int64  `json:"epoch"` // the last one that it has ended, -1 at the end
	Unprotected bool   `json:"unprotected,omitempty"`
	Waits       string `json:"waits,omitempty"` // for what may come
	Backlog     int64  `json:"backlog"`         // bytes that wait to be worked on
	Retained    int64  `json:"retained"`        // bytes that are kept for replays
	Received    int64  `json:"received"`        // rows from other processes
}

// Operator counts rows of an operator. They count once, whatever has been worked on again.
type Operator struct {
	Name    string `json:"name"`
	Type    string `json:"type"`
	In      int64  `json:"in"`
	Out     int64  `json:"out"`
	Skipped int64  `json:"skipped"`
	Dead    int64  `json:"dead"`
	Late    int64  `json:"late"`
	Lost    int64  `json:"lost"`
	Gaps    int64  `json:"gaps"`
}

// Plan is a change that is under way.
type Plan struct {
	Attempt int64 `json:"attempt"`
	Epoch   int64 `json:"epoch"`
}

// Loss is state that was lost since the query has no checkpoints.
type Loss struct {
	Task  string `json:"task"`
	First int64  `json:"first"`
	Last  int64  `json:"last"`
}

// Alert is a message for the user.
type Alert struct {
	Time time.Time `json:"time"`
	Text string    `json:"text"`
}

// Edit is how the edit of a query goes.
type Edit struct {
	State  string     `json:"state"`
	Asked  time.Time  `json:"asked"`
	Ended  *time.Time `json:"ended,omitempty"`
	Reason string     `json:"reason,omitempty"` // why it was refused, or what it was for if nobody has asked for it
	// What has become of the state: operators that go on with it, that begin without one, and state that no operator
	// goes on with.
	Kept    []string  `json:"kept,omitempty"`
	New     []string  `json:"new,omitempty"`
	Dropped []Dropped `json:"dropped,omitempty"`
	// Unset names what had been set while the query ran and holds no longer, as OPERATOR.PARAMETER.
	Unset []string `json:"unset,omitempty"`
}

// ReplaceOptions are conditions of an edit.
type ReplaceOptions struct {
	AllowDrop bool   // state that fits no operator any more may be dropped
	Revision  *int64 // nothing is to be done if Query.Revision is another one; nil: whatever it is
}

// The states of an edit.
const (
	EditPending = "pending" // the query is being stopped, or its state converted
	EditDone    = "done"
	EditRefused = "refused" // the query is what it was
)

// EditStates are all states of an edit.
var EditStates = []string{EditPending, EditDone, EditRefused}

// Dropped is state that no operator of an edited query goes on with.
type Dropped struct {
	Operator string `json:"operator"`
	Why      string `json:"why"`
}

// QueryList is the answer to GET /queries.
type QueryList struct {
	Queries []Query `json:"queries"` // by name
}

// Setting sets a parameter of an operator.
type Setting struct {
	Operator string `json:"operator"`
	Param    string `json:"param"`
	Value    string `json:"value"`
}

// SetResult says when a setting takes effect.
type SetResult struct {
	Epoch int64 `json:"epoch"` // 0: at once
}

// The types of events.
const (
	EventSubmitted  = "submitted"
	EventStarted    = "started"
	EventLaunched   = "launched"
	EventFailed     = "failed"
	EventFailover   = "failover"
	EventCheckpoint = "checkpoint"
	EventChange     = "change"
	EventAlert      = "alert"
	EventFinished   = "finished"
	EventCancelled  = "cancelled"
	EventLeader     = "leader"
	EventEdit       = "edit"
	EventStopped    = "stopped"
	EventResumed    = "resumed"
	EventGap        = "gap" // in a stream: some of those behind the one with its id may be gone
)

// EventTypes are all types of events.
var EventTypes = []string{
	EventSubmitted, EventStarted, EventLaunched, EventFailed, EventFailover, EventCheckpoint, EventChange,
	EventAlert, EventFinished, EventCancelled, EventLeader, EventEdit,
	EventStopped, EventResumed, EventGap,
}

// Event is something that has happened.
type Event struct {
	ID    string     `json:"id"` // TERM-NUMBER
	Type  string     `json:"type"`
	Time  time.Time  `json:"time"`
	Query string     `json:"query,omitempty"`
	Text  string     `json:"text"`
	Data  *EventData `json:"data,omitempty"`
}

// EventData is what an event is about.
type EventData struct {
	Task       string `json:"task,omitempty"`
	Worker     string `json:"worker,omitempty"`
	Generation int64  `json:"generation,omitempty"`
	Epoch      int64  `json:"epoch,omitempty"`
	Operator   string `json:"operator,omitempty"`
	Param      string `json:"param,omitempty"`
	Value      string `json:"value,omitempty"`
}

// Rule is a rewrite rule.
type Rule struct {
	Name   string      `json:"name"`
	Doc    string      `json:"doc"`
	Params []RuleParam `json:"params"`
	Source string      `json:"source,omitempty"` // if one rule was asked for
}

// RuleParam is a parameter of a rule.
type RuleParam struct {
	Name     string `json:"name"`
	Default  string `json:"default,omitempty"`
	Required bool   `json:"required"`
}

// RuleList is the answer to GET /rules.
type RuleList struct {
	Rules []Rule `json:"rules"`
}

// Health is how a scheduler is.
type Health struct {
	Status  string `json:"status"`           // StatusOK, StatusStandby or StatusTrouble
	Reason  string `json:"reason,omitempty"` // of the trouble
	Leader  bool   `json:"leader"`
	URL     string `json:"url,omitempty"` // of the leader
	Term    int64  `json:"term,omitempty"`
	Store   string `json:"store"`   // ok, or what is wrong
	Cluster string `json:"cluster"` // what the workers run on
	Queries int    `json:"queries"` // that run, here
}

// How a scheduler is. With trouble it is not ready: its store does not answer, it cannot lead though nobody else does, or its
// cluster is not connected.
const (
	StatusOK      = "ok"      // it leads
	StatusStandby = "standby" // another one leads, and it could
	StatusTrouble = "trouble"
)

// Live is the answer of a scheduler that answers at all, however it is.
type Live struct {
	Live bool `json:"live"`
}

// Diagnostic is what is wrong with a spec.
type Diagnostic struct {
	File       string `json:"file"`
	Line       int    `json:"line"`
	Column     int    `json:"column"`
	Severity   string `json:"severity"` // error or warning
	Operator   string `json:"operator,omitempty"`
	Message    string `json:"message"`
	Suggestion string `json:"suggestion,omitempty"`
}

// Failure is the body of an answer that is an error.
type Failure struct {
	Error Error `json:"error"`
}
