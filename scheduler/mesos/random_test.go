package mesos

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	pb "github.com/mesos/mesos-go/api/v1/lib"
	sched "github.com/mesos/mesos-go/api/v1/lib/scheduler"

	"sluice/dataflow"
	"sluice/scheduler"
)

// randomRun drives a Core with events at random, also such as no master would send, and checks what it does.
type randomRun struct {
	t      *testing.T
	r      *rand.Rand
	core   *Core
	now    time.Time
	ids    int
	offers int
	open   map[string]pool   // what each offer holds
	agents map[string]string // of each worker that was launched
	wanted map[place]int     // what each query wants of each capacity, before an event
	has    map[string]dataflow.Resources
	stored map[string][]byte
	ended  map[scheduler.WorkerID]bool
	log    []string
}

func TestRandomEvents(t *testing.T) {
	for seed := range uint64(300) {
		r := &randomRun{
			t: t, r: rand.New(rand.NewPCG(seed, 1)), now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), agents: map[string]string{}, open: map[string]pool{},
			stored: map[string][]byte{}, ended: map[scheduler.WorkerID]bool{}, has: map[string]dataflow.Resources{},
		}
		r.begin()
		for range 300 {
			r.step()
			if t.Failed() {
				t.Fatalf("seed %d:\n%s", seed, strings.Join(r.log, "\n"))
			}
		}
	}
}

func (r *randomRun) begin() {
	cfg := Config{User: "root", Name: "sluice", GPUs: r.r.IntN(4) > 0, NewID: func() string { r.ids++; return fmt.Sprint("t", r.ids) }}
	core, actions, err := NewCore(cfg, maps.Clone(r.stored), r.now)
	if err != nil {
		r.t.Fatal(err)
	}
	r.core = core
	r.check(nil, actions)
	for path := range r.stored {
		if id, ok := strings.CutPrefix(path, workersPath+"/"); ok && core.workers[scheduler.WorkerID(id)] == nil {
			r.t.Errorf("worker %s was forgotten", id)
		}
	}
	for _, w := range core.workers {
		if got := w.rec.Capacity.resources(); got.String() != r.has[string(w.id)].String() {
			r.t.Errorf("worker %s has %s for another scheduler, and had %s", w.id, got, r.has[string(w.id)])
		}
	}
	for _, q := range []string{"p", "q"} {
		need := Need{CPUs: 1, MemMB: 64, Ports: r.r.IntN(3)}
		if r.r.IntN(3) == 0 {
			need.Attributes = map[string]string{"media": "ssd"}
		}
		r.handle(Event{Query: &Query{Name: q, Need: need, Executor: ExecutorSpec{Command: "x", Control: "c"}}})
	}
}

// capacities are those of some workers.
func (r *randomRun) capacities() (list []dataflow.Resources) {
	for range r.r.IntN(4) {
		c := dataflow.Resources{CPUs: float64(r.r.IntN(3)) / 4, Mem: int64(r.r.IntN(2)) << 25, Ports: r.r.IntN(2)}
		switch r.r.IntN(5) {
		case 0:
			c.GPUs = 1 + r.r.IntN(2)
		case 1:
			c.Attributes = []dataflow.Attribute{{Name: "media", Value: r.one("ssd", "disk")}}
		case 2:
			c = dataflow.Resources{}
		}
		list = append(list, c)
	}
	return list
}

// attributes are those of an agent, always.
func attributesOf(agent string) []pb.Attribute {
	media := "disk"
	if agent < "A3" {
		media = "ssd"
	}
	return []pb.Attribute{{Name: "media", Type: pb.TEXT, Text: &pb.Value_Text{Value: media}}}
}

func (r *randomRun) one(of ...string) string { return of[r.r.IntN(len(of))] }

// worker is one that is known, or not any more, or never was.
func (r *randomRun) worker() string {
	ids := []string{"nobody"}
	for id := range r.agents {
		ids = append(ids, id)
	}
	for _, w := range r.core.sorted() {
		ids = append(ids, string(w.id), string(w.id), string(w.id))
	}
	return r.one(ids...)
}

func (r *randomRun) step() {
	r.now = r.now.Add(time.Duration(r.r.ExpFloat64() * float64(time.Second)))
	switch n := r.r.IntN(100); {
	case n < 25:
		r.master()
	case n < 40:
		r.status()
	case n < 50:
		r.offer()
	case n < 60:
		r.handle(Event{Start: &Start{r.one("p", "q", "other"), r.capacities()}})
	case n < 64:
		r.handle(Event{Kill: scheduler.WorkerID(r.worker())})
	case n < 65:
		r.handle(Event{Unable: &Unable{scheduler.WorkerID(r.worker()), "no room"}})
	case n < 67:
		r.handle(Event{Lost: &Lost{r.core.sub - int64(r.r.IntN(2)), "lost"}})
	case n < 68:
		r.begin()
	case n < 69:
		r.now = r.now.Add(time.Duration(r.r.IntN(10)) * time.Minute)
		r.handle(Event{})
	case n < 70:
		r.handle(Event{Leader: true})
	default:
		r.handle(Event{})
	}
}

// master is a word of the master that is about no single task.
func (r *randomRun) master() {
	sub := r.core.sub
	if r.r.IntN(20) == 0 {
		sub--
	}
	e := &sched.Event{Type: sched.Event_HEARTBEAT}
	switch r.r.IntN(12) {
	case 0, 1, 2, 3, 4:
		if r.core.phase == connecting {
			e = &sched.Event{Type: sched.Event_SUBSCRIBED, Subscribed: &sched.Event_Subscribed{FrameworkID: &pb.FrameworkID{Value: r.core.id}}}
		}
	case 5:
		e = &sched.Event{Type: sched.Event_ERROR, Error: &sched.Event_Error{Message: r.one("no", "Framework failed over", "Framework has been removed")}}
	case 6:
		e = &sched.Event{Type: sched.Event_INVERSE_OFFERS, InverseOffers: &sched.Event_InverseOffers{InverseOffers: []pb.InverseOffer{{
			OfferID: pb.OfferID{Value: "I"}, AgentID: &pb.AgentID{Value: r.agent()},
		}}}}
	case 7:
		e = &sched.Event{Type: sched.Event_RESCIND_INVERSE_OFFER, RescindInverseOffer: &sched.Event_RescindInverseOffer{InverseOfferID: pb.OfferID{Value: "I"}}}
	case 8:
		e = &sched.Event{Type: sched.Event_FAILURE, Failure: &sched.Event_Failure{AgentID: &pb.AgentID{Value: r.agent()}}}
	case 9:
		e = &sched.Event{Type: sched.Event_UPDATE} // without what it should have
	}
	r.handle(Event{Received: &Received{sub, e}})
}

func (r *randomRun) agent() string { return fmt.Sprint("A", r.r.IntN(5)) }

func (r *randomRun) status() {
	states := []pb.TaskState{
		pb.TASK_STARTING, pb.TASK_RUNNING, pb.TASK_RUNNING, pb.TASK_RUNNING, pb.TASK_KILLING, pb.TASK_FINISHED, pb.TASK_FAILED, pb.TASK_KILLED,
		pb.TASK_ERROR, pb.TASK_LOST, pb.TASK_DROPPED, pb.TASK_UNREACHABLE, pb.TASK_GONE, pb.TASK_GONE_BY_OPERATOR, pb.TASK_UNKNOWN,
	}
	s := pb.TaskStatus{TaskID: pb.TaskID{Value: r.worker()}, State: &states[r.r.IntN(len(states))], AgentID: &pb.AgentID{Value: r.agent()}}
	if a := r.agents[s.TaskID.Value]; a != "" {
		s.AgentID.Value = a
	}
	if r.r.IntN(2) == 0 {
		s.UUID = []byte(r.one("u1", "u2", "u3", "u4"))
	}
	if r.r.IntN(3) == 0 {
		s.Reason = new(pb.REASON_RECONCILIATION)
		if r.r.IntN(2) == 0 {
			s.Reason = new(pb.REASON_INVALID_OFFERS)
		}
	}
	r.handle(Event{Received: &Received{r.core.sub, &sched.Event{Type: sched.Event_UPDATE, Update: &sched.Event_Update{Status: s}}}})
}

func (r *randomRun) offer() {
	e := &sched.Event_Offers{}
	for range 1 + r.r.IntN(4) {
		r.offers++
		cpus, mem, agent := float64(r.r.IntN(5)), float64(r.r.IntN(200)), r.agent()
		e.Offers = append(e.Offers, pb.Offer{
			ID: pb.OfferID{Value: fmt.Sprint("O", r.offers)}, AgentID: pb.AgentID{Value: agent}, Hostname: "h", Attributes: attributesOf(agent),
			Resources: []pb.Resource{
				{Name: "cpus", Type: new(pb.SCALAR), Scalar: &pb.Value_Scalar{Value: cpus}},
				{Name: "mem", Type: new(pb.SCALAR), Scalar: &pb.Value_Scalar{Value: mem}},
				{Name: "gpus", Type: new(pb.SCALAR), Scalar: &pb.Value_Scalar{Value: float64(max(0, r.r.IntN(5)-2))}},
				{Name: "ports", Type: new(pb.RANGES), Ranges: &pb.Value_Ranges{Range: []pb.Value_Range{{Begin: 10, End: 9 + uint64(r.r.IntN(4))}}}},
			},
		})
		last := &e.Offers[len(e.Offers)-1]
		r.open[last.ID.Value] = newPool([]*pb.Offer{last})
	}
	r.handle(Event{Received: &Received{r.core.sub, &sched.Event{Type: sched.Event_OFFERS, Offers: e}}})
}

func (r *randomRun) handle(e Event) {
	e.Now, e.Jitter = r.now, r.r.Float64()
	r.wanted = r.wants()
	r.check(&e, r.core.Handle(e))
}

// wants is how many workers of each capacity the queries want.
func (r *randomRun) wants() map[place]int {
	m := map[place]int{}
	for _, q := range r.core.queries {
		for _, w := range q.wants {
			m[place{q.name, w.key}] = w.n
			if w.n <= 0 || w.moving > w.n {
				r.t.Errorf("%s wants %d, of which %d move", q.name, w.n, w.moving)
			}
		}
	}
	return m
}

// check looks at what follows from an event.
func (r *randomRun) check(e *Event, actions []Action) {
	s := &script{t: r.t, now: r.now, stored: map[string][]byte{}}
	s.print(actions)
	if r.wanted == nil {
		r.wanted = map[place]int{}
	}
	r.log = append(r.log, fmt.Sprintf("%s %+v", r.now.Format("15:04:05"), e), s.b.String())
	answered, acknowledged, stored := map[string]int{}, 0, ""
	for _, a := range actions {
		switch {
		case a.Save != nil:
			stored = a.Save.Path
			if a.Save.Value == nil {
				delete(r.stored, a.Save.Path)
			} else {
				r.stored[a.Save.Path] = a.Save.Value
			}
		case a.Subscribe != nil:
			if stored != frameworkPath || !strings.Contains(string(r.stored[frameworkPath]), a.Subscribe.Call.FrameworkID.Value) {
				r.t.Error("SUBSCRIBE with an id that is not stored just before")
			}
		case a.Ended != nil:
			if r.ended[a.Ended.ID] || r.stored[workersPath+"/"+string(a.Ended.ID)] != nil {
				r.t.Errorf("%s has ended twice, or is stored still", a.Ended.ID)
			}
			r.ended[a.Ended.ID] = true
		case a.Call != nil:
			if a.Call.Sub != r.core.sub {
				r.t.Errorf("%s on another subscription", a.Call.Call.Type)
			}
			r.answers(a.Call.Call, answered)
			if a.Call.Call.Type == sched.Call_ACKNOWLEDGE {
				acknowledged++
			}
		}
	}
	if e == nil || e.Received == nil || r.core.phase != subscribed || e.Received.Sub != r.core.sub {
		return
	}
	r.complete(e.Received.Event, answered, acknowledged)
	if e.Received.Event.Type != sched.Event_OFFERS {
		return
	}
	now := r.wants()
	for of, n := range r.wanted { // without those that have been launched
		if now[of] < n {
			r.t.Errorf("%s wanted %d of %q after the launches, and wants %d", of.query, n, of.agent, now[of])
		}
	}
}

// answers notes which offers a call answers.
func (r *randomRun) answers(c *sched.Call, answered map[string]int) {
	switch c.Type {
	case sched.Call_DECLINE:
		for _, id := range c.Decline.OfferIDs {
			answered[id.Value]++
		}
	case sched.Call_ACCEPT:
		var offered, taken pool
		for _, id := range c.Accept.OfferIDs {
			answered[id.Value]++
			offered = append(offered, r.open[id.Value]...)
		}
		for _, t := range c.Accept.Operations[0].Launch.TaskInfos {
			r.launched(&t)
			taken = append(append(taken, t.Resources...), t.Executor.Resources...)
		}
		for _, name := range []string{"cpus", "mem", "gpus", "ports"} {
			if taken.has(name) > offered.has(name) {
				r.t.Errorf("%v %s are taken of %v", taken.has(name).float(), name, offered.has(name).float())
			}
		}
	}
}

func (r *randomRun) launched(t *pb.TaskInfo) {
	id := t.TaskID.Value
	if r.stored[workersPath+"/"+id] == nil {
		r.t.Errorf("%s is launched and not stored", id)
	}
	if r.agents[id] != "" {
		r.t.Errorf("%s is launched twice", id)
	}
	r.agents[id] = t.AgentID.Value
	w := r.core.workers[workerID(id)]
	if w != nil {
		r.enough(t, w)
	}
	for _, x := range r.core.sorted() {
		ended := x.rec.Framework != r.core.id && !x.rec.Killed.IsZero() // by Mesos, with its framework
		if w != nil && x != w && x.rec.Query == w.rec.Query && x.rec.Agent == w.rec.Agent && !ended {
			r.t.Errorf("%s and %s of one query are on %s", x.id, id, x.rec.Agent)
		}
	}
}

// complete says whether all that is to be answered was: each offer once, and each update with a uuid.
func (r *randomRun) complete(e *sched.Event, answered map[string]int, acknowledged int) {
	for _, o := range e.GetOffers().GetOffers() {
		if answered[o.ID.Value] != 1 {
			r.t.Errorf("offer %s was answered %d times", o.ID.Value, answered[o.ID.Value])
		}
	}
	want := 0
	if e.Update != nil && len(e.Update.Status.UUID) > 0 {
		want = 1
	}
	if e.Update != nil && acknowledged != want {
		r.t.Errorf("%d acknowledgements of %+v", acknowledged, e.Update.Status)
	}
}

// enough says whether a worker that is launched was wanted, and has what it is to have.
func (r *randomRun) enough(t *pb.TaskInfo, w *worker) {
	capacity := w.rec.Capacity.resources()
	r.has[string(w.id)] = capacity
	of := place{w.rec.Query, w.key}
	if r.wanted[of]--; r.wanted[of] < 0 {
		r.t.Errorf("%s, with %s, is launched and not wanted", w.id, capacity)
	}
	base := r.core.queries[w.rec.Query].need
	got := append(append(pool{}, t.Resources...), t.Executor.Resources...)
	for _, a := range []amount{
		{"cpus", toMilli(base.CPUs + capacity.CPUs)}, {"mem", toMilli(base.MemMB) + 1000*milli(capacity.Mem>>20)}, {"gpus", 1000 * milli(capacity.GPUs)},
		{"ports", 1000 * milli(base.Ports+capacity.Ports)},
	} {
		if got.has(a.name) != a.milli {
			r.t.Errorf("%s gets %v %s and needs %v", w.id, got.has(a.name).float(), a.name, a.float())
		}
	}
	if len(w.rec.Ports) != base.Ports || len(w.rec.Operators) != capacity.Ports {
		r.t.Errorf("%s has ports %v, and %v for operators", w.id, w.rec.Ports, w.rec.Operators)
	}
	media := attributesOf(t.AgentID.Value)[0].Text.Value
	if m := base.Attributes["media"]; m != "" && m != media {
		r.t.Errorf("%s is on %s, with media %s", w.id, t.AgentID.Value, media)
	}
	for _, a := range capacity.Attributes {
		if a.Value != media {
			r.t.Errorf("%s is on %s, with media %s", w.id, t.AgentID.Value, media)
		}
	}
}
