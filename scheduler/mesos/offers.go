package mesos

import (
	"cmp"
	"slices"
	"time"

	pb "github.com/mesos/mesos-go/api/v1/lib"
	sched "github.com/mesos/mesos-go/api/v1/lib/scheduler"
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
	type key struct {
		agent *agent
		role  string
	}
	var groups []*offered
	at := map[key]*offered{}
	for i := range list {
		o := &list[i]
		k := key{c.see(o), o.GetAllocationInfo().GetRole()}
		g := at[k]
		if g == nil {
			g = &offered{agent: k.agent, role: k.role, attrs: o.Attributes}
			at[k] = g
			groups = append(groups, g)
		}
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
	failing
	maintained
	forGPUs // left to workers that need some
)

// could says whether the agent is one for the worker, but for others of the query that are there, or after a while.
func (k verdictKind) could() bool { return k == fits || k == inUse || k == forGPUs }

// judge says whether a wanted worker may be launched on what an agent offers. Sharing says that the agent may have one
// of the query already.
func (c *Core) judge(q *query, w *want, g *offered, sharing bool) verdict {
	v := verdict{at: c.now}
	switch attr, short := w.need.wrongAttribute(g.attrs), g.pool.shortage(w.need); {
	case len(w.need.Roles) > 0 && !slices.Contains(w.need.Roles, g.role):
		v.kind, v.text = wrongRole, "offers for role "+g.role
	case attr != "":
		v.kind, v.text = notAsNeeded, "does not have attribute "+attr
	case g.agent.unavailable || len(g.agent.inverse) > 0:
		v.kind, v.text = maintained, "is to be maintained"
	case c.avoided(g.agent, q) && !w.anyAgent:
		v.kind, v.text = failing, "has failed several times, and gets none until "+clock(c.avoidedUntil(g.agent, q))+" if others can be had"
	case short != "":
		v.kind, v.text = tooLittle, short
	case c.onQuery[place{q.name, g.agent.id}] > 0 && !sharing:
		v.kind, v.text = inUse, "has a worker of the query already"
	case w.need.GPUs == 0 && g.pool.has("gpus") > 0 && c.now.Sub(w.since) < c.cfg.Patience:
		v.kind, v.text = forGPUs, "has gpus, and is left to workers that need some for a while"
	}
	return v
}

// leaving says whether all workers of a query on an agent are being ended.
func (c *Core) leaving(q *query, a *agent) bool {
	return !slices.ContainsFunc(c.sorted(), func(w *worker) bool {
		return w.rec.Query == q.name && w.rec.Agent == a.id && w.rec.Killed.IsZero()
	})
}

// noOther says whether no agent could take a worker but some that are avoided, and has not for a while. Where workers fail on all
// agents it is not the agents that are to be avoided; the pauses of the query hold all the same.
func (c *Core) noOther(q *query, w *want, groups []*offered) bool {
	since := q.wantSince
	if q.notBefore.After(since) {
		since = q.notBefore
	}
	if c.now.Sub(since) < c.cfg.Patience {
		return false
	}
	for id, v := range w.verdicts {
		if v.kind.could() && c.fresh(v) && c.agents[id] != nil {
			return false
		}
	}
	return !slices.ContainsFunc(groups, func(g *offered) bool { return c.judge(q, w, g, true).kind.could() })
}

// mayShare says whether a second worker may be on one agent: if that is allowed, and no other agent that has a worker of
// the query, or has offered what this one needs, has been there for a while.
func (c *Core) mayShare(q *query, w *want, groups []*offered) bool {
	if !q.need.Shared || c.now.Sub(q.wantSince) < c.cfg.Patience {
		return false
	}
	agents := map[string]bool{}
	for id, v := range w.verdicts {
		if v.kind.could() && !v.at.Before(q.wantSince) && c.fresh(v) && c.agents[id] != nil {
			agents[id] = true
		}
	}
	for _, g := range groups {
		delete(agents, g.agent.id)
	}
	for _, g := range groups {
		if c.judge(q, w, g, true).kind.could() {
			agents[g.agent.id] = true
		}
	}
	for _, x := range c.workers {
		if x.rec.Query == q.name && x.rec.Killed.IsZero() {
			agents[x.rec.Agent] = true
		}
	}
	return len(agents) <= 1
}

// place launches workers of a query on what is offered: as many as can be, each on an agent of its own unless they may
// share one.
func (c *Core) place(q *query, groups []*offered) {
	if !c.wants(q) {
		return
	}
	wants := slices.DeleteFunc(slices.Clone(q.wants), func(w *want) bool { return w.never != "" })
	fits, n, sharing := make([][]*offered, len(wants)), make([]int, len(wants)), make([]bool, len(wants))
	for i, w := range wants {
		w.anyAgent = c.noOther(q, w, groups)
		sharing[i] = c.mayShare(q, w, groups)
		fits[i], n[i] = c.fitting(q, w, groups, sharing[i]), w.n
	}
	m := newMatch(fits, n)
	for i, w := range wants {
		for _, g := range m.chosen(i) {
			c.launch(q, w, g)
		}
	}
	for i, w := range wants {
		for sharing[i] && w.n > 0 {
			fits := c.fitting(q, w, groups, true)
			if len(fits) == 0 {
				break
			}
			c.launch(q, w, fits[0])
		}
	}
	for _, w := range q.wants {
		w.anyAgent = false // what is heard is of agents as they are
		for _, g := range groups {
			w.hear(g.agent.id, c.judge(q, w, g, false))
		}
	}
}

// fitting are the offers that are good for a wanted worker: agents first on which none has failed of late, then those that
// fewest others of the query could use, then those with the fewest workers. One with GPUs comes last if none is needed.
func (c *Core) fitting(q *query, w *want, groups []*offered, sharing bool) []*offered {
	type candidate struct {
		*offered
		gpus   milli
		failed int
		sought int
	}
	var list []candidate
	for _, g := range groups {
		if c.judge(q, w, g, sharing).kind != fits {
			continue
		}
		x := candidate{offered: g, failed: c.failures(g.agent), sought: q.sought(w.key, g.attrs)}
		if w.need.GPUs == 0 {
			x.gpus = g.pool.has("gpus")
		}
		list = append(list, x)
	}
	slices.SortStableFunc(list, func(a, b candidate) int {
		return cmp.Or(
			cmp.Compare(a.gpus, b.gpus), cmp.Compare(a.failed, b.failed), cmp.Compare(a.sought, b.sought), cmp.Compare(c.on[a.agent.id], c.on[b.agent.id]),
			cmp.Compare(a.agent.id, b.agent.id),
		)
	})
	out := make([]*offered, len(list))
	for i, x := range list {
		out[i] = x.offered
	}
	return out
}

// reviveAgain is after how long REVIVE is said again if something is wanted still: it may have been lost.
const reviveAgain = time.Minute

// demand tells the master whether offers are wanted.
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
}
