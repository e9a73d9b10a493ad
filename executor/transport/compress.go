package transport

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"
	"sync"

	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
)

// The first byte of a message of a Compressed transport.
const (
	packedNot  = 0 // the message follows
	packedLZ4  = 1 // its size as a varint, then an LZ4 block
	packedZstd = 2 // its size as a varint, then a Zstandard frame
)

const (
	// compressFrom is the size of the smallest message that is compressed, in bytes.
	compressFrom = 512
	// lz4Ratio is more than an LZ4 block can expand.
	lz4Ratio = 256
)

// compressed wraps a transport; its connections compress what they send and read both formats.
type compressed struct {
	t      Transport
	encode func(to, msg []byte) []byte // into the room of to; nil if that does not pay
	rooms  sync.Pool                   // of *[]byte: what waits should hold no more memory than its bytes
	lz4    sync.Pool                   // of *lz4.Compressor
	enc    *zstd.Encoder
	dec    *zstd.Decoder
}

// Compressed makes a transport that compresses the messages of t: kind is "lz4", which is fast, "zstd", which is
// smaller, or "none", which gives t back. Both ends of a connection have to be wrapped, in either kind; they
// carry one byte less than MaxMessage. Closing it closes t.
func Compressed(t Transport, kind string) (Transport, error) {
	c := &compressed{t: t}
	c.rooms.New = func() any { return new([]byte) }
	c.lz4.New = func() any { return new(lz4.Compressor) }
	switch kind {
	case "none":
		return t, nil
	case "lz4":
		c.encode = c.encodeLZ4
	case "zstd":
		c.encode = c.encodeZstd
	default:
		return nil, fmt.Errorf("transport: compression %q: none, lz4 or zstd is needed", kind)
	}
	var err error
	if c.enc, err = zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderCRC(false)); err != nil {
		return nil, fmt.Errorf("transport: zstd: %w", err)
	}
	if c.dec, err = zstd.NewReader(nil, zstd.WithDecoderMaxMemory(MaxMessage), zstd.WithDecoderMaxWindow(MaxMessage)); err != nil {
		return nil, fmt.Errorf("transport: zstd: %w", err)
	}
	return c, nil
}

// Lossy says what t says.
func (c *compressed) Lossy() bool { return Lossy(c.t) }

func (c *compressed) Listen(addr string, h Handler) (Listener, error) {
	return c.t.Listen(addr, compressedHandler{c, h})
}

func (c *compressed) Dial(addr, channel string, generation int64, h DialHandler) (Conn, error) {
	conn, err := c.t.Dial(addr, channel, generation, compressedDial{c, h})
	if err != nil {
		return nil, err
	}
	return compressedConn{c, conn}, nil
}

func (c *compressed) Close() error {
	err := c.t.Close()
	c.dec.Close()
	return err
}

// pack makes what is sent for a message.
func (c *compressed) pack(msg []byte) []byte {
	if len(msg) >= compressFrom {
		room := c.rooms.Get().(*[]byte)
		defer c.rooms.Put(room)
		*room = slices.Grow((*room)[:0], worth(len(msg)))
		if b := c.encode(*room, msg); b != nil {
			return bytes.Clone(b)
		}
	}
	b := make([]byte, 1+len(msg))
	copy(b[1:], msg)
	return b
}

// worth is the size below which compressing a message pays: the other side has to work too.
func worth(size int) int { return size - size/8 }

func (c *compressed) encodeLZ4(to, msg []byte) []byte {
	b := to[:worth(len(msg))]
	b[0] = packedLZ4
	head := 1 + binary.PutUvarint(b[1:], uint64(len(msg)))
	z := c.lz4.Get().(*lz4.Compressor)
	defer c.lz4.Put(z)
	n, err := z.CompressBlock(msg, b[head:])
	if err != nil || n == 0 { // it does not fit
		return nil
	}
	return b[:head+n]
}

func (c *compressed) encodeZstd(to, msg []byte) []byte {
	b := binary.AppendUvarint(append(to, packedZstd), uint64(len(msg)))
	b = c.enc.EncodeAll(msg, b)
	if len(b) > worth(len(msg)) {
		return nil
	}
	return b
}

// unpack reads what pack made. ok is false for anything else.
func (c *compressed) unpack(b []byte) (msg []byte, ok bool) {
	if len(b) == 0 {
		return nil, false
	}
	if b[0] == packedNot {
		return b[1:], true
	}
	size, n := binary.Uvarint(b[1:])
	if n <= 0 || size > MaxMessage {
		return nil, false
	}
	body := b[1+n:]
	switch b[0] {
	case packedLZ4:
		if size > uint64(len(body))*lz4Ratio {
			return nil, false
		}
		msg = make([]byte, size)
		got, err := lz4.UncompressBlock(body, msg)
		return msg, err == nil && uint64(got) == size
	case packedZstd:
		msg, err := c.dec.DecodeAll(body, make([]byte, 0, min(size, readStep)))
		return msg, err == nil && uint64(len(msg)) == size
	}
	return nil, false
}

// compressedConn is a value, so those of one connection compare equal.
type compressedConn struct {
	c *compressed
	Conn
}

func (c compressedConn) Send(msg []byte) error {
	if len(msg) >= MaxMessage {
		return ErrTooLarge
	}
	return c.Conn.Send(c.c.pack(msg))
}

// compressedHandler drops what its producer has not packed: there is nothing to give to the handler.
type compressedHandler struct {
	c *compressed
	h Handler
}

func (h compressedHandler) Message(channel string, generation int64, msg []byte, back Conn) {
	if m, ok := h.c.unpack(msg); ok {
		h.h.Message(channel, generation, m, compressedConn{h.c, back})
	}
}

type compressedDial struct {
	c *compressed
	h DialHandler
}

func (h compressedDial) Connected() { h.h.Connected() }
func (h compressedDial) Drained()   { drained(h.h) }

func (h compressedDial) Message(msg []byte) {
	if m, ok := h.c.unpack(msg); ok {
		h.h.Message(m)
	}
}
