package main

import (
	"fmt"
	"math/rand/v2"
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
	for end := time.Now().Add(time.Minute); len(executors(m)) > 0; time.Sleep(10 * time.Millisecond) {
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
	for end := time.Now().Add(time.Minute); err != nil && time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		err = m.Announce([]string{zk.Addr()}, "/mesos") // it takes clients a little after it has answered
	}
	if err != nil {
		t.Fatal(err)
	}
	args = append(args, "--cluster", "zk://"+zk.Addr()+"/mesos", "--store", "zk://"+zk.Addr()+"/sluice", "--session", "4s")
	first := startScheduler(t, root, args...)
	second := startScheduler(t, root, args...)
	first.submit(spec, func(sub *api.Submission) {
		// Two schedulers are lost before the input ends, for longer than a session each.
		sub.Set, sub.Checkpoint = []string{"a.rate=700", "b.rate=350"}, "200ms"
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
	for end := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
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
	t.Logf("another scheduler has the workers after %v", time.Since(begin))
	if after := executors(m); !slices.Equal(workers, after) || last.Restarts > 0 {
		t.Errorf("workers %v, before %v, %d restarts", after, workers, last.Restarts)
	}
	first.wait("kill", api.Finished)
	compareOutput(t, killOutput(t, dir), want)
}

// waitTerm waits until the query of the kill tests runs, with all workers, in a later term.
func waitTerm(t *testing.T, s *testScheduler, term int64) *api.Query {
	t.Helper()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
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
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
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

// TestSchedulerOnMesosEdited edits a query whose workers outlive the scheduler, and kills that amid the edit: the standby
// takes it over with the workers that there are, and finishes it. The output is exact.
func TestSchedulerOnMesosEdited(t *testing.T) {
	t.Parallel()
	dir, root := t.TempDir(), t.TempDir()
	spec, want := writeKillQuery(t, dir, "hopping(40s, 20s)", "window_start, k, count(*) AS n, sum(v) AS s", "5s")
	m, args := newMesos(t, 4)
	leader, standby := startScheduler(t, root, args...), startScheduler(t, root, args...)
	rates := func(sub *api.Submission) { sub.Set, sub.Checkpoint = []string{"a.rate=2000", "b.rate=1000"}, "100ms" }
	leader.submit(spec, rates)
	text, err := os.ReadFile(spec)
	if err != nil {
		t.Fatal(err)
	}
	waitWorkers(t, leader)
	for i, partitions := range []int{2, 3, 1} {
		edited := &api.Submission{Spec: string(text), File: filepath.Base(spec), Dir: dir, Partitions: partitions, Workers: 2 + i%2}
		rates(edited)
		asked := make(chan string, 1)
		go func() {
			var q api.Query
			begin := time.Now()
			status, err := leader.try("PUT", "/queries/kill", edited, &q)
			asked <- fmt.Sprintf("status %d, %+v, error %v after %v", status, q.Edit, err, time.Since(begin))
		}()
		if i > 0 {
			time.Sleep(time.Duration(50+rand.IntN(300)) * time.Millisecond)
			leader.kill(syscall.SIGKILL)
		}
		t.Log(<-asked)
		if i > 0 {
			leader, standby = standby, startScheduler(t, root, args...)
		}
		var q *api.Query
		for end := time.Now().Add(90 * time.Second); q == nil || q.State != api.Finished && (q.Partitions != partitions || len(q.Processes) != q.Workers); q = leader.query("kill") {
			if time.Sleep(20 * time.Millisecond); time.Now().After(end) || q != nil && q.Edit != nil && q.Edit.State == api.EditRefused {
				t.Fatalf("edit %d: %+v", i, q)
			}
			if q != nil && q.State == api.Running && q.Partitions != partitions && (q.Edit == nil || q.Edit.State != api.EditPending) {
				_, _ = leader.try("PUT", "/queries/kill", edited, nil) // the leader had ended before it was stored
			}
		}
	}
	standby.wait("kill", api.Finished)
	compareOutput(t, killOutput(t, dir), want)
	for end := time.Now().Add(time.Minute); len(executors(m)) > 0; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("workers run after the end: %v", executors(m))
		}
	}
}

// rulesSpec has its aggregate divided by a rule of a file.
const rulesSpec = `<dataflow name="follow"><rules href="my.rules"/><rewrite rule="divide" operator="pairs"/>
  <type name="R"><column name="a" type="int"/></type>
  <operator name="src" type="reader"><output name="rows" type="R"/><param name="path" value="in.csv"/><param name="follow" value="true"/></operator>
  <operator name="pairs" type="aggregate"><input name="rows"/><param name="window" value="rows(2)"/><param name="group-by" value="a"/>
    <param name="select" value="a, count(*) AS n"/><output name="some"/></operator>
  <operator name="out" type="writer"><input name="some"/><param name="path" value="out.csv"/></operator></dataflow>`

const divideRule = `# Divides an operator.
rule divide(k = 2) {
  a2 := any(f := any(a1 := any*)) [splittable(f)]
  =>
  a2(merge(f[1..k](s) @{p}))
  where s := splitter(a1){key = key(f)}
}
`

// TestSchedulerAnotherGraph: a query that compiles to another graph than it had goes on with its state under that. What
// was stopped can always do so; a query that was not stopped waits, and goes on when the graph is put back.
func TestSchedulerAnotherGraph(t *testing.T) {
	for name, mesos := range map[string]bool{"local": false, "mesos": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			args := []string{"--cluster", "local:2"}
			if mesos {
				_, args = newMesos(t, 3)
			}
			root := t.TempDir()
			spec, dir := writeFollow(t)
			write := func(name, text string) {
				t.Helper()
				if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			add := func(rows string) {
				t.Helper()
				f, err := os.OpenFile(filepath.Join(dir, "in.csv"), os.O_APPEND|os.O_WRONLY, 0)
				if err != nil {
					t.Fatal(err)
				}
				defer f.Close()
				if _, err := f.WriteString(rows); err != nil {
					t.Fatal(err)
				}
			}
			write("follow.xml", rulesSpec)
			write("my.rules", divideRule)
			write("in.csv", "a\n1\n2\n2\n3\n")
			s := startScheduler(t, root, args...)
			s.submit(spec, func(sub *api.Submission) { sub.Checkpoint, sub.Fsync = "1h", "never" })
			waitOutput(t, dir, "a,n\n2,2\n")

			// Stopped and resumed under another file of rules.
			if status := s.call("POST", "/queries/follow/stop", nil, nil); status != http.StatusOK {
				t.Fatalf("status %d", status)
			}
			s.wait("follow", api.Stopped)
			s.kill(syscall.SIGTERM)
			write("my.rules", strings.Replace(divideRule, "k = 2", "k = 3", 1))
			s = startScheduler(t, root, args...)
			s.wait("follow", api.Stopped)
			if status := s.call("POST", "/queries/follow/resume", nil, nil); status != http.StatusOK {
				t.Fatalf("status %d", status)
			}
			add("1\n")
			waitOutput(t, dir, "a,n\n2,2\n1,2\n")
			q := s.query("follow")
			if q == nil || q.Edit == nil || !slices.Equal(q.Edit.Kept, []string{"pairs.1", "pairs.2", "pairs.3"}) || !strings.Contains(q.Edit.Reason, "the release has changed") {
				t.Errorf("%+v", q)
			}

			// Killed. What it has written is in no checkpoint.
			s.kill(syscall.SIGKILL)
			write("my.rules", strings.Replace(divideRule, "k = 2", "k = 4", 1))
			s = startScheduler(t, root, args...)
			for end := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
				q := s.query("follow")
				if q != nil && q.State == api.Starting && strings.Contains(q.Error, "has to do that again first; put it back") {
					break
				}
				if time.Now().After(end) {
					t.Fatalf("%+v", q)
				}
			}
			write("my.rules", strings.Replace(divideRule, "k = 2", "k = 3", 1))
			add("3\n")
			waitOutput(t, dir, "a,n\n2,2\n1,2\n3,2\n")
		})
	}
}
