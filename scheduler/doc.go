// Package scheduler decides where the tasks of a query run and what they are told.
//
// A Core decides for one query. It is told events and returns actions; there is no goroutine, clock or
// socket inside. A shell around it starts workers, carries launches and orders to them and their reports
// back, and keeps the Record:
//
//	core, actions := scheduler.New(config, nil)     // save, then start 2 workers
//	actions = core.Handle(Event{Now: t, Worker: &WorkerUp{ID: "w1", Addr: "10.0.0.1:4000"}})
//	actions = core.Handle(Event{Now: t, Worker: &WorkerUp{ID: "w2", Addr: "10.0.0.2:4000"}})
//	// save the generations, then launch each task
//
// testdata/scripts has what follows from which events, a file for each subject.
//
// # The shell
//
// It does the actions in their order. Save comes before whatever relies on it; if it fails, as it does
// when another scheduler has saved a higher term, nothing behind it may be done and the Core is of no use
// any more. Events of one worker come in the order in which they happened, and what is sent to one worker
// arrives in the order in which it was sent, or not at all. Tick comes at least every quarter of
// Config.Liveness, and Alive of each worker as often. Kill works on workers of earlier terms as well.
// Messages may be lost: orders are sent again until a report has obeyed them, and a launch that never
// arrives is noticed since Alive does not name the task.
//
// # The beginning
//
// A new query asks for Config.Workers workers and launches its tasks once they are up, or once at least
// one is up and two liveness bounds have passed. A task goes to the worker on which are the fewest tasks
// that it must be apart from (dataflow.Task.Apart), then the fewest from which it should be spread, then
// the fewest at all; among equals to the first by name. If tasks that must be apart share a worker
// nevertheless, since there are too few, the user is alerted. Each standby has a worker too, where it
// would be launched, but for it nothing runs.
//
// # Resources
//
// Tasks that need resources (dataflow.Task.Resources) have a home: Capacities lays them out over the workers, and the
// query asks for one worker for each home, which has what the tasks there need together (Action.Start). The layout
// depends on the tasks alone, so that every term has the same. Tasks whose attributes contradict each other are never
// at home together, and tasks that must be apart only where there are not enough workers; then those that should be
// spread are, and amounts are made equal, the largest first. If attributes ask for more workers than Config.Workers,
// there are more, and the user is alerted.
//
// A worker that comes up gets a home that has no worker: one whose tasks it runs already, as it may in a new term; else
// one for which it has just enough; else one for which it has more. If there is none it waits until a worker ends whose
// home it can have. If it can have none at all, or another worker is missing that it could keep from being started, and if
// nothing runs there, it is ended. When a worker ends another one is asked for.
//
// A task is put where the worker has what it needs beside all tasks that are there or at home there, whether they run
// or are standbys. So its home has room for it at any time, and what is left over is there for others. The task waits
// where nobody has room; status and, after ten liveness bounds, an alert say what it needs. Cores are shares, and can be
// overcommitted: a task that has waited for one liveness bound goes where only cores are too few, and goes home when the
// worker is there, unless it has a source, of which it is not known whether it can be read again, or state without
// checkpoints. Tasks that need nothing go to any worker.
//
// The consumers of a channel need not be launched before its producer: a channel goes nowhere (target-addr
// "") until its consumer is launched.
//
// # Failure
//
// A worker fails when it has ended, or when it has been silent for longer than Config.Liveness; then it is
// killed, and what it says later counts for nothing. A single task fails when its worker no longer names
// it, or when it asks for another instance: since a producer has trimmed what it needs, or since something
// went wrong that may pass (then after a pause that grows). For each failed task, alone:
//
//  1. Its next generation is recorded.
//  2. All of its consumers that run are told to drop what lower generations send. Those that do not run begin
//     with that.
//  3. When each of them has obeyed, and if the task has a sink when the last instance of it is known to have
//     ended, it is launched on another worker from the last complete checkpoint.
//  4. Its producers are told where it is.
//
// Where the graph has copies of a task nothing more is needed: the selector goes on with the other copy.
// Copies are tasks that have state keys in common (dataflow.StateKeys). A copy waits some time for a
// worker of its own rather than share one with another copy, and moves to one that comes later. Where the
// graph has a standby of a task, and there is a worker for it, the standby is launched in its place, and
// the failed task is the standby from then on (Record.Active). All tasks that are above one input of the
// selector are replaced together, for what joins their streams gives nothing while one of them is missing.
//
// A task is unprotected if it has copies or standbys and there is, on another worker, neither a copy that
// has caught up nor a place for a standby.
//
// # Balance
//
// A worker that comes late, as those that replace others do, gets a share of the tasks when all has been quiet for
// Config.Quiet: all tasks run, obey and have been where their producers are, nothing is being changed or stopped, no worker
// has come or gone, and none is missing (else ten times as long). One task moves, as if it had failed, but without a standby
// in its place, and just after a checkpoint is complete, so that little is done again; where sources count epochs, also
// when they have had nothing new since. The next one waits for the same again.
//
// A task moves only if the placement gets better: fewer tasks that must be apart share a worker, or else fewer that should
// be spread, or else the loads are less apart. For the last the worker must have clearly too much: two tasks more than its
// share, or half as much again. So moves come to an end. What costs least goes first: tasks without state, then those with
// state, with sources, with sinks, which have to end before. A standby gets another place at once. These stay where they are:
//
//   - tasks that have ended, and those that are at home
//   - with sources that cannot be read again, and sinks that undo nothing (Report.Replays)
//   - with state, if there are no checkpoints
//   - copies of which no other one has caught up
//
// Within ten minutes there are no more moves than tasks. Alerts tell of each one, and TaskLaunch.Moved.
//
// # Checkpoints
//
// A checkpoint c is a multiple of Config.Every. It is complete when there is a snapshot that holds at c of
// each state key that is required, and each sink has committed everything up to c. Required are the
// operators that keep state and those that wait for several inputs; sources and sinks have logs of their
// own. Reports of whatever generation count, for state is a function of the epochs and what a sink has
// committed is committed. The latest complete checkpoint is recorded, then announced in all orders; the
// store is told what is still of use. When every snapshot and every sink is at metaquery.LastEpoch the
// query is finished. Until then tasks that have ended stay, and are launched again if they fail.
//
// Without Config.Checkpoints operators with state are not required, and the checkpoint is what all sinks
// have committed. A task with state that fails begins again empty behind it. If it is not 0 all tasks that
// read from it begin again as well, under new generations, and the loss is recorded. The checkpoint does
// not move until they are as far as they were. A copy does not begin again beside one that still has its
// state.
//
// # Changes
//
// Expand finds what a tuple of a user means. A parameter that does not affect rows is set at once. For all
// others a plan is made: an attempt, an epoch ahead of all that any task has begun, and the tuples. It is
// recorded, then sent to the tasks that it concerns and to all that have sources, whose logs know whether
// any instance has been past the epoch. When the instances that run have all accepted, the decision is
// left to the store, which keeps the first one that it gets; a plan that is committed becomes changes at
// their epoch, and any other one comes to nothing. If a task was past the epoch, the plan is tried again
// further ahead, up to ten times. There is one plan at a time; other requests wait.
//
// A task that is launched begins with the parameters that hold behind its checkpoint, in Orders.Now, and
// has the changes above it in Orders.Changes. Later orders repeat the former as they were. A change is
// kept until it is behind the checkpoint and behind each instance that it concerns. A new term does not
// know the checkpoint that a running instance was launched from: it may be sent changes that are not above
// it, and has them already.
//
// # The end
//
// A query that is stopped tells its sources to stop at an epoch a little ahead. When all have, the last
// epoch of them is a checkpoint boundary too; when that is complete, or after five seconds, all tasks are
// ended. The query goes on from there with New and its record. If the inputs are to count as ended, or if
// no sink wants more rows, the query runs until it is finished. A failure that a task reports ends the
// query at once.
//
// # Another scheduler
//
// New with a record begins a new term. For one liveness bound it finds out what runs, by Alive and
// reports; what has the recorded generation goes on, without a change but for the orders of the new term,
// which it obeys from then on. All else is ended. Tasks that have not been heard of then get a new
// generation. The worker on which the last instance of a sink was launched is killed if it is not heard. A
// plan under way is cancelled, unless the store has recorded that it is committed.
//
// A scheduler that another one has replaced, as one that was asleep, may not know it. Whoever meets a generation or a
// term above its own, or gives up a worker, saves the record before it ends anything: if that fails it has been replaced.
//
// With Config.Fresh it is known that nothing runs, and the new term begins as a new query does, from the
// last complete checkpoint.
//
// # What is not covered
//
// Moves look at how many tasks a worker has, not at how busy they are, and at one task at a time: two that would have to
// change places stay. That tasks do not use more than they say is left to the cluster. Changes are settings; those of
// the graph are not made here.
package scheduler
