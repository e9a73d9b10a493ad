package local

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// Request is what a user asks of a query that runs. One of Set and Status is set.
type Request struct {
	// Query, if not empty, must be the name of the query.
	Query  string      `json:"query,omitempty"`
	Set    *SetRequest `json:"set,omitempty"`
	Status bool        `json:"status,omitempty"`
	// Answer takes the one answer; it must have room for it.
	Answer chan<- Response `json:"-"`
}

// SetRequest sets a parameter of an operator.
type SetRequest struct {
	Operator string `json:"operator"`
	Param    string `json:"param"`
	Value    string `json:"value"`
}

// Response is the answer to a Request.
type Response struct {
	Epoch int64  `json:"epoch,omitempty"` // at which the value takes effect; 0: at once
	Text  string `json:"text,omitempty"`
	Error string `json:"error,omitempty"`
}

// Bounds of what comes to a Socket.
const (
	maxRequest  = 1 << 20 // bytes of a line
	maxResponse = 64 << 20
	maxClients  = 64
	idleTime    = 30 * time.Second // for a client to send a line
	answerTime  = 60 * time.Second
)

// socketName is the name of the socket in its directory.
const socketName = "control"

// Socket takes requests on a socket in a directory. Whoever may write to it may send them.
type Socket struct {
	path     string
	listener *net.UnixListener
	requests chan Request
	done     chan struct{}
	over     sync.WaitGroup

	mu      sync.Mutex
	clients map[net.Conn]bool
}

// OpenSocket makes the socket of a directory. What an earlier process has left there is replaced: the
// caller has made sure that there is no other one.
func OpenSocket(dir string) (*Socket, error) {
	path := filepath.Join(dir, socketName)
	if info, err := os.Lstat(path); err == nil && info.Mode().Type() == os.ModeSocket {
		if err := os.Remove(path); err != nil {
			return nil, err
		}
	}
	var l *net.UnixListener
	err := through(dir, func(short string) (err error) {
		l, err = net.ListenUnix("unix", &net.UnixAddr{Name: short, Net: "unix"})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("socket for requests in %q: %w", dir, err)
	}
	l.SetUnlinkOnClose(false) // its name is good only for as long as the directory is open
	if err := os.Chmod(path, 0o600); err != nil {
		l.Close()
		return nil, err
	}
	s := &Socket{path: path, listener: l, requests: make(chan Request), done: make(chan struct{}), clients: map[net.Conn]bool{}}
	s.over.Go(s.accept)
	return s, nil
}

// through calls f with a short name of the socket of dir: the system takes none of more than about 100
// bytes.
func through(dir string, f func(short string) error) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return f(fmt.Sprintf("/proc/self/fd/%d/%s", d.Fd(), socketName))
}

// Requests gives the requests.
func (s *Socket) Requests() <-chan Request { return s.requests }

// Close takes no more requests. Those that have not been answered get no answer.
func (s *Socket) Close() error {
	close(s.done)
	err := s.listener.Close()
	s.mu.Lock()
	for c := range s.clients {
		c.Close()
	}
	s.mu.Unlock()
	s.over.Wait()
	return errors.Join(err, os.Remove(s.path))
}

func (s *Socket) accept() {
	for {
		conn, err := s.listener.Accept()
		if err != nil {
			return
		}
		s.mu.Lock()
		if len(s.clients) == maxClients {
			s.mu.Unlock()
			conn.Close()
			continue
		}
		s.clients[conn] = true
		s.over.Go(func() { s.serve(conn) })
		s.mu.Unlock()
	}
}

func (s *Socket) serve(conn net.Conn) {
	defer func() {
		conn.Close()
		s.mu.Lock()
		delete(s.clients, conn)
		s.mu.Unlock()
	}()
	lines := bufio.NewScanner(conn)
	lines.Buffer(nil, maxRequest)
	for {
		_ = conn.SetReadDeadline(time.Now().Add(idleTime))
		if !lines.Scan() {
			return
		}
		text, err := json.Marshal(s.handle(lines.Bytes()))
		if err != nil {
			return
		}
		_ = conn.SetWriteDeadline(time.Now().Add(idleTime))
		if _, err := conn.Write(append(text, '\n')); err != nil {
			return
		}
	}
}

// handle answers one line.
func (s *Socket) handle(line []byte) Response {
	answer := make(chan Response, 1)
	r := Request{}
	d := json.NewDecoder(bytes.NewReader(line))
	d.DisallowUnknownFields()
	if err := d.Decode(&r); err != nil {
		return Response{Error: fmt.Sprintf("this is no request: %v", err)}
	}
	r.Answer = answer
	late := time.After(answerTime)
	ended := Response{Error: "the query has ended"}
	select {
	case s.requests <- r:
	case <-s.done:
		return ended
	case <-late:
		return Response{Error: "the scheduler does not answer"}
	}
	select {
	case a := <-answer:
		return a
	case <-s.done:
		select {
		case a := <-answer:
			return a
		default:
			return ended
		}
	case <-late:
		return Response{Error: "the scheduler has not answered yet; sluice status tells more"}
	}
}

// ErrNoRun says that no query runs in a directory.
var ErrNoRun = errors.New("no query with several processes runs there")

// Ask sends a request to the query that runs with the state in dir.
func Ask(dir string, r Request) (Response, error) {
	conn, err := dial(dir)
	if err != nil {
		return Response{}, fmt.Errorf("%q: %w", dir, ErrNoRun)
	}
	defer conn.Close()
	text, err := json.Marshal(r)
	if err != nil {
		return Response{}, err
	}
	_ = conn.SetDeadline(time.Now().Add(answerTime + idleTime))
	if _, err := conn.Write(append(text, '\n')); err != nil {
		return Response{}, err
	}
	line, err := bufio.NewReader(io.LimitReader(conn, maxResponse)).ReadBytes('\n')
	if err != nil {
		return Response{}, fmt.Errorf("%q: the query has ended: %w", dir, err)
	}
	var a Response
	if err := json.Unmarshal(line, &a); err != nil {
		return Response{}, fmt.Errorf("%q: an answer that is none: %w", dir, err)
	}
	return a, nil
}

func dial(dir string) (conn net.Conn, err error) {
	err = through(dir, func(short string) (err error) {
		conn, err = net.Dial("unix", short)
		return err
	})
	return conn, err
}

// reachable reports whether a run has its socket in dir.
func reachable(dir string) bool {
	conn, err := dial(dir)
	if err != nil {
		return false
	}
	conn.Close()
	return true
}
