package mesos

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gogo/protobuf/proto"
	pb "github.com/mesos/mesos-go/api/v1/lib"
	exec "github.com/mesos/mesos-go/api/v1/lib/executor"
	"go.uber.org/goleak"

	"sluice/executor/transport"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestTheEnvironmentIsRead(t *testing.T) {
	env := map[string]string{
		"MESOS_AGENT_ENDPOINT": "127.0.0.1:5051", "MESOS_FRAMEWORK_ID": "f", "MESOS_EXECUTOR_ID": "e", "MESOS_CHECKPOINT": "1",
		"MESOS_RECOVERY_TIMEOUT": "15mins", "MESOS_SUBSCRIPTION_BACKOFF_MAX": "250ms", "MESOS_EXECUTOR_SHUTDOWN_GRACE_PERIOD": "7secs",
	}
	get := func(name string) string { return env[name] }
	want := settings{framework: "f", executor: "e", checkpoint: true, recovery: 15 * time.Minute, backoffMax: 250 * time.Millisecond, grace: 7 * time.Second}
	if s, err := readSettings(get); err != nil || s != want {
		t.Errorf("%+v, error %v", s, err)
	}
	if !Here(get) || Here(func(string) string { return "" }) {
		t.Error("it is not known who has started the process")
	}
	for name, value := range map[string]string{
		"MESOS_FRAMEWORK_ID": "", "MESOS_RECOVERY_TIMEOUT": "soon", "MESOS_SUBSCRIPTION_BACKOFF_MAX": "5", "MESOS_EXECUTOR_SHUTDOWN_GRACE_PERIOD": "-1secs",
	} {
		before := env[name]
		env[name] = value
		if _, err := Run(context.Background(), Config{Env: get}); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s=%q: error %v", name, value, err)
		}
		env[name] = before
	}
}

func TestWorkIsChecked(t *testing.T) {
	for _, c := range []struct{ data, part string }{
		{"", "do not say"}, {"{}", "must name a worker"}, {`{"worker":"w"}`, "must name"}, {`{"worker":"w","control":"c","silence":-1}`, "must name"},
		{strings.Repeat(" ", maxWork+1), "bytes"},
	} {
		if w, err := decodeWork([]byte(c.data)); err == nil || !strings.Contains(err.Error(), c.part) {
			t.Errorf("%.40q: %+v, error %v", c.data, w, err)
		}
	}
}

// listener notes where messages come from, and answers.
type listener struct {
	mu    sync.Mutex
	heard []string
}

// Message implements transport.Handler.
func (l *listener) Message(channel string, _ int64, msg []byte, back transport.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.heard = append(l.heard, channel+": "+string(msg))
	_ = back.Send([]byte("yes"))
}

func (l *listener) has(what string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Contains(l.heard, what)
}

type dialer struct{ up, messages chan bool }

// Connected implements transport.DialHandler.
func (d dialer) Connected() { d.up <- true }

// Message implements transport.DialHandler.
func (d dialer) Message([]byte) { d.messages <- true }

func TestTheControlStreamMoves(t *testing.T) {
	m := transport.NewMemory()
	defer m.Close()
	var old, now listener
	for addr, l := range map[string]*listener{"memory://old": &old, "memory://new": &now} {
		if _, err := m.Listen(addr, l); err != nil {
			t.Fatal(err)
		}
	}
	c := newControl(m, func() {})
	d := dialer{make(chan bool, 10), make(chan bool, 10)}
	conn, err := c.Dial("memory://old", "control/w1", 0, d)
	if err != nil {
		t.Fatal(err)
	}
	<-d.up
	begin := c.lastHeard()
	say(t, conn, &old, "control/w1: a", "a")
	<-d.messages
	if !c.lastHeard().After(begin) {
		t.Error("an answer is no sign of life")
	}
	if err := c.move("memory://new"); err != nil {
		t.Fatal(err)
	}
	<-d.up
	say(t, conn, &now, "control/w1: b", "b")
	if old.has("control/w1: b") {
		t.Error("the old scheduler is spoken to")
	}
	if err := conn.Close(); err != nil {
		t.Error(err)
	}
	if err := conn.Send([]byte("c")); err != transport.ErrClosed {
		t.Errorf("sending on a closed connection: error %v", err)
	}
}

func say(t *testing.T, conn transport.Conn, l *listener, what, text string) {
	t.Helper()
	if err := conn.Send([]byte(text)); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(5 * time.Second); !l.has(what); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%q was not heard", what)
		}
	}
}

// TestAnUpdateThatWasNotTakenIsNamedAgain is about an agent that refuses a call while its stream goes on.
func TestAnUpdateThatWasNotTakenIsNamedAgain(t *testing.T) {
	named := make(chan []exec.Call_Update, 10)
	refuse := make(chan bool, 1)
	refuse <- true
	agent := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		call := new(exec.Call)
		if err := proto.Unmarshal(body, call); err != nil {
			t.Error(err)
		}
		if call.Type != exec.Call_SUBSCRIBE {
			select {
			case <-refuse:
				w.WriteHeader(http.StatusServiceUnavailable)
			default:
				w.WriteHeader(http.StatusAccepted)
			}
			return
		}
		named <- call.Subscribe.UnacknowledgedUpdates
		w.Header().Set("Content-Type", "application/x-protobuf")
		record(t, w, &exec.Event{Type: exec.Event_SUBSCRIBED, Subscribed: &exec.Event_Subscribed{}})
		if len(call.Subscribe.UnacknowledgedUpdates) == 0 {
			record(t, w, &exec.Event{Type: exec.Event_LAUNCH, Launch: &exec.Event_Launch{Task: pb.TaskInfo{
				Name: "w1", TaskID: pb.TaskID{Value: "w1"}, Data: []byte(`{"worker":"w1","control":"memory://c","silence":1000000000,"margin":1000000000}`),
			}}})
		}
		<-r.Context().Done()
	}))
	defer agent.Close()
	env := map[string]string{
		"MESOS_AGENT_ENDPOINT": strings.TrimPrefix(agent.URL, "http://"), "MESOS_FRAMEWORK_ID": "f", "MESOS_EXECUTOR_ID": "w1",
		"MESOS_CHECKPOINT": "1", "MESOS_SUBSCRIPTION_BACKOFF_MAX": "20ms",
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = Run(ctx, Config{
			Env:     func(name string) string { return env[name] },
			Control: func() (transport.Transport, error) { return transport.NewMemory(), nil },
			Work:    func(ctx context.Context, _ Launch) error { <-ctx.Done(); return ctx.Err() },
		})
	}()
	<-named
	if again := <-named; len(again) != 1 || again[0].Status.GetState() != pb.TASK_STARTING {
		t.Errorf("named: %+v", again)
	}
	stop()
	<-done
}

// record writes an event of an agent.
func record(t *testing.T, w http.ResponseWriter, e *exec.Event) {
	t.Helper()
	text, err := proto.Marshal(e)
	if err != nil {
		t.Error(err)
	}
	for _, part := range [][]byte{fmt.Appendf(nil, "%d\n", len(text)), text} {
		if _, err := w.Write(part); err != nil {
			t.Error(err)
		}
	}
	w.(http.Flusher).Flush()
}
