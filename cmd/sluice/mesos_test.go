package main

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"sluice/internal/fakemesos"
	"sluice/internal/zktest"
	"sluice/scheduler/api"
)

// newMesos is a cluster whose agents run real processes, with what a scheduler of it is told.
func newMesos(t *testing.T, agents int) (*fakemesos.Cluster, []string) {
	t.Helper()
	o := fakemesos.Options{Masters: 2, Scale: 0.1, WorkDir: t.TempDir()}
	for i := range agents {
		o.Agents = append(o.Agents, fakemesos.AgentSpec{Hostname: fmt.Sprintf("h%d", i)})
	}
	m := fakemesos.New(t, o)
	program := filepath.Join(t.TempDir(), "sluice")
	if err := os.WriteFile(program, fmt.Appendf(nil, "#!/bin/sh\nSLUICE_TEST_MAIN=1 exec '%s' \"$@\"\n", os.Args[0]), 0o700); err != nil {
		t.Fatal(err)
	}
	return m, []string{"--cluster", "mesos://" + strings.Join(m.Endpoints(), ","), "--mesos-executor", program, "--mesos-cpus", "0.5", "--mesos-mem", "256"}
}

// executors are the Mesos tasks that run.
func executors(m *fakemesos.Cluster) []string {
	var ids []string
	for _, task := range m.Tasks() {
		if !task.Ended {
			ids = append(ids, task.ID)
		}
	}
	slices.Sort(ids)
	return ids
}

// TestSchedulerOnMesos runs a query on the double of a cluster, with real executor processes. One of them is
// killed, the master fails over, and the leading scheduler dies: the standby goes on with the workers that run.
// The output is exact.
func TestSchedulerOnMesos(t *testing.T) {
	t.Parallel()
	dir, root := t.TempDir(), t.TempDir()
	spec, want := writeKillQuery(t, dir, "tumbling(1m)", "window_start, k, count(*) AS n, sum(v) AS s, max(v) AS l", "10s")
	m, args := newMesos(t, 4)
	first := startScheduler(t, root, args...)
	second := startScheduler(t, root, args...)
	first.submit(spec, func(sub *api.Submission) {
		sub.Set, sub.Checkpoint = []string{"a.rate=3000", "b.rate=1500"}, "200ms"
	})
	q := waitWorkers(t, first)
	m.KillExecutor(agentOf(m, q.Processes[0].ID), m.Frameworks()[0].ID, q.Processes[0].ID)
	for q.Restarts == 0 {
		q = waitWorkers(t, first)
	}
	before, restarts := executors(m), q.Restarts
	begin := time.Now()
	first.kill(syscall.SIGKILL)
	waitTerm(t, second, q.Term)
	t.Logf("another scheduler has the workers after %v", time.Since(begin))
	if d := time.Since(begin); d > 5*time.Second {
		t.Errorf("another scheduler has the workers after %v", d)
	}
	q = second.wait("kill", api.Running)
	if after := executors(m); !slices.Equal(before, after) || q.Restarts > restarts {
		t.Errorf("workers %v, before %v, %d restarts, before %d", after, before, q.Restarts, restarts)
	}
	m.FailOver()
	second.wait("kill", api.Finished)
	compareOutput(t, killOutput(t, dir), want)
	if n := len(m.Frameworks()); n != 1 {
		t.Errorf("%d frameworks", n)
	}
	for end := time.Now().Add(10 * time.Second); len(executors(m)) > 0; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("workers run after the end: %v", executors(m))
		}
	}
}

// TestSchedulerOnZooKeeper stops the leading scheduler amid a query. The standby goes on with the workers, and the
// first one leaves them alone when it wakes up; then the second one dies. The output is exact.
func TestSchedulerOnZooKeeper(t *testing.T) {
	t.Parallel()
	dir, root := t.TempDir(), t.TempDir()
	spec, want := writeKillQuery(t, dir, "tumbling(1m)", "window_start, k, count(*) AS n, sum(v) AS s, max(v) AS l", "10s")
	m, args := newMesos(t, 3)
	zk := zktest.Start(t)
	err := m.Announce([]string{zk.Addr()}, "/mesos")
	for end := time.Now().Add(10 * time.Second); err != nil && time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		err = m.Announce([]string{zk.Addr()}, "/mesos") // it takes clients a little after it has answered
	}
	if err != nil {
		t.Fatal(err)
	}
	args = append(args, "--cluster", "zk://"+zk.Addr()+"/mesos", "--store", "zk://"+zk.Addr()+"/sluice", "--session", "2s")
	first := startScheduler(t, root, args...)
	second := startScheduler(t, root, args...)
	first.submit(spec, func(sub *api.Submission) {
		sub.Set, sub.Checkpoint = []string{"a.rate=1500", "b.rate=750"}, "200ms"
	})
	q := waitWorkers(t, first)
	workers := executors(m)
	begin := time.Now()
	if err := first.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	next := waitTerm(t, second, q.Term)
	t.Logf("another scheduler has the workers after %v", time.Since(begin))
	if err := first.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		var h api.Health
		if _, err := first.try("GET", "/health", nil, &h); err == nil && h.Status == "standby" && h.URL == second.url {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("the first scheduler is no standby: %+v", h)
		}
	}
	begin = time.Now()
	second.kill(syscall.SIGKILL)
	last := waitTerm(t, first, next.Term)
	if d := time.Since(begin); d > 5*time.Second {
		t.Errorf("another scheduler has the workers after %v", d)
	} else {
		t.Logf("another scheduler has the workers after %v", d)
	}
	if after := executors(m); !slices.Equal(workers, after) || last.Restarts > 0 {
		t.Errorf("workers %v, before %v, %d restarts", after, workers, last.Restarts)
	}
	first.wait("kill", api.Finished)
	compareOutput(t, killOutput(t, dir), want)
}

// waitTerm waits until the query of the kill tests runs, with all workers, in a later term.
func waitTerm(t *testing.T, s *testScheduler, term int64) *api.Query {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if q := s.query("kill"); q != nil && q.State == api.Running && len(q.Processes) == q.Workers && q.Term > term {
			return q
		}
	}
	t.Fatalf("the query does not run again: %+v", s.query("kill"))
	return nil
}

// TestSchedulerOnMesosCancels: the workers of a query that is cancelled end.
func TestSchedulerOnMesosCancels(t *testing.T) {
	m, args := newMesos(t, 3)
	s := startScheduler(t, t.TempDir(), args...)
	spec, dir := writeFollow(t)
	s.submit(spec, nil)
	waitOutput(t, dir, "a\n50\n")
	var q api.Query
	if status := s.call("DELETE", "/queries/follow", nil, &q); status != http.StatusOK || q.State != api.Cancelled {
		t.Errorf("status %d, %+v", status, q)
	}
	if left := executors(m); len(left) > 0 {
		t.Errorf("workers run on: %v", left)
	}
}

// waitWorkers waits until the query of the kill tests has all of its workers and tasks.
func waitWorkers(t *testing.T, s *testScheduler) *api.Query {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		q := s.query("kill")
		if q != nil && len(q.Processes) == q.Workers && !slices.ContainsFunc(q.Tasks, func(task api.Task) bool { return task.State != "running" }) {
			return q
		}
	}
	t.Fatalf("the query does not run: %+v", s.query("kill"))
	return nil
}

func agentOf(m *fakemesos.Cluster, task string) string {
	for _, x := range m.Tasks() {
		if x.ID == task {
			return x.Agent
		}
	}
	return ""
}
