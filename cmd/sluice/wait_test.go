package main

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// TestWait: wait ends when it is to, also while no scheduler answers.
func TestWait(t *testing.T) {
	t.Setenv("SLUICE_SCHEDULER", "")
	answers := []string{
		`503 {"error":{"code":"no-leader","message":"nobody"}}`, `200 {"name":"q","state":"starting","error":"no room"}`, `200 {"name":"q","state":"running"}`,
		`503 {"error":{"code":"unavailable","message":"a moment"}}`, `200 {"name":"q","state":"finished"}`,
	}
	var calls, stays atomic.Int64 // at which answer it stays
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		a := answers[min(calls.Add(1)-1, stays.Load())]
		if a[:3] != "200" {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		_, _ = w.Write([]byte(a[4:]))
	}))
	defer s.Close()
	for _, c := range []struct {
		args   string
		stays  int64
		status int
		want   string
	}{
		{"q", 4, exitDone, ""},
		{"q --running", 4, exitDone, ""},
		{"q --running --timeout 1s", 1, exitFailed, "sluice: query \"q\": starting: no room; waited for 1s\n"},
		{"q --timeout 1s", 2, exitFailed, "sluice: query \"q\": running; waited for 1s\n"},
		{"q --timeout 1s", 0, exitFailed, "sluice: query \"q\": waited for 1s\n"},
		{"q --timeout=-1s", 4, exitUsage, "sluice: --timeout must not be negative; it is -1s\n"},
	} {
		calls.Store(0)
		stays.Store(c.stays)
		var o, e bytes.Buffer
		begin := time.Now()
		status := run(append([]string{"wait", "--scheduler", s.URL}, strings.Fields(c.args)...), streams{strings.NewReader(""), &o, &e})
		if status != c.status || o.String()+e.String() != c.want {
			t.Errorf("wait %s: status %d: %s%s", c.args, status, &o, &e)
		}
		if d := time.Since(begin); d > 15*time.Second {
			t.Errorf("wait %s takes %v", c.args, d)
		}
	}
	s.Close()
	var o, e bytes.Buffer
	if status := run([]string{"wait", "q", "--scheduler", s.URL}, streams{strings.NewReader(""), &o, &e}); status != exitFailed || !strings.Contains(e.String(), "no scheduler answers at "+s.URL) {
		t.Errorf("status %d: %s%s", status, &o, &e)
	}
}
