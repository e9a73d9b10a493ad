package zkconn

import (
	"encoding/binary"
	"math/rand/v2"
	"net"
	"slices"
	"time"
)

// rotation names the servers one after the other. The library waits for a second when the second result is
// true, which its own provider says at each break where there is a single server.
type rotation struct {
	servers []string
	next    int
	tried   int // since the last connection
}

// Init implements zk.HostProvider. Hosts are looked up when they are dialled. Not all clients begin at the same one.
func (r *rotation) Init(servers []string) error {
	r.servers = slices.Clone(servers)
	rand.Shuffle(len(r.servers), func(i, j int) { r.servers[i], r.servers[j] = r.servers[j], r.servers[i] })
	return nil
}

// Len implements zk.HostProvider.
func (r *rotation) Len() int { return len(r.servers) }

// Next implements zk.HostProvider.
func (r *rotation) Next() (server string, allTried bool) {
	server = r.servers[r.next]
	r.next = (r.next + 1) % len(r.servers)
	allTried = r.tried > 0 && r.tried%len(r.servers) == 0
	r.tried++
	return server, allTried
}

// Connected implements zk.HostProvider.
func (r *rotation) Connected() { r.tried = 0 }

// dial connects to a server.
func (c *Conn) dial(network, address string, timeout time.Duration) (net.Conn, error) {
	conn, err := net.DialTimeout(network, address, timeout)
	if err != nil {
		return nil, err
	}
	return &handshake{Conn: conn, c: c}, nil
}

// A server's first packet answers the handshake: its length, the version of the protocol, the session timeout in
// ms, 4 bytes each, and the session's id, 8 bytes, 0 if the session has expired.
const answerBytes = 20

// handshake is a connection that notes the session timeout, which the library does not tell, and that bounds the
// time until it is there, for which the library waits for several sessions. One goroutine reads.
type handshake struct {
	net.Conn
	c      *Conn
	answer []byte // its first bytes; as long as they are fewer than answerBytes the handshake is under way
}

// Read implements net.Conn.
func (h *handshake) Read(b []byte) (int, error) {
	n, err := h.Conn.Read(b)
	if missing := answerBytes - len(h.answer); missing > 0 && n > 0 {
		h.answer = append(h.answer, b[:min(n, missing)]...)
		h.note()
	}
	return n, err
}

func (h *handshake) note() {
	if len(h.answer) < answerBytes || binary.BigEndian.Uint64(h.answer[12:]) == 0 {
		return
	}
	timeout := time.Duration(int32(binary.BigEndian.Uint32(h.answer[8:]))) * time.Millisecond
	h.c.granted.Store(int64(timeout))
}

// SetReadDeadline implements net.Conn.
func (h *handshake) SetReadDeadline(t time.Time) error {
	if len(h.answer) < answerBytes {
		if limit := time.Now().Add(h.c.patience); t.IsZero() || t.After(limit) {
			t = limit
		}
	}
	return h.Conn.SetReadDeadline(t)
}
