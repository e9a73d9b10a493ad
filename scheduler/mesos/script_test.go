package mesos

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	pb "github.com/mesos/mesos-go/api/v1/lib"
	sched "github.com/mesos/mesos-go/api/v1/lib/scheduler"

	"sluice/dataflow"
	"sluice/scheduler"
)

// script drives one Core, and keeps what is stored.
type script struct {
	t      testing.TB
	core   *Core
	now    time.Time
	ids    int
	stored map[string][]byte
	last   *sched.Call
	b      strings.Builder
}

// TestScripts runs the scripts of testdata. A script is made of blocks:
//
//	new [gpus] [roles=a,b]   begins a framework without anything stored, and prints its actions
//	restart                  begins another one with what was stored
//	events                   an event a line, printed with the actions that follow
//	workers                  prints the workers
//
// The events are, with the last subscription meant:
//
//	query q [cpus=1] [mem=64] [ports=2] [gpus=1] [ATTRIBUTE=VALUE] [roles=a,b] [shared] [control=ADDR]
//	start q 2 [cpus=1] [mem=64] [disk=64] [gpus=1] [ports=2] [ATTRIBUTE=VALUE] ; 1 ...    capacities
//	kill W | unable W [WHY] | close q [kill] | retain q ... | forget q | leader
//	pass 5s [step=1s]        time goes by, with heartbeats
//	silence 5s [step=1s]     time goes by, without
//	subscribed | lost TEXT | error TEXT | refused TEXT
//	offer O1 on A1 cpus=4 mem=512 [ports=31000-31009] [role=r] [maintenance] [ATTRIBUTE=VALUE] ; O2 on A2 ...
//	rescind O1 | inverse I1 on A1 | rescind-inverse I1
//	update W STATE [reason=R] [uuid=U] [agent=A]
//	failure A1 [W STATUS] | message W TEXT
func TestScripts(t *testing.T) {
	datadriven.Walk(t, "testdata/scripts", func(t *testing.T, path string) {
		s := &script{t: t}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			s.b.Reset()
			switch d.Cmd {
			case "new":
				s.stored, s.ids = map[string][]byte{}, 0
				s.now = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
				s.begin(d)
			case "restart":
				s.begin(d)
			case "events":
				for _, line := range strings.Split(strings.TrimSpace(d.Input), "\n") {
					fmt.Fprintln(&s.b, line)
					s.event(strings.Fields(line))
				}
			case "workers":
				s.workers()
			default:
				t.Fatalf("%s: %q is no block", d.Pos, d.Cmd)
			}
			return s.b.String()
		})
	})
}

func (s *script) begin(d *datadriven.TestData) {
	cfg := Config{User: "root", Name: "sluice", NewID: func() string { s.ids++; return "t" + strconv.Itoa(s.ids) }}
	for _, a := range d.CmdArgs {
		switch a.Key {
		case "gpus":
			cfg.GPUs = true
		case "roles":
			cfg.Roles = a.Vals
		}
	}
	core, actions, err := NewCore(cfg, s.stored, s.now)
	if err != nil {
		s.t.Fatal(err)
	}
	s.core = core
	s.print(actions)
	s.print(core.Handle(Event{Now: s.now, Jitter: 0.5}))
}

func (s *script) handle(e Event) {
	e.Now, e.Jitter = s.now, 0.5
	s.print(s.core.Handle(e))
}

func (s *script) received(e sched.Event) { s.handle(Event{Received: &Received{s.core.sub, &e}}) }

func (s *script) event(words []string) {
	text := strings.Join(words[1:], " ")
	switch words[0] {
	case "query":
		s.query(words[1:])
	case "start":
		s.start(words[1:])
	case "kill":
		s.handle(Event{Kill: scheduler.WorkerID(words[1])})
	case "unable":
		s.handle(Event{Unable: &Unable{Worker: scheduler.WorkerID(words[1]), Why: cmp.Or(strings.Join(words[2:], " "), "its port is in use")}})
	case "close":
		s.handle(Event{Close: &Close{words[1], len(words) > 2}})
	case "retain":
		s.handle(Event{Retain: &Retain{words[1:]}})
	case "forget":
		s.handle(Event{Forget: words[1]})
	case "leader":
		s.handle(Event{Leader: true})
	case "pass", "silence":
		s.pass(words)
	case "lost":
		s.handle(Event{Lost: &Lost{s.core.sub, text}})
	case "refused":
		s.handle(Event{Refused: &Refused{s.core.sub, s.last, text}})
	default:
		s.master(words, text)
	}
}

// master is an event of the master.
func (s *script) master(words []string, text string) {
	switch words[0] {
	case "subscribed":
		s.received(sched.Event{Type: sched.Event_SUBSCRIBED, Subscribed: &sched.Event_Subscribed{
			FrameworkID: &pb.FrameworkID{Value: s.core.id}, HeartbeatIntervalSeconds: new(15.0),
		}})
	case "error":
		s.received(sched.Event{Type: sched.Event_ERROR, Error: &sched.Event_Error{Message: text}})
	case "offer":
		e := &sched.Event_Offers{}
		for one := range strings.SplitSeq(text, ";") {
			e.Offers = append(e.Offers, s.offer(strings.Fields(one)))
		}
		s.received(sched.Event{Type: sched.Event_OFFERS, Offers: e})
	case "rescind":
		s.received(sched.Event{Type: sched.Event_RESCIND, Rescind: &sched.Event_Rescind{OfferID: pb.OfferID{Value: words[1]}}})
	case "inverse":
		s.received(sched.Event{Type: sched.Event_INVERSE_OFFERS, InverseOffers: &sched.Event_InverseOffers{InverseOffers: []pb.InverseOffer{{
			OfferID: pb.OfferID{Value: words[1]}, AgentID: &pb.AgentID{Value: words[3]},
		}}}})
	case "rescind-inverse":
		s.received(sched.Event{Type: sched.Event_RESCIND_INVERSE_OFFER, RescindInverseOffer: &sched.Event_RescindInverseOffer{
			InverseOfferID: pb.OfferID{Value: words[1]},
		}})
	case "update":
		s.update(words[1:])
	case "failure":
		f := &sched.Event_Failure{AgentID: &pb.AgentID{Value: words[1]}}
		if len(words) > 2 {
			status, err := strconv.ParseInt(words[3], 10, 32)
			if err != nil {
				s.t.Fatal(err)
			}
			f.ExecutorID, f.Status = &pb.ExecutorID{Value: words[2]}, new(int32(status))
		}
		s.received(sched.Event{Type: sched.Event_FAILURE, Failure: f})
	case "message":
		s.received(sched.Event{Type: sched.Event_MESSAGE, Message: &sched.Event_Message{
			ExecutorID: pb.ExecutorID{Value: words[1]}, Data: []byte(words[2]),
		}})
	default:
		s.t.Fatalf("%q is no event", words[0])
	}
}

// options are the words with values of a line.
func options(words []string) (map[string]string, []string) {
	m := map[string]string{}
	var names []string
	for _, w := range words {
		name, value, _ := strings.Cut(w, "=")
		m[name] = value
		names = append(names, name)
	}
	return m, names
}

func (s *script) float(text string) float64 {
	x, err := strconv.ParseFloat(text, 64)
	if err != nil {
		s.t.Fatal(err)
	}
	return x
}

func (s *script) query(words []string) {
	q := &Query{Name: words[0], Need: Need{CPUs: 1, MemMB: 64}, Executor: ExecutorSpec{Command: "x", Control: "tcp://c"}}
	m, names := options(words[1:])
	for _, name := range names {
		value := m[name]
		switch name {
		case "cpus":
			q.Need.CPUs = s.float(value)
		case "mem":
			q.Need.MemMB = s.float(value)
		case "ports":
			q.Need.Ports = int(s.float(value))
		case "gpus":
			q.Need.GPUs = int(s.float(value))
		case "roles":
			q.Need.Roles = strings.Split(value, ",")
		case "shared":
			q.Need.Shared = true
		case "control":
			q.Executor.Control = value
		default:
			q.Need.Attributes = map[string]string{name: value}
		}
	}
	s.handle(Event{Query: q})
}

// start asks for workers, each with a capacity, with mem and disk in MB.
func (s *script) start(words []string) {
	e := &Start{Query: words[0]}
	for one := range strings.SplitSeq(strings.Join(words[1:], " "), ";") {
		words := strings.Fields(one)
		m, names := options(words[1:])
		var c dataflow.Resources
		for _, name := range names {
			switch name {
			case "cpus":
				c.CPUs = s.float(m[name])
			case "mem":
				c.Mem = int64(s.float(m[name])) << 20
			case "disk":
				c.Disk = int64(s.float(m[name])) << 20
			case "gpus":
				c.GPUs = int(s.float(m[name]))
			case "ports":
				c.Ports = int(s.float(m[name]))
			default:
				c.Attributes = append(c.Attributes, dataflow.Attribute{Name: name, Value: m[name]})
			}
		}
		for range int(s.float(words[0])) {
			e.Capacities = append(e.Capacities, c)
		}
	}
	s.handle(Event{Start: e})
}

func (s *script) pass(words []string) {
	m, _ := options(words[1:])
	step := time.Second
	if text := m["step"]; text != "" {
		step = s.duration(text)
	}
	for end := s.now.Add(s.duration(words[1])); s.now.Before(end); {
		s.now = s.now.Add(step)
		if words[0] == "pass" {
			s.received(sched.Event{Type: sched.Event_HEARTBEAT})
		} else {
			s.handle(Event{})
		}
	}
}

func (s *script) duration(text string) time.Duration {
	d, err := time.ParseDuration(text)
	if err != nil {
		s.t.Fatal(err)
	}
	return d
}

func (s *script) offer(words []string) pb.Offer {
	role := "*"
	m, names := options(words[3:])
	if r := m["role"]; r != "" {
		role = r
	}
	o := pb.Offer{
		ID: pb.OfferID{Value: words[0]}, AgentID: pb.AgentID{Value: words[2]}, Hostname: "host-" + words[2],
		AllocationInfo: &pb.Resource_AllocationInfo{Role: &role},
	}
	for _, name := range names {
		r := pb.Resource{Name: name, Type: new(pb.SCALAR), Role: new("*"), AllocationInfo: o.AllocationInfo}
		switch name {
		case "cpus", "mem", "gpus", "disk":
			r.Scalar = &pb.Value_Scalar{Value: s.float(m[name])}
		case "ports":
			low, high, _ := strings.Cut(m[name], "-")
			r.Type, r.Ranges = new(pb.RANGES), &pb.Value_Ranges{Range: []pb.Value_Range{{Begin: uint64(s.float(low)), End: uint64(s.float(high))}}}
		case "role":
			continue
		case "maintenance":
			o.Unavailability = &pb.Unavailability{Start: pb.TimeInfo{Nanoseconds: s.now.UnixNano()}}
			continue
		default:
			o.Attributes = append(o.Attributes, pb.Attribute{Name: name, Type: pb.TEXT, Text: &pb.Value_Text{Value: m[name]}})
			continue
		}
		o.Resources = append(o.Resources, r)
	}
	return o
}

func (s *script) update(words []string) {
	m, _ := options(words[2:])
	state, ok := pb.TaskState_value["TASK_"+words[1]]
	if !ok {
		s.t.Fatalf("%q is no state", words[1])
	}
	st := pb.TaskStatus{TaskID: pb.TaskID{Value: words[0]}, State: new(pb.TaskState(state)), AgentID: &pb.AgentID{Value: "A1"}}
	if w := s.core.workers[scheduler.WorkerID(words[0])]; w != nil {
		st.AgentID.Value = w.rec.Agent
	}
	if a := m["agent"]; a != "" {
		st.AgentID.Value = a
	}
	if r, ok := pb.TaskStatus_Reason_value["REASON_"+m["reason"]]; ok {
		st.Reason = new(pb.TaskStatus_Reason(r))
	}
	if u := m["uuid"]; u != "" {
		st.UUID = []byte(u)
	}
	s.received(sched.Event{Type: sched.Event_UPDATE, Update: &sched.Event_Update{Status: st}})
}

func (s *script) workers() {
	for _, w := range s.core.sorted() {
		fmt.Fprintf(&s.b, "%s of %s on %s: %s", w.id, w.rec.Query, w.rec.Agent, recordText(w.rec))
		if c := w.rec.Capacity.resources(); !c.IsZero() {
			fmt.Fprintf(&s.b, ", with %s", c)
		}
		s.b.WriteString("\n")
	}
}

func recordText(r workerRecord) string {
	text := r.State
	if text == "" {
		text = "intent"
	}
	for _, at := range []struct {
		name string
		time time.Time
	}{{"lost", r.Lost}, {"killed", r.Killed}} {
		if !at.time.IsZero() {
			text += ", " + at.name + " at " + at.time.Format("15:04:05")
		}
	}
	return text
}

// print writes actions, an action a line, and stores what is to be.
func (s *script) print(actions []Action) {
	for _, a := range actions {
		s.b.WriteString("  ")
		switch {
		case a.Subscribe != nil:
			i := a.Subscribe.Call.Subscribe
			fmt.Fprintf(&s.b, "%s subscribe %d as %s", s.now.Format("15:04:05.000"), a.Subscribe.Sub, a.Subscribe.Call.FrameworkID.Value)
			if i.FrameworkInfo.ID.GetValue() != a.Subscribe.Call.FrameworkID.Value {
				s.b.WriteString(" AND AS " + i.FrameworkInfo.ID.GetValue())
			}
			if len(i.SuppressedRoles) > 0 {
				fmt.Fprintf(&s.b, ", suppressed %v", i.SuppressedRoles)
			}
		case a.Disconnect != 0:
			fmt.Fprintf(&s.b, "disconnect %d", a.Disconnect)
		case a.Call != nil:
			s.last = a.Call.Call
			s.b.WriteString(s.now.Format("15:04:05.000 ") + callText(a.Call.Call))
		case a.Save != nil:
			s.save(a.Save)
		case a.Ended != nil:
			fmt.Fprintf(&s.b, "ended %s of %s: %s; quick %d", a.Ended.ID, a.Ended.Query, a.Ended.Status, a.Ended.Quick)
		case a.Alert != nil:
			fmt.Fprintf(&s.b, "alert %s: %s", a.Alert.Query, a.Alert.Text)
		case a.Forgotten != "":
			s.b.WriteString("forgotten " + a.Forgotten)
		}
		s.b.WriteString("\n")
	}
}

func (s *script) save(a *Save) {
	if a.Value == nil {
		delete(s.stored, a.Path)
		s.b.WriteString("remove " + a.Path)
		return
	}
	s.stored[a.Path] = a.Value
	s.b.WriteString("save " + a.Path)
	var r workerRecord
	if err := json.Unmarshal(a.Value, &r); err != nil {
		s.t.Fatal(err)
	}
	if r.Query != "" {
		fmt.Fprintf(&s.b, ": %s of %s on %s from %v", recordText(r), r.Query, r.Agent, r.Offers)
	}
}

func callText(c *sched.Call) string {
	text := strings.ToLower(c.Type.String())
	switch c.Type {
	case sched.Call_ACCEPT:
		text += " " + idsText(c.Accept.OfferIDs) + ":"
		for _, t := range c.Accept.Operations[0].Launch.TaskInfos {
			text += fmt.Sprintf(" %s on %s (task %s; executor %s", t.TaskID.Value, t.AgentID.Value, resourcesText(t.Resources), resourcesText(t.Executor.Resources))
			for _, v := range t.Executor.Command.GetEnvironment().GetVariables() {
				text += fmt.Sprintf("; %s=%s", v.Name, v.GetValue())
			}
			text += ")"
		}
		text += ", refuse " + refuseText(c.Accept.Filters)
	case sched.Call_DECLINE:
		text += " " + idsText(c.Decline.OfferIDs) + ", refuse " + refuseText(c.Decline.Filters)
	case sched.Call_KILL:
		text += " " + c.Kill.TaskID.Value + " on " + c.Kill.AgentID.GetValue()
	case sched.Call_SHUTDOWN:
		text += " " + c.Shutdown.ExecutorID.Value
	case sched.Call_ACKNOWLEDGE:
		text += fmt.Sprintf(" %s of %s", c.Acknowledge.UUID, c.Acknowledge.TaskID.Value)
	case sched.Call_RECONCILE:
		var ids []string
		for _, t := range c.Reconcile.Tasks {
			ids = append(ids, t.TaskID.Value+" on "+t.AgentID.GetValue())
		}
		text += fmt.Sprintf(" %q", ids)
	case sched.Call_MESSAGE:
		text += fmt.Sprintf(" to %s: %s", c.Message.ExecutorID.Value, c.Message.Data)
	case sched.Call_ACCEPT_INVERSE_OFFERS:
		text += " " + idsText(c.AcceptInverseOffers.InverseOfferIDs)
	case sched.Call_DECLINE_INVERSE_OFFERS:
		text += " " + idsText(c.DeclineInverseOffers.InverseOfferIDs)
	}
	return text
}

func refuseText(f *pb.Filters) string {
	return time.Duration(f.GetRefuseSeconds() * float64(time.Second)).String()
}

func idsText(ids []pb.OfferID) string {
	var out []string
	for _, id := range ids {
		out = append(out, id.Value)
	}
	slices.Sort(out)
	return strings.Join(out, ",")
}

func resourcesText(list []pb.Resource) string {
	var out []string
	for _, r := range list {
		text := r.Name + "="
		if r.Scalar != nil {
			text += number(r.Scalar.Value)
		}
		for _, p := range r.GetRanges().GetRange() {
			text += fmt.Sprintf("%d-%d", p.Begin, p.End)
		}
		out = append(out, text)
	}
	return strings.Join(out, " ")
}
