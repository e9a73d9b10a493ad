package mesostest

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/mesos/mesos-go/api/v1/lib/scheduler"

	"sluice/internal/fakemesos"
)

// cluster is a double of a Mesos cluster, and what its schedulers share.
type cluster struct {
	*fakemesos.Cluster
	t    *testing.T
	root string   // their state
	args []string // of each scheduler
	url  string   // of the scheduler, if that says another one
}

// scale is that of the double's times.
const scale = 0.1

// newCluster has masters that are named by their addresses, and executors that are found on the agents.
func newCluster(t *testing.T, agents int) *cluster {
	t.Helper()
	c := newBareCluster(t, agents, fakemesos.Options{})
	c.args = append(c.args, "--cluster", "mesos://"+strings.Join(c.Endpoints(), ","), "--mesos-executor", program)
	return c
}

// newBareCluster is a cluster of which its schedulers know nothing yet.
func newBareCluster(t *testing.T, agents int, o fakemesos.Options) *cluster {
	t.Helper()
	o.Masters, o.Scale, o.WorkDir = 2, scale, t.TempDir()
	o.Times.Register, o.Times.Reregister = time.Minute, 2*time.Second
	o.Times.PingTimeout, o.Times.Resend, o.Times.ResendMax = 3*time.Second, 300*time.Millisecond, time.Second
	for i := range agents {
		ports := 31000 + 100*i // they are all on one machine
		o.Agents = append(o.Agents, fakemesos.AgentSpec{
			Hostname: fmt.Sprintf("h%d", i), Attributes: fmt.Sprintf("rack:r%d", i%2),
			Resources: fmt.Sprintf("cpus:4;mem:2048;disk:4096;ports:[%d-%d]", ports, ports+99),
		})
	}
	c := &cluster{Cluster: fakemesos.New(t, o), t: t, root: t.TempDir()}
	c.args = []string{"--mesos-cpus", "0.5", "--mesos-mem", "256"}
	t.Cleanup(func() {
		if t.Failed() {
			c.showExecutors()
		}
	})
	return c
}

// showExecutors logs what the executors said.
func (c *cluster) showExecutors() {
	for _, a := range c.Agents() {
		for _, e := range a.Executors {
			said, err := os.ReadFile(filepath.Join(e.Dir, "stderr"))
			if err == nil && len(said) > 0 {
				c.t.Logf("executor %s, agent %s:\n%s", e.ID, a.ID, said[max(0, len(said)-4000):])
			}
		}
	}
}

// executor finds an executor that runs, by its name, which is that of its worker.
func (c *cluster) executor(worker string) (agent string, e fakemesos.Executor) {
	c.t.Helper()
	for _, a := range c.Agents() {
		for _, e := range a.Executors {
			if e.ID == worker && !e.Ended {
				return a.ID, e
			}
		}
	}
	c.t.Fatalf("no executor %s runs", worker)
	return "", e
}

// pids are the processes of all executors that run, by worker. An agent that is not there does not say that they have
// ended.
func (c *cluster) pids() map[string]int {
	pids := map[string]int{}
	for _, a := range c.Agents() {
		for _, e := range a.Executors {
			if !e.Ended && (e.Pid == 0 || syscall.Kill(e.Pid, 0) == nil) {
				pids[e.ID] = e.Pid
			}
		}
	}
	return pids
}

// killExecutor kills the process of a worker, as a crash does.
func (c *cluster) killExecutor(worker string) {
	c.t.Helper()
	_, e := c.executor(worker)
	if err := syscall.Kill(e.Pid, syscall.SIGKILL); err != nil {
		c.t.Fatalf("executor %s, process %d: %v", worker, e.Pid, err)
	}
}

// tasks are the Mesos tasks that have not ended.
func (c *cluster) tasks() []string {
	var ids []string
	for _, x := range c.Tasks() {
		if !x.Ended {
			ids = append(ids, x.ID)
		}
	}
	slices.Sort(ids)
	return ids
}

// quiet waits until nothing of any query is left, and checks what the framework has said.
func (c *cluster) quiet() {
	c.t.Helper()
	c.quietAfter(1)
}

// quietAfter is quiet where there were several frameworks, one after the other.
func (c *cluster) quietAfter(frameworks int) {
	c.t.Helper()
	eventually(c.t, quietTime, "no task is left", func() bool { return len(c.tasks()) == 0 })
	eventually(c.t, quietTime, "no executor is left", func() bool { return len(c.pids()) == 0 })
	eventually(c.t, quietTime, "all updates are acknowledged", c.Settled)
	ids := map[string]int{}
	for _, call := range c.Calls() {
		if call.Call.Type == scheduler.Call_SUBSCRIBE {
			ids[call.Call.FrameworkID.GetValue()]++
		}
	}
	if len(ids) != frameworks || ids[""] > 0 || len(c.Frameworks()) != frameworks {
		c.t.Errorf("subscriptions by framework: %v; frameworks: %+v", ids, c.Frameworks())
	}
	if unknown := c.Unknown(); len(unknown) > 0 {
		c.t.Errorf("calls that no recording shows: %q", unknown)
	}
}
