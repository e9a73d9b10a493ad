package fakemesos

import (
	"bytes"
	"compress/gzip"
	"crypto/subtle"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/mesos/mesos-go/api/v1/lib/scheduler"
)

// maxBody bounds the body of a call.
const maxBody = 32 << 20

// ServeHTTP is one master process.
func (f *front) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	path := r.URL.Path
	if rest, ok := strings.CutPrefix(path, "/master/"); ok {
		path = "/" + rest
	}
	if path == "/health" {
		w.WriteHeader(http.StatusOK)
		return
	}
	principal, ok := f.c.authenticate(w, r, path)
	if !ok || f.elsewhere(w, r, path) {
		return
	}
	switch {
	case strings.HasPrefix(path, "/api/v1/scheduler"):
		f.c.serveScheduler(w, r, principal)
	case strings.HasPrefix(path, "/api/v1"):
		f.c.serveOperator(w, r)
	case path == "/teardown":
		f.c.serveTeardown(w, r)
	case !strings.HasPrefix(path, "/state") && !strings.HasPrefix(path, "/metrics") && r.Method == http.MethodGet:
		refuse(w, http.StatusNotFound, "404 Not Found.")
	default:
		f.c.mu.Lock()
		text := f.c.notShown("%s %s", r.Method, r.URL.Path)
		f.c.mu.Unlock()
		refuse(w, http.StatusNotImplemented, text)
	}
}

// elsewhere answers for a master that does not lead (rule 19).
func (f *front) elsewhere(w http.ResponseWriter, r *http.Request, path string) bool {
	f.c.mu.Lock()
	leader, recovering := f.c.leader, f.c.m == nil
	to := f.c.faults.deadLeader
	if leader >= 0 {
		to = f.c.masters[leader].addr
	}
	f.c.mu.Unlock()
	_, port, _ := strings.Cut(to, ":")
	switch {
	case to == "":
		refuse(w, http.StatusServiceUnavailable, "No leader elected")
	case path == "/redirect":
		w.Header().Set("Location", "//localhost:"+port)
		w.WriteHeader(http.StatusTemporaryRedirect)
	case leader != f.index:
		loc := "//localhost:" + port + "/master" + path
		if r.URL.RawQuery != "" {
			loc += "?" + r.URL.RawQuery
		}
		w.Header().Set("Location", loc)
		w.WriteHeader(http.StatusTemporaryRedirect)
	case recovering:
		refuse(w, http.StatusServiceUnavailable, "Master has not finished recovery")
	default:
		return false
	}
	return true
}

func (c *Cluster) authenticate(w http.ResponseWriter, r *http.Request, path string) (principal string, ok bool) {
	if c.opts.Users == nil {
		return "", true
	}
	user, secret, _ := r.BasicAuth()
	want, known := c.opts.Users[user]
	if known && subtle.ConstantTimeCompare([]byte(want), []byte(secret)) == 1 {
		return user, true
	}
	realm := "mesos-master-readonly"
	switch {
	case strings.HasPrefix(path, "/api/v1/scheduler"):
		realm = "mesos-master-scheduler"
	case strings.HasPrefix(path, "/api/v1"):
		realm = "mesos-master-readwrite"
	}
	w.Header()["WWW-Authenticate"] = []string{`Basic realm="` + realm + `"`}
	refuse(w, http.StatusUnauthorized, "401 Unauthorized.")
	return "", false
}

// readBody reads the body of a call; a false answer has been given.
func readBody(w http.ResponseWriter, r *http.Request) ([]byte, bool) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err == nil && r.Header.Get("Content-Encoding") == "gzip" {
		body, err = unzip(body)
	}
	if err != nil {
		refuse(w, http.StatusInternalServerError, "failed to decode body")
		return nil, false
	}
	return body, true
}

func unzip(body []byte) ([]byte, error) {
	zr, err := gzip.NewReader(bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(io.LimitReader(zr, maxBody))
}

func (c *Cluster) serveScheduler(w http.ResponseWriter, r *http.Request, principal string) {
	body, ok := readBody(w, r)
	if !ok {
		return
	}
	asJSON, ok := bodyKind(w, r)
	if !ok {
		return
	}
	call := new(scheduler.Call)
	dec, err := decode("mesos.scheduler.Call", asJSON, body, call)
	if err != nil {
		refuse(w, http.StatusBadRequest, err.Error())
		return
	}
	if text := invalidCall(call, dec, principal); text != "" {
		refuse(w, http.StatusBadRequest, "Failed to validate scheduler::Call: "+text)
		return
	}
	verdict := c.record(call, asJSON)
	if verdict.before(c, w) {
		return
	}
	if call.Type == scheduler.Call_SUBSCRIBE {
		c.serveSubscribe(w, r, call, principal, verdict.loses())
		return
	}
	status, text := c.take(call, r, principal)
	if verdict.loses() {
		breakOff(w)
		return
	}
	switch {
	case text != "":
		refuse(w, status, text)
	case status == http.StatusOK:
		w.WriteHeader(http.StatusOK)
	default:
		accepted(w)
	}
}

func (c *Cluster) record(call *scheduler.Call, asJSON bool) callVerdict {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls = append(c.calls, Call{
		At: time.Now(), Framework: call.GetFrameworkID().GetValue(), Type: call.Type.String(), JSON: asJSON, Call: call,
	})
	return c.faults.call(call)
}

func (c *Cluster) serveSubscribe(w http.ResponseWriter, r *http.Request, call *scheduler.Call, principal string, lose bool) {
	asJSON, ok := negotiate(w, r)
	if !ok {
		return
	}
	if r.Header.Get("Mesos-Stream-Id") != "" {
		refuse(w, http.StatusBadRequest, "Subscribe calls should not include the 'Mesos-Stream-Id' header")
		return
	}
	s := newStream(asJSON, uuid.NewString())
	c.mu.Lock()
	m := c.m
	if m == nil || c.closed {
		c.mu.Unlock()
		refuse(w, http.StatusServiceUnavailable, "Master has not finished recovery")
		return
	}
	f := m.subscribe(call, principal, s)
	c.mu.Unlock()
	gone := lose
	if lose {
		breakOff(w)
	} else {
		gone = s.serve(w)
	}
	if !gone || f == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closed {
		m.left(f, s)
	}
}

// take does a call other than SUBSCRIBE; a text is a refusal.
func (c *Cluster) take(call *scheduler.Call, r *http.Request, principal string) (status int, text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	m := c.m
	if m == nil || c.closed {
		return http.StatusServiceUnavailable, "Master has not finished recovery"
	}
	f := m.frameworks[call.FrameworkID.GetValue()]
	id := r.Header.Get("Mesos-Stream-Id")
	switch {
	case f == nil:
		return http.StatusBadRequest, "Framework cannot be found"
	case f.principal != principal:
		return http.StatusBadRequest, "Authenticated principal '" + principal + "' does not match principal '" + f.principal +
			"' set in `FrameworkInfo`"
	case !f.connected:
		return http.StatusForbidden, "Framework is not subscribed"
	case id == "":
		return http.StatusBadRequest, "All non-subscribe calls should include the 'Mesos-Stream-Id' header"
	case id != f.stream.id:
		return http.StatusBadRequest, "The stream ID '" + id +
			"' included in this request didn't match the stream ID currently associated with framework ID " + f.id
	}
	return m.do(f, call)
}
