package transport

import (
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/pebbe/zmq4"
)

const (
	// retryEvery is how often a listener tries again to send to a connection that took no more. libzmq
	// tells it mostly, but a ROUTER has no event for one of many.
	retryEvery = 5 * time.Millisecond
	// maxPeers bounds the connections of a listener.
	maxPeers = 16384
)

// zmqListener is a ROUTER socket in a libzmq context of its own, so that Close can wait until the address is
// free and the I/O of listening has its own thread.
type zmqListener struct {
	t      *ZMQ
	ctx    *zmq4.Context
	s      *zmqSocket
	zap    *zmqZap // nil without keys
	h      Handler
	addr   string
	folder string // to be removed
	queue  int    // bytes for each connection back
	done   chan struct{}
	ended  chan struct{}
	once   sync.Once

	mu    sync.Mutex
	dirty []*zmqPeer // have messages to send, not yet seen by the goroutine
	wake  chan struct{}

	// The goroutine's own.
	peers   map[string]*zmqPeer // by routing id
	sending []*zmqPeer          // have, or had, messages to send
	beat    <-chan time.Time
	// strangers are the routing ids that have said something since the last beat without a hello before.
	strangers map[string]struct{}
}

// zmqPeer is one connection of a producer: what its messages come with as back.
type zmqPeer struct {
	l          *zmqListener
	id         []byte
	channel    string
	generation int64
	out        queue

	// The listener's goroutine's own.
	silence silence
	said    bool // something, since the last beat
	listed  bool // in l.sending
	pending [][]byte
	next    int
}

// Listen binds addr: tcp://HOST:PORT, where * stands for all interfaces or a free port, or ipc://PATH, where
// * stands for a path in a new folder.
func (t *ZMQ) Listen(addr string, h Handler) (Listener, error) {
	if err := checkZMQ(addr); err != nil {
		return nil, err
	}
	t.mu.Lock()
	closed := t.closed
	t.mu.Unlock()
	if closed {
		return nil, ErrClosed
	}
	l := &zmqListener{
		t: t, h: h, queue: t.opts.QueueBytes, peers: map[string]*zmqPeer{}, strangers: map[string]struct{}{},
		done: make(chan struct{}), ended: make(chan struct{}), wake: make(chan struct{}, 1),
	}
	if err := l.open(addr); err != nil {
		return nil, fmt.Errorf("transport: listen %s: %w", addr, err)
	}
	t.mu.Lock()
	closed = t.closed
	if !closed {
		t.listeners[l] = struct{}{}
	}
	t.mu.Unlock()
	go l.run()
	if closed {
		l.Close()
		return nil, ErrClosed
	}
	return l, nil
}

// open makes the sockets; what it made is gone again if it fails.
func (l *zmqListener) open(addr string) error {
	ctx, err := newContext(l.t.opts)
	if err != nil {
		return err
	}
	l.ctx = ctx
	if k := l.t.opts.Keys; k != nil {
		l.zap, err = startZAP(ctx, k.allowed())
	}
	if err == nil {
		err = l.router(addr)
	}
	if err != nil {
		if l.zap != nil {
			l.zap.stop()
		}
		ctx.Term()
	}
	return err
}

func (l *zmqListener) router(addr string) error {
	s, err := l.ctx.NewSocket(zmq4.ROUTER)
	if err != nil {
		return err
	}
	err = firstError(
		configure(s, l.t.opts, addr),
		s.SetRouterMandatory(1),
	)
	if k := l.t.opts.Keys; err == nil && k != nil {
		err = s.ServerAuthCurve(zapDomain, k.ServerSecret)
	}
	if err == nil {
		l.addr, l.folder, err = bind(s, addr)
	}
	if err == nil {
		l.s, err = newZMQSocket(s)
	}
	if err != nil {
		s.Close()
	}
	return err
}

func (l *zmqListener) Addr() string { return l.addr }

func (l *zmqListener) Close() error {
	l.once.Do(func() { close(l.done) })
	<-l.ended
	return nil
}

func (l *zmqListener) run() {
	defer l.end()
	beat := time.NewTicker(l.t.opts.Heartbeat)
	defer beat.Stop()
	l.beat = beat.C
	retry := time.NewTimer(retryEvery)
	defer retry.Stop()
	for l.work() {
		l.s.wait()
		if len(l.sending) > 0 {
			retry.Reset(retryEvery)
		}
		select {
		case <-l.done:
			return
		case <-l.s.ready:
			l.s.looked()
		case <-l.wake:
		case <-retry.C:
		case <-l.beat:
			l.pulse()
		}
	}
}

func (l *zmqListener) end() {
	for _, p := range l.peers {
		p.out.close()
	}
	l.s.close()
	if l.zap != nil {
		l.zap.stop()
	}
	l.ctx.Term()
	if l.folder != "" {
		os.RemoveAll(l.folder)
	}
	l.t.mu.Lock()
	delete(l.t.listeners, l)
	l.t.mu.Unlock()
	close(l.ended)
}

func (l *zmqListener) closed() bool {
	select {
	case <-l.done:
		return true
	default:
		return false
	}
}

// work does all that the socket allows now. It reports false if the listener is closed.
func (l *zmqListener) work() bool {
	for {
		select {
		case <-l.beat: // also while there is always something to do
			l.pulse()
		default:
		}
		sent := l.transmit()
		ev, err := l.s.GetEvents()
		if err != nil || l.closed() {
			return false
		}
		in := ev&zmq4.POLLIN != 0
		if in && !l.receive() {
			return false
		}
		if !in && !sent {
			return true
		}
	}
}

// receive takes a burst of messages. It reports false if the socket has failed or the listener is closed.
func (l *zmqListener) receive() bool {
	for range burst {
		if l.closed() {
			return false
		}
		id, err := l.s.RecvBytes(zmq4.DONTWAIT)
		if again(err) {
			return true
		}
		if err != nil {
			return false
		}
		first, err := l.s.RecvBytes(zmq4.DONTWAIT)
		if err != nil {
			return false
		}
		msg, err := l.s.parts(first, 3)
		if err != nil {
			return false
		}
		l.take(id, msg)
	}
	return true
}

// take handles a message, whose parts may be anything.
func (l *zmqListener) take(id []byte, msg [][]byte) {
	p := l.peers[string(id)]
	switch {
	case len(msg) == 1 && len(msg[0]) == 0: // libzmq's probe: a new connection
		l.forget(p)
		l.tell(id, kindWho)
	case len(msg) == 2 && len(msg[0]) == 1 && msg[0][0] == kindHello:
		l.greet(id, p, msg[1])
	case p == nil:
		l.ask(id)
	default:
		p.silence.heard()
		p.take(msg)
	}
}

// ask asks who it is that goes on after it has been given up, as one does that has stood still.
func (l *zmqListener) ask(id []byte) {
	if _, asked := l.strangers[string(id)]; asked || len(l.strangers) >= maxPeers {
		return
	}
	l.strangers[string(id)] = struct{}{}
	l.tell(id, kindWho)
}

// take handles a message of a connection whose channel is known.
func (p *zmqPeer) take(msg [][]byte) {
	switch {
	case len(msg) == 1:
		p.deliver(msg[0])
	case len(msg) != 2 || len(msg[0]) != 1:
		// Nothing that a producer sends.
	case msg[0][0] == kindEmpty && len(msg[1]) == 0:
		p.deliver(msg[1])
	case msg[0][0] == kindPack:
		for one, rest, ok := nextOfPack(msg[1]); ok; one, rest, ok = nextOfPack(rest) {
			p.deliver(one)
		}
	}
}

func (p *zmqPeer) deliver(msg []byte) {
	if len(msg) <= MaxMessage {
		p.l.h.Message(p.channel, p.generation, msg, p)
	}
}

// greet makes a peer of a connection.
func (l *zmqListener) greet(id []byte, old *zmqPeer, hello []byte) {
	channel, generation, ok := parseHello(hello)
	if !ok || len(l.peers) >= maxPeers {
		return
	}
	l.forget(old)
	p := &zmqPeer{l: l, id: id, channel: channel, generation: generation, said: true}
	p.out.init(l.queue)
	if !l.tell(id, kindWelcome) {
		return
	}
	l.peers[string(id)] = p
}

// tell sends word of the transport's own, and reports whether the connection is there.
func (l *zmqListener) tell(id []byte, kind byte) bool {
	if _, err := l.s.SendBytes(id, zmq4.SNDMORE|zmq4.DONTWAIT); err != nil {
		return again(err)
	}
	return l.s.sendControl(kind, nil) == nil
}

func (l *zmqListener) forget(p *zmqPeer) {
	if p == nil {
		return
	}
	p.out.close()
	p.pending, p.next = nil, 0
	delete(l.peers, string(p.id))
}

// pulse is called at every beat: it says to all that have been told nothing else that this side is there, which
// finds the connections that have ended, and gives up those on which nothing comes any more.
func (l *zmqListener) pulse() {
	clear(l.strangers)
	for _, p := range l.peers {
		switch {
		case p.silence.beat():
			l.tell(p.id, kindGone) // it may be that only one direction is cut
			l.forget(p)
		case !p.said && !l.tell(p.id, kindAlive):
			l.forget(p)
		}
		p.said = false
	}
}

// transmit sends what waits on all connections, as far as libzmq takes it, and reports whether that was
// anything.
func (l *zmqListener) transmit() bool {
	l.mu.Lock()
	for _, p := range l.dirty {
		if !p.listed {
			p.listed = true
			l.sending = append(l.sending, p)
		}
	}
	clear(l.dirty)
	l.dirty = l.dirty[:0]
	l.mu.Unlock()
	sent := false
	blocked := l.sending[:0]
	for _, p := range l.sending {
		some, all := l.transmitTo(p)
		sent = sent || some
		if all {
			p.listed = false
			continue
		}
		blocked = append(blocked, p)
	}
	clear(l.sending[len(blocked):])
	l.sending = blocked
	return sent
}

// transmitTo sends a burst to one connection. It reports whether it sent some, and whether all.
func (l *zmqListener) transmitTo(p *zmqPeer) (some, all bool) {
	bytes, count := 0, 0
	defer func() { p.out.release(bytes, count) }()
	for range burst {
		if p.next == len(p.pending) {
			p.pending, p.next = p.out.take(p.pending), 0
			if len(p.pending) == 0 {
				return count > 0, true
			}
		}
		if _, err := l.s.SendBytes(p.id, zmq4.SNDMORE|zmq4.DONTWAIT); again(err) {
			return count > 0, false
		} else if err != nil {
			l.forget(p)
			return count > 0, true
		}
		n, size, err := l.s.sendSome(p.pending[p.next:])
		if err != nil {
			return count > 0, false
		}
		clear(p.pending[p.next : p.next+n])
		p.next += n
		bytes += size
		count += n
		p.said = true
	}
	return true, false
}

func (p *zmqPeer) Send(msg []byte) error {
	first, err := p.out.push(msg)
	if first {
		p.l.mu.Lock()
		p.l.dirty = append(p.l.dirty, p)
		p.l.mu.Unlock()
		signal(p.l.wake)
	}
	return err
}

// Close makes Send refuse; the producer's messages still arrive.
func (p *zmqPeer) Close() error {
	p.out.close()
	return nil
}
