// Package transport carries the messages of channels between processes. See doc.go.
package transport

import (
	"errors"
	"fmt"
)

// Transport is a way to carry messages: in memory, ZeroMQ, TCP, UDP.
//
// A connection carries messages of one channel, whole and in order, from the producer's side, which
// dials, to the consumer's, which listens, and back. It promises no more: a connection may break at any
// time, and what was under way is then lost, on either side, without a word; a transport that connects
// again by itself may leave out any messages in between. UDP also loses single messages. Who needs every
// row uses the package channel on top.
type Transport interface {
	// Listen takes connections at addr, whose form is the transport's ("tcp://127.0.0.1:*"). The handler's
	// methods are called from the transport's goroutines.
	Listen(addr string, h Handler) (Listener, error)
	// Dial begins to connect to a Listener and returns at once; messages sent meanwhile may be lost. It
	// goes on trying, with pauses of at most a second, until Close. channel is the name by which the
	// other side knows the connection: at most 4096 bytes, and generation tells apart the connections
	// that different instances of one task make for it.
	Dial(addr, channel string, generation int64, h DialHandler) (Conn, error)
	// Close ends everything and waits for the transport's goroutines, so no handler may call it.
	Close() error
}

// Listener is where a consumer's process takes connections.
type Listener interface {
	// Addr is what others can Dial.
	Addr() string
	// Close gives the address free and forgets the connections. It waits for a call of the handler that is
	// under way, so the handler may not call it; when it has returned, the handler is called no more.
	Close() error
}

// Handler takes what comes to a Listener. It is called for one message of a connection at a time, but
// perhaps for those of several connections at once. A call that does not return holds up its
// connection, and with ZeroMQ and UDP all of the Listener's.
type Handler interface {
	// Message is a message of a producer. The handler may keep msg, but not change it: with Memory it is the
	// sender's slice. back is the connection on which it
	// came; it may be used after the call, and compares equal for messages of one connection. When the
	// producer is gone, back.Send drops the message and returns nil or ErrClosed.
	Message(channel string, generation int64, msg []byte, back Conn)
}

// DialHandler takes what comes back on a dialed connection, one call at a time. A DialHandler that is a
// Drainer too learns when it may send again after ErrFull.
type DialHandler interface {
	// Connected is called each time that the connection is there, again after a break if the transport
	// notices it. A transport that cannot tell calls it once.
	Connected()
	// Message is a message of the consumer. The handler may keep msg, but not change it.
	Message(msg []byte)
}

// Drainer is what a DialHandler may be besides.
type Drainer interface {
	// Drained says that Send, which had returned ErrFull, may be called again. It may come at the same time
	// as a call of the DialHandler.
	Drained()
}

// Conn is one side of a connection.
type Conn interface {
	// Send hands the message over and returns at once. It must not be changed afterwards, and may be
	// sent on several connections at the same time. ErrFull says that it was not taken, since too much
	// waits already: the caller tries again later. Send may be called from any goroutine, by one at a time.
	Send(msg []byte) error
	// Close ends the connection; on the consumer's side it only forgets it: messages still come. It does
	// not wait: what has not been sent yet may be lost, and a call of the handler may still be under way.
	// A handler may call it.
	Close() error
}

// Lossy reports whether t loses single messages even while a connection holds.
func Lossy(t Transport) bool {
	l, ok := t.(interface{ Lossy() bool })
	return ok && l.Lossy()
}

var (
	// ErrFull says that a connection has too much to send already.
	ErrFull = errors.New("transport: full")
	// ErrClosed says that the connection or the transport has been closed.
	ErrClosed = errors.New("transport: closed")
	// ErrTooLarge says that a message is larger than MaxMessage.
	ErrTooLarge = errors.New("transport: message too large")
)

// maxChannel bounds the name of a channel, in bytes.
const maxChannel = 4096

// checkChannel refuses a channel's name that the other side would not take.
func checkChannel(channel string) error {
	if len(channel) > maxChannel {
		return fmt.Errorf("transport: the name of a channel has %d bytes, at most %d may be: shorten it", len(channel), maxChannel)
	}
	return nil
}

// MaxMessage bounds a message, in bytes. What is larger is refused when it is sent and ends the
// connection when it is received.
const MaxMessage = 80 << 20

// closeAll closes the dialed connections and the listeners of a transport, which have no errors of their own
// to tell.
func closeAll[C Conn, L Listener](conns []C, listeners []L) {
	for _, c := range conns {
		_ = c.Close()
	}
	for _, l := range listeners {
		_ = l.Close()
	}
}
