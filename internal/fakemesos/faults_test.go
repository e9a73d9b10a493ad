package fakemesos

import (
	"archive/tar"
	"bufio"
	"compress/gzip"
	"context"
	"crypto/tls"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"github.com/mesos/mesos-go/api/v1/lib/scheduler"
	"github.com/mesos/mesos-go/api/v1/lib/scheduler/calls"
)

func isCall(kind scheduler.Call_Type) func(*scheduler.Call) bool {
	return func(c *scheduler.Call) bool { return c.Type == kind }
}

func isUpdate(state mesos.TaskState) func(string, *scheduler.Event) bool {
	return func(_ string, ev *scheduler.Event) bool {
		return ev.Type == scheduler.Event_UPDATE && ev.Update.Status.GetState() == state
	}
}

// one starts a cluster with an agent that simulates, and a framework that holds its offer.
func one(t *testing.T) (*Cluster, *client, mesos.Offer) {
	c := New(t, Options{Agents: []AgentSpec{{Simulate: true}}})
	f := connect(t, c, frameworkInfo(""))
	return c, f, f.offer()
}

// TestLostAnswers loses the answer to calls that take effect: a SUBSCRIBE without an id makes a framework each time.
func TestLostAnswers(t *testing.T) {
	c := New(t, Options{Agents: []AgentSpec{{Simulate: true}}})
	c.FaultCalls(CallFault{Match: isCall(scheduler.Call_SUBSCRIBE), Do: LoseAnswer, Times: 1})
	resp, err := http.Post(c.URL(), typeJSON, strings.NewReader(
		`{"type":"SUBSCRIBE","subscribe":{"framework_info":{"user":"root","name":"x","failover_timeout":60}}}`))
	if err == nil {
		resp.Body.Close()
		t.Fatal("the answer came")
	}
	f := connect(t, c, frameworkInfo(""))
	if got := len(c.Frameworks()); got != 2 {
		t.Errorf("there are %d frameworks, want the lost one and the other", got)
	}
	o := f.offer()
	c.FaultCalls(CallFault{Match: isCall(scheduler.Call_ACCEPT), Do: LoseAnswer, Times: 1})
	accept := calls.Accept(calls.OfferOperations{calls.OpLaunch(rexecTask("t", o.AgentID.Value, ""))}.WithOffers(o.ID))
	accept.FrameworkID = &mesos.FrameworkID{Value: f.id}
	if err := calls.CallNoData(context.Background(), f.cli, accept); err == nil {
		t.Error("the answer to ACCEPT came")
	}
	for len(c.Tasks()) == 0 || c.Tasks()[0].State != mesos.TASK_RUNNING {
		time.Sleep(time.Millisecond)
	}
}

// TestEventFaults drops and duplicates updates.
func TestEventFaults(t *testing.T) {
	c, f, o := one(t)
	c.FaultEvents(EventFault{Match: isUpdate(mesos.TASK_RUNNING), Do: DropEvent, Times: 1})
	start := time.Now()
	f.launch(o, rexecTask("t1", o.AgentID.Value, ""))
	f.expect("t1", mesos.TASK_RUNNING)
	if waited := time.Since(start); waited < 190*time.Millisecond {
		t.Errorf("the dropped update came again after %v, before its re-send", waited)
	}
	c.FaultEvents(EventFault{Match: isUpdate(mesos.TASK_KILLED), Do: DuplicateEvent, Times: 1})
	f.call(calls.Kill("t1", o.AgentID.Value))
	first, second := f.expect("t1", mesos.TASK_KILLED), f.expect("t1", mesos.TASK_KILLED)
	if string(first.UUID) != string(second.UUID) {
		t.Error("the two updates are not the same")
	}
}

// TestLateEvents reorders and delays updates.
func TestLateEvents(t *testing.T) {
	c, f, o := one(t)
	c.FaultEvents(EventFault{
		Match: func(_ string, ev *scheduler.Event) bool { return ev.Type == scheduler.Event_OFFERS }, Do: DropEvent,
	})
	c.FaultEvents(EventFault{
		Match: func(_ string, ev *scheduler.Event) bool {
			return ev.Type == scheduler.Event_UPDATE && ev.Update.Status.TaskID.Value == "t2"
		}, Do: ReorderEvent, Times: 1,
	})
	f.launch(o, rexecTask("t2", o.AgentID.Value, ""))
	for len(c.Tasks()) == 0 || c.Tasks()[0].State != mesos.TASK_RUNNING {
		time.Sleep(time.Millisecond)
	}
	f.call(calls.Kill("t3", o.AgentID.Value)) // of a task that is not known: the next event
	if a, b := f.update(), f.update(); a.TaskID.Value != "t3" || b.TaskID.Value != "t2" {
		t.Errorf("got %s before %s", a.TaskID.Value, b.TaskID.Value)
	}
	c.FaultEvents(EventFault{Match: isUpdate(mesos.TASK_KILLED), Do: DelayEvent, For: 50 * time.Millisecond, Times: 1})
	start := time.Now()
	f.call(calls.Kill("t2", o.AgentID.Value))
	f.expect("t2", mesos.TASK_KILLED)
	if waited := time.Since(start); waited < 50*time.Millisecond {
		t.Errorf("the delayed update came after %v", waited)
	}
}

// TestPartition loses an agent for longer than its ping timeout, and a launch on the way to it.
func TestPartition(t *testing.T) {
	c, f, o := one(t)
	f.launch(o, rexecTask("t1", o.AgentID.Value, ""))
	f.expect("t1", mesos.TASK_RUNNING)
	o = f.offer()
	c.Partition(o.AgentID.Value)
	if st := f.expect("t1", mesos.TASK_UNREACHABLE); st.UUID != nil || st.ExecutorID.GetValue() != "e-t1" {
		t.Errorf("got %v", st)
	}
	if got := f.wait(scheduler.Event_RESCIND).Rescind.OfferID.Value; got != o.ID.Value {
		t.Errorf("%s is rescinded, want %s", got, o.ID.Value)
	}
	f.wait(scheduler.Event_FAILURE)
	c.Heal(o.AgentID.Value)
	f.expect("t1", mesos.TASK_RUNNING)
	o = f.offer()
	c.Partition(o.AgentID.Value)
	f.launch(o, rexecTask("t2", o.AgentID.Value, ""))
	c.Heal(o.AgentID.Value)
	f.expect("t2", mesos.TASK_DROPPED)
}

// TestFailOver moves a framework with its task to the second master.
func TestFailOver(t *testing.T) {
	c := New(t, Options{Masters: 2, Agents: []AgentSpec{{Simulate: true}}})
	f := connect(t, c, frameworkInfo("my-own-id"))
	if f.id != "my-own-id" {
		t.Fatalf("the id is %s", f.id)
	}
	o := f.offer()
	f.launch(o, rexecTask("t1", o.AgentID.Value, ""))
	f.expect("t1", mesos.TASK_RUNNING)
	old := c.Endpoint()
	c.FailOver()
	for range f.events { // the stream breaks
	}
	for c.Endpoint() == old {
		time.Sleep(time.Millisecond)
	}
	for !c.Agents()[0].Registered {
		time.Sleep(time.Millisecond)
	}
	f = connect(t, c, frameworkInfo("my-own-id"))
	f.call(calls.Reconcile())
	if st := f.expect("t1", mesos.TASK_RUNNING); st.GetReason() != mesos.REASON_RECONCILIATION {
		t.Errorf("got %v", st)
	}
}

// TestStreamCut breaks a stream: the framework is away until it subscribes again.
func TestStreamCut(t *testing.T) {
	c, f, o := one(t)
	f.launch(o, rexecTask("t1", o.AgentID.Value, ""))
	f.expect("t1", mesos.TASK_RUNNING)
	c.CutStream(f.id)
	for range f.events {
	}
	if c.Frameworks()[0].Connected {
		t.Error("the framework is still connected")
	}
	f = connect(t, c, frameworkInfo(f.id))
	f.call(calls.Kill("t1", o.AgentID.Value))
	f.expect("t1", mesos.TASK_KILLED)
	for !c.Settled() {
		time.Sleep(time.Millisecond)
	}
}

// TestUnknown is a call that no transcript shows: it is refused and noted.
func TestUnknown(t *testing.T) {
	c := New(t, Options{AllowUnknown: true, Agents: []AgentSpec{{Simulate: true}}})
	f := connect(t, c, frameworkInfo(""))
	call := calls.ReconcileOperations(nil)
	call.FrameworkID = &mesos.FrameworkID{Value: f.id}
	if err := calls.CallNoData(context.Background(), f.cli, call); err == nil {
		t.Error("the call was taken")
	}
	if got := c.Unknown(); len(got) != 1 || !strings.Contains(got[0], "RECONCILE_OPERATIONS") {
		t.Errorf("noted: %q", got)
	}
}

// TestFetch starts a real command whose files are fetched: a plain one, one over HTTP, and an archive.
func TestFetch(t *testing.T) {
	dir := t.TempDir()
	archive := filepath.Join(dir, "lib.tar.gz")
	writeArchive(t, archive, "lib/data", "from the archive\n")
	script := "#!/bin/sh\ncat lib/data plain\necho $MESOS_SANDBOX >&2\n"
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(script))
	}))
	defer web.Close()
	plain := filepath.Join(dir, "plain")
	if err := os.WriteFile(plain, []byte("a plain file\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c := New(t, Options{Agents: []AgentSpec{{}}})
	f := connect(t, c, frameworkInfo(""))
	o := f.offer()
	f.launch(o, mesos.TaskInfo{
		Name: "t", TaskID: mesos.TaskID{Value: "t"}, AgentID: o.AgentID, Resources: small(),
		Command: &mesos.CommandInfo{Value: ptr("./run.sh"), URIs: []mesos.CommandInfo_URI{
			{Value: web.URL + "/run.sh", Executable: ptr(true)}, {Value: archive}, {Value: plain},
		}},
	})
	f.expect("t", mesos.TASK_STARTING)
	f.expect("t", mesos.TASK_RUNNING)
	f.expect("t", mesos.TASK_FINISHED)
	sandbox := c.Agents()[0].Executors[0].Dir
	for name, want := range map[string]string{"stdout": "from the archive\na plain file\n", "stderr": sandbox + "\n"} {
		got, err := os.ReadFile(filepath.Join(sandbox, name))
		if err != nil || string(got) != want {
			t.Errorf("%s holds %q, want %q (%v)", name, got, want, err)
		}
	}
}

func writeArchive(t *testing.T, to, name, text string) {
	t.Helper()
	file, err := os.Create(to)
	if err != nil {
		t.Fatal(err)
	}
	zw := gzip.NewWriter(file)
	tw := tar.NewWriter(zw)
	if err := tw.WriteHeader(&tar.Header{Name: name, Mode: 0o600, Size: int64(len(text)), Typeflag: tar.TypeReg}); err != nil {
		t.Fatal(err)
	}
	if _, err := tw.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	for _, x := range []interface{ Close() error }{tw, zw, file} {
		if err := x.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestHTTPS subscribes at a master that speaks HTTPS and asks for credentials.
func TestHTTPS(t *testing.T) {
	own := httptest.NewTLSServer(http.NotFoundHandler())
	defer own.Close()
	c := New(t, Options{TLS: &tls.Config{Certificates: own.TLS.Certificates}, Users: map[string]string{"alice": "wonder"}})
	for secret, want := range map[string]int{"wonder": http.StatusOK, "nope": http.StatusUnauthorized} {
		req, err := http.NewRequest(http.MethodPost, c.URL(), strings.NewReader(
			`{"type":"SUBSCRIBE","subscribe":{"framework_info":{"user":"root","name":"x"}}}`))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", typeJSON)
		req.SetBasicAuth("alice", secret)
		resp, err := own.Client().Do(req)
		if err != nil {
			t.Fatal(err)
		}
		if resp.StatusCode != want {
			t.Errorf("with the secret %q: %s", secret, resp.Status)
		}
		if want == http.StatusOK {
			raw, err := readRecord(bufio.NewReader(resp.Body))
			if err != nil || !strings.Contains(string(raw), "SUBSCRIBED") {
				t.Errorf("got %q, %v", raw, err)
			}
		}
		resp.Body.Close()
	}
}

// TestLeaderless asks a master that knows of no leader, and again when it leads itself.
func TestLeaderless(t *testing.T) {
	c := New(t, Options{Masters: 2})
	other := "http://" + c.Endpoints()[1]
	c.Leaderless(100 * time.Millisecond)
	if status, text := ask(t, other, `{"type":"GET_AGENTS"}`); status != http.StatusServiceUnavailable || text != "No leader elected" {
		t.Errorf("without a leader: %d %s", status, text)
	}
	for c.Endpoint() != c.Endpoints()[1] {
		time.Sleep(time.Millisecond)
	}
	if status, text := ask(t, other, `{"type":"GET_AGENTS"}`); status != http.StatusOK {
		t.Errorf("at the new leader: %d %s", status, text)
	}
}

// TestGzip compares when answers are compressed with oper05: from 1024 bytes on.
func TestGzip(t *testing.T) {
	c := New(t, Options{Agents: []AgentSpec{{}, {}, {}}})
	for call, want := range map[string]bool{"GET_AGENTS": true, "GET_HEALTH": false} {
		resp, err := http.Post("http://"+c.Endpoint()+"/api/v1", typeJSON, strings.NewReader(`{"type":"`+call+`"}`))
		if err != nil {
			t.Fatal(err)
		}
		raw, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || !strings.HasPrefix(string(raw), `{"type":"`+call+`"`) || resp.Uncompressed != want {
			t.Errorf("%s: compressed is %v, %q, %v", call, resp.Uncompressed, raw, err)
		}
	}
}

func ask(t *testing.T, master, call string) (int, string) {
	t.Helper()
	resp, err := http.Post(master+"/api/v1", typeJSON, strings.NewReader(call))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(raw)
}
