/*
Package local runs a query on worker processes of this machine.

	outcome, err := local.Run(ctx, local.Options{
		Config: scheduler.Config{Query: physical, Workers: 3}, Deploy: deploy, Catalog: catalog, Store: store,
		Transport: zmq, Listen: "ipc:///run/control", Command: command,
	})

# What it does

Cluster starts and ends the processes, for the shell of the query (package shell). A worker that dies is
replaced. If several in a row end within two seconds of their start, or say that they cannot run the query, the pauses
before the next start grow. Users are told of the first that cannot, and every ten minutes.

All workers have what this machine has: a worker counts as having whatever tasks that need resources are to find there, and
nothing is checked.

Workers end with their parent, however that ends: the system kills them. Their standard streams are those
of the parent, so "-" in a spec is the parent's.

# Requests of users

A Socket takes requests, one line of JSON each, and answers each with a line:

	{"query": "late", "set": {"operator": "f", "param": "condition", "value": "a > 5"}}
	{"epoch": 1204}
	{"query": "late", "status": true}
	{"text": "term 1, checkpoint 1200\n..."}

An answer with "error" says why nothing has been done. The epoch is the one at which the value takes
effect, 0 for at once.
*/
package local
