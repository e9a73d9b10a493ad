package mesos

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	pb "github.com/mesos/mesos-go/api/v1/lib"
	sched "github.com/mesos/mesos-go/api/v1/lib/scheduler"

	work "sluice/executor/mesos"
	"sluice/scheduler"
)

// offered is the offers of one event that can be used together: those of one agent to one role.
type offered struct {
	agent *agent
	role  string
	attrs []pb.Attribute
	ids   []pb.OfferID
	pool  pool
	tasks []pb.TaskInfo
}

// offers takes offers. Each is answered at once, by a launch or refused, so none is ever held back from others.
func (c *Core) offers(list []pb.Offer) {
	groups := c.group(list)
	for _, q := range c.byName() {
		c.place(q, groups)
	}
	refuse := c.cfg.RefuseLong
	if c.wanting() {
		refuse = c.cfg.RefuseShort
	}
	var ids []pb.OfferID
	for _, g := range groups {
		if len(g.tasks) > 0 {
			c.accept(g, refuse)
			continue
		}
		ids = append(ids, g.ids...)
	}
	c.decline(ids, refuse)
}

func (c *Core) decline(ids []pb.OfferID, refuse time.Duration) {
	if len(ids) > 0 {
		c.call(&sched.Call{Type: sched.Call_DECLINE, Decline: &sched.Call_Decline{OfferIDs: ids, Filters: filters(refuse)}})
	}
}

func filters(refuse time.Duration) *pb.Filters {
	return pb.OptionalFilters(pb.RefuseSeconds(refuse))
}

func (c *Core) accept(g *offered, refuse time.Duration) {
	launch := pb.Offer_Operation{Type: pb.Offer_Operation_LAUNCH, Launch: &pb.Offer_Operation_Launch{TaskInfos: g.tasks}}
	c.call(&sched.Call{Type: sched.Call_ACCEPT, Accept: &sched.Call_Accept{
		OfferIDs: g.ids, Operations: []pb.Offer_Operation{launch}, Filters: filters(refuse),
	}})
}

// group puts offers together and notes their agents.
func (c *Core) group(list []pb.Offer) []*offered {
	var groups []*offered
	for i := range list {
		o := &list[i]
		a := c.see(o)
		role := o.GetAllocationInfo().GetRole()
		at := slices.IndexFunc(groups, func(g *offered) bool { return g.agent == a && g.role == role })
		if at < 0 {
			at = len(groups)
			groups = append(groups, &offered{agent: a, role: role, attrs: o.Attributes})
		}
		g := groups[at]
		g.ids = append(g.ids, o.ID)
		g.pool = append(g.pool, newPool([]*pb.Offer{o})...)
	}
	return groups
}

// verdict is what became of an offer of an agent for a query.
type verdict struct {
	kind verdictKind
	text string
	at   time.Time
}

type verdictKind uint8

const (
	fits verdictKind = iota
	wrongRole
	inUse       // another worker of the query is there
	notAsNeeded // an attribute
	tooLittle
	avoided
	maintained
)

// judge says whether a worker of a query may be launched on what an agent offers.
func (c *Core) judge(q *query, g *offered) verdict {
	v := verdict{at: c.now}
	switch attr, short := q.need.wrongAttribute(g.attrs), g.pool.shortage(q.need); {
	case len(q.need.Roles) > 0 && !slices.Contains(q.need.Roles, g.role):
		v.kind, v.text = wrongRole, "offers for role "+g.role
	case attr != "":
		v.kind, v.text = notAsNeeded, "does not have attribute "+attr
	case g.agent.unavailable || len(g.agent.inverse) > 0:
		v.kind, v.text = maintained, "is to be maintained"
	case c.now.Before(g.agent.avoidUntil):
		v.kind, v.text = avoided, "has failed several times"
	case short != "":
		v.kind, v.text = tooLittle, short
	case c.onQuery[place{q.name, g.agent.id}] > 0 && !c.mayShare(q):
		v.kind, v.text = inUse, "has a worker of the query already"
	}
	return v
}

// mayShare says whether a second worker may be on one agent: if that is allowed, and no other agent has offered
// anything for a while.
func (c *Core) mayShare(q *query) bool {
	if !q.need.Shared || c.now.Sub(q.wantSince) < c.cfg.Patience {
		return false
	}
	agents := map[string]bool{}
	for _, a := range c.agents {
		if a.seen.After(q.wantSince) {
			agents[a.id] = true
		}
	}
	for _, w := range c.workers {
		if w.rec.Query == q.name {
			agents[w.rec.Agent] = true
		}
	}
	return len(agents) == 1
}

// place launches workers of a query on what is offered, on the agents first that have the fewest workers.
func (c *Core) place(q *query, groups []*offered) {
	for c.wants(q) {
		var best *offered
		for _, g := range groups {
			v := c.judge(q, g)
			q.verdicts[g.agent.id] = v
			if v.kind == fits && (best == nil || c.compare(g, best) < 0) {
				best = g
			}
		}
		if best == nil {
			return
		}
		c.launch(q, best)
	}
}

func (c *Core) compare(a, b *offered) int {
	return cmp.Or(cmp.Compare(c.on[a.agent.id], c.on[b.agent.id]), cmp.Compare(a.agent.id, b.agent.id))
}

// launch plans a worker. It is stored, with where and from what, before ACCEPT is said.
func (c *Core) launch(q *query, g *offered) {
	c.next++
	q.missing--
	q.moving = max(q.moving-1, 0)
	id := fmt.Sprintf("w%d-%s", c.next, c.cfg.NewID())
	t := g.pool.take(q.need)
	w := &worker{id: scheduler.WorkerID(id), asked: true, answered: true, nextKill: c.now, rec: workerRecord{
		Query: q.name, Framework: c.id, Agent: g.agent.id, Hostname: g.agent.hostname, Offers: offerTexts(g.ids),
		Resources: q.need.text(), Ports: t.ports, Began: c.now,
	}}
	c.add(w)
	c.saveWorker(w)
	g.tasks = append(g.tasks, c.task(q, w, t))
}

func offerTexts(ids []pb.OfferID) (out []string) {
	for _, id := range ids {
		out = append(out, id.Value)
	}
	return out
}

// task is a worker as Mesos sees it. Its executor has its name, so that two never differ under one name.
func (c *Core) task(q *query, w *worker, t taken) pb.TaskInfo {
	id, shell, title := string(w.id), true, "worker of "+q.name
	grace := pb.DurationInfo{Nanoseconds: c.cfg.KillGrace.Nanoseconds()}
	command := &pb.CommandInfo{Shell: &shell, Value: &q.executor.Command}
	for _, uri := range q.executor.URIs {
		command.URIs = append(command.URIs, pb.CommandInfo_URI{Value: uri})
	}
	for _, name := range sortedKeys(q.executor.Env) {
		value := q.executor.Env[name]
		if command.Environment == nil {
			command.Environment = &pb.Environment{}
		}
		command.Environment.Variables = append(command.Environment.Variables, pb.Environment_Variable{Name: name, Value: &value})
	}
	return pb.TaskInfo{
		Name: title, TaskID: pb.TaskID{Value: id}, AgentID: pb.AgentID{Value: w.rec.Agent}, Resources: t.task,
		Executor: &pb.ExecutorInfo{
			Type: pb.ExecutorInfo_CUSTOM, ExecutorID: pb.ExecutorID{Value: id}, Name: &title, Source: &q.name,
			Command: command, Resources: t.executor, ShutdownGracePeriod: &grace,
		},
		Data: c.workOf(q, w),
	}
}

func (c *Core) workOf(q *query, w *worker) []byte {
	data, err := json.Marshal(work.Work{
		Worker: string(w.id), Control: q.executor.Control, Ports: w.rec.Ports, Silence: c.cfg.Silence, Margin: c.cfg.Margin,
	})
	if err != nil {
		c.alert(q.name, fmt.Sprintf("mesos: what worker %s is to do cannot be written: %v", w.id, err))
	}
	return data
}

func sortedKeys(m map[string]string) []string {
	var keys []string
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// wants says whether workers of a query may be launched now.
func (c *Core) wants(q *query) bool { return q.missing > 0 && !c.now.Before(q.notBefore) }

func (c *Core) wanting() bool {
	for _, q := range c.queries {
		if c.wants(q) {
			return true
		}
	}
	return false
}

// reviveAgain is after how long REVIVE is said again if something is wanted still: it may have been lost.
const reviveAgain = time.Minute

// demand tells the master whether offers are wanted, and the users what is missing.
func (c *Core) demand() {
	wanting := c.wanting()
	switch {
	case !wanting && !c.suppressed:
		c.call(&sched.Call{Type: sched.Call_SUPPRESS})
		c.suppressed, c.reviveDue = true, false
	case wanting && (c.suppressed || c.reviveDue || c.now.Sub(c.revived) > reviveAgain) && c.now.Sub(c.revived) >= c.cfg.RevivePause:
		c.call(&sched.Call{Type: sched.Call_REVIVE})
		c.suppressed, c.reviveDue, c.revived = false, false, c.now
	}
	for _, q := range c.byName() {
		c.tellMissing(q)
	}
}

// missingAgain is after how long the user is told again what is missing.
const missingAgain = 5 * time.Minute

func (c *Core) tellMissing(q *query) {
	if !c.wants(q) || c.now.Sub(q.wantSince) < c.cfg.Patience {
		return
	}
	text := c.missingText(q)
	if text == q.told && c.now.Sub(q.toldAt) < missingAgain || c.now.Sub(q.toldAt) < c.cfg.Patience {
		return
	}
	q.told, q.toldAt = text, c.now
	c.alert(q.name, text)
}

// missingText says what a query needs and why no agent has it.
func (c *Core) missingText(q *query) string {
	agents := "agents"
	if q.need.attributeText() != "" {
		agents += " with " + q.need.attributeText()
	}
	have := 0
	for _, w := range c.workers {
		if w.rec.Query == q.name && w.rec.Killed.IsZero() {
			have++
		}
	}
	text := fmt.Sprintf("the query needs %s on each of %d distinct %s and has %d; ", q.need.text(), have+q.missing, agents, have)
	count := map[verdictKind]int{}
	var lacks []string
	offer := 0
	for _, a := range c.sortedAgents() {
		v, ok := q.verdicts[a.id]
		if !ok || v.at.Before(q.wantSince) || c.now.Sub(v.at) > reviveAgain+c.cfg.Patience {
			continue
		}
		offer++
		count[v.kind]++
		if v.kind != fits && len(lacks) < 5 {
			lacks = append(lacks, fmt.Sprintf("%s %s", a.hostname, v.text))
		}
	}
	if offer == 0 {
		return text + "no agent offers anything"
	}
	text += fmt.Sprintf("%d agents offer, %d have enough", offer, count[fits]+count[inUse])
	if len(lacks) > 0 {
		text += ": " + strings.Join(lacks, "; ")
	}
	return text
}
