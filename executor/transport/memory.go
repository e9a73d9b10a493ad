package transport

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
)

const memoryScheme = "memory://"

// Memory carries messages inside one process, without copying them.
type Memory struct {
	mu     sync.Mutex
	places map[string]*memoryPlace // by address
	next   int                     // numbers the addresses of memory://*
	closed bool
	wg     sync.WaitGroup
}

// memoryPlace is what is known of an address: its listener, if there is one, and who has dialed it.
type memoryPlace struct {
	listener *memoryListener
	dials    map[*memoryConn]struct{}
}

// NewMemory makes an empty Memory. Only those who have the same one can reach each other.
func NewMemory() *Memory {
	return &Memory{places: map[string]*memoryPlace{}}
}

func (t *Memory) place(addr string) *memoryPlace {
	p := t.places[addr]
	if p == nil {
		p = &memoryPlace{dials: map[*memoryConn]struct{}{}}
		t.places[addr] = p
	}
	return p
}

// tidy forgets an address that nobody uses.
func (t *Memory) tidy(addr string) {
	if p := t.places[addr]; p != nil && p.listener == nil && len(p.dials) == 0 {
		delete(t.places, addr)
	}
}

func checkMemory(addr string) error {
	if name, ok := strings.CutPrefix(addr, memoryScheme); !ok || name == "" {
		return fmt.Errorf("transport: address %q: memory://NAME is needed", addr)
	}
	return nil
}

// Listen takes an address memory://NAME; memory://* chooses a free name.
func (t *Memory) Listen(addr string, h Handler) (Listener, error) {
	if err := checkMemory(addr); err != nil {
		return nil, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return nil, ErrClosed
	}
	if addr == memoryScheme+"*" {
		t.next++
		addr = memoryScheme + "free-" + strconv.Itoa(t.next)
	}
	p := t.place(addr)
	if p.listener != nil {
		return nil, fmt.Errorf("transport: listen %s: the address is in use", addr)
	}
	l := &memoryListener{t: t, addr: addr, h: h, links: map[*memoryLink]struct{}{}}
	p.listener = l
	for c := range p.dials {
		c.attach(l)
	}
	return l, nil
}

// Dial connects at once if there is a listener, else as soon as there is one.
func (t *Memory) Dial(addr, channel string, generation int64, h DialHandler) (Conn, error) {
	if err := checkMemory(addr); err != nil {
		return nil, err
	}
	if err := checkChannel(channel); err != nil {
		return nil, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return nil, ErrClosed
	}
	c := &memoryConn{
		t: t, addr: addr, channel: channel, generation: generation, h: h,
		done: make(chan struct{}), relinked: make(chan struct{}, 1), upRelinked: make(chan struct{}, 1),
	}
	c.out.init(0)
	p := t.place(addr)
	p.dials[c] = struct{}{}
	if p.listener != nil {
		c.attach(p.listener)
	}
	t.wg.Go(c.down)
	t.wg.Go(c.up)
	return c, nil
}

// Close ends all listeners and connections.
func (t *Memory) Close() error {
	t.mu.Lock()
	t.closed = true
	var ls []*memoryListener
	var cs []*memoryConn
	for _, p := range t.places {
		if p.listener != nil {
			ls = append(ls, p.listener)
		}
		for c := range p.dials {
			cs = append(cs, c)
		}
	}
	t.mu.Unlock()
	closeAll(cs, ls)
	t.wg.Wait()
	return nil
}

type memoryListener struct {
	t     *Memory
	addr  string
	h     Handler
	links map[*memoryLink]struct{} // under t.mu
}

func (l *memoryListener) Addr() string { return l.addr }

func (l *memoryListener) Close() error {
	l.t.mu.Lock()
	p := l.t.places[l.addr]
	if p != nil && p.listener == l {
		p.listener = nil
		l.t.tidy(l.addr)
	}
	links := l.links
	l.links = nil
	l.t.mu.Unlock()
	for k := range links {
		k.end()
	}
	return nil
}

// memoryLink is one connection between a memoryConn and a listener; it is the consumer's back.
type memoryLink struct {
	l  *memoryListener
	in queue // from the consumer

	mu   sync.Mutex // held while the handler is called
	dead bool
}

func (k *memoryLink) Send(msg []byte) error {
	_, err := k.in.push(msg)
	return err
}

// Close makes Send refuse; the producer's messages still arrive.
func (k *memoryLink) Close() error {
	k.in.close()
	return nil
}

// end waits for a call of the handler that is under way and lets no other follow.
func (k *memoryLink) end() {
	k.in.close()
	k.mu.Lock()
	defer k.mu.Unlock()
	k.dead = true
}

// deliver calls the handler, and reports false if the link has ended.
func (k *memoryLink) deliver(c *memoryConn, msg []byte) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.dead {
		return false
	}
	k.l.h.Message(c.channel, c.generation, msg, k)
	return true
}

// memoryConn is the producer's side. One goroutine carries messages down to the handler and one up.
type memoryConn struct {
	t          *Memory
	addr       string
	channel    string
	generation int64
	h          DialHandler
	out        queue
	done       chan struct{}

	link                 *memoryLink // under t.mu
	relinked, upRelinked chan struct{}
}

// attach makes a new link to l. The caller holds t.mu.
func (c *memoryConn) attach(l *memoryListener) {
	k := &memoryLink{l: l}
	k.in.init(0)
	l.links[k] = struct{}{}
	c.link = k
	signal(c.relinked)
	signal(c.upRelinked)
}

func (c *memoryConn) current() *memoryLink {
	c.t.mu.Lock()
	defer c.t.mu.Unlock()
	return c.link
}

func (c *memoryConn) Send(msg []byte) error {
	_, err := c.out.push(msg)
	return err
}

func (c *memoryConn) Close() error {
	c.t.mu.Lock()
	defer c.t.mu.Unlock()
	p := c.t.places[c.addr]
	if p == nil {
		return nil
	}
	if _, ok := p.dials[c]; !ok {
		return nil
	}
	delete(p.dials, c)
	c.t.tidy(c.addr)
	c.out.close()
	close(c.done)
	if k := c.link; k != nil {
		k.in.close()
		delete(k.l.links, k)
	}
	return nil
}

// down takes the producer's messages to the listener's handler. What is under way when a listener goes is
// lost; what still waits goes to the next one.
func (c *memoryConn) down() {
	var k *memoryLink
	var spent [][]byte
	for {
		select {
		case <-c.done:
			return
		case <-c.relinked:
			k = c.current()
		case <-c.out.wake:
		}
		for k != nil {
			spent = c.out.take(spent)
			if len(spent) == 0 {
				break
			}
			if !c.carry(k, spent) {
				k = nil // until there is a new listener
			}
		}
	}
}

// carry delivers messages, and reports false if the link has ended: the messages are lost then.
func (c *memoryConn) carry(k *memoryLink, msgs [][]byte) bool {
	alive := true
	for i, msg := range msgs {
		select {
		case <-c.done:
			return false
		default:
		}
		n := len(msg)
		msgs[i] = nil
		alive = k.deliver(c, msg)
		if c.out.release(n, 1) {
			drained(c.h)
		}
	}
	return alive
}

// up calls the producer's handler.
func (c *memoryConn) up() {
	var k *memoryLink
	var wake chan struct{} // of the link's queue; nil before there is one
	var spent [][]byte
	for {
		select {
		case <-c.done:
			return
		case <-c.upRelinked:
			k = c.current()
			wake = k.in.wake
			c.h.Connected()
			continue
		case <-wake:
		}
		spent = k.in.take(spent)
		for i, msg := range spent {
			select {
			case <-c.done:
				return
			default:
			}
			n := len(msg)
			spent[i] = nil
			c.h.Message(msg)
			k.in.release(n, 1)
		}
	}
}

func drained(h DialHandler) {
	if d, ok := h.(Drainer); ok {
		d.Drained()
	}
}
