package shell

import (
	"time"

	"sluice/dataflow"
	"sluice/scheduler"
)

// Cluster starts and ends the workers of one query: processes on this machine, or executors of Mesos.
// Workers connect to the control stream by themselves, at the address that they were started with. Its
// methods return at once, but for Close.
type Cluster interface {
	// Start begins to start a worker for each element, never two on one node unless the cluster has only one.
	// Each has what the element names, for tasks that need resources, beside what every worker has. It goes
	// on trying until they are there, or Close.
	Start(capacities []dataflow.Resources)
	// Capacity is what a worker that is known was started with, also for an earlier scheduler.
	Capacity(id scheduler.WorkerID) dataflow.Resources
	// Kill ends a worker for good; Ended tells when nothing of it runs any longer. A worker that is not
	// known has ended.
	Kill(id scheduler.WorkerID)
	// Unable ends a worker that has said why it cannot run the query. That counts as a quick end, and against
	// the node on which it is. Alerts has what users are told.
	Unable(id scheduler.WorkerID, why string)
	// Known reports whether a worker is one of this cluster that has not ended, also one that was
	// started for an earlier scheduler.
	Known(id scheduler.WorkerID) bool
	// Running are the workers that have been started, also for an earlier scheduler, and are not known to have ended,
	// to be about to, or to be out of reach.
	Running() []scheduler.WorkerID
	// Ended gives the workers that have ended.
	Ended() <-chan Ended
	// About describes where a worker runs, for status: "process 4711", "agent a2 at 10.0.0.7".
	About(id scheduler.WorkerID) string
	// Alerts gives messages for the user, such as why no worker can be started and what is missing.
	Alerts() <-chan string
	// Close starts no more workers, and ends those that are left once grace has passed. It waits for them only if it
	// can be sure of their end: that of a worker on a machine that cannot be reached may come much later.
	Close(grace time.Duration)
}

// Ended says that a worker has ended: nothing of it runs any longer.
type Ended struct {
	ID     scheduler.WorkerID
	Status string // how
	// Quick counts the workers in a row, up to this one, that ended soon after their start without having
	// been told to.
	Quick int
	// Killed says that it had been killed before, through the Cluster or by it, so that its end is nothing to be told of.
	Killed bool
	// Capacity is what the worker was started with. Of one that was not known it is not known either.
	Capacity dataflow.Resources
}
