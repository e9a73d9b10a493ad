/*
Package mesostest tests the scheduler service on a cluster of Mesos: the double of one (package fakemesos), whose
agents run real executor processes; real scheduler processes; a real ZooKeeper (package zktest) where one is needed.
It has tests only.

	c := newCluster(t, 4)
	first, second := c.scheduler(), c.scheduler()
	q := newStream(t, `<rewrite rule="hot-standby" operator="tumbling"/>`)
	q.submit(first)
	c.killExecutor(first.runs().Processes[0].ID)
	first.kill()
	q.finish(second) // compares the output
	c.quiet()

# What is compared

stream.check compares everything that the query has written with what `sluice run` writes in one process without
rewrites. Rows are compared as a bag: how a union mixes its inputs follows from where epochs were cut.

cluster.quiet waits until no task of Mesos and no executor process is left and all updates are acknowledged. It checks
that every subscription was that of one framework, and that no call was made that no recording shows (fakemesos).

# Other builds

A test may build the program once more: of the same code, so that only its checksum is another one, or with another version of
the control stream (an overlay for the go command). A program with other bytes in its header, or a script around it, is for what
users read when workers do not start.

# Time

Times of the double are a tenth of those of Mesos, but that executors have as long as there to register, for the machine
may be busy, and that updates are sent again within a second and agents lost after three, so that tests need not wait.
*/
package mesostest
