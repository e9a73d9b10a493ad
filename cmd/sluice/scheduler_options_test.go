package main

import (
	"bytes"
	"net/http"
	"strings"
	"testing"

	"sluice/scheduler/api"
)

// TestSchedulerUselessOptions: options that are of no use with what the others say are refused, not ignored.
func TestSchedulerUselessOptions(t *testing.T) {
	for args, want := range map[string]string{
		"--mesos-cpus 2":                    "options that begin with --mesos- are for a cluster of Mesos",
		"--cluster local:2 --mesos-roles a": "options that begin with --mesos- are for a cluster of Mesos",
		"--session 2s":                      "--session is for a store in ZooKeeper",
	} {
		var out, errs bytes.Buffer
		line := append([]string{"scheduler", "--state-root", t.TempDir(), "--listen", "127.0.0.1:0"}, strings.Fields(args)...)
		if status := run(line, streams{strings.NewReader(""), &out, &errs}); status != exitUsage || !strings.Contains(errs.String(), want) {
			t.Errorf("scheduler %s: exit status %d, %q, want %q", args, status, &errs, want)
		}
	}
	for address, want := range map[string]string{
		"local:3": "local:3", "mesos://a:1,b:2": "mesos://a:1,b:2", "zk://user:se@cret@a:1,b:2/mesos": "zk://a:1,b:2/mesos",
	} {
		if got := withoutPassword(address); got != want {
			t.Errorf("%s: %s, want %s", address, got, want)
		}
	}
}

// TestHealthNotConnected: a scheduler whose masters do not answer leads and takes queries, but is not well.
func TestHealthNotConnected(t *testing.T) {
	s := startScheduler(t, t.TempDir(), "--cluster", "mesos://127.0.0.1:1", "--mesos-executor", "/none/sluice")
	var h api.Health
	if status := s.call("GET", "/health", nil, &h); status != http.StatusServiceUnavailable || h.Status != api.StatusTrouble || !h.Leader || h.Store != "ok" ||
		!strings.HasPrefix(h.Reason, "not connected to a Mesos master") {
		t.Errorf("status %d, %+v", status, h)
	}
	var live api.Live
	if status := s.call("GET", "/live", nil, &live); status != http.StatusOK || !live.Live {
		t.Errorf("status %d, %+v", status, live)
	}
}
