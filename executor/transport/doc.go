// Package transport carries the messages of channels between tasks, in one process or between processes.
//
//	t, err := transport.Open(transport.Options{Keys: keys})
//	l, err := t.Listen("tcp://10.0.0.7:*", handler)                // the consumer; l.Addr() says which port
//	c, err := t.Dial("tcp://10.0.0.7:41207", "orders>join", 3, dh) // the producer
//	err = c.Send(msg)
//
// # What is promised
//
// A connection belongs to one channel and one generation of its producer, which dials. It carries messages
// both ways; each arrives whole, once, and in order. That is all:
//
//   - A connection may break at any time. What was under way is lost, without a word. All transports connect
//     again by themselves, after pauses of 10 ms to 1 s, and then call Connected: whoever needs every message
//     agrees there with the other side where to go on, as package channel does.
//   - Nothing is delivered before the other side is there; up to the bound of the queue it waits.
//   - Send never blocks. It returns ErrFull while too much waits: 8 MiB in the queue of a connection, and what
//     fits between the two sides. A message of any size up to MaxMessage is taken when nothing waits. A
//     DialHandler with a method Drained is told when the queue has fallen to half.
//   - A handler that does not return holds messages back, so that Send says ErrFull in the end. With Memory and
//     TCP it holds up its own connection, with ZeroMQ and UDP all those of its Listener. Handlers should hand
//     messages on and return; with ZeroMQ, one that stands for longer than five beats loses connections.
//   - UDP loses single messages, too: Lossy tells, and Losses counts them.
//   - A message is handed over, not copied: the sender may not change it after Send, nor who receives it, since
//     with Memory the two have the same slice. Both may keep it.
//
// The package's suite, transporttest, is these sentences as tests; every transport passes it.
//
// # Addresses
//
//	memory://NAME              inside one process, among those that share the Memory; memory://* finds a name
//	tcp://HOST:PORT            ZeroMQ over TCP; tcp://*:5000 is every interface, tcp://127.0.0.1:* a free port
//	ipc://PATH                 ZeroMQ over a Unix socket, whose path has at most 107 bytes; ipc://* makes a folder
//	plain-tcp://HOST:PORT      bare TCP, for programs without ZeroMQ; * as above
//	udp://HOST:PORT            UDP, messages of at most MaxDatagrams; * as above
//	lz4+ADDRESS, zstd+ADDRESS  any of these with compressed messages, for slow links; Addr has the prefix too
//
// A listener on all interfaces has the address 0.0.0.0 or [::]: the caller knows the name by which others reach
// the machine.
//
// Two listeners cannot have one address, but libzmq lets a second one take an ipc path over.
//
// # Beats
//
// With ZeroMQ and TCP each side of a connection that has said nothing else says at every beat (2 s) that it is there,
// and gives the connection up when it has heard nothing for five beats: after 10 to 12 s. So a peer that
// stands still, one whose machine has gone, and a network that loses everything in either direction are noticed; a
// process that ends is at once. The producer's side then connects anew, with a fresh socket; the listener's
// forgets the connection, and says so if it can. One that stands still itself does not blame the others when it goes
// on, for it counts beats and not time (silence.go). A message that takes longer than five beats to arrive does not
// arrive. The kernel's keep-alive and, with ZeroMQ, its limit of retransmissions end what is left of a connection
// whose other side has gone.
//
// # ZeroMQ
//
// A Listener is a ROUTER socket, each Dial a DEALER socket. A ZeroMQ socket may be used by one goroutine only. That
// goroutine does not sleep inside libzmq, where it would cost a thread, but waits for the socket's descriptor in Go's
// network poller, next to the Go channel by which Send wakes it: a process with 300 channels has no more threads
// than one with three. It takes all that waits at once. Each Listener has a libzmq context, hence an I/O thread, of
// its own, and all dialed connections together have one.
//
// A message of a channel is one part. Small ones (up to 8 KiB) that wait together go as a pack of at most 64 KiB:
// 'P', then each message after its length as a varint; who keeps one of them keeps the pack's memory. An empty
// message is the two parts '0' and nothing. What else has two parts is the transport's own:
//
//	producer                                listener
//	an empty message (PROBE_ROUTER)    ->
//	                                   <-   '?'                      who is it?
//	'H', version 2, generation (8      ->
//	bytes, largest first), channel
//	                                   <-   'W'                      welcome: Connected is called
//	messages, '0', 'P'                <->   messages, '0', 'P'
//	'-'                               <->   '-'                      still there
//	                                   <-   '!'                      given up: nothing has come
//
// A connection that has been given up, or is unknown, and on which something comes again is asked '?' once a beat.
//
// libzmq sends the probe on each new connection, so the handshake runs again after a break. The routing id is then
// another one, for producers have none of their own, and no stranger can take over another's connection by naming
// its routing id. IMMEDIATE keeps messages from waiting for, or moving to, a connection that is not there. Anything else that a peer sends is dropped, and a message above MaxMessage ends its connection.
//
// LINGER is 0: Close does not wait for what has not been sent. Packs make a high-water mark of 64 messages
// enough, which bounds what libzmq holds of a stuck connection to 4 MiB on each side with messages of 64 KiB.
//
// ZMTP's own heartbeats are off. Where libzmq 4.3 has stopped to read from a connection at the high-water mark, and the
// connection breaks, a heartbeat that is due, or is found in what is still to be taken, ends the process by an
// assertion.
//
// With Keys every socket speaks CURVE: connections are encrypted, the producer checks the listener's public key,
// and the listener takes the cluster's client key and those in Allowed, which a ZAP goroutine decides. Without
// keys anybody who reaches the port can send anything, and libzmq itself bounds the size of a message's
// parts but not their number, and ends the process at a heartbeat that a stranger may send, as above: use keys on
// any network that is not yours alone. GenerateKeys and WriteKeys make the cluster's file, of mode 0600; ReadKeys
// refuses one that others may read. Memory needs no keys; TCP and UDP have none.
//
// # TCP
//
// Each message follows its length, four bytes, largest first. The first one is the hello from above (version,
// generation, channel), answered by "sluice 2". The length 1<<31 has no message behind it: the side is still
// there. Any other length above MaxMessage ends the connection, and memory for a message grows with its bytes, not
// with what its length claims.
//
// # UDP
//
// udp_wire.go has the datagrams. A message is cut into fragments of some 1400 bytes and numbered. The receiver
// holds one unfinished message per connection and 64 MiB in all. A fragment of a later message gives it up; what
// comes late or twice is dropped; each number that was left out when a message is complete counts as lost. What
// is lost before the first message that arrives, or after the last one, is not known. The producer says hello
// every second and is forgotten after ten. Nothing is paced or encrypted.
//
// # Compression
//
// The first byte of a message says how it is packed: 0 not at all, 1 LZ4, 2 Zstandard, the latter two followed by
// the size as a varint. Below 512 bytes, or if it would save less than an eighth, a message goes unpacked. Each
// end reads both. What claims or unpacks to more than MaxMessage, or is damaged, is dropped.
//
// # Not covered
//
// Windows: libzmq's descriptors are waited for in the Unix way.
package transport
