package state

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
)

// A record is
//
//	length of the payload, 4 bytes little-endian | CRC32C of length and payload, 4 bytes | payload
const recordHead = 8

// maxPayload bounds the payload of a record of the log, in bytes.
const maxPayload = 16 << 20

// maxName bounds the names of sources, sinks and operators, in bytes.
const maxName = 4096

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// The first byte of a payload of the log is its kind.
const (
	kindEpoch  = 1
	kindCommit = 2
	kindTrim   = 3
)

// Flags of an epoch.
const (
	flagBegun = 1 << iota
	flagIdle
	flagEnd
	flagStop
	flagsKnown = 1<<iota - 1
)

var (
	errShort    = errors.New("the record is cut off")
	errLength   = errors.New("the record's length is impossible")
	errChecksum = errors.New("the record's checksum is wrong")
	errPayload  = errors.New("the record's content is malformed")
)

// beginRecord makes room for the head of a record at the end of b. The payload is appended then, and
// sealRecord called with the length that b had before.
func beginRecord(b []byte) []byte {
	return append(b, make([]byte, recordHead)...)
}

func sealRecord(b []byte, start int) {
	rec := b[start:]
	binary.LittleEndian.PutUint32(rec, uint32(len(rec)-recordHead))
	binary.LittleEndian.PutUint32(rec[4:], recordSum(rec[:4], rec[recordHead:]))
}

func recordSum(length, payload []byte) uint32 {
	return crc32.Update(crc32.Update(0, castagnoli, length), castagnoli, payload)
}

// recordPayload returns the payload of the record at the beginning of b. A payload is never empty, so
// zeros are no record.
func recordPayload(b []byte) ([]byte, error) {
	if len(b) < recordHead {
		return nil, errShort
	}
	n := binary.LittleEndian.Uint32(b)
	if n == 0 || n > maxPayload {
		return nil, errLength
	}
	if uint64(len(b)-recordHead) < uint64(n) {
		return nil, errShort
	}
	payload := b[recordHead : recordHead+int(n)]
	if recordSum(b[:4], payload) != binary.LittleEndian.Uint32(b[4:]) {
		return nil, errChecksum
	}
	return payload, nil
}

// entry is the decoded payload of a record of the log.
type entry struct {
	kind  byte
	epoch Epoch  // kindEpoch
	name  string // the sink, kindCommit
	at    int64  // kindCommit, kindTrim
	rest  []byte // the witness, kindCommit
}

func appendEpochRecord(b []byte, e *Epoch) []byte {
	start := len(b)
	b = beginRecord(b)
	b = append(b, kindEpoch, epochFlags(e))
	b = appendName(b, e.Source)
	b = binary.AppendVarint(b, e.Epoch)
	b = binary.AppendVarint(b, e.Prev)
	b = binary.AppendVarint(b, e.Clock)
	b = binary.AppendVarint(b, e.Watermark)
	b = binary.AppendVarint(b, e.Latest)
	b = binary.AppendVarint(b, e.Rows)
	b = append(b, e.Position...)
	sealRecord(b, start)
	return b
}

func appendCommitRecord(b []byte, sink string, epoch int64, witness []byte) []byte {
	start := len(b)
	b = beginRecord(b)
	b = append(b, kindCommit)
	b = appendName(b, sink)
	b = binary.AppendVarint(b, epoch)
	b = append(b, witness...)
	sealRecord(b, start)
	return b
}

func appendTrimRecord(b []byte, epoch int64) []byte {
	start := len(b)
	b = beginRecord(b)
	b = append(b, kindTrim)
	b = binary.AppendVarint(b, epoch)
	sealRecord(b, start)
	return b
}

func appendName(b []byte, name string) []byte {
	b = binary.AppendUvarint(b, uint64(len(name)))
	return append(b, name...)
}

func epochFlags(e *Epoch) byte {
	var f byte
	if e.Begun {
		f |= flagBegun
	}
	if e.Idle {
		f |= flagIdle
	}
	if e.End {
		f |= flagEnd
	}
	if e.Stop {
		f |= flagStop
	}
	return f
}

// decodeEntry decodes a payload. What it returns shares memory with it.
func decodeEntry(payload []byte) (entry, error) {
	r := reader{b: payload}
	x := entry{kind: r.byte()}
	switch x.kind {
	case kindEpoch:
		flags := r.byte()
		if flags&^flagsKnown != 0 {
			return entry{}, fmt.Errorf("%w: unknown flags %#x", errPayload, flags)
		}
		e := &x.epoch
		e.Begun, e.Idle, e.End, e.Stop = flags&flagBegun != 0, flags&flagIdle != 0, flags&flagEnd != 0, flags&flagStop != 0
		e.Source = r.name()
		for _, to := range []*int64{&e.Epoch, &e.Prev, &e.Clock, &e.Watermark, &e.Latest, &e.Rows} {
			*to = r.varint()
		}
		e.Position = r.rest()
	case kindCommit:
		x.name, x.at, x.rest = r.name(), r.varint(), r.rest()
	case kindTrim:
		x.at = r.varint()
		r.failed = r.failed || len(r.b) > 0
	default:
		return entry{}, fmt.Errorf("%w: unknown kind %d", errPayload, x.kind)
	}
	if r.failed {
		return entry{}, errPayload
	}
	return x, nil
}

// reader takes values off the beginning of b. Once one is not there, it has failed for good.
type reader struct {
	b      []byte
	failed bool
}

func (r *reader) byte() byte {
	if len(r.b) == 0 {
		r.failed = true
		return 0
	}
	v := r.b[0]
	r.b = r.b[1:]
	return v
}

func (r *reader) varint() int64 {
	v, n := binary.Varint(r.b)
	if n <= 0 {
		r.failed, r.b = true, nil
		return 0
	}
	r.b = r.b[n:]
	return v
}

func (r *reader) name() string {
	v, n := binary.Uvarint(r.b)
	if n <= 0 || v == 0 || v > maxName || v > uint64(len(r.b)-n) {
		r.failed, r.b = true, nil
		return ""
	}
	name := string(r.b[n : n+int(v)])
	r.b = r.b[n+int(v):]
	return name
}

// rest is what is left, nil if that is nothing.
func (r *reader) rest() []byte {
	if len(r.b) == 0 {
		return nil
	}
	b := r.b
	r.b = nil
	return b
}
