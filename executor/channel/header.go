package channel

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
)

// kind is what a message is.
type kind uint8

// From the producer: hello to trimmed. From the consumer: resume and credit.
const (
	kindHello kind = iota + 1
	kindRows
	kindMark
	kindTail
	kindTrimmed
	kindResume
	kindCredit
	kinds
)

// Flags of a message. Each has a meaning in some kinds only.
const (
	flagIdle          = 1 << iota // mark
	flagEnd                       // mark; tail: END has been sent; resume, credit: END has been received
	flagStop                      // mark
	flagRowWatermarks             // rows: each row has a watermark of its own
	flagPressure                  // resume, credit
	flagsKnown        = 1<<iota - 1
)

const (
	magic    = 'S' | 'l'<<8 | 'c'<<16 | 1<<24 // the last byte is the version
	headSize = 104
	// maxSession leaves room for sessions to come, whatever number a hostile message has.
	maxSession = 1 << 60
)

// The places in a header of what is set when a message is sent, not when it is made.
const (
	atSession = 16
	atOffset  = 64
	atSum     = 100
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// header is the fixed part of all messages; doc.go has the layout, and what the fields mean in each kind.
type header struct {
	kind       kind
	flags      uint8
	columns    uint16
	generation int64
	session    int64
	epoch      int64
	prev       int64
	row        int64
	clock      int64
	watermark  int64
	offset     int64
	number     uint64
	rows       uint32
	body       uint32
	bodySum    uint32
	schema     uint32
}

// put writes h to the first headSize bytes of b.
func (h *header) put(b []byte) {
	le := binary.LittleEndian
	_ = b[headSize-1]
	le.PutUint32(b, magic)
	b[4], b[5] = byte(h.kind), h.flags
	le.PutUint16(b[6:], h.columns)
	le.PutUint64(b[8:], uint64(h.generation))
	le.PutUint64(b[atSession:], uint64(h.session))
	le.PutUint64(b[24:], uint64(h.epoch))
	le.PutUint64(b[32:], uint64(h.prev))
	le.PutUint64(b[40:], uint64(h.row))
	le.PutUint64(b[48:], uint64(h.clock))
	le.PutUint64(b[56:], uint64(h.watermark))
	le.PutUint64(b[atOffset:], uint64(h.offset))
	le.PutUint64(b[72:], h.number)
	le.PutUint32(b[80:], h.rows)
	le.PutUint32(b[84:], h.body)
	le.PutUint32(b[88:], h.bodySum)
	le.PutUint32(b[92:], h.schema)
	le.PutUint32(b[96:], 0)
	le.PutUint32(b[atSum:], crc32.Checksum(b[:atSum], castagnoli))
}

// stamp sets what is known only when a message is sent.
func stamp(msg []byte, session, offset int64) {
	le := binary.LittleEndian
	le.PutUint64(msg[atSession:], uint64(session))
	le.PutUint64(msg[atOffset:], uint64(offset))
	le.PutUint32(msg[atSum:], crc32.Checksum(msg[:atSum], castagnoli))
}

// message makes a message that is a header only.
func (h *header) message() []byte {
	msg := make([]byte, headSize)
	h.put(msg)
	return msg
}

// readHeader reads the header of msg and checks all that can be checked without a schema.
func readHeader(msg []byte) (header, error) {
	var h header
	if len(msg) < headSize {
		return h, fmt.Errorf("%w: %d bytes", ErrDamaged, len(msg))
	}
	le := binary.LittleEndian
	if le.Uint32(msg) != magic {
		return h, fmt.Errorf("%w: it does not begin as a message of this version", ErrDamaged)
	}
	if crc32.Checksum(msg[:atSum], castagnoli) != le.Uint32(msg[atSum:]) {
		return h, fmt.Errorf("%w: the checksum of the header is wrong", ErrDamaged)
	}
	h = header{
		kind: kind(msg[4]), flags: msg[5], columns: le.Uint16(msg[6:]),
		generation: int64(le.Uint64(msg[8:])), session: int64(le.Uint64(msg[atSession:])),
		epoch: int64(le.Uint64(msg[24:])), prev: int64(le.Uint64(msg[32:])), row: int64(le.Uint64(msg[40:])),
		clock: int64(le.Uint64(msg[48:])), watermark: int64(le.Uint64(msg[56:])),
		offset: int64(le.Uint64(msg[atOffset:])), number: le.Uint64(msg[72:]),
		rows: le.Uint32(msg[80:]), body: le.Uint32(msg[84:]), bodySum: le.Uint32(msg[88:]), schema: le.Uint32(msg[92:]),
	}
	return h, h.check(len(msg))
}

// check bounds the fields of a header of a message of size bytes.
func (h *header) check(size int) error {
	switch {
	case h.kind == 0 || h.kind >= kinds:
		return fmt.Errorf("%w: kind %d", ErrDamaged, h.kind)
	case h.flags&^flagsKnown != 0:
		return fmt.Errorf("%w: flags %#x", ErrDamaged, h.flags)
	case h.session < 0 || h.session > maxSession:
		return fmt.Errorf("%w: session %d", ErrDamaged, h.session)
	case h.row < 0:
		return fmt.Errorf("%w: row %d", ErrDamaged, h.row)
	case uint64(size-headSize) != uint64(h.body):
		return fmt.Errorf("%w: a body of %d bytes where the header says %d", ErrDamaged, size-headSize, h.body)
	case h.kind != kindRows && size != headSize:
		return fmt.Errorf("%w: kind %d has a body of %d bytes", ErrDamaged, h.kind, size-headSize)
	case h.stream() && h.flags&flagEnd == 0 && h.prev >= h.epoch:
		return fmt.Errorf("%w: epoch %d comes after %d", ErrDamaged, h.epoch, h.prev)
	case h.stream() && (h.row > maxRow || h.offset < 0 || h.offset > maxOffset):
		return fmt.Errorf("%w: row %d, offset %d", ErrDamaged, h.row, h.offset)
	case h.kind == kindRows && (h.rows == 0 || h.rows > maxRows):
		return fmt.Errorf("%w: %d rows", ErrDamaged, h.rows)
	}
	return nil
}

// maxRow and maxOffset bound rows of an epoch and bytes of a session, far from where sums run over.
const (
	maxRow    = 1 << 60
	maxOffset = 1 << 60
)

// stream reports whether the message is a piece of the stream, rows or a mark.
func (h *header) stream() bool { return h.kind == kindRows || h.kind == kindMark }
