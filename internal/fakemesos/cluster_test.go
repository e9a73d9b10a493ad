package fakemesos

import (
	"context"
	"flag"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"github.com/mesos/mesos-go/api/v1/lib/encoding/codecs"
	"github.com/mesos/mesos-go/api/v1/lib/httpcli"
	"github.com/mesos/mesos-go/api/v1/lib/httpcli/httpsched"
	"github.com/mesos/mesos-go/api/v1/lib/scheduler"
	"github.com/mesos/mesos-go/api/v1/lib/scheduler/calls"
)

// TestMain lets the test binary be an executor, too: a real process that agents start.
func TestMain(m *testing.M) {
	if os.Getenv("FAKEMESOS_REXEC") != "" {
		os.Exit(runRexec(0.02)(Process{
			Context: context.Background(), Env: os.Environ(),
			Command: &mesos.CommandInfo{Value: ptr(os.Getenv("FAKEMESOS_REXEC"))},
		}))
	}
	// Replays wait most of the time: more of them than there are processors run at once.
	flag.Parse()
	if err := flag.Set("test.parallel", "4"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// client is a framework that speaks protobuf through mesos-go.
type client struct {
	t      *testing.T
	cli    calls.Caller
	id     string
	events chan *scheduler.Event
	stop   context.CancelFunc

	skipped []mesos.Offer
}

func frameworkInfo(id string) *mesos.FrameworkInfo {
	info := &mesos.FrameworkInfo{
		User: "root", Name: "test", Roles: []string{"web"}, Checkpoint: ptr(true), FailoverTimeout: ptr(600.0),
		Capabilities: []mesos.FrameworkInfo_Capability{
			{Type: mesos.FrameworkInfo_Capability_MULTI_ROLE}, {Type: mesos.FrameworkInfo_Capability_RESERVATION_REFINEMENT},
			{Type: mesos.FrameworkInfo_Capability_PARTITION_AWARE},
		},
	}
	if id != "" {
		info.ID = &mesos.FrameworkID{Value: id}
	}
	return info
}

// connect subscribes a framework and waits until it is.
func connect(t *testing.T, c *Cluster, info *mesos.FrameworkInfo) *client {
	t.Helper()
	return connectAt(t, c.URL(), info)
}

func jsonCaller(url string) calls.Caller {
	return httpsched.NewCaller(httpcli.New(httpcli.Endpoint(url), httpcli.Codec(codecs.ByMediaType[codecs.MediaTypeJSON])))
}

func connectAt(t *testing.T, url string, info *mesos.FrameworkInfo) *client {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	t.Cleanup(stop)
	f := &client{t: t, events: make(chan *scheduler.Event, 10000), stop: stop}
	f.cli = httpsched.NewCaller(httpcli.New(
		httpcli.Endpoint(url), httpcli.Codec(codecs.ByMediaType[codecs.MediaTypeProtobuf]),
	))
	call := calls.Subscribe(info)
	call.FrameworkID = info.ID
	resp, err := f.cli.Call(ctx, call)
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(f.events)
		defer resp.Close()
		for {
			ev := new(scheduler.Event)
			if err := resp.Decode(ev); err != nil {
				return
			}
			f.events <- ev
		}
	}()
	f.id = f.wait(scheduler.Event_SUBSCRIBED).Subscribed.FrameworkID.Value
	return f
}

func (f *client) call(call *scheduler.Call) {
	f.t.Helper()
	call.FrameworkID = &mesos.FrameworkID{Value: f.id}
	if err := calls.CallNoData(context.Background(), f.cli, call); err != nil {
		f.t.Fatal(call.Type, err)
	}
}

// wait skips to the next event of a type.
func (f *client) wait(kind scheduler.Event_Type) *scheduler.Event {
	f.t.Helper()
	limit := time.After(10 * time.Second)
	for {
		select {
		case ev, ok := <-f.events:
			if !ok {
				f.t.Fatalf("the stream ended before %s came", kind)
			}
			if ev.Type == kind {
				return ev
			}
			f.skip(ev)
		case <-limit:
			f.t.Fatalf("no %s came", kind)
		}
	}
}

// skip remembers the offers of an event that is not waited for: they stay open.
func (f *client) skip(ev *scheduler.Event) {
	switch ev.Type {
	case scheduler.Event_OFFERS:
		f.skipped = append(f.skipped, ev.Offers.Offers...)
	case scheduler.Event_RESCIND:
		f.skipped = slices.DeleteFunc(f.skipped, func(o mesos.Offer) bool { return o.ID == ev.Rescind.OfferID })
	}
}

// update waits for an update and acknowledges it.
func (f *client) update() mesos.TaskStatus {
	f.t.Helper()
	st := f.wait(scheduler.Event_UPDATE).Update.Status
	if st.UUID != nil {
		f.call(calls.Acknowledge(st.AgentID.Value, st.TaskID.Value, st.UUID))
	}
	return st
}

// expect waits for the next update and compares it.
func (f *client) expect(task string, state mesos.TaskState) mesos.TaskStatus {
	f.t.Helper()
	st := f.update()
	if st.TaskID.Value != task || st.GetState() != state {
		f.t.Fatalf("got an update %s %s (%s), want %s %s", st.TaskID.Value, st.GetState(), st.GetMessage(), task, state)
	}
	return st
}

func small() []mesos.Resource {
	return resources{{name: "cpus", milli: 100}, {name: "mem", milli: 32000}}.show(view{refined: true})
}

// rexecTask is a task on a rexec executor.
func rexecTask(id, agent, args string) mesos.TaskInfo {
	return mesos.TaskInfo{
		Name: id, TaskID: mesos.TaskID{Value: id}, AgentID: mesos.AgentID{Value: agent}, Resources: small(),
		Executor: &mesos.ExecutorInfo{
			Type: mesos.ExecutorInfo_CUSTOM, ExecutorID: mesos.ExecutorID{Value: "e-" + id}, Resources: small(),
			Command: &mesos.CommandInfo{Shell: ptr(false), Value: ptr("/proc/self/exe"), Arguments: []string{"rexec"},
				Environment: &mesos.Environment{Variables: []mesos.Environment_Variable{{Name: "FAKEMESOS_REXEC", Value: ptr("rexec " + args)}}}},
		},
	}
}

func (f *client) launch(o mesos.Offer, tasks ...mesos.TaskInfo) {
	f.t.Helper()
	f.call(calls.Accept(calls.OfferOperations{calls.OpLaunch(tasks...)}.WithOffers(o.ID)))
}

func (f *client) offer() mesos.Offer {
	f.t.Helper()
	if len(f.skipped) > 0 {
		o := f.skipped[0]
		f.skipped = f.skipped[1:]
		return o
	}
	return f.wait(scheduler.Event_OFFERS).Offers.Offers[0]
}

// TestExecutors runs a task on an executor that is a process, and on one inside this process.
func TestExecutors(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for name, spec := range map[string]AgentSpec{"process": {}, "function": {Run: runRexec(0.02)}} {
		t.Run(name, func(t *testing.T) {
			c := New(t, Options{Agents: []AgentSpec{spec}})
			f := connect(t, c, frameworkInfo(""))
			o := f.offer()
			task := rexecTask("t1", o.AgentID.Value, "-mode=normal")
			task.Executor.Command.Value = &exe
			if name == "function" {
				task.Executor.Command.Value = ptr("rexec -mode=normal")
			}
			f.launch(o, task)
			f.expect("t1", mesos.TASK_RUNNING)
			f.call(calls.Message(o.AgentID.Value, "e-t1", []byte("ping")))
			if got := string(f.wait(scheduler.Event_MESSAGE).Message.Data); got != "echo: ping" {
				t.Errorf("the executor answered %q", got)
			}
			f.call(calls.Kill("t1", o.AgentID.Value))
			f.expect("t1", mesos.TASK_KILLED)
			f.call(calls.Message(o.AgentID.Value, "e-t1", []byte("exit7")))
			if got := f.wait(scheduler.Event_FAILURE).Failure.GetStatus(); got != 7<<8 {
				t.Errorf("the wait status is %d", got)
			}
		})
	}
}

// TestAgentRestart is the restart of an agent under an executor that is a process, with checkpoint.
func TestAgentRestart(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := New(t, Options{Agents: []AgentSpec{{}}, Times: Times{Reregister: 500 * time.Millisecond, PingTimeout: 10 * time.Second}})
	f := connect(t, c, frameworkInfo(""))
	o := f.offer()
	task := rexecTask("t1", o.AgentID.Value, "-mode=normal")
	task.Executor.Command.Value = &exe
	f.launch(o, task)
	f.expect("t1", mesos.TASK_RUNNING)
	c.StopAgent(o.AgentID.Value)
	c.StartAgent(o.AgentID.Value)
	for !c.Agents()[0].Registered {
		time.Sleep(time.Millisecond)
	}
	f.call(calls.Kill("t1", o.AgentID.Value))
	f.expect("t1", mesos.TASK_KILLED)
}

// TestMany is 1,000 tasks over 200 agents.
func TestMany(t *testing.T) {
	c := New(t, Options{Agents: slices.Repeat([]AgentSpec{{Simulate: true}}, 200)})
	f := connect(t, c, frameworkInfo(""))
	start := time.Now()
	launched := 0
	for launched < 1000 {
		for _, o := range f.wait(scheduler.Event_OFFERS).Offers.Offers {
			var tasks []mesos.TaskInfo
			for range 5 {
				task := rexecTask(fmt.Sprint("t", launched), o.AgentID.Value, "")
				task.Executor.ExecutorID.Value = "e"
				tasks = append(tasks, task)
				launched++
			}
			f.launch(o, tasks...)
		}
	}
	seen := map[string]bool{}
	for len(seen) < 1000 {
		st := f.update()
		if st.GetState() != mesos.TASK_RUNNING {
			t.Fatal(st)
		}
		seen[st.TaskID.Value] = true
	}
	t.Logf("1000 tasks ran after %v", time.Since(start))
}
