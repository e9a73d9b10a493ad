/*
Package mesos runs the workers of queries on a cluster of Apache Mesos. It is a framework that speaks the v1
scheduler API, in protobuf.

	f, err := mesos.New(mesos.Options{
		Config: mesos.Config{User: "sluice", Name: "sluice", NewID: newID},
		Store: leadership.Store(), Masters: []string{"10.0.0.1:5050", "10.0.0.2:5050"},
	})
	artifacts, err := mesos.NewArtifacts(os.TempDir()) // served below mesos.ArtifactsPath
	cluster, err := f.Cluster("flights", mesos.Need{CPUs: 1, MemMB: 512}, artifacts.Executor("http://10.0.0.9:8080", control))
	cluster.Start([]dataflow.Resources{{}, {}, {GPUs: 1}}) // a shell.Cluster

A Core decides, and is pure: testdata/scripts has what follows from which events, a file for each subject.
Framework is the shell around it.

# Workers

A worker is one Mesos task on an executor of its own (package executor/mesos). Task, executor and worker have
one name, which is never used again. The Sluice tasks inside the worker are no business of Mesos: they come
over the control stream, as on one machine. What a Need names is shared between the task and its executor, so
that it is what the agent gives. A Need is what every worker of a query takes. A worker may have a capacity on
top, for tasks that need resources; it is stored with the worker, and whatever replaces the worker has as much.
Ports of the capacity are in the environment of the worker (PortsVariable).

What no agent can ever give (an attribute with two values, GPUs without Config.GPUs) is refused by Framework.Cluster and
Framework.Check, and told if it is asked for nevertheless.

Two workers of a query are never on one agent, so that the nodes of placements @{p1} and @{p2} are distinct,
unless Need.Shared allows it and no other agent has a worker of the query, or has offered what the worker needs, for
Config.Patience. A worker of a framework that was removed, which its agent ends, is not in the way. Workers of different
queries may be on one agent. From the offers of one event as many workers of a query are launched as possible (match).
Of the agents that are good for a worker those come first on which none has failed of late, then those whose attributes
fewest other workers of the query ask for, and then those with fewer workers. One that offers GPUs is used by workers that need none only after Config.Patience. Attributes of a Need must be had exactly: a
text or number is equal, a set or ranges hold it. Resources that are reserved for a role of the framework are
used before others, in the form in which they are offered; volumes and what may be revoked are not used.

While a need is not met, the user is told when the reason changes, after growing pauses: for each kind of worker what each
agent that offers lacks, of both no more than some.

# What is stored

	mesos/framework      the framework's id
	mesos/workers/NAME   each worker, from before its launch until nothing of it runs any longer

The id is one of the framework's own making, so no answer that is lost makes a second framework. It is stored
before each SUBSCRIBE, also if it is there already: a scheduler that does not lead any more cannot store, and
so never takes the stream from the one that does. If the store refuses, the Framework is over (Done, Err).
Nothing behind a value that is to be stored is said before it is stored, however long that takes: a launch not
before its intent, an acknowledgement not before what the update means.

If the store is lost, so is the id: the old framework's workers end after Config.Silence, and an operator may
tear it down.

# Subscription

Each subscription has connections and a stream id of its own, and is given up after three heartbeats that do
not come, after any call that fails, and when a detector names another master. The next one comes after a
pause that is doubled up to five seconds, with jitter. Masters that do not lead send to the one that does.
ERROR ends a subscription. If it says that the framework has been removed, another id is made, and all users
are told: Mesos ends its workers and says no more of them, so they count as killed and out of reach.

The framework has the capabilities PARTITION_AWARE, TASK_KILLING_STATE and MULTI_ROLE, GPU_RESOURCES if
Config.GPUs is set, checkpoint true and a failover timeout of a week. Checkpoint means that workers live on
when an agent's process restarts.

# Offers

Each offer is answered in the moment in which it comes: used for workers, or declined. Nothing is held back
from other frameworks, and there is nothing to keep in step with RESCIND. While nothing is wanted offers are
declined for an hour and SUPPRESS is said, and SUBSCRIBE names all roles as suppressed. A want says REVIVE, at
most every two seconds, and again every minute for as long as it is not met. A launch whose offer was gone
(TASK_DROPPED), or that was lost with its subscription, is made again, without a word to the query's shell.

# Updates

Each update with a uuid is acknowledged, behind what was stored of it, also if it comes again. Explicit
reconciliation follows each subscription, and is repeated after 5, 10, 20, 40, 60, 60, ... seconds for the
tasks of which nothing was heard since; implicit reconciliation comes every 15 minutes. A running task that
nobody knows is killed.

# When a worker has ended

Cluster.Ended says that nothing of the worker runs any longer, so that what must not run twice, such as the
task of a sink that writes one file, may be launched again. That is so when

  - its executor has said FINISHED, KILLED or FAILED, which it says after the worker has closed everything,
  - Mesos has said FAILED (the executor's process has ended), ERROR or DROPPED (it never began), GONE (the agent
    knows of no such task), or GONE_BY_OPERATOR (an operator answers for it), or
  - Mesos cannot tell (UNREACHABLE, LOST, UNKNOWN, no answer since the subscription, no master at all, or the
    framework was removed), and Config.Silence and Config.Margin, by default 5 and half a minute, have passed
    since the worker was killed through Cluster.Kill.

The last holds since nothing is said to a worker that has been killed but that it shall end: one that does not
hear the scheduler for Config.Silence ends by itself, and if it has not closed everything within half of
Config.Margin its process ends. It supposes that clocks run equally fast, and that a machine that was
suspended for longer is not woken. A worker on an agent that Mesos cannot reach, but which the scheduler
hears, is not killed by anybody and goes on; if the agent comes back Mesos says RUNNING.

KILL is said with a grace period of three seconds, in which the worker writes its state. A worker that has not
ended then, such as one whose process has stopped, is ended with SHUTDOWN of the executor, for which the agent
gives three seconds more. Both are repeated after 5, 10, 20, 40, 80, 80, ... seconds.

# Trouble

A worker that ends within ten seconds, or fails before it is connected to the scheduler, without having been told to, makes the
next one of its query wait half a second, doubled up to a minute; meanwhile it wants no offers. An agent on which three workers have failed
within ten minutes gets none for five minutes, unless no other one has offered what a worker needs for Config.Patience: where
workers fail everywhere it is not the agents, and what is wrong may have been mended.

A worker that cannot run its query (Cluster.Unable) is killed. It counts as one that ended soon. Its port is taken on
its agent for five minutes only if there is no other, for something else may use it. It counts against its agent, which is
avoided by that query alone if all of three failures are of this kind and of this query: what is wrong may be the query. The
user is told of each agent once, and again after ten minutes, until a worker of the query has run for a while.

Alerts of an agent that is lost or is to be maintained go to the queries that have workers there. While what must not run twice
waits for workers of which Mesos says nothing, users are told until when. What an agent is known for, that workers fail there, goes to
all queries.

A worker of which Mesos has heard nothing within five minutes
is killed.

An agent that is to be maintained (inverse offers) gets no more workers. For each one that is there another is
started elsewhere; when that has run for two seconds the old one is killed, so that the query is never short
of workers, and when none is left the inverse offer is accepted. Where the other one is killed through the Cluster, as by
a query that has no use for one more, the old one is killed at once and replaced after it. If that takes longer than five minutes it is
declined, and the workers stay.

# Another leader

A new scheduler takes the stored workers over. Cluster tells each of the query's the new address of the
control stream, through its executor, again and again until that answers. Retain ends the workers of
queries that are no more. Close leaves everything running.

# Shipping

Artifacts is this program with the shared libraries that it has loaded, but for the C library, as an archive
whose name has its checksum: sluice/sluice and sluice/lib. Agents fetch and unpack it into the sandbox. The
program has a run path, $ORIGIN/lib, which holds for the libraries too. The C library of the agents must not be
older than that of the machine where the program was built. ExecutorCommand is for agents that have it
installed.

The archive is a file without a name, which ends with the process: nothing of it is left, and nobody can clear it away.
A worker has its own copy in the sandbox, so that it runs on when the scheduler's program is another one.

What users are told of the end of a worker has the agent, where to look, and what to do where Mesos' reason or the exit
status of the executor says enough for that.

# What is not covered

No volumes, no dynamic reservations, no quota; no containers but the agent's own; no nested tasks. Resources of
a Need are taken from the offers of one role. Executors are authenticated by the agents' tokens, if they give
any. HTTPS verifies masters by CAFile or the system's certificates, and there are no client certificates.
*/
package mesos
