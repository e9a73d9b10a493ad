package mesos

import (
	"slices"
	"strings"
	"testing"

	pb "github.com/mesos/mesos-go/api/v1/lib"

	"sluice/dataflow"
	"sluice/internal/fakemesos"
	"sluice/scheduler"
	"sluice/scheduler/shell"
)

// Capacities of the workers of tests.
var (
	gpu = dataflow.Resources{CPUs: 0.5, GPUs: 1}
	ssd = dataflow.Resources{Ports: 2, Attributes: []dataflow.Attribute{{Name: "media", Value: "ssd"}}}
)

// equipped are agents that have different things.
func equipped() fakemesos.Options {
	const rest = "cpus:4;mem:2048;disk:4096;ports:[31000-31009]"
	return fakemesos.Options{Agents: []fakemesos.AgentSpec{
		{Hostname: "gpu1", Resources: rest + ";gpus:1", Simulate: true},
		{Hostname: "gpu2", Resources: rest + ";gpus:1", Simulate: true},
		{Hostname: "ssd1", Resources: rest, Attributes: "media:ssd", Simulate: true},
		{Hostname: "plain", Resources: rest, Simulate: true},
	}}
}

// places are the workers by their capacity, in the order of their agents' names.
func (b *bench) places(c shell.Cluster) map[string][]string {
	hosts := map[string][]string{}
	for _, w := range b.Workers() {
		key := c.Capacity(w.ID).String()
		hosts[key] = append(hosts[key], w.Hostname)
		slices.Sort(hosts[key])
	}
	return hosts
}

// TestCapacities: workers are where they have what they are to have, also for another scheduler, and one that is lost is
// replaced on another agent that has it.
func TestCapacities(t *testing.T) {
	b := newBench(t, equipped())
	b.Framework.Close()
	withGPUs := func(o *Options) { o.GPUs = true }
	b.begin(withGPUs)
	need := small
	need.Ports = 1
	spec := ExecutorSpec{Command: "x", Control: "tcp://127.0.0.1:1"}
	c := b.query("q", need, spec)
	c.Start([]dataflow.Resources{{}, ssd, gpu})
	b.running(3)
	check := func(gpuHost func(string) bool) {
		t.Helper()
		at := b.places(c)
		if g := at[gpu.String()]; len(g) != 1 || !gpuHost(g[0]) {
			t.Errorf("workers are at %v", at)
		}
		if s, none := at[ssd.String()], at["nothing"]; !slices.Equal(s, []string{"ssd1"}) || !slices.Equal(none, []string{"plain"}) {
			t.Errorf("workers are at %v", at)
		}
	}
	check(func(h string) bool { return strings.HasPrefix(h, "gpu") })
	b.Framework.Close()
	b.begin(withGPUs)
	c = b.query("q", need, spec)
	b.running(3)
	check(func(h string) bool { return strings.HasPrefix(h, "gpu") })
	var first WorkerInfo
	for _, w := range b.Workers() {
		if c.Capacity(w.ID).GPUs > 0 {
			first = w
		}
	}
	if c.Capacity("nobody").String() != "nothing" {
		t.Errorf("nobody has %s", c.Capacity("nobody"))
	}
	b.mesos.MarkGone(first.Agent)
	if e := b.end(c); e.ID != first.ID {
		t.Errorf("%+v has ended, not %s", e, first.ID)
	}
	c.Start([]dataflow.Resources{gpu})
	b.running(3)
	check(func(h string) bool { return strings.HasPrefix(h, "gpu") && h != first.Hostname })
	for _, x := range b.mesos.Calls() {
		for _, op := range x.Call.GetAccept().GetOperations() {
			for _, task := range op.Launch.GetTaskInfos() {
				b.checkPorts(&task)
			}
		}
	}
}

// checkPorts: a worker that has ports for operators finds them in its environment, and no other.
func (b *bench) checkPorts(task *pb.TaskInfo) {
	b.t.Helper()
	ports, want := pool(task.Resources).has("ports"), 0
	for _, v := range task.Executor.Command.GetEnvironment().GetVariables() {
		if v.Name == "SLUICE_PORTS" {
			want = len(strings.Split(v.GetValue(), ","))
		}
	}
	if int(ports/1000) != 1+want || want != 0 && want != 2 {
		b.t.Errorf("task %s has %v ports, %d of them for operators", task.TaskID.Value, ports.float(), want)
	}
}

func TestWhatNoWorkerCanHave(t *testing.T) {
	b := newBench(t, simulated(1))
	need := small
	need.Attributes = map[string]string{"media": "disk", "rack": "r1"}
	for _, c := range []struct {
		tasks dataflow.Resources
		part  string
	}{
		{gpu, "--mesos-gpus"},
		{ssd, `attribute media must be "disk" for every worker (--mesos-attributes) and "ssd" for an operator`},
		{dataflow.Resources{Ports: 1000}, ""},
		{dataflow.Resources{Ports: 1001}, "ports is 1001"},
		{dataflow.Resources{Mem: 1 << 62}, "mem is"},
		{dataflow.Resources{Attributes: []dataflow.Attribute{{Name: "rack", Value: "r1"}}}, ""},
		{dataflow.Resources{}, ""},
	} {
		err := b.Check(need, c.tasks)
		if c.part == "" && err != nil || c.part != "" && (err == nil || !strings.Contains(err.Error(), c.part)) {
			t.Errorf("%s: error %v does not say %q", c.tasks, err, c.part)
		}
	}
}

// TestUnable: a worker that cannot run the query ends, counts as one that ended soon, and the next one is elsewhere.
func TestUnable(t *testing.T) {
	b := newBench(t, simulated(2))
	c := b.query("q", small, ExecutorSpec{Command: "x", Control: "tcp://127.0.0.1:1"})
	c.Start(make([]dataflow.Resources, 1))
	w := b.running(1)[0]
	c.Unable(w.ID, "its port is in use")
	alerted(t, c, "cannot run the query")
	if e := b.end(c); e.ID != w.ID || e.Quick != 1 {
		t.Errorf("%+v", e)
	}
	c.Start(make([]dataflow.Resources, 1))
	if next := b.running(1)[0]; next.Agent == w.Agent {
		t.Errorf("the next worker is on agent %s too", next.Agent)
	}
	c.Unable("nobody", "")
	if e := b.end(c); e.ID != scheduler.WorkerID("nobody") {
		t.Errorf("%+v", e)
	}
}

func TestNeedWith(t *testing.T) {
	base := Need{CPUs: 1, MemMB: 100, Ports: 1, Attributes: map[string]string{"rack": "r1"}}
	got, err := base.with(dataflow.Resources{
		CPUs: 0.5, Mem: 1<<20 + 1, Disk: 3 << 20, GPUs: 2, Ports: 3, Attributes: []dataflow.Attribute{{Name: "media", Value: "ssd"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	// What is more than a whole number of MB is rounded up to the next thousandth.
	const want = "1.5 cpus, 101.001 MB of mem, 3 MB of disk, 2 gpus, 4 ports, attribute media=ssd, attribute rack=r1"
	if got.String() != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if len(base.Attributes) != 1 {
		t.Errorf("the base has changed: %s", base)
	}
}

// TestPortsThatAreAvoided are taken last, and what is left is what was not taken.
func TestPortsThatAreAvoided(t *testing.T) {
	p := newPool([]*pb.Offer{{Resources: []pb.Resource{
		{Name: "ports", Ranges: &pb.Value_Ranges{Range: []pb.Value_Range{{Begin: 10, End: 12}, {Begin: 20, End: 20}}}},
		{Name: "ports", Ranges: &pb.Value_Ranges{Range: []pb.Value_Range{{Begin: 65535, End: 70000}}}},
	}}})
	avoid := func(port uint64) bool { return port == 11 || port == 10 }
	for _, step := range []struct {
		n    int
		want []uint64
		left milli
	}{{2, []uint64{12, 20}, 3000}, {2, []uint64{65535, 10}, 1000}, {1, []uint64{11}, 0}, {1, nil, 0}} {
		pieces, ports := p.takePorts(step.n, avoid)
		if !slices.Equal(ports, step.want) || p.has("ports") != step.left || int(pool(pieces).has("ports")/1000) != len(ports) {
			t.Errorf("took %v as %v and left %v, want %v", ports, pieces, p, step.want)
		}
	}
}
