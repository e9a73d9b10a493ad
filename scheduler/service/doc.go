/*
Package service runs many queries, and goes on with them after another scheduler has ended.

	svc := service.New(service.Options{
		Store: store, StateRoot: "/shared/queries", Clusters: service.Local{Usual: 3, ...}.Open, Transport: zmq,
		Compile: compile, Catalog: catalog, URL: "http://10.0.0.1:8090",
	})
	go svc.Run(ctx)
	http.Serve(listener, api.NewHandler(api.Options{Backend: svc}))

# Leading

Any number of schedulers may have one Store. One of them leads: it opens the cluster, reads all queries, and
runs each with a shell of its own (package shell). The others wait. When the leadership is lost, or when the
cluster is, all shells end at once and whatever they would still store is refused; then this one waits again.

Workers that can run on without their scheduler do so, and the shells of the next leader go on with what they
find. Worker processes of one machine (Local) end with their scheduler: the next one starts others, from the
last complete checkpoint. What a query writes is the same in all cases.

# Queries

A query is stored before its submission is answered. While its workers cannot run it waits, with growing pauses, and
tells why; only one that has never run fails then. If the graph is another one than it was, since a file of rules
or the release has changed, say, its state is converted as for an edit (edit.go), or it waits and tells why that cannot be.

	queries/ID          the query: its submission, its state, its state directory (record)
	queries/ID/core     the record of its scheduler.Core; coreN after the N-th edit
	queries/ID/history  counts and events, at most some seconds old (history)
	STATEROOT/ID/       what its tasks keep (package shared)

ID is NAME.TERM.NUMBER and is never used again. The state directory is removed when the query has finished or
was cancelled; one that was stopped, or has failed, can be resumed. Of those that have ended the last one of each name is kept until it is forgotten, at most 200.

No two queries that run, or are stopped, write one file or folder (outputs.go). A query whose record cannot be read has failed, and
the others run (damaged.go). A state directory of a submission that was never stored goes with the next leader (sweep.go).

# What is not covered

The watermark is that since this scheduler leads. Of events and counts the last seconds are lost when a scheduler is
killed.
*/
package service
