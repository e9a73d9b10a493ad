package mesos

import (
	"sync"
	"time"

	"sluice/executor/transport"
)

// control is a Transport whose one dialed connection can be moved to another address: the scheduler's control
// stream, which another leader has elsewhere. It knows when the scheduler was heard last.
type control struct {
	transport.Transport
	up func() // called when the connection is there

	mu      sync.Mutex
	conn    transport.Conn // nil before Dial and after Close
	addr    string
	channel string
	gen     int64
	handler transport.DialHandler
	heard   time.Time
}

// newControl makes a control. It owns t.
func newControl(t transport.Transport, up func()) *control {
	return &control{Transport: t, up: up, heard: time.Now()}
}

// Dial implements transport.Transport.
func (c *control) Dial(addr, channel string, gen int64, h transport.DialHandler) (transport.Conn, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.addr == "" {
		c.addr = addr // unless it has moved before
	}
	c.channel, c.gen, c.handler = channel, gen, h
	return (*controlConn)(c), c.dial()
}

// dial connects to where the scheduler is now. mu is held.
func (c *control) dial() error {
	conn, err := c.Transport.Dial(c.addr, c.channel, c.gen, &controlHandler{c, c.addr})
	if err == nil {
		c.conn = conn
	}
	return err
}

// move turns to another address.
func (c *control) move(addr string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.addr == addr {
		return nil
	}
	c.addr = addr
	if c.conn == nil {
		return nil
	}
	_ = c.conn.Close() // nothing is expected of it any more
	return c.dial()
}

// lastHeard is when the scheduler was heard last, or the control was made.
func (c *control) lastHeard() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.heard
}

// from notes a sign of life from an address; false if the scheduler is not there any more.
func (c *control) from(addr string, message bool) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.addr != addr {
		return false
	}
	if message {
		c.heard = time.Now()
	}
	return true
}

// controlConn is the connection as the worker has it.
type controlConn control

// Send implements transport.Conn.
func (c *controlConn) Send(msg []byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.conn == nil {
		return transport.ErrClosed
	}
	return c.conn.Send(msg)
}

// Close implements transport.Conn.
func (c *controlConn) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.conn == nil {
		return nil
	}
	err := c.conn.Close()
	c.conn = nil
	return err
}

// controlHandler takes what comes from one address.
type controlHandler struct {
	c    *control
	addr string
}

// Connected implements transport.DialHandler.
func (h *controlHandler) Connected() {
	if h.c.from(h.addr, false) {
		h.c.up()
		h.c.handler.Connected()
	}
}

// Message implements transport.DialHandler.
func (h *controlHandler) Message(msg []byte) {
	if h.c.from(h.addr, true) {
		h.c.handler.Message(msg)
	}
}
