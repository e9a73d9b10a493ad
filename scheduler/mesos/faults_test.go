package mesos

import (
	"context"
	"crypto/tls"
	"encoding/pem"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	sched "github.com/mesos/mesos-go/api/v1/lib/scheduler"

	"sluice/dataflow"
	"sluice/internal/fakemesos"
	"sluice/scheduler/shell"
	"sluice/scheduler/store"
)

// called counts the calls of a type.
func (b *bench) called(kind string) int {
	n := 0
	for _, c := range b.mesos.Calls() {
		if c.Type == kind {
			n++
		}
	}
	return n
}

// alerted waits for an alert.
func alerted(t *testing.T, c shell.Cluster, part string) {
	t.Helper()
	end := time.After(time.Minute)
	for {
		select {
		case text := <-c.Alerts():
			if strings.Contains(text, part) {
				return
			}
		case <-end:
			t.Fatalf("nobody was told %q", part)
		}
	}
}

func TestWorkersLiveOnWhileAnotherMasterBeginsToLead(t *testing.T) {
	h := newHost(t)
	h.listen(controlAddr)
	o := h.agents(2)
	o.Masters = 3
	b := newHostBench(t, o)
	c := b.query("q", small, onHost)
	c.Start(make([]dataflow.Resources, 1))
	w := b.running(1)[0]
	id, _ := b.ID()
	b.mesos.FailOver()
	eventually(t, "it is subscribed to another master", func() bool {
		f := b.mesos.Frameworks()
		return len(f) == 1 && f[0].Connected && f[0].ID == id
	})
	c.Start(make([]dataflow.Resources, 1))
	ws := b.running(2)
	if ws[0].ID != w.ID && ws[1].ID != w.ID {
		t.Errorf("%s is not there any more: %+v", w.ID, ws)
	}
	c.Kill(w.ID)
	if e := b.end(c); e.ID != w.ID {
		t.Errorf("%+v", e)
	}
}

func TestLostAnswersAndEventsChangeNothing(t *testing.T) {
	h := newHost(t)
	h.listen(controlAddr)
	b := newHostBench(t, h.agents(3))
	c := b.query("q", small, onHost)
	first := func(kind sched.Call_Type) func(*sched.Call) bool {
		return func(c *sched.Call) bool { return c.Type == kind }
	}
	for _, f := range []fakemesos.CallFault{
		{Match: first(sched.Call_REVIVE), Do: fakemesos.LoseCall, Times: 1},
		{Match: first(sched.Call_ACCEPT), Do: fakemesos.LoseAnswer, Times: 1},
		{Match: first(sched.Call_ACKNOWLEDGE), Do: fakemesos.LoseCall, Times: 2},
		{Match: first(sched.Call_SUBSCRIBE), Do: fakemesos.LoseAnswer, Times: 1},
		{Match: first(sched.Call_RECONCILE), Do: fakemesos.RefuseCall, Times: 1},
	} {
		b.mesos.FaultCalls(f)
	}
	b.mesos.FaultEvents(fakemesos.EventFault{Do: fakemesos.DuplicateEvent, Times: 10, Match: func(_ string, e *sched.Event) bool {
		return e.Type == sched.Event_UPDATE
	}})
	c.Start(make([]dataflow.Resources, 3))
	ws := b.running(3)
	eventually(t, "all updates are acknowledged", b.mesos.Settled)
	if tasks := b.mesos.Tasks(); len(tasks) != 3 || len(b.mesos.Frameworks()) != 1 {
		t.Errorf("tasks %+v of %+v", tasks, b.mesos.Frameworks())
	}
	c.Kill(ws[0].ID)
	if e := b.end(c); e.ID != ws[0].ID {
		t.Errorf("%+v", e)
	}
	select {
	case e := <-c.Ended():
		t.Errorf("%+v has ended too", e)
	case <-time.After(100 * time.Millisecond):
	}
}

func TestAnUnreachableWorkerHasEndedWhenItMustHave(t *testing.T) {
	b := newBench(t, simulated(2))
	c := b.query("q", small, ExecutorSpec{Command: "x", Control: "tcp://127.0.0.1:1"})
	c.Start(make([]dataflow.Resources, 2))
	ws := b.running(2)
	b.mesos.Partition(ws[0].Agent)
	eventually(t, "it is lost", func() bool { return b.Workers()[0].Lost })
	b.mesos.Heal(ws[0].Agent)
	eventually(t, "it is back", func() bool { return !b.Workers()[0].Lost })
	b.mesos.Partition(ws[0].Agent)
	eventually(t, "it is lost", func() bool { return b.Workers()[0].Lost })
	killed := time.Now()
	c.Kill(ws[0].ID)
	// As Config.Silence and Config.Margin have it.
	if e := b.end(c); e.ID != ws[0].ID || time.Since(killed) < 500*time.Millisecond {
		t.Errorf("%+v after %v", e, time.Since(killed))
	}
	b.mesos.MarkGone(ws[1].Agent)
	if e := b.end(c); e.ID != ws[1].ID {
		t.Errorf("%+v", e)
	}
}

func TestAFrameworkThatIsRemovedBeginsAnew(t *testing.T) {
	b := newBench(t, simulated(2))
	c := b.query("q", small, ExecutorSpec{Command: "x", Control: "tcp://127.0.0.1:1"})
	c.Start(make([]dataflow.Resources, 1))
	b.running(1)
	old, _ := b.ID()
	req, err := http.NewRequest(http.MethodPost, "http://"+b.mesos.Endpoint()+"/api/v1",
		strings.NewReader(`{"type":"TEARDOWN","teardown":{"framework_id":{"value":"`+old+`"}}}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(req)
	if err != nil || res.StatusCode != http.StatusOK && res.StatusCode != http.StatusAccepted {
		t.Fatalf("TEARDOWN: %+v, error %v", res, err)
	}
	res.Body.Close()
	alerted(t, c, "MESOS HAS REMOVED THE FRAMEWORK "+old)
	b.end(c)
	c.Start(make([]dataflow.Resources, 1))
	b.running(1)
	if id, up := b.ID(); id == old || !up {
		t.Errorf("it is %s, subscribed %v", id, up)
	}
}

func TestWorkersMoveAwayFromAgentsThatAreToBeMaintained(t *testing.T) {
	b := newBench(t, simulated(2))
	c := b.query("q", small, ExecutorSpec{Command: "x", Control: "tcp://127.0.0.1:1"})
	c.Start(make([]dataflow.Resources, 1))
	w := b.running(1)[0]
	b.mesos.Maintain(w.Agent, time.Now().Add(time.Hour), time.Hour)
	if e := b.end(c); e.ID != w.ID {
		t.Errorf("%+v", e)
	}
	if ws := b.running(1); ws[0].Agent == w.Agent {
		t.Errorf("%+v", ws)
	}
	eventually(t, "the agent may go", func() bool { return b.called("ACCEPT_INVERSE_OFFERS") > 0 })
}

func TestPrincipalsAreAuthenticated(t *testing.T) {
	o := simulated(1)
	o.Users = map[string]string{"sluice": "secret"}
	b := newBench(t, o) // without credentials
	alerted(t, b.query("q", small, ExecutorSpec{Command: "x", Control: "c"}), "401 Unauthorized")
	if _, up := b.ID(); up {
		t.Error("subscribed without a secret")
	}
	b.Framework.Close()
	b.begin(func(o *Options) { o.Principal, o.Secret = "sluice", "secret" })
	b.query("q", small, ExecutorSpec{Command: "x", Control: "c"}).Start(make([]dataflow.Resources, 1))
	b.running(1)
}

func TestMastersMaySpeakTLS(t *testing.T) {
	b := newBench(t, simulated(1))
	b.Framework.Close()
	to := &url.URL{Scheme: "http", Host: b.mesos.Endpoint()}
	front := httptest.NewUnstartedServer(&httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(to) },
		FlushInterval: -1,
	})
	front.Config.ErrorLog = log.New(io.Discard, "", 0)
	front.StartTLS()
	defer front.Close()
	ca := filepath.Join(t.TempDir(), "ca.pem")
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: front.Certificate().Raw})
	if err := os.WriteFile(ca, text, 0o600); err != nil {
		t.Fatal(err)
	}
	b.begin(func(o *Options) {
		o.Masters, o.HTTPS, o.CAFile = []string{front.Listener.Addr().String()}, true, ca
	})
	b.query("q", small, ExecutorSpec{Command: "x", Control: "c"}).Start(make([]dataflow.Resources, 1))
	b.running(1)
	b.Framework.Close()
	if _, err := (&tls.Dialer{}).DialContext(context.Background(), "tcp", front.Listener.Addr().String()); err == nil {
		t.Error("the certificate is good without the file too")
	}
}

// detector is one that the test tells who leads.
type detector chan string

// Masters implements Detector.
func (d detector) Masters() <-chan string { return d }

func TestADetectorSaysWhichMasterLeads(t *testing.T) {
	b := newBench(t, simulated(1))
	b.Framework.Close()
	d := make(detector, 3)
	b.begin(func(o *Options) { o.Masters, o.Detector = nil, d })
	c := b.query("q", small, ExecutorSpec{Command: "x", Control: "c"})
	c.Start(make([]dataflow.Resources, 1))
	other, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	d <- other.Addr().String()
	conn, err := other.Accept()
	if err != nil {
		t.Fatal(err)
	}
	conn.Close()
	d <- ""
	d <- b.mesos.Endpoint()
	b.running(1)
}

func TestTwoSchedulersCannotBeOneFramework(t *testing.T) {
	b := newBench(t, simulated(1))
	first := b.Framework
	b.query("q", small, ExecutorSpec{Command: "x", Control: "c"}).Start(make([]dataflow.Resources, 1))
	b.running(1)
	b.begin(nil)
	select {
	case <-first.Done():
	case <-time.After(time.Minute):
		t.Fatal("the first one goes on")
	}
	if err := first.Err(); !errors.Is(err, store.ErrVersion) {
		t.Errorf("error %v", err)
	}
	first.Close()
	b.running(1)
}

func TestAQueryThatIsOverHasNoWorkers(t *testing.T) {
	b := newBench(t, simulated(3))
	c := b.query("q", small, ExecutorSpec{Command: "x", Control: "c"})
	c.Start(make([]dataflow.Resources, 3))
	b.running(3)
	c.Close(50 * time.Millisecond)
	for range 3 {
		b.end(c)
	}
	eventually(t, "it is forgotten", func() bool {
		b.mu.Lock()
		defer b.mu.Unlock()
		return len(b.clusters) == 0 && len(b.core.queries) == 0
	})
}

func TestAShellThatClosesLateEndsNoWorkersOfTheNext(t *testing.T) {
	b := newBench(t, simulated(1))
	first := b.query("q", small, ExecutorSpec{Command: "x", Control: "c"}).(*cluster)
	first.Start(make([]dataflow.Resources, 1))
	b.running(1)
	second := b.query("q", small, ExecutorSpec{Command: "x", Control: "d"})
	first.Close(0)
	first.finish(0) // it returns, for it has nothing to wait for
	b.mu.Lock()
	q := b.core.queries["q"]
	over := q == nil || q.closed
	b.mu.Unlock()
	if over {
		t.Error("the query is closed, though it has another shell")
	}
	if n := len(second.Running()); n != 1 {
		t.Errorf("%d workers run", n)
	}
}

func TestWhatCannotBeIsRefused(t *testing.T) {
	b := newBench(t, simulated(1))
	for _, c := range []struct {
		need Need
		part string
	}{
		{Need{}, "at least 0.02 cpus"},
		{Need{CPUs: -1, MemMB: 64}, "cpus is -1"},
		{Need{CPUs: 1, MemMB: 64, Ports: -1}, "ports is -1"},
		{Need{CPUs: 1, MemMB: 64, GPUs: 1}, "GPUs"},
		{Need{CPUs: 1, MemMB: 64, Roles: []string{"x"}}, `role "x"`},
	} {
		if _, err := b.Cluster("q", c.need, ExecutorSpec{}); err == nil || !strings.Contains(err.Error(), c.part) {
			t.Errorf("%+v: error %v does not say %q", c.need, err, c.part)
		}
	}
	for _, c := range []struct {
		change func(*Options)
		part   string
	}{
		{func(o *Options) { o.Store = nil }, "no store"},
		{func(o *Options) { o.Masters = nil }, "masters or a detector"},
		{func(o *Options) { o.Masters = []string{"x"} }, "HOST:PORT"},
		{func(o *Options) { o.User = "" }, "user"},
		{func(o *Options) { o.Secret = "x" }, "principal"},
		{func(o *Options) { o.CAFile = "x" }, "HTTPS"},
		{func(o *Options) { o.HTTPS, o.CAFile = true, "/nonexistent" }, "/nonexistent"},
		{func(o *Options) { o.FailoverTimeout, o.Silence = time.Second, time.Minute }, "longer failover timeout"},
	} {
		o := Options{Config: fast(&b.ids), Store: b.store, Masters: []string{"h:1"}}
		c.change(&o)
		if _, err := New(o); err == nil || !strings.Contains(err.Error(), c.part) {
			t.Errorf("error %v does not say %q", err, c.part)
		}
	}
}

func TestWorkersOfAnAgentThatIsDrainedEnd(t *testing.T) {
	h := newHost(t)
	h.listen(controlAddr)
	b := newHostBench(t, h.agents(2))
	c := b.query("q", small, onHost)
	c.Start(make([]dataflow.Resources, 1))
	w := b.running(1)[0]
	b.mesos.Drain(w.Agent)
	if e := b.end(c); e.ID != w.ID || !strings.Contains(e.Status, "killed") {
		t.Errorf("%+v", e)
	}
	c.Start(make([]dataflow.Resources, 1))
	if ws := b.running(1); ws[0].Agent == w.Agent {
		t.Errorf("%+v", ws)
	}
}

func TestAMasterThatRestartsKeepsWorkers(t *testing.T) {
	h := newHost(t)
	h.listen(controlAddr)
	b := newHostBench(t, h.agents(2))
	c := b.query("q", small, onHost)
	c.Start(make([]dataflow.Resources, 2))
	before := b.running(2)
	id, _ := b.ID()
	b.mesos.RestartMaster(50 * time.Millisecond)
	eventually(t, "it is subscribed again, and has asked for its workers", func() bool {
		f := b.mesos.Frameworks()
		return len(f) == 1 && f[0].ID == id && f[0].Connected && b.called("RECONCILE") > 0
	})
	h.die(string(before[0].ID), "later")
	if e := b.end(c); e.ID != before[0].ID || !strings.Contains(e.Status, "later") {
		t.Errorf("%+v", e)
	}
	c.Kill(before[1].ID)
	if e := b.end(c); e.ID != before[1].ID {
		t.Errorf("%+v", e)
	}
}
