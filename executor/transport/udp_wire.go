package transport

import "encoding/binary"

// A datagram is its kind, the connection's number, and what belongs to the kind. Numbers are written with the
// largest byte first.
//
//	H hello    number, then what a hello says
//	W welcome  number, the listener's number (8 bytes)
//	? who      number: the listener does not know this connection
//	B bye      number: the producer has closed
//	D data     number, message (8), fragment (2), fragments (2), size of the message (4), bytes
const (
	udpBye  = 'B'
	udpData = 'D'
	// udpHead is the size of what all datagrams have: kind and number.
	udpHead = 1 + 8
	// udpDataHead is the size of what precedes the bytes of a fragment.
	udpDataHead = udpHead + 8 + 2 + 2 + 4
	// udpFragment is how many bytes of a message go into a datagram: most networks carry that unfragmented.
	udpFragment = 1400 - udpDataHead
	// udpLargest is the size of the largest datagram, a hello with a long name.
	udpLargest = udpHead + helloHeader + maxChannel
)

func appendUDPHead(b []byte, kind byte, number uint64) []byte {
	return binary.BigEndian.AppendUint64(append(b, kind), number)
}

// appendFragment appends fragment i of a message.
func appendFragment(b []byte, number, seq uint64, msg []byte, i int) []byte {
	b = appendUDPHead(b, udpData, number)
	b = binary.BigEndian.AppendUint64(b, seq)
	b = binary.BigEndian.AppendUint16(b, uint16(i))
	b = binary.BigEndian.AppendUint16(b, uint16(fragments(len(msg))))
	b = binary.BigEndian.AppendUint32(b, uint32(len(msg)))
	return append(b, msg[i*udpFragment:min(len(msg), (i+1)*udpFragment)]...)
}

// fragments is how many datagrams a message of size bytes takes.
func fragments(size int) int { return max(1, (size+udpFragment-1)/udpFragment) }

// fragment is what a data datagram says.
type fragment struct {
	seq   uint64
	index int
	size  int // of the message
	bytes []byte
	count int // of fragments
}

// parseFragment reads what follows a data datagram's head.
func parseFragment(b []byte) (f fragment, ok bool) {
	const head = udpDataHead - udpHead
	if len(b) < head {
		return f, false
	}
	f.seq = binary.BigEndian.Uint64(b)
	f.index = int(binary.BigEndian.Uint16(b[8:]))
	f.count = int(binary.BigEndian.Uint16(b[10:]))
	f.size = int(binary.BigEndian.Uint32(b[12:]))
	f.bytes = b[head:]
	if f.size > MaxDatagrams || f.count != fragments(f.size) || f.index >= f.count {
		return f, false
	}
	return f, len(f.bytes) == min(f.size-f.index*udpFragment, udpFragment)
}

// assembly puts the fragments of one direction of a connection together. It holds one unfinished message: a
// fragment of a later one gives it up.
type assembly struct {
	next    uint64 // the lowest number that has not been delivered, nor lost
	started bool   // a first message was seen: what was before it is not lost
	seq     uint64 // of the unfinished message
	msg     []byte // nil if there is none
	have    []bool
	missing int
}

// add takes a fragment. msg is the message that it completes, if whole; lost is how many messages before it
// will not come any more. room is how many bytes an unfinished message may take.
func (a *assembly) add(f fragment, room int) (msg []byte, whole bool, lost uint64) {
	if !a.started {
		a.started = true
		a.next = f.seq
	}
	if f.seq < a.next || a.msg != nil && f.seq < a.seq {
		return nil, false, 0
	}
	if a.msg != nil && f.seq > a.seq {
		a.drop()
	}
	if a.msg == nil {
		if f.size > room {
			return nil, false, 0
		}
		a.seq = f.seq
		a.msg = make([]byte, f.size)
		a.have = make([]bool, f.count)
		a.missing = f.count
	}
	if len(a.have) != f.count || len(a.msg) != f.size || a.have[f.index] {
		return nil, false, 0
	}
	a.have[f.index] = true
	a.missing--
	copy(a.msg[f.index*udpFragment:], f.bytes)
	if a.missing > 0 {
		return nil, false, 0
	}
	msg, lost = a.msg, f.seq-a.next
	a.next = f.seq + 1
	a.drop()
	return msg, true, lost
}

// drop gives the unfinished message up.
func (a *assembly) drop() { a.msg, a.have, a.missing = nil, nil, 0 }
