package transport

import (
	"context"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"time"
)

const tcpScheme = "plain-tcp://"

// TCP carries messages over bare TCP connections. See doc.go for what goes over the wire.
type TCP struct {
	opts      Options
	mu        sync.Mutex
	listeners map[*tcpListener]struct{}
	conns     map[*tcpConn]struct{}
	closed    bool
	wg        sync.WaitGroup // the goroutines of dialed connections
}

// NewTCP makes a transport for addresses plain-tcp://HOST:PORT.
func NewTCP(o Options) *TCP {
	return &TCP{opts: o.withDefaults(), listeners: map[*tcpListener]struct{}{}, conns: map[*tcpConn]struct{}{}}
}

// hostPort checks an address and takes its scheme off. A * for the host stands for all interfaces, one for the
// port for a free one.
func hostPort(addr, scheme string) (string, error) {
	host, port, err := net.SplitHostPort(strings.TrimPrefix(addr, scheme))
	if err != nil || !strings.HasPrefix(addr, scheme) || port == "" {
		return "", fmt.Errorf("transport: address %q: %sHOST:PORT is needed", addr, scheme)
	}
	if host == "*" {
		host = ""
	}
	if port == "*" {
		port = "0"
	}
	return net.JoinHostPort(host, port), nil
}

// Listen takes connections at plain-tcp://HOST:PORT.
func (t *TCP) Listen(addr string, h Handler) (Listener, error) {
	at, err := hostPort(addr, tcpScheme)
	if err != nil {
		return nil, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return nil, ErrClosed
	}
	nl, err := net.Listen("tcp", at)
	if err != nil {
		return nil, fmt.Errorf("transport: listen %s: %w", addr, err)
	}
	l := &tcpListener{t: t, l: nl, h: h, backs: map[*tcpBack]struct{}{}}
	t.listeners[l] = struct{}{}
	l.wg.Go(l.accept)
	return l, nil
}

// Dial connects to a Listener, as soon as there is one.
func (t *TCP) Dial(addr, channel string, generation int64, h DialHandler) (Conn, error) {
	at, err := hostPort(addr, tcpScheme)
	if err != nil {
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
	c := &tcpConn{t: t, addr: at, h: h, hello: appendHello(nil, channel, generation)}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	c.out.init(t.opts.QueueBytes)
	t.conns[c] = struct{}{}
	t.wg.Go(c.run)
	return c, nil
}

// Close ends all listeners and connections.
func (t *TCP) Close() error {
	t.mu.Lock()
	t.closed = true
	ls, cs := slices.Collect(maps.Keys(t.listeners)), slices.Collect(maps.Keys(t.conns))
	t.mu.Unlock()
	closeAll(cs, ls)
	t.wg.Wait()
	return nil
}

// tcpConn is the producer's side. One goroutine connects, and then writes; another one reads.
type tcpConn struct {
	t     *TCP
	addr  string
	h     DialHandler
	hello []byte
	out   queue

	ctx    context.Context // ends with the connection
	cancel context.CancelFunc
}

func (c *tcpConn) Send(msg []byte) error {
	_, err := c.out.push(msg)
	return err
}

func (c *tcpConn) Close() error {
	c.out.close()
	c.cancel()
	return nil
}

func (c *tcpConn) closed() bool { return c.ctx.Err() != nil }

// run connects again and again, with growing pauses while that fails.
func (c *tcpConn) run() {
	defer func() {
		c.t.mu.Lock()
		delete(c.t.conns, c)
		c.t.mu.Unlock()
	}()
	pause := reconnectMin
	for !c.closed() {
		if c.session() {
			pause = reconnectMin
		}
		timer := time.NewTimer(pause)
		select {
		case <-c.ctx.Done():
		case <-timer.C:
		}
		timer.Stop()
		pause = min(2*pause, reconnectMax)
	}
}

// session connects once and carries messages until that ends. It reports whether it was connected.
func (c *tcpConn) session() bool {
	d := net.Dialer{Timeout: dialTimeout}
	conn, err := d.DialContext(c.ctx, "tcp", c.addr)
	if err != nil {
		return false
	}
	s := newTCPStream(conn, c.t.opts.Heartbeat)
	welcomed := false
	s.wg.Go(func() {
		defer s.end()
		welcomed = c.read(s)
	})
	s.wg.Go(func() {
		select {
		case <-c.ctx.Done():
		case <-s.ended:
		}
		s.end()
	})
	if s.hello(c.hello) {
		s.write(&c.out, c.h)
	}
	s.end()
	s.wg.Wait()
	return welcomed
}

// read calls the handler until the connection ends, and reports whether the listener has said welcome.
func (c *tcpConn) read(s *tcpStream) bool {
	if msg, err := s.read(len(tcpWelcome)); err != nil || string(msg) != tcpWelcome {
		return false
	}
	c.h.Connected()
	close(s.welcome)
	for {
		msg, err := s.read(MaxMessage)
		if err != nil || c.closed() {
			return true
		}
		c.h.Message(msg)
	}
}

type tcpListener struct {
	t     *TCP
	l     net.Listener
	h     Handler
	mu    sync.Mutex
	backs map[*tcpBack]struct{}
	ended bool
	wg    sync.WaitGroup
}

func (l *tcpListener) Addr() string { return tcpScheme + l.l.Addr().String() }

func (l *tcpListener) Close() error {
	l.mu.Lock()
	l.ended = true
	for b := range l.backs {
		b.s.end()
	}
	l.mu.Unlock()
	l.l.Close()
	l.wg.Wait()
	l.t.mu.Lock()
	delete(l.t.listeners, l)
	l.t.mu.Unlock()
	return nil
}

func (l *tcpListener) accept() {
	for {
		conn, err := l.l.Accept()
		l.mu.Lock()
		ended := l.ended
		l.mu.Unlock()
		if ended {
			if err == nil {
				conn.Close()
			}
			return
		}
		if err != nil { // such as too many open files: it passes
			time.Sleep(reconnectMin)
			continue
		}
		l.add(conn)
	}
}

// add starts the goroutines of a connection. Its channel is not known yet.
func (l *tcpListener) add(conn net.Conn) {
	b := &tcpBack{l: l, s: newTCPStream(conn, l.t.opts.Heartbeat)}
	b.out.init(l.t.opts.QueueBytes)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended || len(l.backs) >= maxPeers {
		conn.Close()
		return
	}
	l.backs[b] = struct{}{}
	l.wg.Go(b.run)
}

// tcpBack is the consumer's side of a connection.
type tcpBack struct {
	l   *tcpListener
	s   *tcpStream
	out queue
}

func (b *tcpBack) Send(msg []byte) error {
	_, err := b.out.push(msg)
	return err
}

// Close makes Send refuse; the producer's messages still arrive.
func (b *tcpBack) Close() error {
	b.out.close()
	return nil
}

func (b *tcpBack) run() {
	b.read()
	b.s.end()
	b.out.close()
	b.s.wg.Wait()
	b.l.mu.Lock()
	delete(b.l.backs, b)
	b.l.mu.Unlock()
}

func (b *tcpBack) read() {
	b.s.until = time.Now().Add(helloTimeout)
	hello, err := b.s.read(helloHeader + maxChannel)
	if err != nil {
		return
	}
	channel, generation, ok := parseHello(hello)
	if !ok {
		return
	}
	b.s.until = time.Time{}
	b.s.wg.Go(func() {
		defer b.s.end()
		close(b.s.welcome)
		if b.s.hello([]byte(tcpWelcome)) {
			b.s.write(&b.out, nil)
		}
	})
	for {
		msg, err := b.s.read(MaxMessage)
		if err != nil {
			return
		}
		select {
		case <-b.s.ended:
			return
		default:
		}
		b.l.h.Message(channel, generation, msg, b)
	}
}
