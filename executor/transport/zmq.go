package transport

import (
	"fmt"
	"net"
	"os"
	"strings"
	"sync"

	"time"

	"github.com/pebbe/zmq4"
)

// Options are the settings of ZeroMQ connections; TCP has QueueBytes and Heartbeat of them. The zero value is good
// for data channels.
type Options struct {
	// Keys, if set, turn on CURVE: every connection is encrypted, and a Listener takes only clients whose
	// public key is allowed. Both sides need the same cluster's keys.
	Keys *Keys
	// QueueBytes bounds what waits on a connection before it goes to libzmq or the kernel, in bytes. Default 8 MiB.
	QueueBytes int
	// HighWater bounds what waits inside libzmq on a connection, in messages: to be sent, and to be taken. Default
	// 64: the messages are large, and a network or a consumer that does not keep up should be felt soon.
	HighWater int
	// IOThreads is the number of libzmq's threads: for all dialed connections together, and for each
	// Listener. Default 1.
	IOThreads int
	// Heartbeat is how often each side of a connection that has nothing to say says that it is there. Who hears
	// nothing for five times as long, or six at most, gives the connection up; the dialing side makes a new one.
	// Both sides need the same. Default 2 s.
	Heartbeat time.Duration
}

func (o Options) withDefaults() Options {
	if o.QueueBytes <= 0 {
		o.QueueBytes = defaultQueue
	}
	if o.HighWater <= 0 {
		o.HighWater = 64
	}
	if o.IOThreads <= 0 {
		o.IOThreads = 1
	}
	if o.Heartbeat <= 0 {
		o.Heartbeat = 2 * time.Second
	}
	return o
}

const (
	reconnectMin = 10 * time.Millisecond
	reconnectMax = time.Second
	// maxSockets bounds the dialed connections of a process. libzmq's default is 1023.
	maxSockets = 16384
	// curveExtra is what CURVE adds to a message, in bytes; libzmq's bound counts it.
	curveExtra = 64
	// burst is how many messages a socket receives, or sends, before it looks at the other direction.
	burst = 64
)

// ZMQ carries messages with ZeroMQ over tcp and ipc. See doc.go.
type ZMQ struct {
	opts Options

	mu        sync.Mutex
	ctx       *zmq4.Context // of the dialed connections; nil before the first
	listeners map[*zmqListener]struct{}
	dealers   map[*zmqDealer]struct{}
	closed    bool
	wg        sync.WaitGroup // the dealers' goroutines
}

// NewZMQ makes a transport for addresses tcp://HOST:PORT and ipc://PATH.
func NewZMQ(o Options) (*ZMQ, error) {
	if o.Keys != nil {
		if err := o.Keys.Validate(); err != nil {
			return nil, err
		}
		if !zmq4.HasCurve() {
			return nil, fmt.Errorf("transport: the libzmq of this machine has no CURVE: install one that has, or run without keys")
		}
	}
	return &ZMQ{opts: o.withDefaults(), listeners: map[*zmqListener]struct{}{}, dealers: map[*zmqDealer]struct{}{}}, nil
}

func checkZMQ(addr string) error {
	if path, ok := strings.CutPrefix(addr, "ipc://"); ok && path != "" {
		return nil
	}
	rest, ok := strings.CutPrefix(addr, "tcp://")
	if host, port, err := net.SplitHostPort(rest); !ok || err != nil || host == "" || port == "" {
		return fmt.Errorf("transport: address %q: tcp://HOST:PORT or ipc://PATH is needed", addr)
	}
	return nil
}

func newContext(o Options) (*zmq4.Context, error) {
	ctx, err := zmq4.NewContext()
	if err != nil {
		return nil, fmt.Errorf("transport: libzmq: %w", err)
	}
	if err := ctx.SetIoThreads(o.IOThreads); err != nil {
		return nil, fmt.Errorf("transport: libzmq: io threads: %w", err)
	}
	if err := ctx.SetMaxSockets(maxSockets); err != nil {
		return nil, fmt.Errorf("transport: libzmq: max sockets: %w", err)
	}
	return ctx, nil
}

// configure sets what both kinds of socket need. ZMTP's heartbeats stay off: libzmq (4.3) ends the process if one is
// due on a connection that has broken while, at the high-water mark, nothing was read from it.
func configure(s *zmq4.Socket, o Options, addr string) error {
	bound := lostBeats * o.Heartbeat
	idle := max(1, int(2*o.Heartbeat/time.Second))
	return firstError(
		s.SetSndhwm(o.HighWater),
		s.SetRcvhwm(o.HighWater),
		s.SetLinger(0),
		s.SetMaxmsgsize(MaxMessage+curveExtra),
		s.SetReconnectIvl(reconnectMin),
		s.SetReconnectIvlMax(reconnectMax),
		// The kernel ends what is left of a connection to a machine that has gone.
		s.SetTcpKeepalive(1),
		s.SetTcpKeepaliveIdle(idle),
		s.SetTcpKeepaliveIntvl(max(1, idle/2)),
		s.SetTcpKeepaliveCnt(3),
		s.SetTcpMaxrt(bound),
		s.SetIpv6(strings.Contains(addr, "[")),
	)
}

func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// Close ends all listeners and connections.
func (t *ZMQ) Close() error {
	t.mu.Lock()
	t.closed = true
	var ls []*zmqListener
	for l := range t.listeners {
		ls = append(ls, l)
	}
	for d := range t.dealers {
		d.stop()
	}
	ctx := t.ctx
	t.ctx = nil
	t.mu.Unlock()
	for _, l := range ls {
		l.Close()
	}
	t.wg.Wait()
	if ctx == nil {
		return nil
	}
	return ctx.Term()
}

// bindRetry is how long Listen waits for an address that is in use: an ended process's may linger.
const bindRetry = 500 * time.Millisecond

// bind binds s to addr and returns the address that others can dial, and a folder to remove at the end.
func bind(s *zmq4.Socket, addr string) (at, folder string, err error) {
	if addr == "ipc://*" {
		if folder, err = os.MkdirTemp("", "sluice-ipc-"); err != nil {
			return "", "", err
		}
		addr = "ipc://" + folder + "/s"
	}
	deadline := time.Now().Add(bindRetry)
	for {
		err = s.Bind(addr)
		if zmq4.AsErrno(err) != zmq4.EADDRINUSE || time.Now().After(deadline) {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	if err == nil {
		at, err = s.GetLastEndpoint()
	}
	if err != nil && folder != "" {
		os.RemoveAll(folder)
	}
	return at, folder, err
}
