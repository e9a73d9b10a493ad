package transport

import "encoding/binary"

// A message of a channel is one part. What the transport says itself has two: a kind of one byte, and what
// belongs to it.
const (
	kindWho     = '?' // the listener asks a new connection for its channel
	kindHello   = 'H' // the producer's answer: version, generation, channel
	kindWelcome = 'W' // the listener takes messages from here on
	kindEmpty   = '0' // a message of no bytes; the listener could not tell a bare one from libzmq's probe
	kindAlive   = '-' // the listener tries whether a silent connection is still there
)

// wireVersion is the first byte of a hello.
const wireVersion = 1

// helloHeader is the size of what precedes the channel in a hello: version and generation.
const helloHeader = 1 + 8

func appendHello(b []byte, channel string, generation int64) []byte {
	b = append(b, wireVersion)
	b = binary.BigEndian.AppendUint64(b, uint64(generation))
	return append(b, channel...)
}

func parseHello(b []byte) (channel string, generation int64, ok bool) {
	if len(b) < helloHeader || len(b) > helloHeader+maxChannel || b[0] != wireVersion {
		return "", 0, false
	}
	return string(b[helloHeader:]), int64(binary.BigEndian.Uint64(b[1:])), true
}
