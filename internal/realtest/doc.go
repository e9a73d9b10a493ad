/*
Package realtest tests queries on real processes: it builds the program, runs `sluice run --nodes N` with real
sockets and files, and lets processes die, stall and run out of disk. It has tests only.

	q := newQuery(t, everything, `<rewrite rule="hot-standby" operator="tumbling"/>`)
	r := q.start("--nodes", "3", "--set", "a.rate=15000")
	r.kill(r.await("all run", status.running).workers()[0])
	r.finish()
	q.check()

# What is compared

check compares everything that a query has written with what a run in one process, without rewrites, writes
from the same rows. Rows are compared as a bag: how a union mixes its inputs follows from where epochs were cut. The
windows of one operator are calculated here as well.

# Long runs

	SLUICE_SOAK=120s SLUICE_SEED=7 go test ./internal/realtest -run TestSoak -v -timeout 1h

runs queries with random patterns, transports and faults for that long. What a run does is printed, and follows from
its seed but for the moments at which faults happen.
*/
package realtest
