package transport

import (
	"errors"
	"fmt"
	"strings"
	"sync"
)

// Schemes is a Transport that knows all others: the scheme of an address says which one is meant, so a
// channel's target-addr alone tells how to connect. It makes each when it is first needed.
//
//	memory://NAME           Memory
//	tcp://HOST:PORT         ZMQ
//	ipc://PATH              ZMQ
//	plain-tcp://HOST:PORT   TCP
//	udp://HOST:PORT         UDP, which is lossy
//	lz4+ADDRESS             any of them, Compressed
//	zstd+ADDRESS
type Schemes struct {
	opts   Options
	mu     sync.Mutex
	made   map[string]Transport // by the name of a transport, with its compression before it
	closed bool
}

// Open makes a Schemes. A process needs one: memory:// addresses are those of one Schemes.
func Open(o Options) (*Schemes, error) {
	if o.Keys != nil {
		if err := o.Keys.Validate(); err != nil {
			return nil, err
		}
	}
	return &Schemes{opts: o, made: map[string]Transport{}}, nil
}

// split takes the compression off an address and finds the transport of the rest.
func split(addr string) (compression, kind, rest string, err error) {
	rest = addr
	for _, c := range []string{"lz4", "zstd"} {
		if r, ok := strings.CutPrefix(rest, c+"+"); ok {
			compression, rest = c, r
			break
		}
	}
	scheme, _, ok := strings.Cut(rest, "://")
	switch {
	case !ok:
	case scheme == "memory", scheme == "plain-tcp", scheme == "udp":
		return compression, scheme, rest, nil
	case scheme == "tcp", scheme == "ipc":
		return compression, "zmq", rest, nil
	}
	return "", "", "", fmt.Errorf("transport: address %q: memory://NAME, tcp://HOST:PORT, ipc://PATH, plain-tcp://HOST:PORT or "+
		"udp://HOST:PORT is needed, with lz4+ or zstd+ before it to compress", addr)
}

// IsLossy reports whether messages to or from addr may be lost while a connection holds.
func IsLossy(addr string) bool {
	_, kind, _, err := split(addr)
	return err == nil && kind == "udp"
}

// Largest is how many bytes a message may have that is sent to addr.
func Largest(addr string) int {
	compression, kind, _, err := split(addr)
	switch {
	case err != nil || kind != "udp":
		return MaxMessage
	case compression != "":
		return MaxDatagrams - 1 // how it is packed
	}
	return MaxDatagrams
}

// CheckAddr reports what is wrong with an address, as far as can be seen without using it.
func CheckAddr(addr string) error {
	_, kind, rest, err := split(addr)
	if err != nil {
		return err
	}
	switch kind {
	case "memory":
		return checkMemory(rest)
	case "zmq":
		return checkZMQ(rest)
	}
	_, err = hostPort(rest, kind+"://")
	return err
}

func (s *Schemes) find(addr string) (t Transport, prefix, rest string, err error) {
	compression, kind, rest, err := split(addr)
	if err != nil {
		return nil, "", "", err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, "", "", ErrClosed
	}
	if compression != "" {
		prefix = compression + "+"
	}
	if t = s.made[prefix+kind]; t != nil {
		return t, prefix, rest, nil
	}
	if t, err = s.create(kind); err != nil {
		return nil, "", "", err
	}
	if compression != "" {
		if t, err = Compressed(t, compression); err != nil {
			return nil, "", "", err
		}
	}
	s.made[prefix+kind] = t
	return t, prefix, rest, nil
}

func (s *Schemes) create(kind string) (Transport, error) {
	switch kind {
	case "memory":
		return NewMemory(), nil
	case "plain-tcp":
		return NewTCP(s.opts), nil
	case "udp":
		return NewUDP(), nil
	}
	return NewZMQ(s.opts)
}

// Listen takes connections at addr.
func (s *Schemes) Listen(addr string, h Handler) (Listener, error) {
	t, prefix, rest, err := s.find(addr)
	if err != nil {
		return nil, err
	}
	l, err := t.Listen(rest, h)
	if err != nil || prefix == "" {
		return l, err
	}
	return prefixed{l, prefix}, nil
}

// Dial connects to addr.
func (s *Schemes) Dial(addr, channel string, generation int64, h DialHandler) (Conn, error) {
	t, _, rest, err := s.find(addr)
	if err != nil {
		return nil, err
	}
	return t.Dial(rest, channel, generation, h)
}

// Close closes all transports that it has made.
func (s *Schemes) Close() error {
	s.mu.Lock()
	s.closed = true
	made := s.made
	s.made = nil
	s.mu.Unlock()
	var errs []error
	for _, t := range made {
		errs = append(errs, t.Close())
	}
	return errors.Join(errs...)
}

// prefixed is a Listener whose address says that it is compressed.
type prefixed struct {
	Listener
	prefix string
}

func (p prefixed) Addr() string { return p.prefix + p.Listener.Addr() }
