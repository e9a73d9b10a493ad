package channel

import (
	"fmt"
	"math"

	"sluice/dataflow"
	"sluice/dataflow/batch"
	"sluice/internal/protocol"
)

// ReceiverConfig is what a Receiver is made of.
type ReceiverConfig struct {
	Channel string           // for error messages
	Schema  *dataflow.Schema // of the rows
	// From is where the consuming task was restored: it wants what comes behind. It is After(c) for
	// checkpoint c, also for checkpoint 0, the empty state.
	From Position
	// Generation is the least one of a producer that is listened to.
	Generation int64
	// Window is how many bytes may be on the way or waiting; 0 is DefaultWindow.
	Window int64
	Off    protocol.Off
}

// Counters count what a Receiver has seen.
type Counters struct {
	Rows       int64 // delivered
	Duplicates int64 // rows and marks that had been received before
	Gaps       int64 // that made it ask again
	Fenced     int64 // messages of producers that are no more, or not to be yet
}

// Receiver is the consumer's end of a channel: it takes messages of one or several instances of the
// producer in turn, and gives each row and each mark once and in order. It is used by one goroutine, and
// its methods never wait.
type Receiver struct {
	cfg      ReceiverConfig
	codec    *codec
	counters Counters

	pos   Position
	ended bool
	// sum covers the rows of epoch pos.Epoch, if whole: from its first row on.
	sum   rowSum
	whole bool

	queue []Delivery // received and not delivered
	head  int
	free  []*batch.Batch

	// fence is the least generation that is listened to, limit the highest, if it is known. peer is the one of the
	// session, if there has been one.
	fence, limit int64
	peer         int64
	heard        bool
	session      int64
	hello        int64 // the connection that the session answers; 0 if no hello made it begin
	// silent: nothing of the session has arrived yet. fruitless: nothing of it has been taken yet.
	silent, fruitless    bool
	resumeDue, creditDue bool
	askedAt, now         int64

	// Credit, in bytes: received in the session, held by what is not released, granted in the session by
	// what has been said.
	received, held, granted int64
	pressure                bool

	trimmed   int64
	isTrimmed bool
}

// NewReceiver makes a Receiver.
func NewReceiver(cfg ReceiverConfig) *Receiver {
	if cfg.Window <= 0 {
		cfg.Window = DefaultWindow
	}
	r := &Receiver{cfg: cfg, codec: newCodec(cfg.Schema), pos: cfg.From, fence: cfg.Generation, limit: math.MaxInt64}
	r.whole = cfg.From.Row == 0 || cfg.From.Row == MarkRow
	r.sum.reset(len(cfg.Schema.Columns))
	return r
}

// Receive takes a message of the producer, which belongs to the receiver from then on. generation is what
// the connection says of the producer; the message has it too. What the message delivers is there with
// Deliver, what it asks for with Next. ErrDamaged says that the message was dropped, which is as if it had
// been lost; any other error is the end of the task.
func (r *Receiver) Receive(generation int64, msg []byte) error {
	msg = aligned(msg)
	h, err := readHeader(msg)
	if err != nil {
		return fmt.Errorf("%s: %w", r.cfg.Channel, err)
	}
	if h.kind >= kindResume {
		return fmt.Errorf("%w: %s: a producer does not send kind %d", ErrDamaged, r.cfg.Channel, h.kind)
	}
	if h.session == maxSession {
		return fmt.Errorf("%w: %s: no session comes after %d", ErrDamaged, r.cfg.Channel, h.session)
	}
	if !r.Hears(generation) || !r.Hears(h.generation) {
		r.counters.Fenced++
		return nil
	}
	r.fence = max(r.fence, h.generation)
	if !r.current(&h) {
		return nil
	}
	r.silent = false
	switch h.kind {
	case kindTail:
		r.tail(&h)
		return nil
	case kindTrimmed:
		r.trimmed, r.isTrimmed = max(r.trimmed, h.epoch), true
		return nil
	}
	if err := r.piece(&h, msg); err != nil {
		return fmt.Errorf("%s: %w", r.cfg.Channel, err)
	}
	return nil
}

// current reports whether a message belongs to the session. If the producer shows that it is in none, or in
// one that this receiver has not begun, it begins a new one.
func (r *Receiver) current(h *header) bool {
	same := r.heard && h.generation == r.peer
	switch {
	case same && h.kind == kindHello && h.row == r.hello:
		r.resumeDue = r.resumeDue || r.silent // else it got its answer meanwhile
		return false
	case !same || h.kind == kindHello || h.session > r.session:
		r.begin(h)
		return false
	}
	return h.session == r.session // else it is left over from one before
}

// begin begins a session with the producer of h.
func (r *Receiver) begin(h *header) {
	if h.kind == kindHello {
		r.hello = h.row
	} else if !r.heard || r.peer != h.generation {
		r.hello = 0
	}
	r.heard, r.peer = true, h.generation
	r.session = max(r.session, h.session) + 1
	r.received, r.granted = 0, 0
	r.silent, r.fruitless, r.resumeDue, r.creditDue = true, true, true, false
}

// gap asks for what is missing. If the last answer did not help, Tick asks, lest two ends that do not
// understand each other keep busy.
func (r *Receiver) gap(h *header) {
	again := r.fruitless
	r.counters.Gaps++
	r.begin(h)
	r.resumeDue = !again
}

// tail compares how far the producer is with how far this end is.
func (r *Receiver) tail(h *header) {
	r.received = max(r.received, min(h.offset, maxOffset))
	missesEnd := h.flags&flagEnd != 0 && !r.ended && r.cfg.Off.On(protocol.EndAny)
	if r.pos.Less(Position{h.epoch, h.row}) || missesEnd {
		r.gap(h)
		return
	}
	r.creditDue = true
}

// verdict is what becomes of a piece of the stream.
type verdict int

const (
	take verdict = iota
	drop
	ask
	differ
)

// piece takes rows or a mark of the session.
func (r *Receiver) piece(h *header, msg []byte) error {
	// The offset, not the message, is what counts for the credit: so it does not matter how often a
	// transport brings it, nor whether one before it was lost.
	r.received = max(r.received, h.offset+int64(len(msg)))
	if r.held > 2*r.cfg.Window+MaxFrame {
		return fmt.Errorf("%w: the producer takes more credit than it has: %d bytes wait", ErrDamaged, r.held)
	}
	switch r.judge(h) {
	case take:
		if h.kind == kindMark {
			return r.takeMark(h, int64(len(msg)))
		}
		return r.takeRows(h, msg)
	case ask:
		r.gap(h)
	case differ:
		return fmt.Errorf("%w: epoch %d ends behind row %d, and %d have been received", ErrDiffers, h.epoch, h.row, r.pos.Row)
	default:
		r.counters.Duplicates += max(1, int64(h.rows))
		r.returned()
	}
	return nil
}

// judge compares a piece with the position.
func (r *Receiver) judge(h *header) verdict {
	if h.kind == kindMark && h.flags&flagEnd != 0 {
		switch {
		case r.ended:
			return drop
		case !r.pos.Less(After(h.epoch)) && r.cfg.Off.On(protocol.EndAny):
			return take
		}
	}
	next := int64(0) // the next row of the piece's epoch
	switch {
	case h.epoch < r.pos.Epoch || h.epoch == r.pos.Epoch && r.pos.Row == MarkRow:
		return r.old()
	case h.epoch == r.pos.Epoch:
		next = r.pos.Row
	case r.pos.Less(After(h.prev)) && r.cfg.Off.On(protocol.Prev):
		return ask
	}
	if h.row > next {
		return ask
	}
	if h.kind == kindMark {
		if h.row < next {
			return differ
		}
		return take
	}
	if h.row+int64(h.rows) <= next {
		return r.old()
	}
	return take
}

// old is what becomes of what has been received before.
func (r *Receiver) old() verdict {
	if r.cfg.Off.On(protocol.Dedup) {
		return drop
	}
	return take
}

// takeRows delivers a frame's rows, without those that have been received.
func (r *Receiver) takeRows(h *header, msg []byte) error {
	b := r.batch()
	if err := r.codec.decode(h, msg, b); err != nil {
		r.free = append(r.free, b)
		return err
	}
	r.enter(h.epoch)
	row := h.row
	if known := r.pos.Row - h.row; known > 0 && r.cfg.Off.On(protocol.Dedup) {
		r.counters.Duplicates += known
		b, row = tailOf(b, int(known)), r.pos.Row
	}
	r.pos = Position{h.epoch, row + int64(b.Len)}
	if r.whole {
		r.sum.add(b)
	}
	r.counters.Rows += int64(b.Len)
	r.deliver(Delivery{Epoch: h.epoch, Prev: h.prev, Clock: h.clock, Row: row, Rows: b, Cost: int64(len(msg))})
	return nil
}

// tailOf is a copy of the rows of b from from on.
func tailOf(b *batch.Batch, from int) *batch.Batch {
	b.Sel = make([]int32, 0, b.Len-from)
	for i := from; i < b.Len; i++ {
		b.Sel = append(b.Sel, int32(i))
	}
	t := &batch.Batch{}
	t.CopyFrom(b)
	return t
}

// enter begins an epoch unless it has begun.
func (r *Receiver) enter(epoch int64) {
	if r.pos.Epoch == epoch && r.pos.Row != MarkRow {
		return
	}
	r.pos = Position{epoch, 0}
	r.whole = true
	r.sum.reset(len(r.cfg.Schema.Columns))
}

func (r *Receiver) takeMark(h *header, size int64) error {
	m := h.mark()
	if r.pos.Less(After(h.epoch)) {
		r.enter(h.epoch)
		if r.whole && r.sum.value() != h.number && r.cfg.Off.On(protocol.Dedup) {
			return fmt.Errorf("%w: the checksum of the %d rows of epoch %d", ErrDiffers, h.row, h.epoch)
		}
		r.pos = After(h.epoch)
	}
	r.ended = r.ended || m.End
	r.deliver(Delivery{Epoch: h.epoch, Prev: h.prev, Clock: h.clock, Row: h.row, Mark: m, Sum: h.number, Cost: size})
	return nil
}

func (r *Receiver) deliver(d Delivery) {
	r.fruitless = false
	r.held += d.Cost
	r.queue = append(r.queue, d)
}

// Deliver returns what is next in the stream, if it has arrived.
func (r *Receiver) Deliver() (Delivery, bool) {
	if r.head == len(r.queue) {
		return Delivery{}, false
	}
	d := r.queue[r.head]
	r.queue[r.head] = Delivery{}
	r.head++
	if r.head == len(r.queue) {
		r.queue, r.head = r.queue[:0], 0
	}
	return d, true
}

// Release says that a delivery has been worked on and is not needed any more.
func (r *Receiver) Release(d Delivery) {
	r.held -= d.Cost
	if d.Rows != nil {
		clear(d.Rows.Cols) // lest it keeps the message
		d.Rows.RowWatermarks = nil
		r.free = append(r.free, d.Rows)
	}
	r.returned()
}

// batch returns a batch for a view.
func (r *Receiver) batch() *batch.Batch {
	if n := len(r.free); n > 0 {
		b := r.free[n-1]
		r.free = r.free[:n-1]
		return b
	}
	return &batch.Batch{}
}

// grant is how much the producer may have sent in the session.
func (r *Receiver) grant() int64 { return r.received + r.cfg.Window - r.held }

// returned sees whether enough credit has come back to say so.
func (r *Receiver) returned() {
	if r.heard && r.grant()-r.granted >= quarter(r.cfg.Window) {
		r.creditDue = true
	}
}

// Next returns what to send to the producer, if there is anything.
func (r *Receiver) Next() ([]byte, bool) {
	if !r.resumeDue && !r.creditDue || !r.heard {
		return nil, false
	}
	h := header{kind: kindCredit, generation: r.peer, session: r.session, epoch: r.pos.Epoch, row: r.pos.Row,
		number: uint64(r.cfg.Window)}
	if r.resumeDue {
		h.kind, r.askedAt = kindResume, r.now
	}
	r.resumeDue, r.creditDue = false, false
	r.granted = max(r.granted, r.grant())
	h.offset = r.granted
	if r.pressure {
		h.flags |= flagPressure
	}
	if r.ended {
		h.flags |= flagEnd
	}
	return h.message(), true
}

// Hears reports whether the receiver listens to producers of a generation.
func (r *Receiver) Hears(generation int64) bool {
	return r.fence <= generation && generation <= r.limit || !r.cfg.Off.On(protocol.Fence)
}

// Fence makes the receiver deaf to producers of all generations but this one, until a higher one is named. A producer is
// launched when its consumers have been told its generation, so a higher one is nobody's.
func (r *Receiver) Fence(generation int64) {
	r.fence = max(r.fence, generation)
	r.limit = r.fence
	if r.peer < r.fence && r.cfg.Off.On(protocol.Fence) {
		r.heard, r.silent = false, false
	}
}

// SetPressure tells the producer that sources should brake, or need not any more.
func (r *Receiver) SetPressure(on bool) {
	if on != r.pressure {
		r.pressure, r.creditDue = on, true
	}
}

// Tick tells the time, in microseconds. A request that has not been answered for a while is repeated.
func (r *Receiver) Tick(now int64) {
	r.now = now
	if r.silent && now-r.askedAt >= repeatAfter {
		r.resumeDue = true
	}
}

// Position is behind what has been received, delivered or not.
func (r *Receiver) Position() Position { return r.pos }

// Ended reports whether END has been received.
func (r *Receiver) Ended() bool { return r.ended }

// Trimmed reports whether the producer has no more what this consumer needs, and the checkpoint up to
// which it has forgotten: the task has to be restored from that one or a later one.
func (r *Receiver) Trimmed() (epoch int64, ok bool) { return r.trimmed, r.isTrimmed }

// Skip says that what comes up to the end of an epoch is not wanted any more, since it has come another way. A
// producer that has trimmed no more than that is asked again.
func (r *Receiver) Skip(epoch int64) {
	if at := After(epoch); r.pos.Less(at) {
		r.pos, r.whole = at, true
		r.sum.reset(len(r.cfg.Schema.Columns))
	}
	if r.isTrimmed && r.trimmed <= epoch {
		r.trimmed, r.isTrimmed = 0, false
		r.begin(&header{generation: r.peer, session: r.session})
	}
}

// Counters returns what has been seen so far.
func (r *Receiver) Counters() Counters { return r.counters }
