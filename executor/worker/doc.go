/*
Package worker is the shell that hosts instances of tasks in a process.

	err := worker.Run(ctx, worker.Config{
		ID: "w1", Control: zmq, Scheduler: "tcp://127.0.0.1:5000",
		Data: data, Compile: compile, New: newInstance,
	})

# What it does

A worker connects to the scheduler and says Hello until it is given a Deploy. It compiles the query of
that and listens for data. If it cannot, its Hello says why, and whether no other worker could either (EverywhereError).
From then on it says every 200 ms that it is alive, where it listens and what
runs there. It does what the scheduler says: launches tasks, hands orders to them, ends them. It says
what they report when they have changed, at most every 5 ms, and twice a second anyway. All of these
messages are states (package metaquery), so nobody minds when one is lost. What a scheduler of another release says
in another version of the messages is not obeyed, is no word of it, and is logged once.

Each instance runs on a goroutine of its own with a mailbox, so that one that is slow does not hold up the
others. Work for which an instance must not wait is done by other goroutines, a few at a time.

A message from a producer goes to the instance with the highest generation among those whose task reads
the channel; if there is none it is dropped, and the producer says its hello again. Channels between two
tasks of one worker do without the network: messages go from one mailbox to the other.

# How it ends

Run returns when the scheduler says so, when ctx is done, or when nothing has been heard of the scheduler
for ten seconds. All instances are closed first. The scheduler says it twice: the worker ends its instances,
each of which reports for the last time, says that it runs nothing, and ends when it is told again, so
that nothing it has said is lost with its sockets. A panic of an instance is a failure of its task, which
the scheduler is told; the other tasks run on.
*/
package worker
