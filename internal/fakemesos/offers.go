package fakemesos

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"github.com/mesos/mesos-go/api/v1/lib/scheduler"
)

// offer is one open offer.
type offer struct {
	id, agent, role string
	fw              *framework
	resources       resources
	timeout         *time.Timer
}

// filter keeps back offers whose resources are all in what was refused.
type filter struct {
	refused resources
	until   time.Time
}

// filterKey is what a filter is about: the offers of an agent to a role.
type filterKey struct{ agent, role string }

// free is what is neither used nor offered. It is not to be changed.
func (n *node) free() resources {
	if n.rest == nil {
		n.rest = append(resources{}, n.a.total.minus(n.used).minus(n.offered)...)
	}
	return n.rest
}

// reachable says whether messages between the master and the agent arrive.
func (n *node) reachable() bool { return n.connected && n.a.running && !n.a.partitioned }

// hold and release account for what tasks and executors hold on an agent.
func (m *masterState) hold(agent string, rs resources) {
	if n := m.nodes[agent]; n != nil {
		n.used, n.rest = n.used.plus(rs), nil
	}
}

func (m *masterState) release(agent string, rs resources) {
	if n := m.nodes[agent]; n != nil {
		n.used, n.rest = n.used.minus(rs), nil
	}
}

// free gives the resources of a task back, once.
func (m *masterState) free(t *task) {
	if t.freed {
		return
	}
	t.freed = true
	m.release(t.agent, t.resources)
}

func (m *masterState) dropExecutor(n *node, k execKey) {
	rs, ok := n.executors[k]
	if !ok {
		return
	}
	delete(n.executors, k)
	n.used, n.rest = n.used.minus(rs), nil
}

func (m *masterState) openOffers(framework string) []*offer {
	var out []*offer
	for _, o := range m.offers {
		if o.fw.id == framework {
			out = append(out, o)
		}
	}
	slices.SortFunc(out, func(a, b *offer) int { return cmp.Compare(a.id, b.id) })
	return out
}

// withdraw takes an offer back without a word.
func (m *masterState) withdraw(o *offer) {
	if m.offers[o.id] != o {
		return
	}
	m.c.drop(o.timeout)
	delete(m.offers, o.id)
	if n := m.nodes[o.agent]; n != nil {
		n.offered, n.rest = n.offered.minus(o.resources), nil
	}
}

// rescind takes an offer back and says so.
func (m *masterState) rescind(o *offer) {
	m.withdraw(o)
	o.fw.send(&scheduler.Event{Type: scheduler.Event_RESCIND, Rescind: &scheduler.Event_Rescind{OfferID: mesos.OfferID{Value: o.id}}})
}

// refuse keeps resources back from a framework for a time (rule 23).
func (m *masterState) refuse(f *framework, agent, role string, rs resources, filters *mesos.Filters) {
	secs := 5.0
	if filters != nil && filters.RefuseSeconds != nil && *filters.RefuseSeconds >= 0 {
		secs = *filters.RefuseSeconds
	}
	if secs == 0 || len(rs) == 0 {
		return
	}
	wait := max(m.c.opts.scaled(min(secs, 31536000)), m.c.opts.Times.Allocation) // at most a year
	f.filter(agent, role, filter{rs, time.Now().Add(wait)})
}

func (f *framework) filter(agent, role string, x filter) {
	if f.filters == nil {
		f.filters = map[filterKey][]filter{}
	}
	k := filterKey{agent, role}
	f.filters[k] = append(f.filters[k], x)
}

func (f *framework) filtered(agent, role string, rs resources, now time.Time) bool {
	k := filterKey{agent, role}
	if len(f.filters[k]) == 0 {
		return false
	}
	f.filters[k] = slices.DeleteFunc(f.filters[k], func(x filter) bool { return !now.Before(x.until) })
	return slices.ContainsFunc(f.filters[k], func(x filter) bool { return x.refused.contains(rs) })
}

// allocate offers all that is free. It runs at intervals and when frameworks or agents come.
func (c *Cluster) allocate() {
	if c.m == nil || c.leader < 0 {
		return
	}
	m := c.m
	takers := m.takers()
	if len(takers) == 0 {
		return
	}
	now := time.Now()
	found := map[*framework][]*offer{}
	for _, n := range m.sortedNodes() {
		if !n.reachable() || n.deactivated {
			continue
		}
		free := n.free()
		if len(free) == 0 {
			continue
		}
		for _, t := range takers {
			if n.a.total.scalar("gpus") > 0 && !t.fw.can(mesos.FrameworkInfo_Capability_GPU_RESOURCES) {
				continue // --filter_gpu_resources of masters
			}
			part := free.forRole(t.role)
			if len(part) == 0 || t.fw.filtered(n.a.id, t.role, part, now) {
				continue
			}
			free = free.minus(part)
			o := &offer{agent: n.a.id, role: t.role, fw: t.fw, resources: part}
			n.offered, n.rest = n.offered.plus(part), nil
			found[t.fw] = append(found[t.fw], o)
		}
	}
	for _, t := range takers {
		m.sendOffers(t.fw, found[t.fw])
		delete(found, t.fw)
	}
}

// taker is a framework in one of its roles.
type taker struct {
	fw   *framework
	role string
}

// takers are those that want offers: the one with the least first, then by role and by age.
func (m *masterState) takers() []taker {
	var out []taker
	share := map[*framework]int64{}
	for _, f := range m.frameworks {
		if !f.connected {
			continue
		}
		for _, t := range f.tasks {
			if !t.freed {
				share[f] += t.resources.scalar("cpus")
			}
		}
		for _, r := range f.roles() {
			if !f.suppressed[r] {
				out = append(out, taker{f, r})
			}
		}
	}
	for _, o := range m.offers {
		share[o.fw] += o.resources.scalar("cpus")
	}
	slices.SortFunc(out, func(a, b taker) int {
		return cmp.Or(cmp.Compare(share[a.fw], share[b.fw]), cmp.Compare(a.role, b.role), cmp.Compare(a.fw.id, b.fw.id))
	})
	return out
}

func (m *masterState) sortedNodes() []*node {
	out := make([]*node, 0, len(m.nodes))
	for _, n := range m.nodes {
		out = append(out, n)
	}
	slices.SortFunc(out, func(a, b *node) int { return cmp.Compare(a.a.index, b.a.index) })
	return out
}

// sendOffers numbers offers and sends them in one event; of several roles the later in the alphabet comes first.
func (m *masterState) sendOffers(f *framework, offers []*offer) {
	if len(offers) == 0 {
		return
	}
	slices.SortStableFunc(offers, func(a, b *offer) int { return cmp.Compare(b.role, a.role) })
	ev := &scheduler.Event{Type: scheduler.Event_OFFERS, Offers: &scheduler.Event_Offers{}}
	for _, o := range offers {
		o.id = fmt.Sprintf("%s-O%d", m.id, m.nextOffer)
		m.nextOffer++
		m.offers[o.id] = o
		if d := m.c.opts.OfferTimeout; d > 0 {
			o.timeout = m.c.after(d, func() {
				if m.c.m == m && m.offers[o.id] == o {
					m.rescind(o)
				}
			})
		}
		ev.Offers.Offers = append(ev.Offers.Offers, m.show(o))
	}
	f.send(ev)
}

func (m *masterState) show(o *offer) mesos.Offer {
	n := m.nodes[o.agent]
	v := o.fw.view(o.role)
	out := mesos.Offer{
		ID: mesos.OfferID{Value: o.id}, FrameworkID: mesos.FrameworkID{Value: o.fw.id}, AgentID: mesos.AgentID{Value: o.agent},
		Hostname: n.a.hostname, URL: n.a.url(), Resources: o.resources.show(v), Attributes: n.a.attributes,
		Unavailability: n.unavailable,
	}
	if v.allocation != "" {
		out.AllocationInfo = &mesos.Resource_AllocationInfo{Role: ptr(o.role)}
	}
	for k := range n.executors {
		if k.framework == o.fw.id {
			out.ExecutorIDs = append(out.ExecutorIDs, mesos.ExecutorID{Value: k.executor})
		}
	}
	slices.SortFunc(out.ExecutorIDs, func(a, b mesos.ExecutorID) int { return cmp.Compare(a.Value, b.Value) })
	return out
}

func (m *masterState) decline(f *framework, ids []mesos.OfferID, filters *mesos.Filters) {
	for _, id := range ids {
		o := m.offers[id.Value]
		if o == nil || o.fw != f {
			continue
		}
		m.withdraw(o)
		m.refuse(f, o.agent, o.role, o.resources, filters)
	}
}

// suppress and revive of roles that the framework does not have are dropped; none named means all.
func (f *framework) suppress(roles []string, on bool) {
	if len(roles) == 0 {
		roles = f.roles()
	}
	for _, r := range roles {
		if !slices.Contains(f.roles(), r) {
			continue
		}
		if on {
			f.suppressed[r] = true
			continue
		}
		delete(f.suppressed, r)
		maps.DeleteFunc(f.filters, func(k filterKey, _ []filter) bool { return k.role == r })
	}
}
