package mesos

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	pb "github.com/mesos/mesos-go/api/v1/lib"
	sched "github.com/mesos/mesos-go/api/v1/lib/scheduler"

	"sluice/scheduler/shell"
)

// agent is what is known of an agent that has offered something.
type agent struct {
	id, hostname string
	seen         time.Time
	unavailable  bool // maintenance is planned
	failed       []failure
	avoid        map[string]time.Time // until when it gets no workers of a query; "" stands for all queries
	badPorts     map[uint64]time.Time // where a worker could perhaps not listen, and until when they are taken last
	inverse      []pb.OfferID         // inverse offers that wait for workers to move
	inverseSince time.Time
}

func (c *Core) agent(id string) *agent {
	a := c.agents[id]
	if a == nil {
		a = &agent{id: id, hostname: id}
		c.agents[id] = a
	}
	return a
}

func (c *Core) sortedAgents() []*agent {
	return slices.SortedFunc(maps.Values(c.agents), func(a, b *agent) int { return cmp.Compare(a.id, b.id) })
}

// see notes what an offer says of its agent.
func (c *Core) see(o *pb.Offer) *agent {
	a := c.agent(o.AgentID.Value)
	a.hostname, a.seen, a.unavailable = o.Hostname, c.now, o.Unavailability != nil
	return a
}

// failure is a worker that failed on an agent.
type failure struct {
	at    time.Time
	query string
	// unable says that the worker itself said that it could not run the query, which may be the query's fault.
	unable bool
}

// blame notes that a worker failed on an agent. One on which several did is avoided for a while: by all queries, or, if
// only workers of one query did, which said that they could not run it, by that one.
func (c *Core) blame(w *worker, unable bool) {
	if !w.rec.Killed.IsZero() {
		return
	}
	a := c.agent(w.rec.Agent)
	f := failure{c.now, w.rec.Query, unable}
	a.failed = append(a.failed, f)
	n := c.failures(a)
	if n < c.cfg.AvoidAfter {
		return
	}
	query, which := "", "if others can be had it gets none"
	if unable && !slices.ContainsFunc(a.failed, func(x failure) bool { return !x.unable || x.query != f.query }) {
		query, which = f.query, "if others can be had it gets none of the query"
	}
	if a.avoid == nil {
		a.avoid = map[string]time.Time{}
	}
	expire(a.avoid, c.now)
	a.avoid[query] = c.now.Add(c.cfg.Avoid)
	c.alert(query, fmt.Sprintf("%d workers failed on %s within %v; %s for %v", n, w.about(), c.cfg.AvoidWithin, which, c.cfg.Avoid))
	a.failed = nil
}

// failures is how many workers have failed on an agent within AvoidWithin.
func (c *Core) failures(a *agent) int {
	a.failed = slices.DeleteFunc(a.failed, func(f failure) bool { return c.now.Sub(f.at) > c.cfg.AvoidWithin })
	return len(a.failed)
}

// avoided says whether an agent gets no workers of a query.
func (c *Core) avoided(a *agent, q *query) bool {
	return c.now.Before(a.avoid[""]) || c.now.Before(a.avoid[q.name])
}

// avoidedUntil is for how long an agent gets no workers of a query.
func (c *Core) avoidedUntil(a *agent, q *query) time.Time {
	if all, own := a.avoid[""], a.avoid[q.name]; all.After(own) {
		return all
	}
	return a.avoid[q.name]
}

// expire forgets what is over.
func expire[K comparable](until map[K]time.Time, now time.Time) {
	maps.DeleteFunc(until, func(_ K, t time.Time) bool { return !now.Before(t) })
}

// unable ends a worker that has said that it cannot run its query. The next one waits as after a quick end and comes
// on another agent first, and another port is taken on this one: something else may be using it.
func (c *Core) unable(u *Unable) {
	w := c.workers[u.Worker]
	if w == nil || !w.rec.Killed.IsZero() {
		return
	}
	if q := c.queries[w.rec.Query]; q != nil {
		pause := c.countQuick(q)
		w.quick = q.quick
		c.tellUnable(q, w, u.Why, pause)
	}
	c.avoidPorts(w)
	c.blame(w, true)
	c.kill(u.Worker)
}

// tellUnable tells the user that a query cannot run on an agent, once in a while until one of its workers has run for some time.
func (c *Core) tellUnable(q *query, w *worker, why string, pause time.Duration) {
	if told, ok := q.unable[w.rec.Agent]; ok && c.now.Sub(told) < shell.TellAgain {
		return
	}
	q.unable[w.rec.Agent] = c.now
	text := fmt.Sprintf("worker %s on %s cannot run the query: %s; another one is started in %v, on other agents first", w.id, w.about(), why, pause.Round(100*time.Millisecond))
	if len(w.rec.Ports) > 0 {
		text += fmt.Sprintf(", and port %d is not used there for %v if there are others", w.rec.Ports[0], c.cfg.Avoid)
	}
	c.alert(q.name, text)
}

// avoidPorts notes that a worker could perhaps not listen at its port.
func (c *Core) avoidPorts(w *worker) {
	a := c.agent(w.rec.Agent)
	expire(a.badPorts, c.now)
	if len(w.rec.Ports) == 0 {
		return
	}
	if a.badPorts == nil {
		a.badPorts = map[uint64]time.Time{}
	}
	a.badPorts[w.rec.Ports[0]] = c.now.Add(c.cfg.Avoid)
}

// avoids says whether a port of an agent is to be taken last.
func (c *Core) avoids(a *agent, port uint64) bool { return c.now.Before(a.badPorts[port]) }

// alertOn tells the users of queries that have workers on an agent of which Mesos can tell how they are.
func (c *Core) alertOn(agent string, text func(w *worker) string) {
	told := map[string]bool{}
	for _, w := range c.sorted() {
		if w.rec.Agent == agent && w.rec.Lost.IsZero() && w.rec.Killed.IsZero() && !told[w.rec.Query] {
			told[w.rec.Query] = true
			c.alert(w.rec.Query, text(w))
		}
	}
}

// inverseOffers takes requests to leave agents. They are answered when the workers are elsewhere.
func (c *Core) inverseOffers(list []pb.InverseOffer) {
	c.due = true
	for _, o := range list {
		if o.AgentID == nil {
			c.answerInverse(sched.Call_ACCEPT_INVERSE_OFFERS, []pb.OfferID{o.OfferID})
			continue
		}
		a := c.agent(o.AgentID.Value)
		if len(a.inverse) == 0 {
			a.inverseSince = c.now
			c.alertOn(a.id, func(w *worker) string { return w.about() + " is to be maintained; the query's workers there move away" })
		}
		a.inverse = append(a.inverse, o.OfferID)
	}
}

func (c *Core) rescindInverse(id string) {
	for _, a := range c.sortedAgents() {
		before := len(a.inverse)
		a.inverse = slices.DeleteFunc(a.inverse, func(o pb.OfferID) bool { return o.Value == id })
		if before > 0 && len(a.inverse) == 0 {
			c.stay(a.id)
		}
	}
}

func (c *Core) answerInverse(answer sched.Call_Type, ids []pb.OfferID) {
	call := &sched.Call{Type: answer}
	if answer == sched.Call_ACCEPT_INVERSE_OFFERS {
		call.AcceptInverseOffers = &sched.Call_AcceptInverseOffers{InverseOfferIDs: ids}
	} else {
		call.DeclineInverseOffers = &sched.Call_DeclineInverseOffers{InverseOfferIDs: ids, Filters: filters(c.cfg.MoveTimeout)}
	}
	c.call(call)
}

// maintain moves workers away from agents that are to be maintained.
func (c *Core) maintain() {
	for _, a := range c.sortedAgents() {
		if len(a.inverse) == 0 {
			continue
		}
		for _, w := range c.sorted() {
			if w.rec.Agent == a.id {
				c.move(w)
			}
		}
		switch {
		case c.on[a.id] == 0:
			c.answerInverse(sched.Call_ACCEPT_INVERSE_OFFERS, a.inverse)
			a.inverse = nil
		case c.now.Sub(a.inverseSince) > c.cfg.MoveTimeout:
			c.alertOn(a.id, func(w *worker) string {
				return fmt.Sprintf("workers on %s could not move away within %v: no other agent has what they need", w.about(), c.cfg.MoveTimeout)
			})
			c.answerInverse(sched.Call_DECLINE_INVERSE_OFFERS, a.inverse)
			a.inverse = nil
			c.stay(a.id)
		}
	}
}

// stay takes back that workers are to leave an agent.
func (c *Core) stay(agent string) {
	for _, w := range c.sorted() {
		if w.rec.Agent != agent || w.replaced.IsZero() || !w.rec.Killed.IsZero() {
			continue
		}
		w.replaced = time.Time{}
		q := c.queries[w.rec.Query]
		if q == nil {
			continue
		}
		if x := q.find(w.key); x != nil && x.moving > 0 {
			x.moving--
			q.less(x)
		}
	}
}

// settled is how long another worker must have run before the one that it replaces is killed, so that the
// scheduler has heard of it.
const settled = 2 * time.Second

// move asks for another worker, and kills this one when that runs.
func (c *Core) move(w *worker) {
	q := c.queries[w.rec.Query]
	if !w.rec.Killed.IsZero() {
		return
	}
	if q == nil || q.closed {
		c.kill(w.id)
		return
	}
	if w.replaced.IsZero() {
		w.replaced = c.now
		c.ask(q, w.rec.Capacity.resources()).moving++
		return
	}
	for _, x := range c.sorted() {
		if x.rec.Query != q.name || x.key != w.key || x.rec.Began.Before(w.replaced) || x.replaces || !x.rec.Killed.IsZero() || !x.rec.Lost.IsZero() ||
			x.rec.Agent == w.rec.Agent || x.ran.IsZero() || c.now.Sub(x.ran) < settled {
			continue
		}
		x.replaces = true
		c.kill(w.id)
		return
	}
}

// unwanted takes the end of a worker that was launched beside one that is to leave its agent, and killed by its query, which
// has no use for one more. So the old one ends first.
func (c *Core) unwanted(x *worker) {
	if x == nil || !x.extra || x.replaces {
		return
	}
	for _, w := range c.sorted() {
		if w.rec.Query == x.rec.Query && w.key == x.key && !w.replaced.IsZero() && w.rec.Killed.IsZero() {
			x.replaces = true
			c.alert(w.rec.Query, fmt.Sprintf("worker %s leaves %s, which is to be maintained, before another one runs: the query has no use for more workers", w.id, w.about()))
			c.kill(w.id)
			return
		}
	}
}
