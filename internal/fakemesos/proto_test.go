package fakemesos

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"github.com/mesos/mesos-go/api/v1/lib/scheduler"
	"github.com/mesos/mesos-go/api/v1/lib/scheduler/calls"
)

// head is a request of mesos-go as a proxy before the master sees it.
type head struct {
	header http.Header
	length int
}

// logProxy passes requests on to the master and keeps their heads, as it was done for proto01.
func logProxy(t *testing.T, c *Cluster) (url string, heads func() []head) {
	to, err := urlOf(c)
	if err != nil {
		t.Fatal(err)
	}
	proxy := httputil.NewSingleHostReverseProxy(to)
	proxy.FlushInterval = -1
	var mu sync.Mutex
	var out []head
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		mu.Lock()
		out = append(out, head{r.Header.Clone(), len(body)})
		mu.Unlock()
		r.Body = io.NopCloser(bytes.NewReader(body))
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	return s.URL, func() []head {
		mu.Lock()
		defer mu.Unlock()
		return append([]head(nil), out...)
	}
}

func urlOf(c *Cluster) (*url.URL, error) { return url.Parse("http://" + c.Endpoint()) }

// recordedHeads reads the protobuf requests of proto01.
func recordedHeads(t *testing.T) []head {
	var out []head
	in := false
	for _, e := range readTranscript(t, "proto01-mesos-go.txt") {
		switch {
		case strings.HasPrefix(e.text, ">>>> [protobuf"):
			out = append(out, head{header: http.Header{}})
			in = true
		case strings.HasPrefix(e.text, "body: "):
			if _, err := fmt.Sscanf(e.text, "body: %d bytes", &out[len(out)-1].length); err != nil {
				t.Fatal(err)
			}
			in = false
		case in:
			name, val, _ := strings.Cut(e.text, ": ")
			out[len(out)-1].header.Add(name, val)
		case strings.HasPrefix(e.text, "scheduler ended"):
			return out
		}
	}
	return out
}

// TestMesosGo makes mesos-go send what it sent when proto01 was recorded, and compares heads and lengths: the subscription,
// a launch, an acknowledgement, a revive, an ACCEPT that launches nothing.
func TestMesosGo(t *testing.T) {
	want := recordedHeads(t)
	if len(want) != 11 {
		t.Fatalf("proto01 has %d requests in protobuf", len(want))
	}
	c := New(t, Options{Agents: []AgentSpec{{Simulate: true}}})
	at, heads := logProxy(t, c)
	f := connectAt(t, at+"/api/v1/scheduler", &mesos.FrameworkInfo{
		User: "root", Name: "example", Checkpoint: ptr(true), FailoverTimeout: ptr(10.0), Role: ptr("*"),
		Capabilities: []mesos.FrameworkInfo_Capability{{Type: mesos.FrameworkInfo_Capability_RESERVATION_REFINEMENT}},
	})
	o := f.offer()
	task := rexecTask("1", o.AgentID.Value, "")
	f.call(calls.Accept(calls.OfferOperations{calls.OpLaunch(task)}.WithOffers(o.ID)).With(calls.RefuseSeconds(0)))
	f.update()
	f.call(calls.Revive())
	o = f.offer()
	f.call(calls.Accept(calls.OfferOperations{calls.OpLaunch()}.WithOffers(o.ID)).With(calls.RefuseSeconds(0)))
	for i, pair := range [][2]int{{0, 0}, {1, 1}, {2, 2}, {4, 3}, {6, 4}} {
		w, g := want[pair[0]], heads()[pair[1]]
		if i != 1 && w.length != g.length { // the launch has paths and ports in it
			t.Errorf("request %d: want %d bytes, got %d", i, w.length, g.length)
		}
		for name := range w.header {
			if name == "Host" || name == "Content-Length" || name == "Mesos-Stream-Id" || name == "Connection" {
				continue
			}
			if w, g := fmt.Sprint(w.header[name]), fmt.Sprint(g.header[name]); w != g {
				t.Errorf("request %d: want %s: %s, got %s", i, name, w, g)
			}
		}
		if hasID := g.header.Get("Mesos-Stream-Id") != ""; hasID != (i > 0) {
			t.Errorf("request %d: Mesos-Stream-Id: %v", i, hasID)
		}
	}
	f.wait(scheduler.Event_HEARTBEAT) // the stream goes on
}

// TestJSONCodec shows that mesos-go's JSON codec fails on the double as it fails on a master (rule 51).
func TestJSONCodec(t *testing.T) {
	c := New(t, Options{})
	resp, err := jsonCaller(c.URL()).Call(context.Background(), calls.Subscribe(frameworkInfo("")))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Close()
	err = resp.Decode(new(scheduler.Event))
	if err == nil || !strings.Contains(err.Error(), `unrecognized enum MasterInfo_Capability_Type value "QUOTA_V2"`) {
		t.Errorf("got %v", err)
	}
}
