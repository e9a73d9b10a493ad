package api

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fakeBackend is a Backend with one query, "q".
type fakeBackend struct {
	lead    atomic.Pointer[chan struct{}]
	leader  string
	ring    *Ring
	settled atomic.Int64
	health  Health // if it has a status
}

func newFake() *fakeBackend {
	b := &fakeBackend{ring: NewRing()}
	lead := make(chan struct{})
	b.lead.Store(&lead)
	b.ring.Begin(3)
	return b
}

func (b *fakeBackend) Submit(_ context.Context, s *Submission) (*Query, error) {
	switch s.Name {
	case "panics":
		var none *Query
		return &Query{Name: none.Name}, nil
	case "fault":
		return nil, errors.New("it broke")
	}
	return &Query{Name: s.Name, State: Starting}, nil
}

func (b *fakeBackend) Replace(ctx context.Context, name string, s *Submission, o ReplaceOptions) (*Query, error) {
	q, err := b.Query(ctx, name)
	if err != nil {
		return nil, err
	}
	q.Edit = &Edit{State: EditDone}
	switch {
	case s.Name == "slow":
		q.Edit.State = EditPending
	case o.Revision != nil && *o.Revision != 4:
		return nil, Errorf(BadEdit, "it has been edited")
	case !o.AllowDrop:
		return nil, Errorf(BadEdit, "state would be lost")
	}
	return q, nil
}

func (b *fakeBackend) Stop(ctx context.Context, name string) (*Query, error) {
	return b.Query(ctx, name)
}

func (b *fakeBackend) Resume(ctx context.Context, name string) (*Query, error) {
	return b.Query(ctx, name)
}

func (b *fakeBackend) Queries(context.Context) ([]Query, error) {
	at := time.Now().Add(-time.Minute)
	return []Query{
		{
			Name: "q", State: Running, Workers: 3, Checkpoint: 7, CheckpointTime: &at, Restarts: 2, Processes: []Worker{{ID: "w1"}, {ID: "w2"}},
			Tasks:     []Task{{Name: "a", Generation: 2, Backlog: 10, Retained: 5, Unprotected: true}, {Name: "b", Generation: 1, Retained: 6}},
			Operators: []Operator{{Name: "src", In: 30, Out: 29, Skipped: 1}, {Name: "bad\xff", In: 1}},
		},
		{Name: "old", State: Finished, Operators: []Operator{{Name: "src", In: 30}}},
	}, nil
}

func (b *fakeBackend) Query(ctx context.Context, name string) (*Query, error) {
	if name != "q" {
		return nil, Errorf(UnknownQuery, "there is no query %q", name)
	}
	all, err := b.Queries(ctx)
	return &all[0], err
}

func (b *fakeBackend) Submission(ctx context.Context, name string) (*Submission, error) {
	_, err := b.Query(ctx, name)
	return &Submission{Name: name, Spec: "<dataflow/>"}, err
}

func (b *fakeBackend) Cancel(ctx context.Context, name string) (*Query, error) {
	return b.Query(ctx, name)
}

func (b *fakeBackend) Drain(ctx context.Context, name string) (*Query, error) {
	return b.Query(ctx, name)
}

func (b *fakeBackend) Set(_ context.Context, _ string, s Setting) (*SetResult, error) {
	return &SetResult{Epoch: b.settled.Add(1)}, nil
}

func (b *fakeBackend) Events() *Ring { return b.ring }

func (b *fakeBackend) Health(context.Context) Health {
	if b.health.Status != "" {
		return b.health
	}
	return Health{Status: "ok", Leader: b.Lead() != nil, Store: "ok"}
}

func (b *fakeBackend) Lead() <-chan struct{} {
	if c := b.lead.Load(); c != nil {
		return *c
	}
	return nil
}

func (b *fakeBackend) Leader(context.Context) string { return b.leader }

// serve serves the API with tokens.
func serve(t *testing.T, b Backend, tokens ...string) string {
	t.Helper()
	auth, err := NewAuth(tokens...)
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(NewHandler(Options{Backend: b, Auth: auth, Extra: map[string]http.Handler{
		"/artifacts/": http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "artifact") }),
	}}))
	t.Cleanup(s.Close)
	t.Cleanup(http.DefaultClient.CloseIdleConnections)
	return s.URL
}

// request sends a request with headers "Name: value", and returns the status and the body.
func request(t *testing.T, method, url, body string, headers ...string) (int, string) {
	t.Helper()
	r, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		if name == "Host" {
			r.Host = value
		}
		r.Header.Set(name, value)
	}
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	a, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Body.Close()
	text, err := io.ReadAll(a.Body)
	if err != nil {
		t.Fatal(err)
	}
	if location := a.Header.Get("Location"); location != "" {
		text = append(text, " to "+location...)
	}
	return a.StatusCode, string(text)
}

// TestErrors: each wrong request gets its code, and none ends the server.
func TestErrors(t *testing.T) {
	url := serve(t, newFake())
	large := `{"spec": "` + strings.Repeat("x", maxSubmission) + `"}`
	for _, c := range []struct {
		method, path, body string
		headers            []string
		code               Code
	}{
		{"GET", "/nothing", "", nil, UnknownPath},
		{"GET", "/queries/x", "", nil, UnknownQuery},
		{"GET", "/queries/x/events", "", nil, UnknownQuery},
		{"GET", "/rules/x", "", nil, UnknownRule},
		{"PUT", "/queries", "", nil, BadMethod},
		{"GET", "/queries/q/set", "", nil, BadMethod},
		{"POST", "/queries", "", nil, BadRequest},
		{"POST", "/queries", "{", nil, BadRequest},
		{"POST", "/queries", "[]", nil, BadRequest},
		{"POST", "/queries", `{"spec": 3}`, nil, BadRequest},
		{"POST", "/queries", `{"sepc": ""}`, nil, BadRequest},
		{"POST", "/queries", `{"spec": ""}{}`, nil, BadRequest},
		{"POST", "/queries", `{"spec": ""}`, []string{"Content-Type: text/plain"}, BadMedia},
		{"POST", "/queries", `{"spec": ""}`, []string{"Content-Type: "}, BadMedia},
		{"POST", "/queries", large, nil, TooLarge},
		{"POST", "/queries", `{"spec": ""}` + strings.Repeat(" ", maxSubmission), nil, TooLarge},
		{"POST", "/queries/q/set", `{"value": "` + strings.Repeat("x", maxBody) + `"}`, nil, TooLarge},
		{"POST", "/queries/q/set", `{"operator": "f", "value": "x"}`, nil, BadRequest},
		{"PUT", "/queries/x", `{"spec": ""}`, nil, UnknownQuery},
		{"PUT", "/queries/q", `{"spec": ""}`, nil, BadEdit},
		{"PUT", "/queries/q?allowDrop=yes", `{"spec": ""}`, nil, BadRequest},
		{"PUT", "/queries/q?revision=-1", `{"spec": ""}`, nil, BadRequest},
		{"PUT", "/queries/q?revision=a", `{"spec": ""}`, nil, BadRequest},
		{"PUT", "/queries/q?allowDrop=true&revision=3", `{"spec": ""}`, nil, BadEdit},
		{"PUT", "/queries/q", large, nil, TooLarge},
		{"POST", "/queries/x/stop", "", nil, UnknownQuery},
		{"POST", "/queries/x/resume", "", nil, UnknownQuery},
		{"POST", "/queries", `{"spec": "", "partitions": 0}`, nil, BadRequest},
		{"POST", "/queries", `{"spec": "", "workers": 0}`, nil, BadRequest},
		{"POST", "/queries", `{"spec": "", "workers": -1}`, nil, BadRequest},
		{"PUT", "/queries/q?allowDrop=true", `{"spec": "", "partitions": 0}`, nil, BadRequest},
		{"GET", "//queries", "", nil, UnknownPath},
		{"GET", "/queries/.", "", nil, UnknownPath},
		{"DELETE", "/queries/%2e%2e", "", nil, UnknownPath},
		{"GET", "/queries/../events", "", nil, UnknownPath},
		{"GET", "/events?follow=never", "", nil, BadRequest},
		{"POST", "/queries", `{"name": "panics"}`, nil, Internal},
		{"POST", "/queries", `{"name": "fault"}`, nil, Internal},
		{"POST", "/queries", `{}`, []string{"Origin: http://elsewhere.example"}, Forbidden},
		{"DELETE", "/queries/q", "", []string{"Sec-Fetch-Site: cross-site"}, Forbidden},
		{"GET", "/queries", "", []string{"Host: elsewhere.example"}, Forbidden},
	} {
		status, text := request(t, c.method, url+Prefix+c.path, c.body, c.headers...)
		var f Failure
		if err := json.Unmarshal([]byte(text), &f); err != nil || f.Error.Code != c.code || status != codes[c.code].status || f.Error.Message == "" {
			t.Errorf("%s %s %.40s: status %d %s, want code %s", c.method, c.path, c.body, status, text, c.code)
		}
	}
	if status, text := request(t, "POST", url+Prefix+"/queries", `{"name": "q"}`); status != http.StatusCreated || !strings.HasSuffix(text, " to /api/v1/queries/q") {
		t.Errorf("status %d: %s", status, text)
	}
}

// TestBodies: what is wrong with a body is told in the words of the API.
func TestBodies(t *testing.T) {
	url := serve(t, newFake())
	for body, want := range map[string]string{
		"":                     "the body is empty; it must be a value of JSON",
		"{":                    "the body is no JSON: it ends within a value",
		"{x}":                  "the body is no JSON: invalid character 'x' looking for beginning of object key string, at byte 2",
		"[]":                   "the body: it must be an object; it is a JSON array",
		`{"spec": 3}`:          "the body: spec must be a string; it is a JSON number",
		`{"partitions": 1.5}`:  "the body: partitions must be a whole number in range; it is a JSON number 1.5",
		`{"partitions": 0}`:    "partitions must be at least 1; it is 0",
		`{"workers": -3}`:      "workers must be at least 1; it is -3",
		`{"set": "a.b=c"}`:     "the body: set must be an array; it is a JSON string",
		`{"sepc": "x"}`:        `the body: unknown field "sepc"`,
		`{"spec": "x"} {}`:     "the body: something follows the value",
		`{"spec": "x"} nonsen`: "the body: something follows the value",
	} {
		status, text := request(t, "POST", url+Prefix+"/queries", body)
		var f Failure
		if err := json.Unmarshal([]byte(text), &f); err != nil || status != http.StatusBadRequest || f.Error.Message != want {
			t.Errorf("%s: status %d %s, want %q", body, status, text, want)
		}
	}
}

// TestSubmissionBody: numbers that are given arrive.
func TestSubmissionBody(t *testing.T) {
	r := httptest.NewRequest("POST", "/", strings.NewReader(`{"name": "n", "partitions": 4, "workers": 5}`))
	r.Header.Set("Content-Type", "application/json")
	if s, err := submissionBody(r); err != nil || s.Name != "n" || s.Partitions != 4 || s.Workers != 5 {
		t.Errorf("%+v, %v", s, err)
	}
}

// slowReader never has anything in time.
type slowReader struct{}

func (slowReader) Read([]byte) (int, error) { return 0, os.ErrDeadlineExceeded }

// TestSlowBody: a body that does not come is an error of its own.
func TestSlowBody(t *testing.T) {
	for _, begun := range []string{"", `{"spec"`, `{"spec":"x"}`} {
		r := httptest.NewRequest("POST", "/", io.MultiReader(strings.NewReader(begun), slowReader{}))
		r.Header.Set("Content-Type", "application/json")
		_, err := submissionBody(r)
		var e *Error
		if !errors.As(err, &e) || e.Code != TooSlow || codes[e.Code].status != http.StatusRequestTimeout {
			t.Errorf("after %q: %v", begun, err)
		}
	}
}

// TestAllow: an answer that refuses a method says which there are.
func TestAllow(t *testing.T) {
	url := serve(t, newFake())
	for path, want := range map[string]string{"/queries": "POST, GET, HEAD", "/queries/q": "GET, HEAD, PUT, DELETE", "/queries/q/set": "POST", "/health": "GET, HEAD"} {
		r, err := http.NewRequest(http.MethodPatch, url+Prefix+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		a, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		a.Body.Close()
		if got := a.Header.Get("Allow"); a.StatusCode != http.StatusMethodNotAllowed || got != want {
			t.Errorf("%s: status %d, Allow %q, want %q", path, a.StatusCode, got, want)
		}
	}
}

// TestHealthStatus: a scheduler in trouble is not ready, and lives.
func TestHealthStatus(t *testing.T) {
	for state, want := range map[string]int{StatusOK: http.StatusOK, StatusStandby: http.StatusOK, StatusTrouble: http.StatusServiceUnavailable} {
		b := newFake()
		b.health = Health{Status: state, Reason: "why", Store: "ok"}
		url := serve(t, b, "a-token-that-is-needed")
		if status, text := request(t, "GET", url+Prefix+"/health", ""); status != want || !strings.Contains(text, `"status":"`+state+`","reason":"why"`) {
			t.Errorf("%s: status %d %s", state, status, text)
		}
		if status, text := request(t, "GET", url+Prefix+"/live", ""); status != http.StatusOK || text != "{\"live\":true}\n" {
			t.Errorf("%s: status %d %s", state, status, text)
		}
	}
}

// TestAnswers: what is right is answered.
func TestAnswers(t *testing.T) {
	url := serve(t, newFake())
	for path, want := range map[string]string{
		"GET /queries":                               `{"queries":[{"name":"q","state":"running",`,
		"GET /queries/q":                             `"tasks":[{"name":"a","state":"","role":"","generation":2,`,
		"DELETE /queries/q":                          `"name":"q"`,
		"POST /queries/q/stop":                       `"name":"q"`,
		"POST /queries/q/resume":                     `"name":"q"`,
		`PUT /queries/q?allowDrop=true {"spec":"x"}`: `"edit":{"state":"done"`,
		`PUT /queries/q?allowDrop=true&revision=4 {"spec":"x"}`:            `"edit":{"state":"done"`,
		"GET /queries/q/submission":                                        `{"name":"q","spec":`,
		"POST /queries/q/drain":                                            `"name":"q"`,
		`POST /queries/q/set {"operator":"f",` + `"param":"p","value":""}`: `{"epoch":1}`,
		"GET /rules":           `"name":"hot-standby"`,
		"GET /rules/partition": `"source":"rule partition`,
		"GET /health":          `"leader":true`,
		"GET /openapi.json":    `"openapi"`,
	} {
		method, rest, _ := strings.Cut(path, " ")
		where, body, _ := strings.Cut(rest, " ")
		if status, text := request(t, method, url+Prefix+where, body); status != http.StatusOK || !strings.Contains(text, want) {
			t.Errorf("%s: status %d %s", path, status, text)
		}
	}
	if status, text := request(t, "PUT", url+Prefix+"/queries/q", `{"spec":"x","name":"slow"}`); status != http.StatusAccepted || !strings.Contains(text, `"edit":{"state":"pending"`) {
		t.Errorf("status %d: %s", status, text)
	}
	if status, text := request(t, "GET", url+"/artifacts/x", ""); status != http.StatusOK || text != "artifact" {
		t.Errorf("status %d: %s", status, text)
	}
}

// TestTokens: with tokens nobody gets in without one, but for the health and the description.
func TestTokens(t *testing.T) {
	first, second := "first-token-of-two", "second-token-of-two"
	url := serve(t, newFake(), first, second)
	for _, r := range append(routes, route{method: "GET", path: "/metrics"}) {
		for header, allowed := range map[string]bool{
			"X: none": r.open, "Authorization: Bearer": r.open, "Authorization: Bearer " + first[1:]: r.open,
			"Authorization: Basic " + first: r.open, "Authorization: Bearer " + first + second: r.open,
		} {
			status, _ := request(t, r.method, url+Prefix+strings.Replace(r.path, "{name}", "x", 1), "", header)
			if (status != http.StatusUnauthorized) != allowed {
				t.Errorf("%s %s with %q: status %d", r.method, r.path, header, status)
			}
		}
	}
	for _, token := range []string{first, second} {
		if status, text := request(t, "GET", url+Prefix+"/queries", "", "Authorization: bearer "+token, "Host: elsewhere.example"); status != http.StatusOK {
			t.Errorf("status %d: %s", status, text)
		}
	}
	for _, bad := range [][]string{{"short"}, {"with space in the middle"}, {strings.Repeat("x", maxToken+1)}, make([]string, maxTokens+1)} {
		if _, err := NewAuth(bad...); err == nil {
			t.Errorf("tokens %.20q are taken", bad)
		}
	}
}

// TestStandby: who does not lead sends elsewhere, and tells about itself.
func TestStandby(t *testing.T) {
	b := newFake()
	b.lead.Store(nil)
	url := serve(t, b)
	if status, text := request(t, "GET", url+Prefix+"/queries", ""); status != http.StatusServiceUnavailable || !strings.Contains(text, string(NoLeader)) {
		t.Errorf("status %d: %s", status, text)
	}
	b.leader = "https://other:1/"
	for _, r := range routes {
		path := Prefix + strings.Replace(r.path, "{name}", "partition", 1)
		if len(r.params) > 0 {
			path += "?" + r.params[0] + "=true"
		}
		status, text := request(t, r.method, url+path, "")
		switch {
		case r.anywhere && status != http.StatusOK:
			t.Errorf("%s %s: status %d %s", r.method, r.path, status, text)
		case !r.anywhere && (status != http.StatusTemporaryRedirect || text != " to https://other:1"+path):
			t.Errorf("%s %s: status %d %s", r.method, r.path, status, text)
		}
	}
	if status, text := request(t, "GET", url+"/metrics", ""); status != http.StatusOK || !strings.Contains(text, "sluice_leader 0") {
		t.Errorf("status %d: %s", status, text)
	}
}

// TestMetrics: queries that run have metrics; a name that cannot be one is left out.
func TestMetrics(t *testing.T) {
	url := serve(t, newFake())
	request(t, "GET", url+Prefix+"/queries/x", "")
	request(t, "BREW", url+"/elsewhere/1", "")
	status, text := request(t, "GET", url+"/metrics", "")
	if status != http.StatusOK {
		t.Fatalf("status %d: %s", status, text)
	}
	for _, want := range []string{
		"sluice_leader 1", `sluice_queries{state="running"} 1`, `sluice_queries{state="failed"} 0`, `sluice_query_checkpoint_epoch{query="q"} 7`,
		`sluice_query_checkpoint_age_seconds{query="q"} 60`, `sluice_query_workers{query="q"} 2`, `sluice_query_workers_wanted{query="q"} 3`,
		`sluice_query_restarts_total{query="q"} 2`, `sluice_query_generations{query="q"} 3`, `sluice_query_backlog_bytes{query="q"} 10`,
		`sluice_query_retained_bytes{query="q"} 11`, `sluice_query_tasks_unprotected{query="q"} 1`,
		`sluice_operator_rows_in_total{operator="src",query="q"} 30`, `sluice_operator_rows_out_total{operator="src",query="q"} 29`,
		`sluice_api_requests_total{method="GET",route="/queries/{name}",status="404"} 1`,
		`sluice_api_requests_total{method="other",route="other",status="404"} 1`,
	} {
		if !strings.Contains(text, "\n"+want) {
			t.Errorf("there is no %s in\n%s", want, text)
		}
	}
	if strings.Contains(text, `query="old"`) || strings.Contains(text, "bad") {
		t.Error("a query that has ended has metrics, or a name that is no text")
	}
}

// ids reads the ids of n events.
func ids(t *testing.T, from io.Reader, n int) string {
	t.Helper()
	var list []string
	id := ""
	for lines := bufio.NewScanner(from); len(list) < n && lines.Scan(); {
		if text, ok := strings.CutPrefix(lines.Text(), "id: "); ok {
			id = text
		}
		if strings.HasPrefix(lines.Text(), "event: ") {
			list = append(list, id)
		}
		if lines.Text() == "event: gap" {
			list[len(list)-1] = "gap:" + list[len(list)-1]
		}
	}
	return strings.Join(list, " ")
}

// TestEvents: streams begin where they are told, have the events of one query if it is named, and end when
// another scheduler leads.
func TestEvents(t *testing.T) {
	b := newFake()
	url := serve(t, b)
	for i := range 6 {
		b.ring.Add(Event{Type: EventAlert, Query: []string{"q", "p"}[i%2], Text: fmt.Sprint(i)})
	}
	open := func(path, last string) *http.Response {
		r, err := http.NewRequest("GET", url+Prefix+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Last-Event-ID", last)
		a, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { a.Body.Close() })
		return a
	}
	for _, c := range []struct{ path, last, want string }{
		{"/events", "3-4", "3-5 3-6"}, {"/events?after=3-3", "", "3-4 3-5 3-6"}, {"/queries/q/events", "3-0", "3-1 3-3 3-5"},
		{"/events", "2-77", "gap:2-77 3-1 3-2 3-3"}, {"/events?after=0", "", "3-1"}, {"/events", "0", "3-1 3-2"},
	} {
		if got := ids(t, open(c.path, c.last).Body, len(strings.Fields(c.want))); got != c.want {
			t.Errorf("%s after %q: %s, want %s", c.path, c.last, got, c.want)
		}
	}
	for path, want := range map[string]string{"/events?follow=false": "3-1 3-2 3-3 3-4 3-5 3-6", "/queries/q/events?follow=false&after=3-2": "3-3 3-5"} {
		if got := ids(t, open(path, "").Body, 99); got != want { // it ends by itself
			t.Errorf("%s: %s, want %s", path, got, want)
		}
	}
	for _, bad := range []string{"nonsense", "3", "3-", "-1", "3-x", "3-7", "4-0", "-3--1", "99-99"} {
		a := open("/events", bad)
		text, err := io.ReadAll(a.Body)
		status, other := request(t, "GET", url+Prefix+"/queries/q/events?after="+bad, "")
		if err != nil || a.StatusCode != http.StatusBadRequest || status != a.StatusCode || other != string(text) {
			t.Errorf("after %s: %d: %s; %d: %s; error %v", bad, a.StatusCode, text, status, other, err)
		}
	}
	live := open("/events", "")
	b.ring.Add(Event{Type: EventLeader, Text: "now"})
	if got := ids(t, live.Body, 1); got != "3-7" {
		t.Errorf("%s", got)
	}
	lead := b.lead.Swap(nil)
	close(*lead)
	if text, err := io.ReadAll(live.Body); err != nil || len(text) > 100 {
		t.Errorf("%q, error %v", text, err)
	}
}

// TestParams: parameters that a route does not have, or that come twice, are refused, also by a scheduler that would send
// the call on.
func TestParams(t *testing.T) {
	b := newFake()
	url := serve(t, b)
	for range 2 {
		for path, want := range map[string]string{
			"/queries?foo=1": `has no parameter \"foo\"`, "/events?aftr=1-5": `did you mean`, "/queries/q/events?after=0&after=1": "given 2 times",
			"/queries/q?follow=false": "no parameter", "/health?x": "no parameter", "/rules?%zz": "cannot be read",
		} {
			status, text := request(t, "GET", url+Prefix+path, "")
			if status != http.StatusBadRequest || !strings.Contains(text, want) || !strings.Contains(text, string(BadRequest)) {
				t.Errorf("%s: %d: %s", path, status, text)
			}
		}
		b.lead.Store(nil)
	}
}

// TestManyStreams: streams are bounded in number.
func TestManyStreams(t *testing.T) {
	b := newFake()
	url := serve(t, b)
	var open []io.Closer
	for range maxStreams {
		a, err := http.Get(url + Prefix + "/events")
		if err != nil || a.StatusCode != http.StatusOK {
			t.Fatalf("%v, error %v", a, err)
		}
		open = append(open, a.Body)
	}
	if status, text := request(t, "GET", url+Prefix+"/events", ""); status != http.StatusTooManyRequests || !strings.Contains(text, string(TooMany)) {
		t.Errorf("status %d: %s", status, text)
	}
	for _, c := range open {
		c.Close()
	}
}

// TestRing: it forgets the oldest, and says so.
func TestRing(t *testing.T) {
	r := NewRing()
	r.Begin(2)
	for range ringSize + 10 {
		r.Add(Event{})
	}
	list, more, missed := r.After("2-1")
	if !missed || len(list) < ringSize/2 || list[len(list)-1].ID != r.Last() {
		t.Errorf("%d events, missed %v, last %s", len(list), missed, r.Last())
	}
	if _, _, missed := r.After(list[0].ID); missed {
		t.Error("none is missed")
	}
	r.Begin(3)
	select {
	case <-more:
		t.Error("there is no event yet")
	default:
	}
	r.Add(Event{})
	<-more
	if list, _, missed := r.After(list[len(list)-1].ID); len(list) != 1 || list[0].ID != "3-1" || !missed {
		t.Errorf("%+v, missed %v", list, missed)
	}
	for _, first := range []string{"", "0"} {
		if list, _, missed := r.After(first); len(list) < ringSize/2 || missed {
			t.Errorf("after %q: %d events, missed %v", first, len(list), missed)
		}
	}
}
