package mesostest

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/mesos/mesos-go/api/v1/lib/scheduler"

	"sluice/internal/fakemesos"
	"sluice/scheduler/api"
)

// equipped is a cluster of three agents with a GPU, two with fast disks, and two with neither.
func equipped(t *testing.T) *cluster {
	t.Helper()
	var o fakemesos.Options
	for i := range 5 {
		kind, more := "gpu", ";gpus:1"
		if i >= 3 {
			kind, more = "ssd", ""
		}
		ports := 32000 + 100*i
		o.Agents = append(o.Agents, fakemesos.AgentSpec{
			Hostname: fmt.Sprintf("%s%d", kind, i), Attributes: "kind:" + kind,
			Resources: fmt.Sprintf("cpus:4;mem:2048;disk:4096;ports:[%d-%d]%s", ports, ports+99, more),
		})
	}
	c := newBareCluster(t, 2, o)
	c.args = append(c.args, "--cluster", "mesos://"+strings.Join(c.Endpoints(), ","), "--mesos-executor", program)
	return c
}

// needy is a stream of which one aggregate needs a GPU, and has a standby, and the other one a fast disk and ports.
func needy(t *testing.T, seconds int) *stream {
	t.Helper()
	s := newStream(t, seconds, noRule)
	text := body
	for operator, needs := range map[string]string{
		"tumbling": `<resources cpus="0.5" gpus="1" attributes="kind=gpu"/>`, "joint": `<resources mem="128MB" ports="2" attributes="kind=ssd"/>`,
	} {
		head := fmt.Sprintf(`<operator name=%q type="aggregate">`, operator)
		if !strings.Contains(text, head) {
			t.Fatalf("the stream has no %s", head)
		}
		text = strings.Replace(text, head, head+needs, 1)
	}
	s.put(s.dir, "stream.xml", `<dataflow name="stream">`+text+rewrite("checkpoint", "tumbling")+"</dataflow>")
	return s
}

// host is the name of the agent on which a worker runs.
func (c *cluster) host(worker string) string {
	c.t.Helper()
	agent, _ := c.executor(worker)
	return c.hostOf(agent)
}

func (c *cluster) hostOf(agent string) string {
	for _, a := range c.Agents() {
		if a.ID == agent {
			return a.Hostname
		}
	}
	return ""
}

// settled waits until each task is on an agent that has what it needs.
func (c *cluster) settled(s *service) *api.Query {
	c.t.Helper()
	now := s.runs("stream")
	var gpus []string
	for _, x := range now.Tasks {
		host := c.host(x.Worker)
		switch {
		case x.Name == "tumbling.1" || x.Name == "tumbling.2":
			if !strings.HasPrefix(host, "gpu") || slices.Contains(gpus, host) {
				c.t.Errorf("task %s is on %s", x.Name, host)
			}
			gpus = append(gpus, host)
		case x.Name == "both": // with joint
			if !strings.HasPrefix(host, "ssd") {
				c.t.Errorf("task %s is on %s", x.Name, host)
			}
			c.hasPorts(x.Worker)
		}
	}
	if len(gpus) != 2 {
		c.t.Errorf("the tasks that need a GPU are on %v", gpus)
	}
	for _, call := range c.Calls() {
		for _, op := range call.Call.GetAccept().GetOperations() {
			for _, task := range op.Launch.GetTaskInfos() {
				for _, r := range task.Resources {
					if host := c.hostOf(task.AgentID.Value); r.Name == "gpus" && !strings.HasPrefix(host, "gpu") {
						c.t.Errorf("task %s takes a GPU of %s", task.TaskID.Value, host)
					}
				}
			}
		}
	}
	return now
}

// hasPorts: the process of a worker finds two ports of its agent in its environment.
func (c *cluster) hasPorts(worker string) {
	c.t.Helper()
	_, e := c.executor(worker)
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", e.Pid))
	if err != nil {
		c.t.Fatal(err)
	}
	var ports []string
	for v := range strings.SplitSeq(string(text), "\x00") {
		if list, ok := strings.CutPrefix(v, "SLUICE_PORTS="); ok {
			ports = strings.Split(list, ",")
		}
	}
	for _, p := range ports {
		if n, err := strconv.Atoi(p); err != nil || n < 32300 || n >= 32500 {
			c.t.Errorf("worker %s has port %q of its agent", worker, p)
		}
	}
	if len(ports) != 2 {
		c.t.Errorf("worker %s has ports %q, and should have 2", worker, ports)
	}
}

// TestResources: operators run on agents that have what they need. Another scheduler goes on with their workers. The
// agent with the GPU in use is lost: the standby goes on, and a worker on the last agent that has one takes its place.
func TestResources(t *testing.T) {
	t.Parallel()
	c := equipped(t)
	args := []string{"--mesos-gpus", "--mesos-ports", "1"} // no other test has workers listen at these ports
	first, s := c.scheduler(args...), c.scheduler(args...)
	q := needy(t, 10)
	q.submit(first)
	c.settled(first)
	c.takesOver(q, first, s)
	now := c.settled(s)
	lost, _ := c.executor(workerOf(t, now, "tumbling.1"))
	begin := time.Now()
	c.MarkGone(lost)
	s.again("stream", startTime, now)
	t.Logf("whole again %v after the agent with the GPU is gone", time.Since(begin).Round(time.Millisecond))
	for _, p := range c.settled(s).Processes {
		if at, _ := c.executor(p.ID); at == lost {
			t.Errorf("worker %s runs on the agent that is gone", p.ID)
		}
	}
	q.finish(s)
	c.quiet()
}

// TestResourcesMaintenance: a worker that has a GPU leaves its agent for another one that has one.
func TestResourcesMaintenance(t *testing.T) {
	t.Parallel()
	c := equipped(t)
	s := c.scheduler("--mesos-gpus")
	q := needy(t, 10)
	q.submit(s)
	now := c.settled(s)
	worker := workerOf(t, now, "tumbling.1")
	agent, _ := c.executor(worker)
	begin := time.Now()
	c.Maintain(agent, time.Now().Add(time.Hour), time.Hour)
	eventually(t, startTime, "the inverse offer is accepted", func() bool {
		return slices.ContainsFunc(c.Calls(), func(x fakemesos.Call) bool { return x.Call.Type == scheduler.Call_ACCEPT_INVERSE_OFFERS })
	})
	now = s.again("stream", startTime, now)
	t.Logf("the worker has moved after %v: %+v", time.Since(begin).Round(time.Millisecond), now.Alerts)
	for _, a := range now.Alerts {
		if strings.Contains(a.Text, "before another one runs") {
			t.Errorf("the old worker ends first: %s", a.Text)
		}
	}
	for _, p := range c.settled(s).Processes {
		if at, _ := c.executor(p.ID); at == agent {
			t.Errorf("worker %s is on the agent that is to be maintained", p.ID)
		}
	}
	q.finish(s)
	c.quiet()
}

// TestResourcesRefused: what no agent can ever have is told to who submits.
func TestResourcesRefused(t *testing.T) {
	t.Parallel()
	for name, x := range map[string]struct {
		args []string
		want []string
	}{
		"GPUs":      {nil, []string{"task tumbling.1", "--mesos-gpus"}},
		"attribute": {[]string{"--mesos-gpus", "--mesos-attributes", "kind=gpu"}, []string{`"gpu" for every worker`, `"ssd" for an operator`}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := equipped(t)
			s := c.scheduler(x.args...)
			q := needy(t, 1)
			cmd := exec.Command(program, "submit", q.dir+"/stream.xml")
			cmd.Env = append(os.Environ(), "SLUICE_SCHEDULER="+s.url)
			out, err := cmd.CombinedOutput()
			if err == nil {
				t.Errorf("it is accepted: %s", out)
			}
			for _, part := range x.want {
				if !strings.Contains(string(out), part) {
					t.Errorf("nobody is told %q: %s", part, out)
				}
			}
			if left := s.query("stream"); left != nil {
				t.Errorf("there is a query: %+v", left)
			}
		})
	}
}

// withPorts has four agents with 100 ports each, from the first one on, of which each worker takes one.
func withPorts(t *testing.T, first int) *cluster {
	t.Helper()
	var o fakemesos.Options
	for i := range 4 {
		o.Agents = append(o.Agents, fakemesos.AgentSpec{
			Hostname: fmt.Sprintf("p%d", i), Resources: fmt.Sprintf("cpus:4;mem:2048;disk:4096;ports:[%d-%d]", first+100*i, first+99+100*i),
		})
	}
	c := newBareCluster(t, 0, o)
	c.args = append(c.args, "--cluster", "mesos://"+strings.Join(c.Endpoints(), ","), "--mesos-executor", program, "--mesos-ports", "1")
	return c
}

// TestFirstPortInUse: something else uses the ports at which all first workers of a query should listen. The query runs
// nevertheless, at other ports, and one alert for each agent says why it is late.
func TestFirstPortInUse(t *testing.T) {
	t.Parallel()
	const first = 29000
	c := withPorts(t, first)
	for i := range 4 {
		in, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", first+100*i))
		if err != nil {
			t.Fatal(err)
		}
		defer in.Close()
	}
	s := c.scheduler()
	q := newStream(t, 3, checkpoint)
	q.submit(s)
	now := s.runs("stream")
	told := map[string]int{}
	for _, a := range now.Alerts {
		if strings.Contains(a.Text, "cannot run the query") {
			_, host, _ := strings.Cut(a.Text, "on agent ")
			host, _, _ = strings.Cut(host, " ")
			told[host]++
			if !strings.Contains(a.Text, "address already in use") || !strings.Contains(a.Text, "is not used there for") {
				t.Errorf("alert %q", a.Text)
			}
		}
	}
	if len(told) < 3 {
		t.Errorf("alerts of %v: %+v", told, now.Alerts)
	}
	for host, n := range told {
		if n != 1 {
			t.Errorf("%d alerts of %s", n, host)
		}
	}
	q.finish(s)
	c.quiet()
}

// TestSmallAgents: only one agent has what a worker needs. After a while all of them run there.
func TestSmallAgents(t *testing.T) {
	t.Parallel()
	c := newBareCluster(t, 0, fakemesos.Options{Agents: []fakemesos.AgentSpec{
		{Hostname: "big", Resources: "cpus:4;mem:4096;disk:4096;ports:[28000-28099]"},
		{Hostname: "slow", Resources: "cpus:0.4;mem:4096;disk:4096;ports:[28100-28199]"},
		{Hostname: "small", Resources: "cpus:4;mem:128;disk:4096;ports:[28200-28299]"},
	}})
	c.args = append(c.args, "--cluster", "mesos://"+strings.Join(c.Endpoints(), ","), "--mesos-executor", program)
	s := c.scheduler()
	q := newStream(t, 6, hotStandby)
	q.submit(s)
	begin := time.Now()
	now := s.runs("stream")
	t.Logf("runs on one agent after %v", time.Since(begin).Round(time.Millisecond))
	for _, p := range now.Processes {
		if !strings.Contains(p.About, "agent big") {
			t.Errorf("worker %s is at %s", p.ID, p.About)
		}
	}
	q.finish(s)
	c.quiet()
}

// TestPortInUse: something else uses the port at which a worker should listen. The user is told, and the next worker on
// that agent, the only one that is left, gets another port.
func TestPortInUse(t *testing.T) {
	t.Parallel()
	c := withPorts(t, 30000)
	s := c.scheduler()
	q := newStream(t, 8, checkpoint)
	q.submit(s)
	now := s.runs("stream")
	free := slices.IndexFunc(c.Agents(), func(a fakemesos.Agent) bool { return len(a.Executors) == 0 })
	in, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", 30000+100*free))
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	lost, _ := c.executor(now.Processes[0].ID)
	begin := time.Now()
	c.MarkGone(lost)
	s.again("stream", startTime, now)
	t.Logf("whole again after %v", time.Since(begin).Round(time.Millisecond))
	tried := c.Agents()[free].Executors
	if len(tried) != 2 {
		t.Errorf("%d workers were started where the port is in use, want 2", len(tried))
	}
	now = s.query("stream")
	for _, part := range []string{fmt.Sprintf("agent p%d", free), fmt.Sprintf("port %d is not used there", 30000+100*free), "address already in use"} {
		if !slices.ContainsFunc(now.Alerts, func(a api.Alert) bool { return strings.Contains(a.Text, part) }) {
			t.Errorf("nobody is told %q: %+v", part, now.Alerts)
		}
	}
	q.finish(s)
	c.quiet()
}
