package transport_test

import (
	"bytes"
	"crypto/rand"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"sluice/executor/transport"
	"sluice/executor/transport/transporttest"
)

func openSuite(addr string) transporttest.Suite {
	s := suite("open", addr)
	s.Child = &transporttest.Child{Name: "open"}
	return s
}

func TestOpenCompressed(t *testing.T) {
	for _, addr := range []string{"lz4+tcp://127.0.0.1:*", "zstd+plain-tcp://127.0.0.1:*"} {
		t.Run(addr, func(t *testing.T) { transporttest.Run(t, openSuite(addr)) })
	}
}

func TestOpenAddresses(t *testing.T) {
	s, err := transport.Open(transport.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for _, addr := range []string{"memory://*", "tcp://127.0.0.1:*", "ipc://*", "plain-tcp://127.0.0.1:*", "udp://127.0.0.1:*",
		"lz4+memory://*", "zstd+ipc://*", "zstd+udp://127.0.0.1:*"} {
		in, out := listening{&heard{}}, dialing{&heard{}}
		l, err := s.Listen(addr, in)
		if err != nil {
			t.Errorf("%s: %v", addr, err)
			continue
		}
		prefix, _, _ := strings.Cut(addr, "*")
		if addr != "ipc://*" && !strings.HasPrefix(l.Addr(), prefix) {
			t.Errorf("%s listens at %s", addr, l.Addr())
		}
		if err := transport.CheckAddr(l.Addr()); err != nil {
			t.Errorf("%s: %v", l.Addr(), err)
		}
		if got, want := transport.IsLossy(l.Addr()), strings.Contains(addr, "udp"); got != want {
			t.Errorf("%s lossy: %v", addr, got)
		}
		c, err := s.Dial(l.Addr(), "x", 1, out)
		if err != nil {
			t.Fatalf("%s: %v", addr, err)
		}
		if !within(t, 10*time.Second, func() bool { _, n := out.count(); return n > 0 }) {
			t.Fatalf("%s: not connected", addr)
		}
		if err := c.Send(bytes.Repeat([]byte("sluice "), 500)); err != nil {
			t.Errorf("%s: %v", addr, err)
		}
		if !within(t, 10*time.Second, func() bool { n, _ := out.count(); return n == 1 }) {
			t.Errorf("%s: no answer", addr)
		}
	}
	for _, addr := range []string{"", "x", "http://a:1", "lz4+", "lz4+zstd+tcp://a:1", "gzip+tcp://a:1", "tcp://", "ipc://", "memory://",
		"plain-tcp://host", "udp://host"} {
		if transport.CheckAddr(addr) == nil {
			t.Errorf("%q is taken for an address", addr)
		}
	}
	if _, err := transport.Compressed(transport.NewMemory(), "gzip"); err == nil {
		t.Error("gzip is taken for a compression that there is")
	}
}

// raw is a Handler that keeps messages as they come.
type raw struct {
	mu   sync.Mutex
	msgs [][]byte
}

func (r *raw) Message(_ string, _ int64, msg []byte, _ transport.Conn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.msgs = append(r.msgs, msg)
}

func (r *raw) await(t *testing.T, n int) [][]byte {
	t.Helper()
	if !within(t, 10*time.Second, func() bool { r.mu.Lock(); defer r.mu.Unlock(); return len(r.msgs) >= n }) {
		t.Fatalf("%d messages have not come", n)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.msgs
}

// TestCompressedSizes: what compresses goes smaller over the wire, what does not costs one byte, and what is no
// message of the kind is dropped.
func TestCompressedSizes(t *testing.T) {
	noise := make([]byte, 100000)
	rand.Read(noise)
	text := bytes.Repeat([]byte("a line of text, and again; "), 4000)
	for _, kind := range []string{"lz4", "zstd"} {
		m := transport.NewMemory()
		tr, err := transport.Compressed(m, kind)
		if err != nil {
			t.Fatal(err)
		}
		wire, in := &raw{}, &raw{}
		if _, err := m.Listen("memory://wire", wire); err != nil {
			t.Fatal(err)
		}
		if _, err := tr.Listen("memory://in", in); err != nil {
			t.Fatal(err)
		}
		c, err := tr.Dial("memory://wire", "x", 1, dialing{&heard{}})
		if err != nil {
			t.Fatal(err)
		}
		for _, msg := range [][]byte{text, noise, []byte("short")} {
			if err := c.Send(msg); err != nil {
				t.Fatal(err)
			}
		}
		got := wire.await(t, 3)
		if len(got[0]) > len(text)/20 || len(got[1]) != len(noise)+1 || len(got[2]) != 6 {
			t.Errorf("%s: sizes %d, %d, %d", kind, len(got[0]), len(got[1]), len(got[2]))
		}
		if err := c.Send(make([]byte, transport.MaxMessage)); !errors.Is(err, transport.ErrTooLarge) {
			t.Errorf("%s: a message that leaves no room for the first byte: %v", kind, err)
		}
		feed, err := m.Dial("memory://in", "x", 1, dialing{&heard{}})
		if err != nil {
			t.Fatal(err)
		}
		packed := bytes.Clone(got[0])
		size := "\xff\xff\xff\xff\x0f"
		for _, b := range [][]byte{{}, {9}, {1}, {2}, []byte("\x01" + size + "x"), []byte("\x02" + size + "x"), []byte("\x01\x80\x80\x80\x20x"),
			packed[:len(packed)/2], append(bytes.Clone(packed[:1]), append([]byte{5}, packed[4:]...)...), append([]byte{1, 200, 1}, noise[:100]...),
			append([]byte{2, 200, 1}, noise[:100]...), packed} {
			if err := feed.Send(b); err != nil {
				t.Fatal(err)
			}
		}
		if ms := in.await(t, 1); len(ms) != 1 || !bytes.Equal(ms[0], text) {
			t.Errorf("%s: %d messages were read of one good among bad", kind, len(ms))
		}
		tr.Close()
	}
}

// TestZstdBomb: a small message that claims little and expands to much is dropped.
func TestZstdBomb(t *testing.T) {
	m := transport.NewMemory()
	tr, err := transport.Compressed(m, "zstd")
	if err != nil {
		t.Fatal(err)
	}
	defer tr.Close()
	wire, in := &raw{}, &raw{}
	if _, err := m.Listen("memory://wire", wire); err != nil {
		t.Fatal(err)
	}
	if _, err := tr.Listen("memory://in", in); err != nil {
		t.Fatal(err)
	}
	c, err := tr.Dial("memory://wire", "x", 1, dialing{&heard{}})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Send(make([]byte, 60<<20)); err != nil {
		t.Fatal(err)
	}
	whole := wire.await(t, 1)[0]
	frame := whole[1+4:] // after the kind and a size of four bytes
	bomb := append([]byte{2, 200, 1}, bytes.Repeat(frame, 20)...)
	feed, err := m.Dial("memory://in", "x", 1, dialing{&heard{}})
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range [][]byte{bomb, {0, 'x'}} {
		if err := feed.Send(b); err != nil {
			t.Fatal(err)
		}
	}
	if ms := in.await(t, 1); string(ms[0]) != "x" {
		t.Errorf("a bomb was taken: %d bytes", len(ms[0]))
	}
}
