package mesostest

import (
	"maps"
	"syscall"
	"testing"
	"time"

	"sluice/scheduler/api"
)

// workerOf is the worker on which a task runs.
func workerOf(t *testing.T, q *api.Query, task string) string {
	t.Helper()
	for _, x := range q.Tasks {
		if x.Name == task {
			return x.Worker
		}
	}
	t.Fatalf("no task %s in %+v", task, q.Tasks)
	return ""
}

// TestExecutorsKilled kills two executors by SIGKILL, one after the other, under each pattern. What they ran goes
// on in new ones; the others run on.
func TestExecutorsKilled(t *testing.T) {
	t.Parallel()
	for name, p := range map[string]pattern{"hot-standby": hotStandby, "checkpoint": checkpoint, "no rule": noRule} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			calmOnce(t, func() {
				c := newCluster(t, 5)
				s := c.scheduler()
				q := newStream(t, 6, p)
				q.submit(s)
				for _, task := range []string{p.copied, p.sink} {
					now := s.runs("stream")
					victim := workerOf(t, now, task)
					before := c.pids()
					begin := time.Now()
					c.killExecutor(victim)
					s.again("stream", startTime, now)
					t.Logf("%s: whole again %v after the executor of %s has died", name, time.Since(begin).Round(time.Millisecond), task)
					delete(before, victim)
					after := c.pids()
					for worker, pid := range before {
						calm(t, begin, after[worker] == pid, "worker %s is process %d, was %d", worker, after[worker], pid)
					}
				}
				q.finish(s)
				c.quiet()
			})
		})
	}
}

// TestExecutorStalls stops a process by SIGSTOP. It is given up, replaced and killed, though it obeys nobody.
func TestExecutorStalls(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 5)
	s := c.scheduler()
	q := newStream(t, 6, checkpoint)
	q.submit(s)
	now := s.runs("stream")
	victim := workerOf(t, now, checkpoint.sink)
	_, e := c.executor(victim)
	begin := time.Now()
	if err := syscall.Kill(e.Pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	s.again("stream", startTime, now)
	t.Logf("whole again %v after an executor has stopped", time.Since(begin).Round(time.Millisecond))
	if pid, ok := c.pids()[victim]; ok {
		t.Errorf("the sink runs again while its old process, %d, is there still", pid)
	}
	q.finish(s)
	c.quiet()
}

// TestCancelled: nothing of a query is left after sluice cancel, also if one of its executors has just died.
func TestCancelled(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 4)
	s := c.scheduler()
	q := newStream(t, 60, hotStandby)
	q.submit(s)
	now := s.runs("stream")
	c.killExecutor(now.Processes[0].ID)
	s.command("cancel", "stream")
	if now := s.query("stream"); now == nil || now.State != api.Cancelled {
		t.Errorf("%+v", now)
	}
	c.quiet()
}

// TestDrained: a query that is drained writes what its sources have read, and ends.
func TestDrained(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	s := c.scheduler()
	q := newStream(t, 60, noRule)
	q.submit(s)
	s.runs("stream")
	eventually(t, startTime, "rows are written", func() bool { return q.size() > 0 })
	s.command("drain", "--wait", "stream")
	got, want := q.written(q.dir), map[string]bool{}
	for _, line := range q.want()["chain.csv"] {
		want[line] = true
	}
	if n := len(got["chain.csv"]); n == 0 || n == len(want) {
		t.Errorf("%d rows", n)
	}
	for _, line := range got["chain.csv"] {
		if !want[line] {
			t.Errorf("row %q is not of the stream, or comes again", line)
		}
		delete(want, line)
	}
	if len(got["joint.ndjson"]) == 0 || len(got["tumbling/part-*"]) == 0 {
		t.Error("open windows are not written")
	}
	c.quiet()
}

// undisturbed checks that the executors are those of before, and that no task of the query was launched again.
func (c *cluster) undisturbed(since time.Time, before map[string]int, now *api.Query) {
	c.t.Helper()
	after := c.pids()
	calm(c.t, since, maps.Equal(after, before), "executors %v, were %v", after, before)
	calm(c.t, since, now.Restarts == 0, "%d tasks were launched again", now.Restarts)
}
