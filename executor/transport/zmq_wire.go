package transport

import "encoding/binary"

// A message of a channel is one part. What the transport says itself has two: a kind of one byte, and what
// belongs to it.
const (
	kindWho     = '?' // the listener asks a new connection for its channel
	kindHello   = 'H' // the producer's answer: version, generation, channel
	kindWelcome = 'W' // the listener takes messages from here on
	kindEmpty   = '0' // a message of no bytes; the listener could not tell a bare one from libzmq's probe
	kindPack    = 'P' // several small messages, each after its length
	kindAlive   = '-' // either side has nothing else to say
	kindGone    = '!' // the listener has given the connection up, since it heard nothing
)

// wireVersion is the first byte of a hello.
const wireVersion = 2

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

const (
	// packable is the size of the largest message that is packed with others, in bytes: copying it costs
	// less than sending it alone.
	packable = 8 << 10
	// packSize bounds a pack, in bytes.
	packSize = 64 << 10
)

// appendPack appends as many of the first of msgs as make a pack. n is their number and bytes their size.
// With n below 2 a pack does not pay.
func appendPack(b []byte, msgs [][]byte) (pack []byte, n, bytes int) {
	for _, m := range msgs {
		if len(m) > packable || n > 0 && len(b)+len(m)+binary.MaxVarintLen32 > packSize {
			break
		}
		b = binary.AppendUvarint(b, uint64(len(m)))
		b = append(b, m...)
		n++
		bytes += len(m)
	}
	return b, n, bytes
}

// nextOfPack splits the first message off a pack. ok is false if there is none: the pack is at its end, or
// damaged, or larger than packs are.
func nextOfPack(pack []byte) (msg, rest []byte, ok bool) {
	if len(pack) == 0 || len(pack) > packSize {
		return nil, nil, false
	}
	size, n := binary.Uvarint(pack)
	if n <= 0 || size > uint64(len(pack)-n) {
		return nil, nil, false
	}
	end := n + int(size)
	return pack[n:end:end], pack[end:], true
}
