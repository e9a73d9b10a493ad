package main

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"sluice/scheduler/api"
	"sluice/scheduler/local"
)

// localRun is a run of this user that answers that it is one.
func localRun(t *testing.T, name string) (state string) {
	t.Helper()
	state = t.TempDir()
	socket, err := local.OpenSocket(state)
	if err != nil {
		t.Fatal(err)
	}
	withdraw, err := local.Announce(name, state)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		for {
			select {
			case r := <-socket.Requests():
				r.Answer <- local.Response{Text: "the run here\n", Epoch: 7}
			case <-done:
				return
			}
		}
	}()
	t.Cleanup(func() {
		close(done)
		if err := withdraw(); err != nil {
			t.Error(err)
		}
		socket.Close()
	})
	return state
}

// TestTarget: status and set are for a run here with --nodes, or for the scheduler, the usual one if none is named; where
// both have a query of the name that runs, nothing is guessed.
func TestTarget(t *testing.T) {
	t.Setenv("XDG_RUNTIME_DIR", t.TempDir())
	t.Setenv("SLUICE_SCHEDULER", "")
	states := map[string]string{"served": api.Running, "both": api.Running, "ended": api.Finished}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name, _, set := strings.Cut(strings.TrimPrefix(r.URL.Path, api.Prefix+"/queries/"), "/")
		answer, status := any(&api.Query{Name: name, State: states[name]}), http.StatusOK
		switch {
		case r.URL.Path == api.Prefix+"/queries":
			answer = api.QueryList{Queries: []api.Query{{Name: "served", State: api.Running}}}
		case states[name] == "":
			answer, status = api.Failure{Error: *api.Errorf(api.UnknownQuery, "there is no query %q", name)}, http.StatusNotFound
		case set:
			answer = api.SetResult{Epoch: 9}
		}
		w.WriteHeader(status)
		if err := json.NewEncoder(w).Encode(answer); err != nil {
			t.Error(err)
		}
	}))
	defer server.Close()
	gone := httptest.NewServer(nil)
	gone.Close()
	before := usualScheduler
	defer func() { usualScheduler = before }()

	here := localRun(t, "here")
	both := localRun(t, "both")
	localRun(t, "ended")
	localRun(t, "twice")
	localRun(t, "twice")
	for _, c := range []struct {
		args   string
		down   bool // no scheduler answers
		status int
		want   string
	}{
		{args: "status served", want: "query served: running"},
		{args: "status served --format json", want: `"name": "served"`},
		{args: "set served f condition x", want: "from epoch 9 on"},
		{args: "status", want: "served  running"},
		{args: "status here", want: "the run here"},
		{args: "status here", down: true, want: "the run here"},
		{args: "set here f condition x", want: "from epoch 7 on"},
		{args: "status ended", want: "the run here"},
		{args: "status both --state " + both, want: "the run here"},
		{args: "status both --scheduler " + server.URL, want: "query both: running"},
		{args: "set both f condition x --scheduler " + server.URL, want: "from epoch 9 on"},
		{args: "status both", down: true, want: "the run here"},
		{args: "status both", status: exitUsage, want: `a query "both" runs here with --nodes, and another one at the scheduler; choose one with --state ` + both + " or with --scheduler " + server.URL},
		{args: "set both f condition x", status: exitUsage, want: "choose one with --state"},
		{args: "status twice", status: exitUsage, want: `several queries "twice" run here; choose one with --state`},
		{args: "status none", status: exitUsage, want: `no query "none" of this user runs here with --nodes, and the scheduler at ` + server.URL + " has none either; --scheduler URL names another one"},
		{args: "set none f condition x", status: exitUsage, want: `no query "none" of this user runs here with --nodes, and the scheduler at`},
		{args: "status none", down: true, status: exitUsage, want: `no query "none" of this user runs here with --nodes, and no scheduler answers at ` + gone.URL},
		{args: "status none --scheduler " + server.URL, status: exitUsage, want: `sluice: there is no query "none"`},
		{args: "status ..", status: exitUsage, want: `no query ".." of this user runs here`},
		{args: "cancel ..", status: exitUsage, want: `there is no query ".."`},
		{args: "status here --format json", status: exitUsage, want: "--format json is for queries of a scheduler; query \"here\" runs here, with the state in " + here},
		{args: "submit x.xml -p 0", status: exitUsage, want: "-p must be from 1 to 720"},
		{args: "submit x.xml --workers 0", status: exitUsage, want: "--workers must be at least 1"},
		{args: "submit x.xml --limit=-2", status: exitUsage, want: "--limit must not be negative"},
	} {
		usualScheduler = server.URL
		if c.down {
			usualScheduler = gone.URL
		}
		var out, errs bytes.Buffer
		status := run(strings.Fields(c.args), streams{strings.NewReader(""), &out, &errs})
		if text := out.String() + errs.String(); status != c.status || !strings.Contains(text, c.want) {
			t.Errorf("sluice %s (scheduler down: %v): exit status %d, want %d with %q:\n%s", c.args, c.down, status, c.status, c.want, text)
		}
	}
}
