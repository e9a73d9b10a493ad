package transport

import "github.com/pebbe/zmq4"

const (
	zapAddr   = "inproc://zeromq.zap.01" // libzmq asks there whether a client may connect
	zapDomain = "sluice"
)

// zmqZap answers for one listener which clients may connect (ZeroMQ's RFC 27): those whose public key is
// allowed.
type zmqZap struct {
	s       *zmqSocket
	allowed map[string]bool // keys in binary
	done    chan struct{}
	ended   chan struct{}
}

func startZAP(ctx *zmq4.Context, allowed map[string]bool) (*zmqZap, error) {
	s, err := ctx.NewSocket(zmq4.REP)
	if err != nil {
		return nil, err
	}
	err = firstError(s.SetLinger(0), s.Bind(zapAddr))
	var z *zmqSocket
	if err == nil {
		z, err = newZMQSocket(s)
	}
	if err != nil {
		s.Close()
		return nil, err
	}
	a := &zmqZap{s: z, allowed: allowed, done: make(chan struct{}), ended: make(chan struct{})}
	go a.run()
	return a, nil
}

func (a *zmqZap) stop() {
	close(a.done)
	<-a.ended
}

func (a *zmqZap) run() {
	defer close(a.ended)
	defer a.s.close()
	for a.work() {
		a.s.wait()
		select {
		case <-a.done:
			return
		case <-a.s.ready:
			a.s.looked()
		}
	}
}

func (a *zmqZap) work() bool {
	for {
		ev, err := a.s.GetEvents()
		if err != nil {
			return false
		}
		if ev&zmq4.POLLIN == 0 {
			return true
		}
		first, err := a.s.RecvBytes(zmq4.DONTWAIT)
		if err != nil {
			return again(err)
		}
		req, err := a.s.parts(first, 8)
		if err != nil {
			return false
		}
		if _, err := a.s.SendMessage(a.answer(req)); err != nil {
			return false
		}
	}
}

// answer judges a request: version, request id, domain, address, routing id, mechanism, credentials.
func (a *zmqZap) answer(req [][]byte) [][]byte {
	id := []byte{}
	if len(req) > 1 {
		id = req[1]
	}
	status, text := "400", "this client is not allowed"
	if len(req) == 7 && string(req[0]) == "1.0" && string(req[2]) == zapDomain &&
		string(req[5]) == "CURVE" && a.allowed[string(req[6])] {
		status, text = "200", "OK"
	}
	return [][]byte{[]byte("1.0"), id, []byte(status), []byte(text), {}, {}}
}
