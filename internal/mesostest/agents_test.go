package mesostest

import (
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/mesos/mesos-go/api/v1/lib/scheduler"

	"sluice/internal/fakemesos"
	"sluice/scheduler/api"
)

// agentsRun is a stream on six agents, and one of its executors that has tasks.
func agentsRun(t *testing.T, seconds int, p pattern, args ...string) (c *cluster, s *service, q *stream, now *api.Query, agent, worker string) {
	t.Helper()
	t.Parallel()
	c = newCluster(t, 6)
	s = c.scheduler(args...)
	q = newStream(t, seconds, p)
	q.submit(s)
	now = s.runs("stream")
	worker = workerOf(t, now, p.sink)
	agent, _ = c.executor(worker)
	return c, s, q, now, agent, worker
}

// TestAgentRestarts: an agent's process dies and comes back. Its executor runs on, and so does the query.
func TestAgentRestarts(t *testing.T) {
	calmOnce(t, func() { agentRestarts(t) })
}

func agentRestarts(t *testing.T) {
	c, s, q, _, agent, _ := agentsRun(t, 5, checkpoint)
	before, begin := c.pids(), time.Now()
	c.StopAgent(agent)
	time.Sleep(time.Second)
	c.StartAgent(agent)
	time.Sleep(2 * time.Second)
	c.undisturbed(begin, before, s.runs("stream"))
	q.finish(s)
	c.quiet()
}

// TestAgentUnreachable: the masters do not hear an agent, but its worker and the scheduler hear each other. The query
// runs on, and Mesos' word that the task is unreachable changes nothing.
func TestAgentUnreachable(t *testing.T) {
	calmOnce(t, func() { agentUnreachable(t) })
}

func agentUnreachable(t *testing.T) {
	c, s, q, _, agent, worker := agentsRun(t, 8, checkpoint)
	before, begin := c.pids(), time.Now()
	c.Partition(agent)
	eventually(t, startTime, "the user is told", func() bool {
		now := s.query("stream")
		return now != nil && slices.ContainsFunc(now.Alerts, func(a api.Alert) bool {
			return strings.Contains(a.Text, worker) && strings.Contains(a.Text, "unreachable")
		})
	})
	size := q.size()
	eventually(t, startTime, "the query runs on", func() bool { return q.size() > size })
	c.Heal(agent)
	eventually(t, startTime, "the agent is back", func() bool {
		return !slices.ContainsFunc(c.Agents(), func(a fakemesos.Agent) bool { return !a.Registered })
	})
	c.undisturbed(begin, before, s.runs("stream"))
	q.finish(s)
	c.quiet()
}

// TestMachineLost: a machine dies with its agent and its executor, and nobody says so. What ran there goes on elsewhere
// as soon as the scheduler misses it, but for sinks that write a file: these wait until an operator says that the
// agent is gone.
func TestMachineLost(t *testing.T) {
	c, s, q, before, agent, worker := agentsRun(t, 6, hotStandby)
	_, e := c.executor(worker)
	c.Partition(agent)
	begin := time.Now()
	if err := syscall.Kill(e.Pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, startTime, "all but sinks run again", func() bool {
		now := s.query("stream")
		return now != nil && now.Restarts > before.Restarts && !slices.ContainsFunc(now.Tasks, func(x api.Task) bool {
			return x.State != "running" && x.State != "standby" && x.Name != hotStandby.sink && x.Name != "tumbling.stream-selector"
		})
	})
	t.Logf("all but the sink run again after %v", time.Since(begin).Round(time.Millisecond))
	begin = time.Now()
	c.MarkGone(agent)
	s.again("stream", startTime, before)
	t.Logf("the sink runs again %v after the operator's word", time.Since(begin).Round(time.Millisecond))
	q.finish(s)
	c.quiet()
}

// TestAgentEnds: agents go for good, by the word of operators or by themselves. What ran there goes on elsewhere. Of an
// agent that leaves Mesos does not say whether its executors run still; the scheduler waits until they cannot.
func TestAgentEnds(t *testing.T) {
	t.Parallel()
	for name, x := range map[string]struct {
		end  func(c *cluster, agent string)
		args []string
		told []string
	}{
		"is marked gone": {func(c *cluster, agent string) { c.MarkGone(agent) }, nil, []string{"gone_by_operator", "an operator has said that agent h"}},
		"is drained":     {func(c *cluster, agent string) { c.Drain(agent) }, nil, []string{"drain", "agent h"}},
		"leaves": {
			func(c *cluster, agent string) { c.LeaveAgent(agent) }, []string{"--mesos-silence", "2s", "--mesos-margin", "2s"},
			[]string{"agent h", "what must not run twice, such as a sink that writes a file, waits until "},
		},
	} {
		t.Run(name, func(t *testing.T) {
			c, s, q, before, agent, worker := agentsRun(t, 6, checkpoint, x.args...)
			begin := time.Now()
			x.end(c, agent)
			now := s.again("stream", startTime, before)
			t.Logf("an agent %s: whole again after %v", name, time.Since(begin).Round(time.Millisecond))
			for _, p := range now.Processes {
				if at, _ := c.executor(p.ID); at == agent || p.ID == worker {
					t.Errorf("worker %s runs on the agent that is no more", p.ID)
				}
			}
			if !slices.ContainsFunc(now.Alerts, func(a api.Alert) bool {
				return strings.Contains(a.Text, worker) && !slices.ContainsFunc(x.told, func(part string) bool { return !strings.Contains(a.Text, part) })
			}) {
				t.Errorf("nobody is told %q: %+v", x.told, now.Alerts)
			}
			q.finish(s)
			c.quiet()
		})
	}
}

// TestMaintenance: workers move away from an agent that is to be maintained, before it is taken.
func TestMaintenance(t *testing.T) {
	c, s, q, before, agent, worker := agentsRun(t, 8, checkpoint)
	begin := time.Now()
	c.Maintain(agent, time.Now().Add(time.Hour), time.Hour)
	now := s.again("stream", startTime, before)
	t.Logf("the worker has moved after %v", time.Since(begin).Round(time.Millisecond))
	for _, p := range now.Processes {
		if p.ID == worker {
			t.Errorf("worker %s has not moved", worker)
		}
	}
	eventually(t, startTime, "the inverse offer is accepted", func() bool {
		for _, call := range c.Calls() {
			if call.Call.Type == scheduler.Call_ACCEPT_INVERSE_OFFERS {
				return true
			}
		}
		return false
	})
	q.finish(s)
	c.quiet()
}
