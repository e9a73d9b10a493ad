package mesos

import (
	"strings"
	"testing"

	pb "github.com/mesos/mesos-go/api/v1/lib"
)

// TestAdvice is about ends of workers that a user must do something about.
func TestAdvice(t *testing.T) {
	fetched := ExecutorSpec{
		Command: ExecutorCommand("./sluice/sluice", "--keys", "/k"), URIs: []string{"http://s1:8090/artifacts/sluice-1.tar.gz"},
		Machine: "linux/amd64", CLibrary: "2.36",
	}
	there := ExecutorSpec{Command: ExecutorCommand("/opt/sluice")}
	const sandbox = "stderr of its sandbox on agent h1 (A1)"
	for _, x := range []struct {
		executor ExecutorSpec
		state    string
		reason   pb.TaskStatus_Reason
		message  string
		exit     int32 // a wait status, if there is no reason
		want     []string
	}{
		{fetched, "", pb.REASON_CONTAINER_LAUNCH_FAILED, "Failed to fetch all URIs", 0,
			[]string{"h1", "http://s1:8090/artifacts/sluice-1.tar.gz", "--advertise"}},
		{there, "", pb.REASON_CONTAINER_LAUNCH_FAILED, "no such user", 0, nil},
		{fetched, "", pb.REASON_EXECUTOR_REGISTRATION_TIMEOUT, "", 0, []string{"--executor_registration_timeout"}},
		{fetched, "TASK_RUNNING", pb.REASON_CONTAINER_LIMITATION_MEMORY, "", 0, []string{"2 cpus", "--mesos-mem"}},
		{fetched, "TASK_RUNNING", pb.REASON_CONTAINER_LIMITATION_DISK, "", 0, []string{"2 cpus", "--mesos-disk"}},
		{fetched, "TASK_RUNNING", pb.REASON_AGENT_REMOVED, "", 0, nil},
		{fetched, "", 0, "", 126 << 8, []string{"exit status 126: ./sluice/sluice cannot be executed there. It is for linux/amd64", sandbox}},
		{there, "", 0, "", 127 << 8, []string{"exit status 127: /opt/sluice is not there", sandbox}},
		{fetched, "", 0, "", 1 << 8, []string{"C library there may be older than ./sluice/sluice needs, which is 2.36", sandbox}},
		{there, "", 0, "", 1 << 8, []string{"which is that of where it was built"}},
		{fetched, "TASK_RUNNING", 0, "", 1 << 8, []string{"exit status 1;", sandbox}},
		{fetched, "", 0, "", 9, []string{"signal 9;", sandbox}},
	} {
		c := &Core{queries: map[string]*query{"q": {executor: x.executor}}}
		w := &worker{rec: workerRecord{Query: "q", Agent: "A1", Hostname: "h1", Resources: "2 cpus", State: x.state}}
		text := ""
		if x.exit != 0 {
			text = c.aboutExit(w, x.exit)
		} else {
			text = c.advice(w, &pb.TaskStatus{Reason: &x.reason, Message: &x.message})
		}
		if (x.want == nil) != (text == "") {
			t.Errorf("%v %d: %q", x.reason, x.exit, text)
		}
		for _, part := range x.want {
			if !strings.Contains(text, part) {
				t.Errorf("%v %d: %q does not say %q", x.reason, x.exit, text, part)
			}
		}
	}
	c, w := &Core{}, &worker{rec: workerRecord{Agent: "A1", Hostname: "h1"}}
	if text := c.aboutExit(w, -1); text != "" {
		t.Errorf("an executor that never ran: %q", text)
	}
	failed, executor := pb.TASK_FAILED, pb.SOURCE_EXECUTOR
	if text := c.advice(w, &pb.TaskStatus{State: &failed, Source: &executor}); !strings.Contains(text, "on agent h1 (A1)") {
		t.Errorf("a failure: %q", text)
	}
	// The query of another scheduler's worker may not be known yet.
	if text := c.exitAdvice(&worker{}, 126<<8) + c.advice(&worker{}, &pb.TaskStatus{}); strings.Contains(text, "executed") {
		t.Error(text)
	}
}
