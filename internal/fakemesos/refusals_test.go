package fakemesos

import (
	"strings"
	"testing"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"github.com/mesos/mesos-go/api/v1/lib/scheduler"
)

// TestRefusals launches in one ACCEPT what must be and what must not: rules 24 to 26, with what sched07 and sched14 show one
// by one. What is refused takes nothing of the offer, and changes nothing of what runs.
func TestRefusals(t *testing.T) {
	spec := AgentSpec{Simulate: true, Resources: "cpus:1;mem:320"}
	c := New(t, Options{Agents: []AgentSpec{spec, spec}})
	f := connect(t, c, frameworkInfo(""))
	var offers []mesos.Offer
	for len(offers) < 2 {
		offers = append(offers, f.wait(scheduler.Event_OFFERS).Offers.Offers...)
	}
	first, second := offers[0], offers[1]
	task := func(id, executor, command string, cpus int64) mesos.TaskInfo {
		x := rexecTask(id, first.AgentID.Value, command)
		x.Executor.ExecutorID.Value = executor
		x.Resources = resources{{name: "cpus", milli: cpus}, {name: "mem", milli: 32000}}.show(view{refined: true})
		return x
	}
	elsewhere := task("t4", "e4", "a", 100)
	elsewhere.AgentID = second.AgentID
	f.launch(first,
		task("t1", "e1", "a", 100), // and 100 for its executor
		task("t1", "e2", "a", 100),
		task("t3", "e1", "b", 100),
		elsewhere,
		task("t5", "e1", "a", 900),
		task("t6", "e6", "a", 800), // with 100 for its executor
		task("t7", "e1", "a", 800), // its executor is paid for
		task("t8", "e1", "a", 100),
	)
	for _, want := range []struct {
		id, message string
	}{
		{"t1", "duplicate ID: t1"},
		{"t3", "not compatible with existing ExecutorInfo"},
		{"t4", "uses invalid agent " + second.AgentID.Value},
		{"t5", "more than available"},
		{"t6", "more than available"},
		{"t8", "more than available"},
	} {
		st := f.refused(want.id, mesos.TASK_ERROR)
		if st.GetReason() != mesos.REASON_TASK_INVALID || !strings.Contains(st.GetMessage(), want.message) {
			t.Errorf("%s: %s: %s", want.id, st.GetReason(), st.GetMessage())
		}
	}
	// The id of a task that runs elsewhere, and an offer that is used up.
	again := task("t1", "e9", "a", 100)
	again.AgentID = second.AgentID
	f.launch(second, again)
	if st := f.refused("t1", mesos.TASK_ERROR); !strings.Contains(st.GetMessage(), "duplicate ID: t1") {
		t.Errorf("another agent: %s", st.GetMessage())
	}
	f.launch(first, task("t10", "e10", "a", 100))
	if st := f.refused("t10", mesos.TASK_DROPPED); st.GetReason() != mesos.REASON_INVALID_OFFERS {
		t.Errorf("a used offer: %s: %s", st.GetReason(), st.GetMessage())
	}
	run := map[string]bool{}
	for _, x := range c.Tasks() {
		run[x.ID] = !x.Ended
	}
	if len(run) != 2 || !run["t1"] || !run["t7"] {
		t.Errorf("tasks that run: %v", run)
	}
}

// refused waits for the next update that does not say that a task runs.
func (f *client) refused(task string, state mesos.TaskState) mesos.TaskStatus {
	f.t.Helper()
	for {
		st := f.update()
		if st.GetState() == mesos.TASK_RUNNING {
			continue
		}
		if st.TaskID.Value != task || st.GetState() != state {
			f.t.Fatalf("got an update %s %s (%s), want %s %s", st.TaskID.Value, st.GetState(), st.GetMessage(), task, state)
		}
		return st
	}
}
