package mesos

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	pb "github.com/mesos/mesos-go/api/v1/lib"
	exec "github.com/mesos/mesos-go/api/v1/lib/executor"
)

// script drives one core.
type script struct {
	t    testing.TB
	core *core
	now  time.Time
	ids  int
	over bool // it has ended
	b    strings.Builder
}

// TestScripts runs testdata/scripts. It is made of blocks:
//
//	new [checkpoint]         begins an executor
//	events                   an event a line, printed with the actions that follow
//
// The events are
//
//	pass 5s [heard]          time goes by, in steps of 100 ms, in which the scheduler is heard
//	subscribed [plain]       by an agent of a framework that knows TASK_KILLING, or not
//	launch T [ADDR [silence=10s]] | kill T [1s] | ack T U | message TEXT | shutdown | error TEXT | lost TEXT
//	up | over [ERROR]        the worker is connected, or has ended
func TestScripts(t *testing.T) {
	s := &script{t: t}
	datadriven.RunTest(t, "testdata/scripts", func(t *testing.T, d *datadriven.TestData) string {
		s.b.Reset()
		switch d.Cmd {
		case "new":
			s.over = false
			s.now, s.ids = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), 0
			cfg := settings{
				framework: "f", executor: "e", checkpoint: d.HasArg("checkpoint"), recovery: 30 * time.Second,
				backoffMax: 2 * time.Second, grace: 5 * time.Second,
			}
			var actions []action
			s.core, actions = newCore(cfg, func() []byte { s.ids++; return []byte("u" + strconv.Itoa(s.ids)) }, s.now)
			s.print(actions)
		case "events":
			for _, line := range strings.Split(strings.TrimSpace(d.Input), "\n") {
				fmt.Fprintln(&s.b, line)
				s.event(strings.Fields(line))
			}
		default:
			t.Fatalf("%s: %q is no block", d.Pos, d.Cmd)
		}
		return s.b.String()
	})
}

func (s *script) handle(e event) {
	if s.over {
		return
	}
	e.now, e.jitter = s.now, 0.5
	s.print(s.core.handle(e))
}

func (s *script) received(e exec.Event) { s.handle(event{received: &e}) }

func (s *script) event(words []string) {
	text := strings.Join(words[1:], " ")
	switch words[0] {
	case "pass":
		heard := s.now
		for end := s.now.Add(s.duration(words[1])); s.now.Before(end); {
			s.now = s.now.Add(100 * time.Millisecond)
			if len(words) > 2 {
				heard = s.now
			}
			s.handle(event{heard: heard})
		}
	case "subscribed":
		e := &exec.Event_Subscribed{}
		if text != "plain" {
			e.FrameworkInfo.Capabilities = []pb.FrameworkInfo_Capability{{Type: pb.FrameworkInfo_Capability_TASK_KILLING_STATE}}
		}
		s.received(exec.Event{Type: exec.Event_SUBSCRIBED, Subscribed: e})
	case "launch":
		data := "no work"
		if len(words) > 2 {
			silence := 10 * time.Second
			if len(words) > 3 {
				silence = s.duration(strings.TrimPrefix(words[3], "silence="))
			}
			data = fmt.Sprintf(`{"worker": %q, "control": %q, "silence": %d, "margin": 4000000000}`, words[1], words[2], silence.Nanoseconds())
		}
		s.received(exec.Event{Type: exec.Event_LAUNCH, Launch: &exec.Event_Launch{
			Task: pb.TaskInfo{TaskID: pb.TaskID{Value: words[1]}, Data: []byte(data)},
		}})
	case "kill":
		k := &exec.Event_Kill{TaskID: pb.TaskID{Value: words[1]}}
		if len(words) > 2 {
			k.KillPolicy = &pb.KillPolicy{GracePeriod: &pb.DurationInfo{Nanoseconds: s.duration(words[2]).Nanoseconds()}}
		}
		s.received(exec.Event{Type: exec.Event_KILL, Kill: k})
	case "ack":
		s.received(exec.Event{Type: exec.Event_ACKNOWLEDGED, Acknowledged: &exec.Event_Acknowledged{
			TaskID: pb.TaskID{Value: words[1]}, UUID: []byte(words[2]),
		}})
	case "message":
		s.received(exec.Event{Type: exec.Event_MESSAGE, Message: &exec.Event_Message{Data: []byte(text)}})
	case "shutdown":
		s.received(exec.Event{Type: exec.Event_SHUTDOWN})
	case "error":
		s.received(exec.Event{Type: exec.Event_ERROR, Error: &exec.Event_Error{Message: text}})
	case "lost":
		s.handle(event{lost: text})
	case "up":
		s.handle(event{up: true})
	case "over":
		var err error
		if text != "" {
			err = errors.New(text)
		}
		s.handle(event{over: &over{err}})
	default:
		s.t.Fatalf("%q is no event", words[0])
	}
}

func (s *script) duration(text string) time.Duration {
	d, err := time.ParseDuration(text)
	if err != nil {
		s.t.Fatal(err)
	}
	return d
}

// print writes actions, an action a line; nothing comes behind exit.
func (s *script) print(actions []action) {
	for _, a := range actions {
		fmt.Fprintf(&s.b, "  %s ", s.now.Format("05.0"))
		switch {
		case a.subscribe != nil:
			s.b.WriteString("subscribe")
			for _, t := range a.subscribe.Subscribe.UnacknowledgedTasks {
				fmt.Fprintf(&s.b, ", task %s", t.TaskID.Value)
			}
			for _, u := range a.subscribe.Subscribe.UnacknowledgedUpdates {
				fmt.Fprintf(&s.b, ", %s", updateText(u))
			}
		case a.call != nil && a.call.Update != nil:
			s.b.WriteString("update " + updateText(*a.call.Update))
		case a.call != nil:
			fmt.Fprintf(&s.b, "%s %s", strings.ToLower(a.call.Type.String()), a.call.GetMessage().GetData())
		case a.start != nil:
			fmt.Fprintf(&s.b, "start %s, scheduler at %s", a.start.Worker, a.start.Control)
		case a.move != "":
			s.b.WriteString("move to " + a.move)
		case a.stop:
			s.b.WriteString("stop")
		case a.exit != nil:
			s.over = true
			fmt.Fprintf(&s.b, "exit %d: %s", a.exit.code, a.exit.why)
		case a.log != "":
			s.b.WriteString("log " + a.log)
		}
		s.b.WriteString("\n")
	}
}

func updateText(u exec.Call_Update) string {
	text := fmt.Sprintf("%s of %s %s", u.Status.UUID, u.Status.TaskID.Value, strings.TrimPrefix(u.Status.State.String(), "TASK_"))
	if u.Status.Message != nil {
		text += ": " + *u.Status.Message
	}
	return text
}
