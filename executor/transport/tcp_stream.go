package transport

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"sync"
	"time"
)

const (
	// tcpWelcome is the listener's answer to a hello.
	tcpWelcome   = "sluice 1"
	dialTimeout  = 5 * time.Second
	helloTimeout = 10 * time.Second
	// tcpBuffer is how much is read, or gathered to be written, at once.
	tcpBuffer = 64 << 10
	// readStep is how much memory a message gets before its bytes have come: a length alone costs a peer nothing.
	readStep = 1 << 20
)

// tcpStream is a TCP connection that carries messages: each after its length, of four bytes, the largest first.
type tcpStream struct {
	conn    net.Conn
	in      *bufio.Reader
	welcome chan struct{} // closed when the listener has said, or will say, welcome: messages may be written
	ended   chan struct{}
	once    sync.Once
	wg      sync.WaitGroup
}

func newTCPStream(conn net.Conn) *tcpStream {
	if c, ok := conn.(*net.TCPConn); ok {
		// A peer whose machine has gone is noticed after about ten seconds.
		c.SetKeepAliveConfig(net.KeepAliveConfig{Enable: true, Idle: 4 * time.Second, Interval: 2 * time.Second, Count: 3})
	}
	return &tcpStream{
		conn: conn, in: bufio.NewReaderSize(conn, tcpBuffer),
		welcome: make(chan struct{}), ended: make(chan struct{}),
	}
}

// end closes the connection, which ends reading and writing.
func (s *tcpStream) end() {
	s.once.Do(func() {
		close(s.ended)
		s.conn.Close()
	})
}

// read reads a message of at most limit bytes.
func (s *tcpStream) read(limit int) ([]byte, error) {
	var head [4]byte
	if _, err := io.ReadFull(s.in, head[:]); err != nil {
		return nil, err
	}
	n := int(binary.BigEndian.Uint32(head[:]))
	if n > limit {
		return nil, fmt.Errorf("transport: a message of %d bytes: %w", n, ErrTooLarge)
	}
	msg := make([]byte, min(n, readStep))
	for got := 0; ; {
		if _, err := io.ReadFull(s.in, msg[got:]); err != nil {
			return nil, err
		}
		got = len(msg)
		if got == n {
			return msg, nil
		}
		more := make([]byte, min(n, 4*got))
		copy(more, msg)
		msg = more
	}
}

// hello writes the first message of a side.
func (s *tcpStream) hello(msg []byte) bool {
	b := binary.BigEndian.AppendUint32(nil, uint32(len(msg)))
	_, err := s.conn.Write(append(b, msg...))
	return err == nil
}

// write writes what comes to q until the connection ends. Many messages go in one call.
func (s *tcpStream) write(q *queue, h DialHandler) {
	select {
	case <-s.welcome:
	case <-s.ended:
		return
	}
	w := bufio.NewWriterSize(s.conn, tcpBuffer)
	var msgs [][]byte
	for {
		msgs = q.take(msgs)
		if len(msgs) == 0 {
			select {
			case <-q.wake:
				continue
			case <-s.ended:
				return
			}
		}
		if !s.writeAll(w, msgs, q, h) {
			return
		}
	}
}

// writeAll writes messages and gives their room back, also if the connection ends and they are lost.
func (s *tcpStream) writeAll(w *bufio.Writer, msgs [][]byte, q *queue, h DialHandler) bool {
	var err error
	for i, msg := range msgs {
		if err == nil {
			err = writeOne(w, msg)
		}
		n := len(msg)
		msgs[i] = nil
		if q.release(n, 1) && h != nil {
			drained(h)
		}
	}
	return err == nil && w.Flush() == nil
}

func writeOne(w *bufio.Writer, msg []byte) error {
	var head [4]byte
	binary.BigEndian.PutUint32(head[:], uint32(len(msg)))
	if _, err := w.Write(head[:]); err != nil {
		return err
	}
	_, err := w.Write(msg)
	return err
}
