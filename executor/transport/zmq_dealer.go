package transport

import (
	"fmt"
	"sync"
	"time"

	"github.com/pebbe/zmq4"
)

// zmqDealer is the producer's side of a connection: a DEALER socket, or several after each other. It has no routing id,
// so that the listener gives it another one each time that libzmq connects again.
type zmqDealer struct {
	t     *ZMQ
	addr  string
	h     DialHandler
	hello []byte
	out   queue
	done  chan struct{}
	once  sync.Once

	// The goroutine's own.
	s         *zmqSocket
	beat      <-chan time.Time
	silence   silence  // of the listener, while connected
	said      bool     // something, since the last beat
	lost      bool     // the listener has given the connection up
	connected bool     // the listener has said welcome
	greet     bool     // a hello is to be sent
	sending   [][]byte // taken from out; sending[next:] has still to be sent
	next      int
}

// Dial connects to a Listener. addr may be one at which nobody listens yet.
func (t *ZMQ) Dial(addr, channel string, generation int64, h DialHandler) (Conn, error) {
	if err := checkZMQ(addr); err != nil {
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
	if t.ctx == nil {
		ctx, err := newContext(t.opts)
		if err != nil {
			return nil, err
		}
		t.ctx = ctx
	}
	d := &zmqDealer{t: t, addr: addr, h: h, hello: appendHello(nil, channel, generation), done: make(chan struct{})}
	s, err := t.dealer(addr)
	if err != nil {
		return nil, fmt.Errorf("transport: dial %s: %w", addr, err)
	}
	d.s = s
	d.out.init(t.opts.QueueBytes)
	t.dealers[d] = struct{}{}
	t.wg.Go(d.run)
	return d, nil
}

// dealer makes a socket that connects to addr. mu is held.
func (t *ZMQ) dealer(addr string) (*zmqSocket, error) {
	s, err := t.ctx.NewSocket(zmq4.DEALER)
	if err != nil {
		return nil, err
	}
	err = firstError(
		configure(s, t.opts, addr),
		// With these two each new connection begins with an empty message, and none is sent while there is no
		// connection, nor kept from one for the next.
		s.SetImmediate(true),
		s.SetProbeRouter(1),
	)
	if k := t.opts.Keys; err == nil && k != nil {
		err = s.ClientAuthCurve(k.ServerPublic, k.ClientPublic, k.ClientSecret)
	}
	if err == nil {
		err = s.Connect(addr)
	}
	var z *zmqSocket
	if err == nil {
		z, err = newZMQSocket(s)
	}
	if err != nil {
		s.Close()
		return nil, err
	}
	return z, nil
}

func (d *zmqDealer) Send(msg []byte) error {
	_, err := d.out.push(msg)
	return err
}

func (d *zmqDealer) Close() error {
	d.stop()
	return nil
}

func (d *zmqDealer) stop() {
	d.once.Do(func() {
		d.out.close()
		close(d.done)
	})
}

func (d *zmqDealer) closed() bool {
	select {
	case <-d.done:
		return true
	default:
		return false
	}
}

func (d *zmqDealer) run() {
	defer d.end()
	beat := time.NewTicker(d.t.opts.Heartbeat)
	defer beat.Stop()
	d.beat = beat.C
	for d.work() {
		d.s.wait()
		select {
		case <-d.done:
			return
		case <-d.s.ready:
			d.s.looked()
		case <-d.out.wake:
		case <-d.beat:
			d.pulse()
		}
	}
}

// pulse is called at every beat: it says that this side is there, unless it has said something else, and connects
// anew if the listener is not, or does not say welcome.
func (d *zmqDealer) pulse() {
	if d.silence.beat() {
		d.renew()
		return
	}
	if d.connected && !d.said {
		_ = d.s.sendControl(kindAlive, nil) // what waits instead says so later
	}
	d.said = false
}

// renew replaces the socket. If there is none to be had, a later beat tries again.
func (d *zmqDealer) renew() {
	d.t.mu.Lock()
	if d.t.closed {
		d.t.mu.Unlock()
		return
	}
	s, err := d.t.dealer(d.addr)
	d.t.mu.Unlock()
	if err != nil {
		return
	}
	d.s.close()
	d.s = s
	d.connected, d.greet = false, false
	d.silence.heard()
}

func (d *zmqDealer) end() {
	d.out.close()
	d.s.close()
	d.t.mu.Lock()
	delete(d.t.dealers, d)
	d.t.mu.Unlock()
}

// work does all that the socket allows now. It reports false if the connection is closed.
func (d *zmqDealer) work() bool {
	for {
		select {
		case <-d.beat: // also while there is always something to do
			d.pulse()
		default:
		}
		ev, err := d.s.GetEvents()
		if err != nil || d.closed() {
			return false
		}
		in := ev&zmq4.POLLIN != 0
		if in && !d.receive() {
			return false
		}
		if d.lost {
			d.lost = false
			d.renew()
			continue
		}
		out := ev&zmq4.POLLOUT != 0 && d.wants()
		if out {
			d.transmit()
		}
		if !in && !out {
			return true
		}
	}
}

// receive takes a burst of messages. It reports false if the socket has failed.
func (d *zmqDealer) receive() bool {
	for range burst {
		if d.closed() {
			return false
		}
		first, err := d.s.RecvBytes(zmq4.DONTWAIT)
		if again(err) {
			return true
		}
		if err != nil {
			return false
		}
		msg, err := d.s.parts(first, 2)
		if err != nil {
			return false
		}
		if len(msg) == 1 {
			d.h.Message(msg[0])
		} else if len(msg[0]) == 1 {
			d.control(msg[0][0], msg[1])
		}
		if d.connected {
			d.silence.heard()
		}
	}
	return true
}

func (d *zmqDealer) control(kind byte, body []byte) {
	switch kind {
	case kindWho:
		d.connected = false
		d.greet = true
	case kindWelcome:
		d.connected = true
		d.h.Connected()
	case kindGone:
		d.lost = d.connected
	case kindEmpty:
		d.h.Message(body)
	case kindPack:
		for msg, rest, ok := nextOfPack(body); ok && !d.closed(); msg, rest, ok = nextOfPack(rest) {
			d.h.Message(msg)
		}
	}
}

// wants reports whether there is something to send.
func (d *zmqDealer) wants() bool {
	if d.greet {
		return true
	}
	if !d.connected {
		return false
	}
	if d.next == len(d.sending) {
		d.sending = d.out.take(d.sending)
		d.next = 0
	}
	return d.next < len(d.sending)
}

// transmit sends a burst of messages, as far as libzmq takes them.
func (d *zmqDealer) transmit() {
	if d.greet {
		if d.s.sendControl(kindHello, d.hello) == nil {
			d.greet = false
		}
		return
	}
	bytes, count := 0, 0
	for range burst {
		if d.next == len(d.sending) {
			break
		}
		n, size, err := d.s.sendSome(d.sending[d.next:])
		if err != nil {
			break
		}
		clear(d.sending[d.next : d.next+n])
		d.next += n
		count += n
		bytes += size
		d.said = true
	}
	if d.out.release(bytes, count) {
		drained(d.h)
	}
}
