package sim

import "slices"

// connection is the way of one output channel of one instance to the worker where its consumer is to
// be. It keeps messages in order; when it breaks, all that is under way is lost both ways.
type connection struct {
	from    *host
	channel string
	to      *worker // nil: there is none at the address
	session int     // counts the breaks
	up      bool
	closed  bool
	down    int64 // when the last message to the consumer arrives
	back    int64 // likewise to the producer
	flying  int   // messages to the consumer under way
	full    bool  // a Send has been refused and no Flush has come yet
}

// dial makes a connection to an address, which takes a while.
func (w *world) dial(h *host, channel, addr string) *connection {
	c := &connection{from: h, channel: channel}
	for _, k := range w.workers {
		if k.addr == addr {
			c.to = k
		}
	}
	c.connect()
	return c
}

// connect tries to connect until somebody is there.
func (c *connection) connect() {
	w := c.from.worker.world
	session := c.session
	w.after(w.between(100, w.plan.Latency*2), func() {
		switch {
		case c.closed || c.session != session || c.from.gone():
		case c.to == nil || c.to.dead:
			w.after(100*millisecond, c.connect)
		default:
			c.up = true
			c.from.call(func() { c.from.task.Connected(c.channel) })
		}
	})
}

// breakDown loses what is under way; the connection comes back unless it is closed.
func (c *connection) breakDown() {
	c.from.worker.world.counts["breaks"]++
	c.session++
	c.up, c.down, c.back, c.flying = false, 0, 0, 0
	if !c.closed {
		c.connect()
	}
}

func (c *connection) close() {
	if !c.closed {
		c.closed = true
		c.session++
	}
}

// send takes a message to the consumer.
func (c *connection) send(msg []byte) bool {
	w := c.from.worker.world
	if !c.up {
		return true // it is lost; Connected comes when there is somebody again
	}
	if c.flying >= w.plan.MostFlying || w.chance(w.plan.Refused) {
		c.refuse()
		return false
	}
	if w.chance(w.plan.Leaks) {
		w.tracef("lost without a word: a message on %s of %s", c.channel, c.from)
		return true
	}
	msg = slices.Clone(msg)
	session := c.session
	c.down = max(c.down, w.now+w.delay())
	c.flying++
	w.after(c.down-w.now, func() {
		if c.session != session {
			return
		}
		c.flying--
		if w.chance(w.plan.Broken) {
			w.tracef("connection %s of %s breaks", c.channel, c.from)
			c.breakDown()
			return
		}
		c.to.arrive(c, msg)
	})
	return true
}

// refuse calls Flush a little later.
func (c *connection) refuse() {
	if c.full {
		return
	}
	c.full = true
	w := c.from.worker.world
	w.after(w.between(100, 5*millisecond), func() {
		c.full = false
		if !c.closed && !c.from.gone() {
			c.from.call(func() { c.from.task.Flush(c.channel) })
		}
	})
}

// reply takes a message to the producer.
func (c *connection) reply(msg []byte) {
	if !c.up || c.closed {
		return
	}
	w := c.from.worker.world
	if w.chance(w.plan.Leaks) {
		return
	}
	msg = slices.Clone(msg)
	session := c.session
	c.back = max(c.back, w.now+w.delay())
	w.after(c.back-w.now, func() {
		if c.session == session && !c.from.gone() {
			c.from.call(func() { c.from.task.Message(c.channel, msg) })
		}
	})
}

// delay is how long a message takes: now and then much longer than usual.
func (w *world) delay() int64 {
	if w.chance(0.02) {
		return w.between(w.plan.Latency, 20*w.plan.Latency)
	}
	return w.between(20, w.plan.Latency)
}

// control carries a control message between the scheduler and a worker: it may be lost, come twice, and
// be overtaken.
func (w *world) control(what string, deliver func()) {
	if w.chance(w.plan.Lost) {
		w.tracef("lost: %s", what)
		return
	}
	w.after(w.controlDelay(), deliver)
	if w.chance(w.plan.Doubled) {
		w.after(w.controlDelay(), deliver)
	}
}

func (w *world) controlDelay() int64 {
	if w.chance(w.plan.Slow) {
		return w.between(100*millisecond, 1500*millisecond)
	}
	return w.between(100, 20*millisecond)
}
