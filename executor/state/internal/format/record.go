package format

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"slices"
)

// RecordHead is the size of what comes before the payload of a record:
//
//	length of the payload, 4 bytes little-endian | CRC32C of length and payload, 4 bytes | payload
const RecordHead = 8

// MaxPayload bounds the payload of a record of the log, in bytes.
const MaxPayload = 16 << 20

// MaxName bounds the names of sources, sinks and operators, in bytes.
const MaxName = 4096

// Castagnoli is the polynomial of all checksums.
var Castagnoli = crc32.MakeTable(crc32.Castagnoli)

// What can be wrong with a record.
var (
	ErrShort    = errors.New("the record is cut off")
	ErrLength   = errors.New("the record's length is impossible")
	ErrChecksum = errors.New("the record's checksum is wrong")
	ErrPayload  = errors.New("the record's content is malformed")
)

// Begin makes room for the head of a record at the end of b. The payload is appended then, and
// Seal called with the length that b had before.
func Begin(b []byte) []byte {
	return append(b, make([]byte, RecordHead)...)
}

// Seal fills in the head of the record that begins at start.
func Seal(b []byte, start int) {
	rec := b[start:]
	binary.LittleEndian.PutUint32(rec, uint32(len(rec)-RecordHead))
	binary.LittleEndian.PutUint32(rec[4:], Sum(rec[:4], rec[RecordHead:]))
}

// Sum is the checksum of a record.
func Sum(length, payload []byte) uint32 { return SumParts(length, payload, nil) }

// SumParts is the checksum of a record whose payload is in two parts.
func SumParts(length, payload, rest []byte) uint32 {
	sum := crc32.Update(crc32.Update(0, Castagnoli, length), Castagnoli, payload)
	return crc32.Update(sum, Castagnoli, rest)
}

// Payload returns the payload of the record at the beginning of b. A payload is never empty, so
// zeros are no record.
func Payload(b []byte) ([]byte, error) {
	if len(b) < RecordHead {
		return nil, ErrShort
	}
	n := binary.LittleEndian.Uint32(b)
	if n == 0 || n > MaxPayload {
		return nil, ErrLength
	}
	if uint64(len(b)-RecordHead) < uint64(n) {
		return nil, ErrShort
	}
	payload := b[RecordHead : RecordHead+int(n)]
	if Sum(b[:4], payload) != binary.LittleEndian.Uint32(b[4:]) {
		return nil, ErrChecksum
	}
	return payload, nil
}

// Read reads one record of at most left bytes, with a payload of at most limit, into buf if that is large
// enough.
func Read(r io.Reader, left, limit int64, buf []byte) ([]byte, error) {
	var head [RecordHead]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, ErrShort
	}
	size := int64(binary.LittleEndian.Uint32(head[:]))
	if size == 0 || size > limit || size > left-RecordHead {
		return nil, ErrLength
	}
	buf = slices.Grow(buf[:0], int(size))[:size]
	if _, err := io.ReadFull(r, buf); err != nil {
		return nil, ErrShort
	}
	if Sum(head[:4], buf) != binary.LittleEndian.Uint32(head[4:]) {
		return nil, ErrChecksum
	}
	return buf, nil
}

// Reader takes values off the beginning of b. Once one is not there, it has failed for good.
type Reader struct {
	B      []byte
	Failed bool
}

// Byte takes one byte.
func (r *Reader) Byte() byte {
	if len(r.B) == 0 {
		r.Failed = true
		return 0
	}
	v := r.B[0]
	r.B = r.B[1:]
	return v
}

// Varint takes a varint.
func (r *Reader) Varint() int64 {
	v, n := binary.Varint(r.B)
	if n <= 0 {
		r.Failed, r.B = true, nil
		return 0
	}
	r.B = r.B[n:]
	return v
}

// Name takes a length and so many bytes, 1 to MaxName.
func (r *Reader) Name() string {
	v, n := binary.Uvarint(r.B)
	if n <= 0 || v == 0 || v > MaxName || v > uint64(len(r.B)-n) {
		r.Failed, r.B = true, nil
		return ""
	}
	name := string(r.B[n : n+int(v)])
	r.B = r.B[n+int(v):]
	return name
}

// Rest is what is left, nil if that is nothing.
func (r *Reader) Rest() []byte {
	if len(r.B) == 0 {
		return nil
	}
	b := r.B
	r.B = nil
	return b
}
