/*
Package mesos is the executor that agents of Apache Mesos start for a worker. It speaks the v1 executor API, in
protobuf.

	status, err := mesos.Run(ctx, mesos.Config{
		Control: func() (transport.Transport, error) { return transport.NewZMQ(options) },
		Work:    func(ctx context.Context, l mesos.Launch) error { return worker.Run(ctx, configOf(l)) },
	})
	os.Exit(status)

A core decides, and is pure: testdata/scripts has what follows from which events.

# The life of a worker

An executor has one task in its life, and the task is one worker. Its data (Work) say how the worker is called,
where the scheduler listens, and for how long that may be silent.

	LAUNCH                 TASK_STARTING, and the worker begins
	it has dialed          TASK_RUNNING
	KILL                   TASK_KILLING, and the worker is told to end; TASK_KILLED when it has
	it ends by itself      TASK_FINISHED if the scheduler said so, else TASK_FAILED with the reason

A worker that cannot connect to the scheduler within 20 seconds, or Work.Silence if that is less, is ended, and
TASK_FAILED says what must be looked at: the scheduler does not hear it, so only Mesos can tell of it.

A last state is only said when nothing of the worker runs any longer. The process ends when the agent has
acknowledged it, or ten seconds later. If the worker does not end within the grace period of KILL or SHUTDOWN the
process ends with it, with status 1, which Mesos makes TASK_FAILED of.

# Agents that go away

Updates are kept until the agent says ACKNOWLEDGED, and the task until one of its updates is. Both are named when
the executor subscribes again. It does so after a random pause of up to half of
MESOS_SUBSCRIPTION_BACKOFF_MAX, and also when a call could not be said. If the agent is away for longer than
MESOS_RECOVERY_TIMEOUT, or at all without checkpoint, the worker is ended, and then the process.

# Schedulers that go away

The worker runs on while the scheduler is away, for Work.Silence: then it ends by itself, and TASK_FAILED says
why. If it has not ended half of Work.Margin later the process ends. A scheduler that has moved says so with
MESSAGE, whose data are its address; the answer is a MESSAGE with the same data, which says that it is known.

# The run path

A program with this package looks for shared libraries in the folder lib beside it first.
*/
package mesos
