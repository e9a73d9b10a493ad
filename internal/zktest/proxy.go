package zktest

import (
	"encoding/binary"
	"net"
	"sync"
	"testing"
	"time"
)

// Proxy passes connections on to a server, or does not.
type Proxy struct {
	target   string
	listener net.Listener

	mu     sync.Mutex
	cond   *sync.Cond
	conns  map[net.Conn]bool
	cut    bool
	frozen bool
	closed bool
	// patience is for how long a server that does not listen yet is tried again.
	patience time.Duration
	delay    time.Duration
	// dropAnswers lets what clients send pass, and nothing of what the server answers.
	dropAnswers bool
	// lose is the kind of the request whose answer is lost; 0 for none.
	lose  int32
	after int           // such requests that pass before it
	lost  chan struct{} // closed when it was lost
}

// Kinds of requests, as ZooKeeper's protocol numbers them.
const (
	Create int32 = 1
	Delete int32 = 2
	Multi  int32 = 14
)

// NewProxy listens on the loopback and passes on to target until the test ends.
func NewProxy(t testing.TB, target string) *Proxy {
	t.Helper()
	return newProxy(t, target, 0)
}

func newProxy(t testing.TB, target string, patience time.Duration) *Proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{target: target, listener: l, conns: map[net.Conn]bool{}, patience: patience}
	p.cond = sync.NewCond(&p.mu)
	var group sync.WaitGroup
	group.Go(func() { p.accept(&group) })
	t.Cleanup(func() {
		p.set(func() { p.closed, p.frozen, p.cut = true, false, true })
		// A listener closes once.
		_ = l.Close()
		p.breakAll()
		group.Wait()
	})
	return p
}

// Addr is host:port of the proxy.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

func (p *Proxy) port() int { return p.listener.Addr().(*net.TCPAddr).Port }

// Cut breaks all connections, and each new one, until Heal.
func (p *Proxy) Cut() {
	p.set(func() { p.cut = true })
	p.breakAll()
}

// Break breaks all connections; new ones are good.
func (p *Proxy) Break() { p.breakAll() }

// Freeze holds back all that is sent, both ways, until Heal.
func (p *Proxy) Freeze() { p.set(func() { p.frozen = true }) }

// DropAnswers loses what the server sends, until Heal, which breaks the connections.
func (p *Proxy) DropAnswers() { p.set(func() { p.dropAnswers = true }) }

// LoseAnswer lets the nth request of a kind from now on pass, 1 being the next, and breaks its connection when the server
// answers. The channel is closed then.
func (p *Proxy) LoseAnswer(kind int32, nth int) <-chan struct{} {
	lost := make(chan struct{})
	p.set(func() { p.lose, p.after, p.lost = kind, nth-1, lost })
	return lost
}

// Delay holds each piece of what is sent back for some time.
func (p *Proxy) Delay(d time.Duration) { p.set(func() { p.delay = d }) }

// Heal ends what Cut, Freeze, DropAnswers and Delay began.
func (p *Proxy) Heal() {
	lossy := false
	p.set(func() {
		lossy = p.dropAnswers
		p.cut, p.frozen, p.dropAnswers, p.delay = false, false, false, 0
	})
	if lossy {
		// A stream with a gap is of no use.
		p.breakAll()
	}
}

func (p *Proxy) set(change func()) {
	p.mu.Lock()
	change()
	p.mu.Unlock()
	p.cond.Broadcast()
}

func (p *Proxy) breakAll() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		// The connection may have ended by itself.
		_ = c.Close()
	}
	clear(p.conns)
}

// keep registers a connection, or says that it is to be broken.
func (p *Proxy) keep(c net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cut {
		return false
	}
	p.conns[c] = true
	return true
}

func (p *Proxy) accept(group *sync.WaitGroup) {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		group.Go(func() { p.connect(client, group) })
	}
}

func (p *Proxy) dial() (net.Conn, error) {
	for end := time.Now().Add(p.patience); ; time.Sleep(5 * time.Millisecond) {
		server, err := net.DialTimeout("tcp", p.target, time.Second)
		if err == nil || !time.Now().Before(end) {
			return server, err
		}
	}
}

func (p *Proxy) connect(client net.Conn, group *sync.WaitGroup) {
	server, err := p.dial()
	if err != nil {
		client.Close()
		return
	}
	if !p.keep(client) || !p.keep(server) {
		client.Close()
		server.Close()
		return
	}
	l := &losing{p: p}
	group.Go(func() { p.copy(server, client, l.request, false) })
	p.copy(client, server, l.answer, true)
}

// copy passes on what comes from one side, until either ends, or see returns false.
func (p *Proxy) copy(to, from net.Conn, see func(b []byte) bool, answers bool) {
	defer to.Close()
	defer from.Close()
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		if err != nil || !see(buf[:n]) || !p.pass(answers, func() error { _, err := to.Write(buf[:n]); return err }) {
			return
		}
	}
}

// losing looks for the request of a connection whose answer is to be lost.
type losing struct {
	p       *Proxy
	stream  []byte        // of requests, from the beginning of one on
	skip    int           // bytes of the present request that are still to come
	waiting chan struct{} // guarded by the proxy's mutex; not nil once the request has passed
}

// request sees what the client sends: requests of a length, which does not count itself, a number and a kind, 4 bytes
// each, and more.
func (l *losing) request(b []byte) bool {
	l.p.mu.Lock()
	defer l.p.mu.Unlock()
	l.stream = append(l.stream, b...)
	for {
		skipped := min(l.skip, len(l.stream))
		l.stream, l.skip = l.stream[skipped:], l.skip-skipped
		if len(l.stream) < 12 {
			return true
		}
		l.skip = 4 + int(binary.BigEndian.Uint32(l.stream))
		if kind := int32(binary.BigEndian.Uint32(l.stream[8:])); kind == 0 || kind != l.p.lose {
			continue
		}
		if l.p.after--; l.p.after < 0 {
			l.waiting, l.p.lose = l.p.lost, 0
		}
	}
}

// answer sees what the server sends, and returns false if that is lost.
func (l *losing) answer([]byte) bool {
	l.p.mu.Lock()
	defer l.p.mu.Unlock()
	if l.waiting == nil {
		return true
	}
	close(l.waiting)
	l.waiting = nil
	return false
}

// pass writes when that is allowed, and says whether the connection goes on.
func (p *Proxy) pass(answers bool, write func() error) bool {
	p.mu.Lock()
	for p.frozen && !p.closed && !p.cut {
		p.cond.Wait()
	}
	delay, drop := p.delay, answers && p.dropAnswers
	p.mu.Unlock()
	if delay > 0 {
		time.Sleep(delay)
	}
	return drop || write() == nil
}
