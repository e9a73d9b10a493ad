package channel

import (
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"sync"
	"sync/atomic"
)

const (
	// segmentSize is when a spill file is full and the next one begins, in bytes.
	segmentSize = 16 << 20
	// spillBatch is how much a sender writes at a time, in bytes, unless the budget is small.
	spillBatch = 256 << 10
)

// Retention is the memory and the disk that the senders of a process share for what they retain. It may
// be used by several goroutines; each sender's frames are the sender's own.
//
// While all senders together are above the budget, a sender that retains more writes its oldest frames to
// a file of its own, that has no name any more. Frames that the disk does not take stay in memory.
type Retention struct {
	memory  int64 // budget in bytes
	create  func() (SpillFile, error)
	batch   int64
	used    atomic.Int64 // bytes in memory
	spilled atomic.Int64 // bytes on disk

	mu  sync.Mutex
	err error // of the last try to write
}

// NewRetention makes a budget of memory bytes. spillDir is a folder for temporary files; "" keeps all in
// memory, whatever the budget.
func NewRetention(memory int64, spillDir string) *Retention {
	if spillDir == "" {
		return NewRetentionIn(memory, nil)
	}
	return NewRetentionIn(memory, func() (SpillFile, error) { return createSpill(spillDir) })
}

// NewRetentionIn is NewRetention with files that create makes, such as those of a simulated disk; nil keeps all in memory.
func NewRetentionIn(memory int64, create func() (SpillFile, error)) *Retention {
	return &Retention{memory: memory, create: create, batch: max(1, min(spillBatch, memory/8))}
}

// SpillFile is a file that is of no use to anybody else and is gone when it is closed. It is used by one goroutine.
type SpillFile interface {
	io.WriterAt
	io.ReaderAt
	io.Closer
}

// createSpill makes a file that has no name any more.
func createSpill(dir string) (SpillFile, error) {
	f, err := os.CreateTemp(dir, "retained-*")
	if err != nil {
		return nil, err
	}
	if err := os.Remove(f.Name()); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// Memory is how many bytes are retained in memory.
func (r *Retention) Memory() int64 { return r.used.Load() }

// Spilled is how many bytes are retained on disk.
func (r *Retention) Spilled() int64 { return r.spilled.Load() }

// Err is why rows could not be spilled when that was tried last, or nil.
func (r *Retention) Err() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err
}

// Full reports that the budget is used up and the disk takes nothing: sources should brake.
func (r *Retention) Full() bool { return r.used.Load() > r.memory && r.Err() != nil }

func (r *Retention) setErr(err error) {
	r.mu.Lock()
	r.err = err
	r.mu.Unlock()
}

// frame is a retained message.
type frame struct {
	end  Position // the place behind it
	at   int64    // bytes of all frames of the channel before it
	size int64
	msg  []byte // nil if it is on disk
	sent bool   // msg has been given away and must not be changed any more
	file *segment
	off  int64 // in file
}

// segment is a file with frames in the order of the stream.
type segment struct {
	file SpillFile
	size int64
	live int // frames in it that are retained
}

// shelf is what one sender retains, in the order of the stream. frames[:disk] are on disk, the others in
// memory.
type shelf struct {
	store  *Retention
	frames []frame
	disk   int
	bytes  int64 // retained
	total  int64 // bytes of all frames there have been
	memory int64 // bytes of those in memory
	last   *segment
	buf    []byte
}

// add retains a frame, and spills older ones if the budget is used up.
func (s *shelf) add(end Position, msg []byte) {
	n := int64(len(msg))
	s.frames = append(s.frames, frame{end: end, at: s.total, size: n, msg: msg})
	s.total += n
	s.bytes += n
	s.memory += n
	s.store.used.Add(n)
	if s.store.create != nil && s.store.used.Load() > s.store.memory && s.memory >= s.store.batch {
		s.store.setErr(s.spill())
	}
}

// again tries to spill after the disk took nothing: sources brake until it does, so perhaps nothing is added any more.
func (s *shelf) again() {
	if s.store.Full() && s.disk < len(s.frames) {
		s.store.setErr(s.spill())
	}
}

// drop forgets the first n frames.
func (s *shelf) drop(n int) {
	for i := range s.frames[:n] {
		f := &s.frames[i]
		s.bytes -= f.size
		if f.file == nil {
			s.memory -= f.size
			s.store.used.Add(-f.size)
			continue
		}
		s.store.spilled.Add(-f.size)
		s.leave(f.file)
	}
	rest := copy(s.frames, s.frames[n:])
	clear(s.frames[rest:])
	s.frames = s.frames[:rest]
	s.disk = max(0, s.disk-n)
}

// leave takes one frame from a segment, and gives its space back when it was the last one.
func (s *shelf) leave(g *segment) {
	g.live--
	s.closeUnused(g)
}

// closeUnused closes a segment that has no frames.
func (s *shelf) closeUnused(g *segment) {
	if g.live > 0 {
		return
	}
	g.file.Close() // of no use any more, whatever Close says
	if g == s.last {
		s.last = nil
	}
}

// close forgets everything.
func (s *shelf) close() { s.drop(len(s.frames)) }

// spill writes frames from the oldest one in memory on, about store.batch bytes of them, and forgets
// their memory when they are written.
func (s *shelf) spill() error {
	to, n := s.disk, int64(0)
	for to < len(s.frames) && (n == 0 || n+s.frames[to].size <= s.store.batch) {
		n += s.frames[to].size
		to++
	}
	g, err := s.segment()
	if err != nil {
		return err
	}
	if err := s.write(g, s.frames[s.disk:to]); err != nil {
		s.closeUnused(g)
		return fmt.Errorf("retained rows stay in memory: %w", err)
	}
	off := g.size
	for i := s.disk; i < to; i++ {
		f := &s.frames[i]
		f.msg, f.sent, f.file, f.off = nil, false, g, off
		off += f.size
	}
	g.size, g.live = off, g.live+to-s.disk
	s.disk = to
	s.memory -= n
	s.store.used.Add(-n)
	s.store.spilled.Add(n)
	return nil
}

// write writes frames at the end of a segment; what a failed try left there is written over by the next.
func (s *shelf) write(g *segment, frames []frame) error {
	out := frames[0].msg
	if len(frames) > 1 {
		out = s.buf[:0]
		for i := range frames {
			out = append(out, frames[i].msg...)
		}
		s.buf = out
	}
	_, err := g.file.WriteAt(out, g.size)
	return err
}

// segment is the file to write to.
func (s *shelf) segment() (*segment, error) {
	if s.last != nil && s.last.size < segmentSize {
		return s.last, nil
	}
	f, err := s.store.create()
	if err != nil {
		return nil, fmt.Errorf("retained rows stay in memory: %w", err)
	}
	s.last = &segment{file: f}
	return s.last, nil
}

// load returns the message of frame i, from memory or from disk, that may be changed.
func (s *shelf) load(i int) ([]byte, error) {
	f := &s.frames[i]
	if f.file == nil && !f.sent {
		f.sent = true
		return f.msg, nil
	}
	msg := make([]byte, f.size)
	if f.file == nil {
		copy(msg, f.msg)
		return msg, nil
	}
	if _, err := f.file.file.ReadAt(msg, f.off); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrSpill, err)
	}
	h, err := readHeader(msg)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrSpill, err)
	}
	if h.body != 0 && crc32.Checksum(msg[headSize:], castagnoli) != h.bodySum {
		return nil, fmt.Errorf("%w: the checksum of a frame on disk is wrong", ErrSpill)
	}
	return msg, nil
}
