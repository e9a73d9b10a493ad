package mesos

import (
	"fmt"
	"strings"
	"time"

	pb "github.com/mesos/mesos-go/api/v1/lib"
	sched "github.com/mesos/mesos-go/api/v1/lib/scheduler"
)

// connection watches over the subscription.
func (c *Core) connection() {
	switch c.phase {
	case idle:
		if !c.now.Before(c.retryAt) {
			c.subscribe()
		}
	case connecting:
		if c.now.Sub(c.since) > c.cfg.ConnectTimeout {
			c.disconnected("no answer to SUBSCRIBE")
		}
	case subscribed:
		if silent := c.now.Sub(c.heard); silent > time.Duration(c.cfg.Heartbeats)*c.beat {
			c.disconnected(fmt.Sprintf("no heartbeat of the master for %v", silent.Round(time.Millisecond)))
		}
	}
}

// subscribe says SUBSCRIBE with an id that is stored before, at both places that Mesos looks at. It is stored each
// time: a scheduler that does not lead any more cannot, and so does not take the framework from the one that leads.
func (c *Core) subscribe() {
	c.sub++
	c.phase, c.since = connecting, c.now
	c.save(frameworkPath, frameworkRecord{ID: c.id, Since: c.now})
	timeout, checkpoint := c.cfg.FailoverTimeout.Seconds(), true
	info := &pb.FrameworkInfo{
		ID: &pb.FrameworkID{Value: c.id}, User: c.cfg.User, Name: c.cfg.Name, Roles: c.cfg.Roles,
		FailoverTimeout: &timeout, Checkpoint: &checkpoint,
		Principal: optional(c.cfg.Principal), Hostname: optional(c.cfg.Hostname), WebUiURL: optional(c.cfg.WebUI),
		Capabilities: []pb.FrameworkInfo_Capability{
			{Type: pb.FrameworkInfo_Capability_PARTITION_AWARE}, {Type: pb.FrameworkInfo_Capability_TASK_KILLING_STATE},
			{Type: pb.FrameworkInfo_Capability_MULTI_ROLE},
		},
	}
	if c.cfg.GPUs {
		info.Capabilities = append(info.Capabilities, pb.FrameworkInfo_Capability{Type: pb.FrameworkInfo_Capability_GPU_RESOURCES})
	}
	call := &sched.Call{
		Type: sched.Call_SUBSCRIBE, FrameworkID: &pb.FrameworkID{Value: c.id},
		Subscribe: &sched.Call_Subscribe{FrameworkInfo: info},
	}
	c.suppressed = !c.wanting()
	if c.suppressed {
		call.Subscribe.SuppressedRoles = c.cfg.Roles
	}
	c.do(Action{Subscribe: &Subscribe{Sub: c.sub, Call: call}})
}

func optional(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// quickly is how long a subscription must last to be none that came to nothing.
const quickly = 5 * time.Second

// disconnected ends the subscription and plans the next one. The cause is for the user, "" if that is told already.
func (c *Core) disconnected(cause string) {
	if c.phase == subscribed && c.now.Sub(c.since) >= quickly {
		c.fails = 0
	}
	wasUp := c.phase == subscribed
	c.do(Action{Disconnect: c.sub})
	c.phase, c.since = idle, c.now
	pause := min(c.cfg.RetryFirst<<min(c.fails, 16), c.cfg.RetryMax)
	c.retryAt = c.now.Add(time.Duration(float64(pause) * (0.5 + c.jitter/2)))
	c.fails++
	// Offers are void without a word, inverse offers too.
	for _, a := range c.agents {
		a.inverse = nil
	}
	if cause != "" && (wasUp || c.fails == 5 || c.fails%20 == 0) {
		c.alert("", fmt.Sprintf("the connection to the Mesos master: %s; trying again", cause))
	}
}

// leader turns to another master at once.
func (c *Core) leader() {
	if c.phase != idle {
		c.disconnected("another master leads")
	}
	c.fails, c.retryAt = 0, c.now
}

// renew makes another id to register under.
func (c *Core) renew() { c.id = "sluice-" + c.cfg.NewID() }

// received takes an event of the master.
func (c *Core) received(r *Received) {
	if r.Sub != c.sub || c.phase == idle {
		return
	}
	c.heard = c.now
	e := r.Event
	switch {
	case e.Type == sched.Event_SUBSCRIBED && e.Subscribed != nil:
		c.subscribed(e.Subscribed)
	case e.Type == sched.Event_ERROR && e.Error != nil:
		c.failed(e.Error.Message)
	case c.phase != subscribed:
		// Nothing else is said before SUBSCRIBED.
	case e.Type == sched.Event_OFFERS && e.Offers != nil:
		c.offers(e.Offers.Offers)
	case e.Type == sched.Event_UPDATE && e.Update != nil:
		c.update(&e.Update.Status)
	case e.Type == sched.Event_FAILURE && e.Failure != nil:
		c.failure(e.Failure)
	case e.Type == sched.Event_INVERSE_OFFERS && e.InverseOffers != nil:
		c.inverseOffers(e.InverseOffers.InverseOffers)
	case e.Type == sched.Event_RESCIND_INVERSE_OFFER && e.RescindInverseOffer != nil:
		c.rescindInverse(e.RescindInverseOffer.InverseOfferID.Value)
	case e.Type == sched.Event_MESSAGE && e.Message != nil:
		c.message(e.Message)
	}
	// RESCIND needs nothing: each offer is answered as it comes, and a launch on one that was taken back is
	// answered with TASK_DROPPED.
}

// subscribed begins a subscription.
func (c *Core) subscribed(s *sched.Event_Subscribed) {
	c.phase, c.since = subscribed, c.now
	c.beat = 15 * time.Second
	if sec := s.GetHeartbeatIntervalSeconds(); sec > 0 && sec < 3600 {
		c.beat = time.Duration(sec * float64(time.Second))
	}
	if got := s.GetFrameworkID().GetValue(); got != c.id {
		c.alert("", fmt.Sprintf("the Mesos master calls the framework %q, not %q as it was asked to", got, c.id))
	}
	for _, w := range c.workers {
		w.answered = w.rec.Framework != c.id
		w.nextKill, w.kills, w.nextMove, w.moves = c.now, 0, c.now, 0
	}
	c.reconcileAt, c.reconciled = c.now, 0
	c.implicitAt = c.now.Add(c.cfg.Implicit)
	c.reviveDue, c.due = false, true
}

// errorAgain is after how long the user is told the same error again.
const errorAgain = 5 * time.Minute

// failed takes an ERROR, after which the stream is of no use.
func (c *Core) failed(message string) {
	switch {
	case strings.Contains(message, "Framework has been removed"):
		c.removed()
	case strings.Contains(message, "failed over"):
		c.alert("", "another scheduler has subscribed as the same Mesos framework; only one may use this store")
	case message != c.toldError || c.now.Sub(c.toldErrorAt) > errorAgain:
		c.toldError, c.toldErrorAt = message, c.now
		c.alert("", "the Mesos master says: "+message)
	}
	c.disconnected("")
}

// removed is the end of the framework: Mesos ends all of its tasks, and says no more about them.
func (c *Core) removed() {
	old := c.id
	c.renew()
	n, until := 0, time.Time{}
	for _, w := range c.sorted() {
		if w.rec.Framework != old {
			continue
		}
		n++
		w.lose(c.now)
		w.markKilled(c.now)
		c.saveWorker(w)
		c.vacate(w)
		if at := w.rec.Killed.Add(c.cfg.Silence + c.cfg.Margin); at.After(until) {
			until = at
		}
	}
	wait := ""
	if n > 0 {
		wait = fmt.Sprintf(". Mesos says no more of them: others are started at once, but what must not run twice, such as sinks that write files, waits until %s, "+
			"when all of them have ended for certain (--mesos-silence and --mesos-margin, %v after they were given up)", clock(until), c.cfg.Silence+c.cfg.Margin)
	}
	c.alert("", fmt.Sprintf("MESOS HAS REMOVED THE FRAMEWORK %s, as an operator does or when no scheduler was subscribed for the failover timeout of %v: "+
		"its %d workers are being ended by the agents; a new framework, %s, begins%s", old, c.cfg.FailoverTimeout, n, c.id, wait))
	c.fails = 0
}

// refused takes the answer 400 to a call.
func (c *Core) refused(r *Refused) {
	if r.Sub != c.sub || c.phase != subscribed {
		return
	}
	c.alert("", fmt.Sprintf("the Mesos master has refused %s: %s", r.Call.Type, r.Cause))
	if r.Call.Type != sched.Call_ACCEPT || r.Call.Accept == nil {
		return
	}
	// Nothing was launched, and the offers are open still.
	c.decline(r.Call.Accept.OfferIDs, c.cfg.RefuseShort)
	for _, op := range r.Call.Accept.Operations {
		for _, t := range op.Launch.GetTaskInfos() {
			if w := c.workers[workerID(t.TaskID.Value)]; w != nil {
				c.end(w, "was refused by the master: "+r.Cause, false)
			}
		}
	}
}
