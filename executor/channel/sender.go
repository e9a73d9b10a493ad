package channel

import (
	"fmt"
	"math"

	"sluice/dataflow"
	"sluice/dataflow/batch"
	"sluice/internal/protocol"
	"sluice/operators"
)

// SenderConfig is what a Sender is made of.
type SenderConfig struct {
	Channel    string           // for error messages
	Generation int64            // of the producing task
	Schema     *dataflow.Schema // of the rows
	// Start is where the producing task was restored: what is at or below it cannot be asked for.
	Start Position
	// Frame is what a message stays below unless a single row is larger, in bytes; 0 is 1 MiB.
	Frame int
	// Message is what a message may have at most, in bytes; 0 is MaxFrame.
	Message int
	// Store is shared with other senders.
	Store *Retention
	Off   protocol.Off
}

// Sender is the producer's end of a channel: it retains what the task emits and sends it as the consumer
// asks and allows. It is used by one goroutine, and its methods never wait, but for the disk.
type Sender struct {
	cfg   SenderConfig
	codec *codec
	shelf shelf
	err   error

	// The epoch that is open, if open is set. rows counts what has been encoded of it.
	open               bool
	epoch, prev, clock int64
	rows               int64
	sum                rowSum
	// marked is the last epoch with a mark, if there has been one.
	marked    int64
	hasMarked bool
	// pending are rows of the open epoch that wait to be one frame with others.
	pending    *batch.Batch
	watermarks []int64     // memory for those of pending's rows
	view       batch.Batch // of the frame being made
	// smallRows is what a batch has at most that waits for others.
	smallRows int

	// end is the frame of END, which is never trimmed.
	end *frame
	// low is the place behind the last thing that is gone, and trimmed the checkpoint up to which. What was
	// last before Start shows when the first epoch begins, for that names the one before it; begun is set then.
	low     Position
	trimmed int64
	begun   bool

	flow
}

const (
	// smallRows and smallBytes bound the batches that wait for others of their epoch.
	smallRows  = batch.TargetRows / 4
	smallBytes = 64 << 10
)

// NewSender makes a Sender that is not connected.
func NewSender(cfg SenderConfig) *Sender {
	s := &Sender{cfg: cfg, codec: newCodec(cfg.Schema), shelf: shelf{store: cfg.Store},
		pending: batch.New(cfg.Schema), smallRows: smallRows, low: cfg.Start, trimmed: cfg.Start.Epoch}
	if cfg.Frame > 0 {
		s.codec.target = cfg.Frame
	}
	if cfg.Message > 0 {
		s.codec.most = min(cfg.Message, MaxFrame)
	}
	s.codec.target = min(s.codec.target, s.codec.most)
	s.acknowledged, s.limit = cfg.Start, math.MaxInt64
	return s
}

// Rows takes rows of an epoch; prev is the epoch before it, clock the epoch's. It encodes and retains
// them, so that b stays the caller's.
func (s *Sender) Rows(epoch, prev, clock int64, b *batch.Batch) error {
	if err := s.begin(epoch, prev, clock); err != nil {
		return err
	}
	if err := s.check(b); err != nil || b.Rows() == 0 {
		return err
	}
	if s.small(b) {
		return s.wait(b)
	}
	if err := s.flush(); err != nil {
		return err
	}
	if b.Sel == nil {
		return s.encode(b)
	}
	s.pending.CopyFrom(b)
	return s.flush()
}

// begin opens the epoch unless it is open already.
func (s *Sender) begin(epoch, prev, clock int64) error {
	switch {
	case s.end != nil:
		return fmt.Errorf("%w: %s: epoch %d after the end", ErrOrder, s.cfg.Channel, epoch)
	case s.open && epoch == s.epoch:
		return nil
	case s.open:
		return fmt.Errorf("%w: %s: epoch %d before the mark of epoch %d", ErrOrder, s.cfg.Channel, epoch, s.epoch)
	case prev >= epoch || s.hasMarked && prev != s.marked:
		return fmt.Errorf("%w: %s: epoch %d after epoch %d, but the last mark was that of %d", ErrOrder, s.cfg.Channel, epoch, prev, s.marked)
	case epoch <= s.cfg.Start.Epoch:
		return fmt.Errorf("%w: %s: epoch %d, but the task was restored behind %d", ErrOrder, s.cfg.Channel, epoch, s.cfg.Start.Epoch)
	}
	s.open, s.epoch, s.prev, s.clock, s.rows = true, epoch, prev, clock, 0
	s.sum.reset(len(s.cfg.Schema.Columns))
	s.first(prev)
	return nil
}

// first takes note of the last epoch before the first one of this sender. Checkpoints are crossed: a
// consumer behind that epoch has all that came before Start, although its position is lower.
func (s *Sender) first(last int64) {
	if s.begun {
		return
	}
	s.begun = true
	if p := After(last); p.Less(s.low) {
		s.low = p
	}
	s.refuseIfGone()
}

// check makes sure that b has the columns that the frames will say it has.
func (s *Sender) check(b *batch.Batch) error {
	want := s.cfg.Schema.Columns
	if len(b.Cols) != len(want) {
		return fmt.Errorf("channel: %s: a batch of %d columns where the stream has %d", s.cfg.Channel, len(b.Cols), len(want))
	}
	for i := range b.Cols {
		if b.Cols[i].Type != want[i].Type {
			return fmt.Errorf("channel: %s: column %q is %s in a batch, %s in the stream", s.cfg.Channel, want[i].Name, b.Cols[i].Type, want[i].Type)
		}
	}
	return nil
}

// small reports whether b should wait for more rows.
func (s *Sender) small(b *batch.Batch) bool {
	if b.Rows() > s.smallRows {
		return false
	}
	text := 0
	for i := range b.Cols {
		if v := &b.Cols[i]; isText(v.Type) {
			text += int(v.Offsets[b.Len] - v.Offsets[0])
		}
	}
	if b.Sel != nil && b.Len > 0 {
		text = text / b.Len * len(b.Sel) // about
	}
	return text <= smallBytes
}

// wait adds a small batch to those that wait, and encodes them when they are enough.
func (s *Sender) wait(b *batch.Batch) error {
	if s.pending.Len == 0 {
		s.pending.CopyFrom(b)
		return nil
	}
	s.joinWatermarks(b)
	s.pending.Extend(b)
	if s.pending.Len < batch.TargetRows && s.codec.size(s.pending, 0, s.pending.Len, s.codec.rowBits(s.pending)) < s.codec.target/2 {
		return nil
	}
	return s.flush()
}

// joinWatermarks adds the watermarks of b's rows to those of the rows that wait.
func (s *Sender) joinWatermarks(b *batch.Batch) {
	p := s.pending
	if p.RowWatermarks == nil {
		if b.RowWatermarks == nil && b.Watermark == p.Watermark {
			return
		}
		p.RowWatermarks = s.watermarks[:0]
		for range p.Len {
			p.RowWatermarks = append(p.RowWatermarks, p.Watermark)
		}
	}
	for i := range b.Rows() {
		row := i
		if b.Sel != nil {
			row = int(b.Sel[i])
		}
		p.RowWatermarks = append(p.RowWatermarks, b.RowWatermark(row))
	}
}

// flush encodes the rows that wait.
func (s *Sender) flush() error {
	if s.pending.Len == 0 {
		return nil
	}
	err := s.encode(s.pending)
	if s.pending.RowWatermarks != nil {
		s.watermarks = s.pending.RowWatermarks
	}
	s.pending.Reset()
	s.pending.RowWatermarks = nil
	return err
}

// encode makes frames of a batch without a selection and retains them.
func (s *Sender) encode(b *batch.Batch) error {
	for from := 0; from < b.Len; {
		to := s.codec.cut(b, from)
		h := header{kind: kindRows, generation: s.cfg.Generation, epoch: s.epoch, prev: s.prev, row: s.rows, clock: s.clock}
		msg, err := s.codec.encode(&h, b, from, to, &s.view)
		if err != nil {
			return fmt.Errorf("%s: %w", s.cfg.Channel, err)
		}
		s.sum.add(&s.view)
		s.rows += int64(to - from)
		s.retain(Position{s.epoch, s.rows}, msg)
		from = to
	}
	clear(s.view.Cols) // lest it keeps the frame
	return nil
}

// Mark ends an epoch, and the channel if it says so. An END without rows of its own may name an epoch that
// had its mark already, as a task says that is restored when all its input is over.
func (s *Sender) Mark(m operators.Mark) error {
	again := m.End && !s.open && (s.hasMarked && m.Epoch <= s.marked || m.Epoch <= s.cfg.Start.Epoch)
	switch {
	case s.end != nil:
		return fmt.Errorf("%w: %s: a mark of epoch %d after the end", ErrOrder, s.cfg.Channel, m.Epoch)
	case again:
		s.rows = 0
		s.sum.reset(len(s.cfg.Schema.Columns))
		s.first(m.Epoch)
	default:
		if err := s.begin(m.Epoch, m.Prev, m.Clock); err != nil {
			return err
		}
	}
	if err := s.flush(); err != nil {
		return err
	}
	h := header{kind: kindMark, flags: markFlags(m), generation: s.cfg.Generation, epoch: m.Epoch, prev: m.Prev,
		row: s.rows, clock: m.Clock, watermark: m.Watermark, number: s.sum.value()}
	s.open = false
	msg := h.message()
	if m.End {
		s.end = &frame{end: After(m.Epoch), size: int64(len(msg)), msg: msg}
		return nil
	}
	s.marked, s.hasMarked = m.Epoch, true
	s.retain(After(m.Epoch), msg)
	return nil
}

func markFlags(m operators.Mark) (flags uint8) {
	if m.Idle {
		flags |= flagIdle
	}
	if m.End {
		flags |= flagEnd
	}
	if m.Stop {
		flags |= flagStop
	}
	return flags
}

func (h *header) mark() operators.Mark {
	return operators.Mark{Epoch: h.epoch, Prev: h.prev, Watermark: h.watermark, Clock: h.clock,
		Idle: h.flags&flagIdle != 0, End: h.flags&flagEnd != 0, Stop: h.flags&flagStop != 0}
}

// retain puts a frame on the shelf.
func (s *Sender) retain(end Position, msg []byte) {
	s.shelf.add(end, msg)
	s.skip()
}

// Trim forgets all epochs up to epoch, whose checkpoint is complete. END stays.
func (s *Sender) Trim(epoch int64) {
	n := 0
	for n < len(s.shelf.frames) && s.shelf.frames[n].end.Epoch <= epoch {
		n++
	}
	if n > 0 {
		s.low = s.shelf.frames[n-1].end
	}
	s.trimmed = max(s.trimmed, epoch)
	s.shelf.drop(n)
	s.cursor = max(0, s.cursor-n)
	s.refuseIfGone()
}

// Close forgets everything and gives memory and disk back.
func (s *Sender) Close() {
	s.Disconnect()
	s.shelf.close()
	s.cursor = 0
}

// Retained is how many bytes are retained.
func (s *Sender) Retained() int64 { return s.shelf.bytes }

// Err is why the sender can send no more, or nil: rows that it should have retained are lost. The task
// has to be launched anew.
func (s *Sender) Err() error { return s.err }
