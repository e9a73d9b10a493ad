package fakemesos

import (
	"fmt"
	"net/http"
	"slices"
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"github.com/mesos/mesos-go/api/v1/lib/maintenance"
	"github.com/mesos/mesos-go/api/v1/lib/scheduler"
)

// inverseOffer asks a framework to leave an agent.
type inverseOffer struct {
	id, agent string
	fw        *framework
}

// Drain is the operator's DRAIN_AGENT: no offers any more, its tasks are killed.
func (c *Cluster) Drain(agent string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.drain(agent)
}

func (c *Cluster) drain(agent string) {
	n := c.nodeOf(agent)
	if n == nil {
		return
	}
	n.deactivated, n.draining = true, true
	c.m.rescindAll(agent)
	for _, f := range c.m.sortedFrameworks() {
		for _, t := range sorted(f.tasks) {
			if t.agent == agent && !terminal(t.state) && n.reachable() {
				n.a.kill(f.id, t.id, nil)
			}
		}
	}
}

// Reactivate ends a Drain.
func (c *Cluster) Reactivate(agent string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reactivate(agent)
}

func (c *Cluster) reactivate(agent string) {
	if n := c.nodeOf(agent); n != nil {
		n.deactivated, n.draining = false, false
	}
}

// Maintain schedules maintenance of an agent: its offers say so, and inverse offers come.
func (c *Cluster) Maintain(agent string, start time.Time, duration time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.maintain(c.nodeOf(agent), &mesos.Unavailability{
		Start: mesos.TimeInfo{Nanoseconds: start.UnixNano()}, Duration: &mesos.DurationInfo{Nanoseconds: duration.Nanoseconds()},
	})
}

func (c *Cluster) maintain(n *node, u *mesos.Unavailability) {
	if n == nil {
		return
	}
	n.unavailable = u
	c.m.rescindAll(n.a.id)
	c.after(c.opts.Times.Allocation, c.askToLeave)
}

// StartMaintenance takes an agent down, as the operator's START_MAINTENANCE of its machine does.
func (c *Cluster) StartMaintenance(agent string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if n := c.nodeOf(agent); n != nil {
		c.takeDown(n)
	}
}

func (c *Cluster) startMaintenance(hostname string) {
	for _, n := range c.m.sortedNodes() {
		if n.a.hostname == hostname {
			c.takeDown(n)
		}
	}
}

func (c *Cluster) takeDown(n *node) {
	c.m.removed(n, always(mesos.TASK_LOST), mesos.REASON_AGENT_REMOVED, "Agent "+n.a.hostname+" removed: Operator initiated 'Machine DOWN'")
	n.a.left = true
	n.a.crash()
	n.a.killAll()
}

func (c *Cluster) schedule(windows []maintenance.Window) (int, string, []byte) {
	for _, w := range windows {
		for _, id := range w.MachineIDs {
			for _, n := range c.m.sortedNodes() {
				if n.a.hostname == id.GetHostname() {
					u := w.Unavailability
					c.maintain(n, &u)
				}
			}
		}
	}
	return http.StatusOK, "", nil
}

// askToLeave sends inverse offers to the frameworks that have something on agents to be maintained, and none open.
func (c *Cluster) askToLeave() {
	if c.m == nil {
		return
	}
	m := c.m
	again := false
	for _, f := range m.sortedFrameworks() {
		var ask []mesos.InverseOffer
		for _, n := range m.sortedNodes() {
			if n.unavailable == nil {
				continue
			}
			again = true
			if m.asked(f, n.a.id) || !m.holds(f, n.a.id) || f.filtered(n.a.id, inverseRole, nil, time.Now()) {
				continue
			}
			o := &inverseOffer{id: fmt.Sprintf("%s-O%d", m.id, m.nextOffer), agent: n.a.id, fw: f}
			m.nextOffer++
			m.inverse[o.id] = o
			ask = append(ask, mesos.InverseOffer{
				OfferID: mesos.OfferID{Value: o.id}, URL: n.a.url(), FrameworkID: mesos.FrameworkID{Value: f.id},
				AgentID: &mesos.AgentID{Value: n.a.id}, Unavailability: *n.unavailable,
			})
		}
		if len(ask) > 0 {
			f.send(&scheduler.Event{Type: scheduler.Event_INVERSE_OFFERS, InverseOffers: &scheduler.Event_InverseOffers{InverseOffers: ask}})
		}
	}
	if again {
		c.after(c.opts.Times.Allocation, c.askToLeave)
	}
}

// inverseRole marks filters of inverse offers.
const inverseRole = "\x00inverse"

func (m *masterState) asked(f *framework, agent string) bool {
	for _, o := range m.inverse {
		if o.fw == f && o.agent == agent {
			return true
		}
	}
	return false
}

func (m *masterState) holds(f *framework, agent string) bool {
	for _, t := range f.tasks {
		if t.agent == agent && !t.freed {
			return true
		}
	}
	return slices.ContainsFunc(m.openOffers(f.id), func(o *offer) bool { return o.agent == agent })
}

// inverseAnswer is what a framework last said to an inverse offer.
type inverseAnswer struct {
	status string
	at     time.Time
}

// showMaintenance lists the machines that are to be maintained.
func (m *masterState) showMaintenance() []byte {
	var machines [][]byte
	for _, n := range m.sortedNodes() {
		if n.unavailable == nil {
			continue
		}
		var answers [][]byte
		for _, f := range m.sortedFrameworks() {
			if a, ok := n.answers[f.id]; ok {
				answers = append(answers, object("status", quote(a.status), "framework_id", object("value", quote(f.id)),
					"timestamp", m.nanos(mesos.TimeInfo{Nanoseconds: a.at.UnixNano()})))
			}
		}
		machines = append(machines, object("id", object("hostname", quote(n.a.hostname), "ip", quote("127.0.0.1")), "statuses", array(answers)))
	}
	return object("status", object("draining_machines", array(machines)))
}

// answerInverse closes inverse offers, whatever the answer is; they come again when the filter ends.
func (m *masterState) answerInverse(f *framework, status string, ids []mesos.OfferID, filters *mesos.Filters) {
	for _, id := range ids {
		o := m.inverse[id.Value]
		if o == nil || o.fw != f {
			continue
		}
		delete(m.inverse, id.Value)
		if n := m.nodes[o.agent]; n != nil {
			n.answers[f.id] = inverseAnswer{status, time.Now()}
		}
		secs := 5.0
		if filters != nil && filters.RefuseSeconds != nil && *filters.RefuseSeconds >= 0 {
			secs = *filters.RefuseSeconds
		}
		f.filter(o.agent, inverseRole, filter{until: time.Now().Add(m.c.opts.scaled(secs))})
	}
}

func (m *masterState) dropInverse(framework string) {
	for id, o := range m.inverse {
		if o.fw.id == framework {
			delete(m.inverse, id)
		}
	}
}

// dropInverseOf takes back the inverse offers of an agent that is gone.
func (m *masterState) dropInverseOf(agent string) {
	for id, o := range m.inverse {
		if o.agent == agent {
			delete(m.inverse, id)
		}
	}
}
