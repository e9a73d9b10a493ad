// Package metaquery is how running tasks are told what to do and tell how they are.
//
// A control tuple (Tuple) sets one parameter of one operator, at once or at an epoch. All that a task is
// to know at a time is one Orders; all that it has to say is one Report. Both are states, not events:
// whoever gets a later one (by Seq) forgets the earlier, so a message that is lost, doubled, late or out
// of order does no harm, and sending the last one again is always right.
package metaquery

import "math"

// Tuple is a control tuple.
type Tuple struct {
	Query    string `json:"query,omitempty"`
	Operator string `json:"operator"` // of the physical graph, or of the spec: then each of its replicas
	Param    string `json:"param"`
	Value    string `json:"value"`
	// Epoch is the first epoch for which the value holds: it takes effect at the first epoch not below
	// it. 0 is at once.
	Epoch int64 `json:"epoch,omitempty"`
	// Seq orders tuples of one operator and parameter that take effect at once: the highest wins.
	Seq int64 `json:"seq,omitempty"`
}

// Parameters that the runtime itself sets, at once.
const (
	TargetAddr = "target-addr" // of a netwriter: where its channel goes; "" for nowhere
	Active     = "active"      // of a failover node or a stream selector
	Rate       = "rate"        // of a reader
)

// TaskID names an instance of a task. A higher generation replaces all lower ones.
type TaskID struct {
	Task string `json:"task"`
	Gen  int64  `json:"gen"`
}

// LastEpoch is after all epochs: what has got there has ended.
const LastEpoch int64 = math.MaxInt64

// Launch is what a task begins with.
type Launch struct {
	ID TaskID `json:"id"`
	// Checkpoint is the epoch of the complete checkpoint to start from, 0 for the empty state, LastEpoch
	// never.
	Checkpoint int64 `json:"checkpoint"`
	// State is what the checkpoint has of the task's operators, by state key (dataflow.StateKeys).
	State map[string]Snapshot `json:"state,omitempty"`
	// Every is how many epoch numbers lie between two checkpoint boundaries: the multiples of Every.
	Every int64 `json:"every"`
	// Flight is how many checkpoint intervals a source may have under way.
	Flight int64 `json:"flight"`
	// Interval is the length of an epoch of the wall clock, in microseconds; epoch numbers are then at
	// least the time since 1970 over it. 0: sources count.
	Interval int64 `json:"interval,omitempty"`
	// NoSnapshots says that operators keep no state for another process: there are boundaries, by which
	// sinks commit and channels forget, and no checkpoints of state.
	NoSnapshots bool `json:"noSnapshots,omitempty"`
	// Orders are those with which it begins.
	Orders Orders `json:"orders"`
}

// FirstGeneration is that of the first instance of a task.
const FirstGeneration = 1

// Orders is all that a running task is to know. It names nothing that it does not concern.
type Orders struct {
	To  TaskID `json:"to"`
	Seq int64  `json:"seq"` // grows with each change, within a term
	// Term is that of the scheduler who gives the orders; those of lower terms are ignored.
	Term int64 `json:"term"`
	// Complete is the last complete checkpoint.
	Complete int64 `json:"complete"`
	// Fences says of which generation producing tasks are: the frames of all others are to be dropped. One that
	// is not named is of the first.
	Fences map[string]int64 `json:"fences,omitempty"`
	// Now are tuples that take effect at once, the last of each operator and parameter.
	Now []Tuple `json:"now,omitempty"`
	// Changes are the committed tuples with epochs: those above the checkpoint that the task was
	// launched from at least, in order of Epoch and Seq.
	Changes []Tuple `json:"changes,omitempty"`
	// Plan is a change under way for which the task is to vote.
	Plan *Plan `json:"plan,omitempty"`
	// Stop tells the sources to stop: their last epoch is the first one at or above it; -1: their input
	// counts as ended where it stands. 0: go on.
	Stop int64 `json:"stop,omitempty"`
}

// Plan is a change that is prepared: from Epoch on all of Tuples hold, at every task concerned, or
// nowhere.
type Plan struct {
	Attempt int64   `json:"attempt"` // unique, growing
	Epoch   int64   `json:"epoch"`
	Tuples  []Tuple `json:"tuples"` // those for the task
}

// Vote is a task's answer to a Plan. A task that has accepted begins no epoch at or above that of the
// plan before it knows the decision.
type Vote struct {
	Attempt int64 `json:"attempt"`
	// Late says that the task has begun the epoch already.
	Late bool `json:"late,omitempty"`
	// Error says why a value cannot be set.
	Error string `json:"error,omitempty"`
}

// Snapshot is the state of one operator between two epochs.
type Snapshot struct {
	Key string `json:"key"` // dataflow.StateKeys
	// It is the state at the end of every epoch from Lo to Hi; Hi is LastEpoch when the operator has ended.
	Lo  int64  `json:"lo"`
	Hi  int64  `json:"hi"`
	Ref string `json:"ref,omitempty"` // where the store has the pieces; "" if there are none
	// Meta is what the executor keeps of the operator beside its own state.
	Meta []byte `json:"meta,omitempty"`
}

// Report is all that a task has to say.
type Report struct {
	From TaskID `json:"from"`
	Seq  int64  `json:"seq"`
	// Term and Obeyed are those of the last Orders that have been carried out.
	Term   int64 `json:"term"`
	Obeyed int64 `json:"obeyed"`
	// Epoch is the last one that all operators have ended, LastEpoch at the end; Begun the highest that
	// any of them has begun; Cut the highest that a source of the task has cut, without those that have
	// stopped as told until all have.
	Epoch int64 `json:"epoch"`
	Begun int64 `json:"begun"`
	Cut   int64 `json:"cut,omitempty"`
	// Snapshots are those that are durable and not below the last complete checkpoint.
	Snapshots []Snapshot `json:"snapshots,omitempty"`
	// Frontiers says for each sink up to which epoch everything is committed, LastEpoch at the end.
	Frontiers map[string]int64 `json:"frontiers,omitempty"`
	Vote      *Vote            `json:"vote,omitempty"`
	// CaughtUp says that all channels of the task are connected and nothing is behind by more than an
	// epoch or two: a copy that has not caught up protects nobody.
	CaughtUp bool `json:"caughtUp,omitempty"`
	// Stopped says that the sources have stopped as told, at the epoch Cut.
	Stopped bool `json:"stopped,omitempty"`
	// Trimmed asks to be launched again from a later checkpoint: a producer no longer has what the task
	// needs.
	Trimmed bool `json:"trimmed,omitempty"`
	// Retry asks to be launched again, for something went wrong that may pass, such as a full disk. It says
	// what.
	Retry string `json:"retry,omitempty"`
	// Waits says for what the task waits that may come, such as room on a full disk. It goes on by itself.
	Waits string `json:"waits,omitempty"`
	// Replays says that another instance of the task loses and doubles nothing: what its sources read can be read again,
	// and its sinks undo what they have not committed.
	Replays bool `json:"replays,omitempty"`
	// Done says that the sinks of the task want no more rows.
	Done bool `json:"done,omitempty"`
	// Failure ends the query.
	Failure *Failure `json:"failure,omitempty"`
	// Operators counts rows.
	Operators []OperatorReport `json:"operators,omitempty"`
	// Base is the checkpoint from which the task was launched, where its counts begin.
	Base int64 `json:"base,omitempty"`
	// Passed says what the counts of operators were at the boundaries that are not below the last complete
	// checkpoint: from these a later generation goes on.
	Passed    []Passed `json:"passed,omitempty"`
	Watermark int64    `json:"watermark"`          // least over the sources of the task, microseconds since 1970
	Backlog   int64    `json:"backlog,omitempty"`  // bytes that wait to be worked on
	Retained  int64    `json:"retained,omitempty"` // bytes that are kept for replays
	Received  int64    `json:"received,omitempty"` // rows that came from other processes
}

// Failure is an error that no restart would cure.
type Failure struct {
	Error string `json:"error"`
	Input bool   `json:"input,omitempty"` // operators.InputError: the query could not begin
}

// OperatorReport counts an operator's rows since its launch.
type OperatorReport struct {
	Name                                     string
	In, Out, Skipped, Dead, Late, Lost, Gaps int64
	Before                                   int64 `json:",omitempty"` // rows that a sink had made visible before its launch
}

// Passed is the count of an operator's rows, since the launch of its task, at the end of every epoch from Lo to Hi.
type Passed struct {
	Operator string `json:"operator"`
	Lo       int64  `json:"lo"`
	Hi       int64  `json:"hi"`
	Rows     int64  `json:"rows"` // OperatorReport.In; the others are as there
	Out      int64  `json:"out,omitempty"`
	Skipped  int64  `json:"skipped,omitempty"`
	Dead     int64  `json:"dead,omitempty"`
	Late     int64  `json:"late,omitempty"`
	Lost     int64  `json:"lost,omitempty"`
	Gaps     int64  `json:"gaps,omitempty"`
}

// PassedOf are the counts of an operator at the end of every epoch from lo to hi.
func PassedOf(o OperatorReport, lo, hi int64) Passed {
	return Passed{
		Operator: o.Name, Lo: lo, Hi: hi, Rows: o.In, Out: o.Out, Skipped: o.Skipped, Dead: o.Dead, Late: o.Late, Lost: o.Lost, Gaps: o.Gaps,
	}
}

// At is what of the counts of an operator is in the state at a checkpoint, from which its task is launched again. Without any
// boundary since its launch nothing is: that was from the same checkpoint. A checkpoint may be complete some milliseconds
// before a task reports its counts there; if the task ends in between, these are the counts at the last boundary before.
func (r *Report) At(operator string, checkpoint int64) OperatorReport {
	counts, at := OperatorReport{Name: operator}, int64(-1)
	for _, p := range r.Passed {
		if p.Operator == operator && p.Lo <= checkpoint && p.Lo > at {
			at = p.Lo
			counts = OperatorReport{
				Name: operator, In: p.Rows, Out: p.Out, Skipped: p.Skipped, Dead: p.Dead, Late: p.Late, Lost: p.Lost, Gaps: p.Gaps,
			}
		}
	}
	return counts
}

// Plus adds up counts, under the name of the second.
func (o OperatorReport) Plus(b OperatorReport) OperatorReport {
	return OperatorReport{
		Name: b.Name, In: o.In + b.In, Out: o.Out + b.Out, Skipped: o.Skipped + b.Skipped, Dead: o.Dead + b.Dead,
		Late: o.Late + b.Late, Lost: o.Lost + b.Lost, Gaps: o.Gaps + b.Gaps,
	}
}
