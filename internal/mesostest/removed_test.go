package mesostest

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"sluice/scheduler/api"
)

// tearDown removes a framework as an operator does.
func (c *cluster) tearDown(framework string) {
	c.t.Helper()
	body := fmt.Sprintf(`{"type":"TEARDOWN","teardown":{"framework_id":{"value":%q}}}`, framework)
	res, err := http.Post("http://"+c.Endpoint()+"/api/v1", "application/json", strings.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK && res.StatusCode != http.StatusAccepted {
		c.t.Fatalf("TEARDOWN: %s", res.Status)
	}
}

// untilWhen says for how long sinks wait.
var untilWhen = regexp.MustCompile(`what must not run twice, such as sinks that write files, waits until \d\d:\d\d:\d\d UTC`)

// TestFrameworkRemoved: an operator removes the framework while a query runs. Mesos ends its workers and says no more of
// them: the scheduler registers anew, and what must not run twice waits until they have ended for certain.
func TestFrameworkRemoved(t *testing.T) {
	t.Parallel()
	calmOnce(t, func() { frameworkRemoved(t) })
}

func frameworkRemoved(t *testing.T) {
	const silence, margin = 2 * time.Second, 2 * time.Second
	c := newCluster(t, 5)
	s := c.scheduler("--mesos-silence", silence.String(), "--mesos-margin", margin.String())
	q := newStream(t, 8, checkpoint)
	q.submit(s)
	now := s.runs("stream")
	before, id := c.pids(), c.Frameworks()[0].ID
	begin := time.Now()
	c.tearDown(id)
	eventually(t, startTime, "other workers are there", func() bool {
		x := s.query("stream")
		return x != nil && len(x.Processes) == x.Workers && !slices.ContainsFunc(x.Processes, func(p api.Worker) bool { return before[p.ID] != 0 })
	})
	early := time.Since(begin)
	t.Logf("other workers are there %v after the framework was removed", early.Round(time.Millisecond))
	calm(t, begin, early < silence+margin, "other workers wait for the old ones")
	now = s.again("stream", startTime, now)
	took := time.Since(begin)
	t.Logf("whole again %v after the framework was removed", took.Round(time.Millisecond))
	if took < silence+margin {
		t.Errorf("sinks run again after %v: the old workers may have run until %v", took, silence+margin)
	}
	for _, p := range now.Processes {
		if before[p.ID] != 0 {
			t.Errorf("worker %s is one of the framework that was removed", p.ID)
		}
	}
	f := c.Frameworks()
	if len(f) != 2 || !f[0].Connected || f[0].ID == id || f[1].ID != id || !f[1].Completed {
		t.Errorf("frameworks: %+v", f)
	}
	told := false
	for _, a := range now.Alerts {
		told = told || strings.Contains(a.Text, "MESOS HAS REMOVED THE FRAMEWORK "+id) && untilWhen.MatchString(a.Text)
		if strings.Contains(a.Text, "has a worker of the query") {
			t.Errorf("workers of the framework that was removed are in the way: %s", a.Text)
		}
	}
	if !told {
		t.Errorf("nobody is told: %+v", now.Alerts)
	}
	q.finish(s)
	c.quietAfter(2)
}

// TestNoScheduler: the scheduler is away for longer than workers go on without one. They end by themselves and say why; the
// next scheduler starts others.
func TestNoScheduler(t *testing.T) {
	t.Parallel()
	calmOnce(t, func() { noScheduler(t) })
}

func noScheduler(t *testing.T) {
	const silence, margin = 2 * time.Second, 2 * time.Second
	args := []string{"--mesos-silence", silence.String(), "--mesos-margin", margin.String()}
	c := newCluster(t, 4)
	s := c.scheduler(args...)
	q := newStream(t, 6, checkpoint)
	q.submit(s)
	now := s.runs("stream")
	dirs := map[string]string{}
	for worker := range c.pids() {
		_, e := c.executor(worker)
		dirs[worker] = e.Dir
	}
	begin := time.Now()
	s.end(syscall.SIGKILL)
	eventually(t, startTime, "the workers have ended", func() bool { return len(c.pids()) == 0 })
	took := time.Since(begin)
	t.Logf("the workers have ended %v after the scheduler", took.Round(time.Millisecond))
	calm(t, begin, took > silence-500*time.Millisecond && took < silence+margin, "workers go on for %v without a scheduler", took)
	for worker, dir := range dirs {
		said, err := os.ReadFile(filepath.Join(dir, "stderr"))
		if err != nil || !strings.Contains(string(said), "no word from the scheduler") {
			t.Errorf("worker %s says %q, error %v", worker, said, err)
		}
	}
	next := c.scheduler(args...)
	next.again("stream", startTime, now)
	q.finish(next)
	c.quiet()
}
