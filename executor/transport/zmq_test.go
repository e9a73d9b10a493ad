package transport_test

import (
	"crypto/rand"
	"encoding/binary"
	"net"
	"os"
	"path/filepath"
	"runtime/pprof"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pebbe/zmq4"

	"sluice/executor/transport"
	"sluice/executor/transport/transporttest"
)

// socketOf is what package net dials to reach a stream address.
func socketOf(addr string) (network, at string) {
	if p, ok := strings.CutPrefix(addr, "ipc://"); ok {
		return "unix", p
	}
	return "tcp", addr[strings.Index(addr, "://")+3:]
}

// writeRaw opens a connection for each of the texts, writes it and closes.
func writeRaw(t testing.TB, addr string, texts ...[]byte) {
	t.Helper()
	network, at := socketOf(addr)
	for _, b := range texts {
		c, err := net.Dial(network, at)
		if err != nil {
			t.Fatal(err)
		}
		c.SetDeadline(time.Now().Add(time.Second))
		c.Write(b) // the other side may close in the middle: that is right
		time.Sleep(2 * time.Millisecond)
		c.Close()
	}
}

func noise(sizes ...int) [][]byte {
	var all [][]byte
	for _, n := range sizes {
		b := make([]byte, n)
		rand.Read(b)
		all = append(all, b)
	}
	return all
}

// zmtp begins a ZMTP 3 connection without security, up to and with READY, as a DEALER.
func zmtp(rest ...byte) []byte {
	b := make([]byte, 64)
	b[0], b[9], b[10] = 0xff, 0x7f, 3
	copy(b[12:], "NULL")
	ready := "\x05READY\x0bSocket-Type\x00\x00\x00\x06DEALER"
	b = append(b, 4, byte(len(ready)))
	b = append(b, ready...)
	return append(b, rest...)
}

func hostileZMQ(t testing.TB, addr string) {
	t.Helper()
	writeRaw(t, addr, noise(1, 9, 10, 64, 1000, 100000)...)
	writeRaw(t, addr, []byte("GET / HTTP/1.1\r\n\r\n"), zmtp(),
		zmtp(2, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff), // a frame of 2^64-1 bytes
		zmtp(2, 0, 0, 0, 0, 0x40, 0, 0, 0),                      // one of 1 GiB
		zmtp(0xff, 0xff, 0xff),
	)
	ctx, err := zmq4.NewContext()
	if err != nil {
		t.Fatal(err)
	}
	defer ctx.Term()
	s, err := ctx.NewSocket(zmq4.DEALER)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	s.SetLinger(0)
	s.SetProbeRouter(1)
	s.SetSndtimeo(100 * time.Millisecond) // with keys nobody takes anything
	if err := s.Connect(addr); err != nil {
		t.Fatal(err)
	}
	hello := append(make([]byte, 9), "good"...)
	hello[0] = 2
	damaged := binary.AppendUvarint(nil, 1<<40)
	for _, parts := range [][]string{
		{"data without a hello"}, {"", ""}, {"H", ""}, {"H", "\x02short"}, {"H", "\x01" + string(hello[1:])},
		{"H", string(hello) + strings.Repeat("x", 5000)}, {"P", "\x01a"}, {"0", "x"}, {"Z", "zz"},
		{"H", "a", "b"}, strings.Split(strings.Repeat("p", 2000), ""), {strings.Repeat("k", 100), "x"},
		{"H", string(hello)}, {"P", string(damaged)}, {"P", "\x05abc"}, {"P", strings.Repeat("\x00", 1<<20)}, {"0", "x"}, {"W", ""}, {"?", ""}, {"-", ""}, {"!", ""}, {"-", "x"},
		{"H", "\x02short"},
	} {
		for i, p := range parts {
			flag := zmq4.SNDMORE
			if i == len(parts)-1 {
				flag = 0
			}
			if _, err := s.Send(p, flag); err != nil {
				return
			}
		}
	}
	time.Sleep(50 * time.Millisecond)
}

// heard is a Handler and DialHandler that tells what it heard.
type heard struct {
	mu        sync.Mutex
	messages  []string
	connected int
}

func (h *heard) add(m string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.messages = append(h.messages, m)
}

func (h *heard) count() (messages, connected int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.messages), h.connected
}

type listening struct{ *heard }

func (h listening) Message(channel string, _ int64, msg []byte, back transport.Conn) {
	h.add(channel + ":" + string(msg))
	back.Send(msg)
}

type dialing struct{ *heard }

func (h dialing) Message(msg []byte) { h.add(string(msg)) }
func (h dialing) Connected() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.connected++
}

func within(t testing.TB, d time.Duration, ok func() bool) bool {
	t.Helper()
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if ok() {
			return true
		}
	}
	return false
}

func newKeys(t testing.TB) *transport.Keys {
	t.Helper()
	k, err := transport.GenerateKeys()
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func newZMQ(t testing.TB, o transport.Options) *transport.ZMQ {
	t.Helper()
	tr, err := transport.NewZMQ(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { tr.Close() })
	return tr
}

// TestZMQCurve runs the suite with keys.
func TestZMQCurve(t *testing.T) {
	k := newKeys(t)
	s := suite("zmq", "tcp://127.0.0.1:*")
	s.New = func(t testing.TB) transport.Transport {
		tr, err := transport.NewZMQ(transport.Options{Keys: k})
		if err != nil {
			t.Fatal(err)
		}
		return tr
	}
	s.Hostile = hostileZMQ
	transporttest.Run(t, s)
}

// TestZMQStrangers: with keys, who has none, another client key or expects another server gets nowhere, and a
// further client that is allowed gets in.
func TestZMQStrangers(t *testing.T) {
	k, other := newKeys(t), newKeys(t)
	friend := newKeys(t)
	k.Allowed = []string{friend.ClientPublic}
	for _, addr := range []string{"tcp://127.0.0.1:*", "ipc://*"} {
		server := newZMQ(t, transport.Options{Keys: k})
		in := listening{&heard{}}
		l, err := server.Listen(addr, in)
		if err != nil {
			t.Fatal(err)
		}
		with := func(change func(*transport.Keys)) *transport.Keys {
			c := *k
			change(&c)
			return &c
		}
		for name, keys := range map[string]*transport.Keys{
			"no keys": nil,
			"another client": with(func(c *transport.Keys) {
				c.ClientPublic, c.ClientSecret = other.ClientPublic, other.ClientSecret
			}),
			"another server": with(func(c *transport.Keys) {
				c.ServerPublic, c.ServerSecret = other.ServerPublic, other.ServerSecret
			}),
		} {
			stranger := newZMQ(t, transport.Options{Keys: keys})
			out := dialing{&heard{}}
			c, err := stranger.Dial(l.Addr(), name, 1, out)
			if err != nil {
				t.Fatal(err)
			}
			c.Send([]byte("let me in"))
			if within(t, 400*time.Millisecond, func() bool { m, n := out.count(); return m+n > 0 }) {
				t.Errorf("%s, %s: connected", addr, name)
			}
		}
		if n, _ := in.count(); n > 0 {
			t.Errorf("%s: a stranger's message arrived: %q", addr, in.messages)
		}
		for _, keys := range []*transport.Keys{k, with(func(c *transport.Keys) {
			c.ClientPublic, c.ClientSecret = friend.ClientPublic, friend.ClientSecret
		})} {
			out := dialing{&heard{}}
			c, err := newZMQ(t, transport.Options{Keys: keys}).Dial(l.Addr(), "right", 1, out)
			if err != nil {
				t.Fatal(err)
			}
			c.Send([]byte("hello"))
			if !within(t, 10*time.Second, func() bool { m, n := out.count(); return m == 1 && n == 1 }) {
				t.Errorf("%s: the right keys do not connect", addr)
			}
		}
	}
}

func TestKeys(t *testing.T) {
	k := newKeys(t)
	path := filepath.Join(t.TempDir(), "cluster.keys")
	if err := transport.WriteKeys(path, k); err != nil {
		t.Fatal(err)
	}
	if err := transport.WriteKeys(path, k); err == nil {
		t.Error("keys were overwritten")
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	got, err := transport.ReadKeys(path)
	if err != nil || got.ServerSecret != k.ServerSecret || got.ClientPublic != k.ClientPublic {
		t.Errorf("read %v, %v", got, err)
	}
	os.Chmod(path, 0o640)
	if _, err := transport.ReadKeys(path); err == nil || !strings.Contains(err.Error(), "chmod 600") {
		t.Errorf("a file that the group may read: %v", err)
	}
	other := newKeys(t)
	for name, change := range map[string]func(*transport.Keys){
		"server_public": func(k *transport.Keys) { k.ServerPublic = other.ServerPublic },
		"client_secret": func(k *transport.Keys) { k.ClientSecret = "short" },
		"client_public": func(k *transport.Keys) { k.ClientPublic = strings.Repeat("~", 40) },
		"allowed":       func(k *transport.Keys) { k.Allowed = []string{strings.Repeat("#", 40)} },
	} {
		bad := *k
		change(&bad)
		_, err := transport.NewZMQ(transport.Options{Keys: &bad})
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s is wrong: %v", name, err)
		} else if strings.Contains(err.Error(), k.ClientSecret) || strings.Contains(err.Error(), k.ServerSecret) {
			t.Errorf("an error tells a key: %v", err)
		}
	}
}

// TestZMQThreads: hundreds of channels do not cost a thread each.
func TestZMQThreads(t *testing.T) {
	tr := newZMQ(t, transport.Options{})
	in := listening{&heard{}}
	l, err := tr.Listen("ipc://*", in)
	if err != nil {
		t.Fatal(err)
	}
	before := pprof.Lookup("threadcreate").Count()
	const channels = 300
	out := dialing{&heard{}}
	for range channels {
		c, err := tr.Dial(l.Addr(), "c", 1, out)
		if err != nil {
			t.Fatal(err)
		}
		c.Send([]byte("x"))
	}
	if !within(t, 20*time.Second, func() bool { m, n := out.count(); return m == channels && n == channels }) {
		m, n := out.count()
		t.Fatalf("%d connected, %d answered, of %d", n, m, channels)
	}
	if n := pprof.Lookup("threadcreate").Count() - before; n > 40 {
		t.Errorf("%d threads for %d channels", n, channels)
	}
}
