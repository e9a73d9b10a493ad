package format

import (
	"encoding/binary"
	"fmt"
)

// Epoch is state.Epoch.
type Epoch struct {
	Source    string
	Epoch     int64
	Prev      int64
	Clock     int64
	Watermark int64
	Latest    int64
	Begun     bool
	Rows      int64
	Idle      bool
	End       bool
	Stop      bool
	Position  []byte
}

// The first byte of a payload of the log is its kind.
const (
	KindEpoch  = 1
	KindCommit = 2
	KindTrim   = 3
)

// Flags of an epoch.
const (
	flagBegun = 1 << iota
	flagIdle
	flagEnd
	flagStop
	flagsKnown = 1<<iota - 1
)

// Entry is the decoded payload of a record of the log.
type Entry struct {
	Kind  byte
	Epoch Epoch  // KindEpoch
	Name  string // the sink, KindCommit
	At    int64  // KindCommit, KindTrim
	Rest  []byte // the witness, KindCommit
}

// AppendEpoch appends a record with an epoch.
func AppendEpoch(b []byte, e *Epoch) []byte {
	start := len(b)
	b = Begin(b)
	b = append(b, KindEpoch, epochFlags(e))
	b = AppendName(b, e.Source)
	b = binary.AppendVarint(b, e.Epoch)
	b = binary.AppendVarint(b, e.Prev)
	b = binary.AppendVarint(b, e.Clock)
	b = binary.AppendVarint(b, e.Watermark)
	b = binary.AppendVarint(b, e.Latest)
	b = binary.AppendVarint(b, e.Rows)
	b = append(b, e.Position...)
	Seal(b, start)
	return b
}

// AppendCommit appends a record with a commit of a sink.
func AppendCommit(b []byte, sink string, epoch int64, witness []byte) []byte {
	start := len(b)
	b = Begin(b)
	b = append(b, KindCommit)
	b = AppendName(b, sink)
	b = binary.AppendVarint(b, epoch)
	b = append(b, witness...)
	Seal(b, start)
	return b
}

// AppendTrim appends a record that says to which epoch the log has been trimmed.
func AppendTrim(b []byte, epoch int64) []byte {
	start := len(b)
	b = Begin(b)
	b = append(b, KindTrim)
	b = binary.AppendVarint(b, epoch)
	Seal(b, start)
	return b
}

// AppendName appends what Reader.Name takes off.
func AppendName(b []byte, name string) []byte {
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

// DecodeEntry decodes a payload. What it returns shares memory with it.
func DecodeEntry(payload []byte) (Entry, error) {
	r := Reader{B: payload}
	x := Entry{Kind: r.Byte()}
	switch x.Kind {
	case KindEpoch:
		flags := r.Byte()
		if flags&^flagsKnown != 0 {
			return Entry{}, fmt.Errorf("%w: unknown flags %#x", ErrPayload, flags)
		}
		e := &x.Epoch
		e.Begun, e.Idle, e.End, e.Stop = flags&flagBegun != 0, flags&flagIdle != 0, flags&flagEnd != 0, flags&flagStop != 0
		e.Source = r.Name()
		for _, to := range []*int64{&e.Epoch, &e.Prev, &e.Clock, &e.Watermark, &e.Latest, &e.Rows} {
			*to = r.Varint()
		}
		e.Position = r.Rest()
	case KindCommit:
		x.Name, x.At, x.Rest = r.Name(), r.Varint(), r.Rest()
	case KindTrim:
		x.At = r.Varint()
		r.Failed = r.Failed || len(r.B) > 0
	default:
		return Entry{}, fmt.Errorf("%w: unknown kind %d", ErrPayload, x.Kind)
	}
	if r.Failed {
		return Entry{}, ErrPayload
	}
	return x, nil
}
