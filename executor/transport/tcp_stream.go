package transport

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"time"
)

const (
	// tcpWelcome is the listener's answer to a hello.
	tcpWelcome   = "sluice 2"
	dialTimeout  = 5 * time.Second
	helloTimeout = 10 * time.Second
	// tcpBuffer is how much is read, or gathered to be written, at once.
	tcpBuffer = 64 << 10
	// readStep is how much memory a message gets before its bytes have come: a length alone costs a peer nothing.
	readStep = 1 << 20
	// tcpAlive stands in the place of a length for: this side has nothing else to say.
	tcpAlive = 1 << 31
)

var errSilent = errors.New("transport: nothing comes on the connection any more")

// tcpStream is a TCP connection that carries messages: each after its length, of four bytes, the largest first.
type tcpStream struct {
	conn    net.Conn
	beat    time.Duration
	in      *bufio.Reader // reads from the tcpStream
	welcome chan struct{} // closed when the listener has said, or will say, welcome: messages may be written
	ended   chan struct{}
	once    sync.Once
	wg      sync.WaitGroup

	// The reader's own.
	head    [4]byte
	silence silence
	until   time.Time // when what is read now must have come; zero: some day, while beats come
}

func newTCPStream(conn net.Conn, beat time.Duration) *tcpStream {
	if c, ok := conn.(*net.TCPConn); ok {
		// The kernel ends what is left of a connection to a machine that has gone.
		c.SetKeepAliveConfig(net.KeepAliveConfig{Enable: true, Idle: 4 * time.Second, Interval: 2 * time.Second, Count: 3})
	}
	s := &tcpStream{conn: conn, beat: beat, welcome: make(chan struct{}), ended: make(chan struct{})}
	s.in = bufio.NewReaderSize(s, tcpBuffer)
	return s
}

// Read reads what has come. It fails when nothing has come for some beats.
func (s *tcpStream) Read(p []byte) (int, error) {
	for {
		until := s.until
		if until.IsZero() {
			until = time.Now().Add(s.beat)
		}
		if err := s.conn.SetReadDeadline(until); err != nil {
			return 0, err
		}
		n, err := s.conn.Read(p)
		if n > 0 {
			s.silence.heard()
			return n, nil
		}
		if !errors.Is(err, os.ErrDeadlineExceeded) || !s.until.IsZero() {
			return 0, err
		}
		if s.silence.beat() {
			return 0, errSilent
		}
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
	n := tcpAlive
	for n == tcpAlive {
		if _, err := io.ReadFull(s.in, s.head[:]); err != nil {
			return nil, err
		}
		n = int(binary.BigEndian.Uint32(s.head[:]))
	}
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

// write writes what comes to q until the connection ends, and at every beat that there is nothing that this side is
// there. Many messages go in one call.
func (s *tcpStream) write(q *queue, h DialHandler) {
	select {
	case <-s.welcome:
	case <-s.ended:
		return
	}
	w := bufio.NewWriterSize(s.conn, tcpBuffer)
	var msgs [][]byte
	beat := time.NewTicker(s.beat)
	defer beat.Stop()
	said := true
	for {
		msgs = q.take(msgs)
		if len(msgs) > 0 {
			if !s.writeAll(w, msgs, q, h) {
				return
			}
			said = true
			continue
		}
		select {
		case <-q.wake:
		case <-s.ended:
			return
		case <-beat.C:
			if !said && !sayAlive(w) {
				return
			}
			said = false
		}
	}
}

func sayAlive(w *bufio.Writer) bool {
	_, err := w.Write(binary.BigEndian.AppendUint32(w.AvailableBuffer(), tcpAlive))
	return err == nil && w.Flush() == nil
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
	if _, err := w.Write(binary.BigEndian.AppendUint32(w.AvailableBuffer(), uint32(len(msg)))); err != nil {
		return err
	}
	_, err := w.Write(msg)
	return err
}
