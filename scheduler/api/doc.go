/*
Package api is the API of a scheduler: JSON over HTTP.

	POST /api/v1/queries {"spec": "<dataflow ...", "dir": "/data"}
	201 {"name": "flights", "state": "starting", ...}

	GET /api/v1/queries/nothing
	404 {"error": {"code": "unknown-query", "message": "there is no query \"nothing\""}}

NewHandler makes the handler for a Backend. types.go has what goes to and fro, and openapi.json describes all
of it with the routes; GET /api/v1/openapi.json gives it to clients.

# Requests

A body is one value of JSON, said to be application/json, without unknown fields; nor may the address have unknown parameters.
Body and header are bounded, and numbers that are given are never taken for ones that are missing. With tokens (Auth) each request but those for the
health, the sign of life and the description needs one:
"Authorization: Bearer TOKEN". Requests that come from pages of other sites are refused; without tokens so are
those to a host that is neither localhost nor an IP address.

A scheduler that does not lead answers 307 with the address of the one that does, or 503 with the code
no-leader if none is known. It tells its health, its metrics and the rules itself. A Client goes where it is sent, but with its
token only to hosts that it was given. Paths that are not clean are no paths of the API.

GET /health is 200 if a scheduler can do its work, as the leader or in its place, and 503 with the reason if it cannot; GET /live is 200.

# Errors

Every answer that is an error has the code of its kind and a message; that of a spec has diagnostics as those
of sluice validate. The codes, in errors.go, stay what they are; messages may change. A fault of the program is
one request's, which is answered with the code internal.

# Events

GET /events and /queries/NAME/events send events as they happen (server-sent events): id, event and data, an
Event. Without more they begin with the next one; the header Last-Event-ID, or the parameter after, names the
event after which to begin, 0 the oldest that is kept. The last 4096 are kept, those of the leader that has
been asked and those that it has found of earlier ones; an event "gap" says when some in between may be gone. Ids grow, over terms
too. The stream ends when another scheduler leads, and with the parameter follow=false at the last event that there is.

# Metrics

GET /metrics has the rows, backlog, checkpoints and workers of the queries that run, for Prometheus. Labels are
bounded: by the queries that run and their operators, at most 5000 of these.

# What is not covered

There is one kind of user: whoever has a token may do everything.
*/
package api
