package transport

import (
	"os"
	"syscall"

	"github.com/pebbe/zmq4"
	"golang.org/x/sys/unix"
)

// zmqSocket lets one goroutine, its owner, use a ZeroMQ socket together with Go channels. libzmq tells by a
// file descriptor that a socket should be looked at; a second goroutine waits for it in Go's network
// poller. So a waiting socket costs two goroutines and no thread, and hundreds of channels are cheap.
//
// The descriptor says only that something has happened: after each use of the socket the owner has to ask
// for its events until there is nothing left to do, and only then may wait.
type zmqSocket struct {
	*zmq4.Socket
	file  *os.File      // a duplicate of the socket's descriptor
	ready chan struct{} // a token: look at the socket
	arm   chan struct{} // a token: say it when there is something
	armed bool          // the owner's: a token is under way
	pack  []byte        // the owner's: room for packs
	ended chan struct{} // closed when the watching goroutine has ended
}

func newZMQSocket(s *zmq4.Socket) (*zmqSocket, error) {
	fd, err := s.GetFd()
	if err != nil {
		return nil, err
	}
	dup, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	if err := unix.SetNonblock(dup, true); err != nil {
		unix.Close(dup)
		return nil, err
	}
	z := &zmqSocket{
		Socket: s, file: os.NewFile(uintptr(dup), "zmq"),
		ready: make(chan struct{}, 1), arm: make(chan struct{}, 1), ended: make(chan struct{}),
	}
	raw, err := z.file.SyscallConn()
	if err != nil {
		z.file.Close()
		return nil, err
	}
	go z.watch(raw)
	return z, nil
}

func (z *zmqSocket) watch(raw syscall.RawConn) {
	defer close(z.ended)
	for range z.arm {
		if err := raw.Read(readable); err != nil {
			return // closed
		}
		z.ready <- struct{}{}
	}
}

// readable looks at the descriptor itself, since an edge that came before the wait is not told again.
func readable(fd uintptr) bool {
	p := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	for {
		n, err := unix.Poll(p, 0)
		if err != unix.EINTR {
			return n > 0
		}
	}
}

// wait makes ready get a token when the socket should be looked at. The owner calls it before it waits.
func (z *zmqSocket) wait() {
	if !z.armed {
		z.armed = true
		z.arm <- struct{}{}
	}
}

// looked is called when a token of ready has been taken.
func (z *zmqSocket) looked() { z.armed = false }

// close closes the socket and waits for the watching goroutine.
func (z *zmqSocket) close() {
	z.file.Close()
	close(z.arm)
	<-z.ended
	z.Socket.Close()
}

// parts receives the rest of a message, whose first part has come, and keeps at most limit parts of it.
func (z *zmqSocket) parts(first []byte, limit int) ([][]byte, error) {
	msg := [][]byte{first}
	for {
		more, err := z.GetRcvmore()
		if err != nil || !more {
			return msg, err
		}
		p, err := z.RecvBytes(zmq4.DONTWAIT)
		if err != nil {
			return msg, err
		}
		if len(msg) < limit {
			msg = append(msg, p)
		}
	}
}

// again reports that libzmq has nothing to give, or takes nothing, for now.
func again(err error) bool { return err != nil && zmq4.AsErrno(err) == zmq4.Errno(syscall.EAGAIN) }

// sendControl sends a message of two parts.
func (z *zmqSocket) sendControl(kind byte, body []byte) error {
	if _, err := z.SendBytes([]byte{kind}, zmq4.SNDMORE|zmq4.DONTWAIT); err != nil {
		return err
	}
	_, err := z.SendBytes(body, zmq4.DONTWAIT)
	return err
}

// sendSome sends the first of msgs, with those after it that fit into a pack. n is how many it sent, and
// bytes their size.
func (z *zmqSocket) sendSome(msgs [][]byte) (n, bytes int, err error) {
	z.pack, n, bytes = appendPack(z.pack[:0], msgs)
	if n > 1 {
		return n, bytes, z.sendControl(kindPack, z.pack)
	}
	if len(msgs[0]) == 0 {
		return 1, 0, z.sendControl(kindEmpty, nil)
	}
	_, err = z.SendBytes(msgs[0], zmq4.DONTWAIT)
	return 1, len(msgs[0]), err
}
