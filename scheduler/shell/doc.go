/*
Package shell carries out what a scheduler.Core decides for one query, on a cluster of workers.

	outcome, err := shell.Run(ctx, shell.Options{
		Config: scheduler.Config{Query: physical, Workers: 3}, Deploy: deploy, Catalog: catalog,
		Store: store, Transport: zmq, Listen: "tcp://127.0.0.1:*", Cluster: cluster,
	})

# What it does

Run listens for workers, starts them (Cluster), gives each the Deploy when it says Hello, and feeds the
core: signs of life and reports of workers, workers that have ended, requests of users, and the time, every
50 ms. It carries out what the core says, in that order. If the record cannot be saved, or a decision cannot
be recorded, the core is given up and another one is made from what was saved last, until it can be.

A worker that ends, or says that it cannot run the query, is replaced, after the pauses of the Cluster. As long as none has ever
been able to run tasks Run gives up in the end: when Options.StartLimit has passed between two that failed, and there were five,
or at once if one says that no other worker can run the query either. Without a limit it gives up at the fifth, or at the first that says
that it cannot run the query. Users are told how the first five have failed, that none can run so far, and that every ten
minutes if it goes on so. What is said of the end of a worker that has not been killed is told to users; of one that cannot run
the query the Cluster tells them.

A worker of another release, which speaks another version of the messages, is not misread. One that an earlier scheduler
has started is killed and replaced. Others that speak so cannot run the query.

With Options.Adopt the core is made when all workers have been heard that the Cluster has and that can be heard, but after
three seconds at the latest. Each core is told of all workers that are up, and of what they were started with.

# How it ends

When the query is over the workers are told to end, and killed after five seconds. When ctx is done they
are killed at once, unless its cause is ErrLeave: then they run on, for the shell of another scheduler that
has the same Store.

# What is not covered

Run does not wait for workers that nobody has heard of yet, if its Cluster does not.
*/
package shell
