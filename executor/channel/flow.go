package channel

import (
	"fmt"

	"sluice/internal/protocol"
)

const (
	// repeatAfter is when what has not been answered is said again, in microseconds.
	repeatAfter = 200_000
	// keepAlive is when a producer that has nothing to say says how far it is, in microseconds: a consumer
	// that was launched anew behind the same connection learns that way whom to ask.
	keepAlive = 1_000_000
)

// flow is a Sender's side of the conversation with the consumer.
type flow struct {
	connected bool
	hello     int64 // connections so far
	helloDue  bool
	helloAt   int64
	now       int64

	// session is the highest one that the consumer has named. running: it is this connection's.
	session int64
	running bool
	// refused: the consumer wants what has been trimmed, and is told so instead of anything else.
	refused, refusalDue bool

	limit   int64    // epochs above it are not sent
	cursor  int      // the next of the shelf's frames to send
	sent    Position // behind what has been sent in the session
	endSent bool
	endHeld bool // the consumer has END
	tailDue bool
	tailAt  int64

	// Credit, in bytes of this session: what has been used, what has been granted.
	used, granted, window int64
	acknowledged          Position
	pressure              bool

	last  []byte // what Next returned
	again []byte // what the transport did not take
}

// Connected says that there is a new connection.
func (s *Sender) Connected() {
	s.stop()
	s.connected, s.helloDue = true, true
	s.hello++
}

// Disconnect says that there is no connection any more, and none to come for now.
func (s *Sender) Disconnect() {
	s.stop()
	s.connected, s.helloDue = false, false
}

// stop ends the session.
func (s *Sender) stop() {
	s.running, s.refused, s.refusalDue, s.tailDue = false, false, false, false
	s.pressure, s.last, s.again = false, nil, nil
}

// IsConnected reports whether there is a connection, answered or not.
func (s *Sender) IsConnected() bool { return s.connected }

// Limit says up to which epoch the stream may be sent; all of it may be before it is called. What waits is retained.
func (s *Sender) Limit(epoch int64) { s.limit = epoch }

// Acknowledged is how far the consumer has said that it has received the channel. A consumer that was
// restored takes it back.
func (s *Sender) Acknowledged() Position { return s.acknowledged }

// Pressure reports whether sources should brake, since the consumer says so or the disk takes no more of
// what has to be retained.
func (s *Sender) Pressure() bool { return s.pressure || s.cfg.Store.Full() }

// Unsent is how many bytes have not been sent to the consumer yet, whether it is connected or not.
func (s *Sender) Unsent() int64 {
	n := int64(len(s.again))
	if s.cursor < len(s.shelf.frames) {
		n += s.shelf.total - s.shelf.frames[s.cursor].at
	}
	return n
}

// Message takes a message of the consumer.
func (s *Sender) Message(msg []byte) error {
	h, err := readHeader(msg)
	if err != nil {
		return fmt.Errorf("%s: %w", s.cfg.Channel, err)
	}
	if h.kind != kindResume && h.kind != kindCredit {
		return fmt.Errorf("%w: %s: a consumer does not send kind %d", ErrDamaged, s.cfg.Channel, h.kind)
	}
	if h.number > maxOffset || h.offset > maxOffset || h.offset < -maxOffset {
		return fmt.Errorf("%w: %s: credit of %d, window of %d", ErrDamaged, s.cfg.Channel, h.offset, h.number)
	}
	if h.generation != s.cfg.Generation || !s.connected {
		return nil // it is meant for an instance before, or after
	}
	if h.kind == kindResume {
		s.resume(&h)
		return nil
	}
	if s.running && h.session == s.session {
		s.credit(&h)
	}
	return nil
}

// resume begins a session. One that has begun already was only repeated.
func (s *Sender) resume(h *header) {
	if s.running && h.session == s.session {
		s.credit(h)
	}
	if h.session <= s.session {
		return
	}
	s.stop()
	s.helloDue = false
	s.session, s.running = h.session, true
	s.used, s.granted, s.window = 0, h.offset, int64(h.number)
	s.sent = Position{h.epoch, h.row}
	s.endSent = false
	s.tailDue = true // says that the session has begun
	s.credit(h)
	s.acknowledged = s.sent
	s.cursor = 0
	s.skip()
	s.refuseIfGone()
}

// skip passes over frames that the consumer has already, by its own account.
func (s *Sender) skip() {
	if !s.running {
		return
	}
	for s.cursor < len(s.shelf.frames) && !s.sent.Less(s.shelf.frames[s.cursor].end) {
		s.cursor++
	}
}

func (s *Sender) credit(h *header) {
	s.granted = max(s.granted, h.offset)
	s.pressure, s.endHeld = h.flags&flagPressure != 0, h.flags&flagEnd != 0
	if p := (Position{h.epoch, h.row}); s.acknowledged.Less(p) {
		s.acknowledged = p
	}
}

// Next returns what to send next, if there is anything that may be sent now.
func (s *Sender) Next() ([]byte, bool) {
	msg := s.next()
	s.last = msg
	return msg, msg != nil
}

// Unsend says that the transport did not take what Next returned last; Next will return it again.
func (s *Sender) Unsend() {
	s.again, s.last = s.last, nil
}

func (s *Sender) next() []byte {
	switch {
	case !s.connected || s.err != nil:
		return nil
	case s.again != nil:
		msg := s.again
		s.again = nil
		return msg
	case s.helloDue:
		s.helloDue, s.helloAt = false, s.now
		return (&header{kind: kindHello, generation: s.cfg.Generation, session: s.session, row: s.hello}).message()
	case !s.running:
		return nil
	case s.refusalDue:
		s.refusalDue, s.tailAt = false, s.now
		return (&header{kind: kindTrimmed, generation: s.cfg.Generation, session: s.session, epoch: s.trimmed}).message()
	case s.refused:
		return nil
	}
	msg := s.piece()
	if msg == nil && s.tailDue && s.err == nil {
		return s.tail()
	}
	return msg
}

// tail says how far the session is.
func (s *Sender) tail() []byte {
	s.tailDue, s.tailAt = false, s.now
	h := header{kind: kindTail, generation: s.cfg.Generation, session: s.session,
		epoch: s.sent.Epoch, row: s.sent.Row, offset: s.used}
	if s.endSent {
		h.flags |= flagEnd
	}
	return h.message()
}

// piece returns the next piece of the stream.
func (s *Sender) piece() []byte {
	if s.cursor == len(s.shelf.frames) {
		return s.sendEnd()
	}
	f := &s.shelf.frames[s.cursor]
	if f.end.Epoch > s.limit || !s.allowed(f.size) {
		return nil
	}
	msg, err := s.shelf.load(s.cursor)
	if err != nil {
		s.err = fmt.Errorf("%s: %w", s.cfg.Channel, err)
		return nil
	}
	s.sent = f.end
	s.cursor++
	return s.use(msg)
}

// sendEnd returns END, which answers any request, even one beyond it.
func (s *Sender) sendEnd() []byte {
	if s.end == nil || s.endSent || s.end.end.Epoch > s.limit || !s.allowed(s.end.size) {
		return nil
	}
	if !s.cfg.Off.On(protocol.EndAny) && !s.sent.Less(s.end.end) {
		return nil
	}
	if s.sent.Less(s.end.end) {
		s.sent = s.end.end
	}
	s.endSent = true
	return s.use(append([]byte(nil), s.end.msg...))
}

// use stamps a message and takes its size off the credit.
func (s *Sender) use(msg []byte) []byte {
	stamp(msg, s.session, s.used)
	s.used += int64(len(msg))
	return msg
}

// allowed reports whether the credit lets n bytes go. What is larger than the window may go when nothing
// else is under way: the consumer keeps less than a quarter of the window to itself without saying so.
func (s *Sender) allowed(n int64) bool {
	left := s.granted - s.used
	return n <= left || left >= s.window-quarter(s.window)
}

// quarter is how much credit a consumer gathers before it grants it, at least 1.
func quarter(window int64) int64 { return max(1, window/4) }

// Tick tells the time, in microseconds. What has not been answered for a while is said again.
func (s *Sender) Tick(now int64) {
	s.now = now
	s.shelf.again()
	switch {
	case !s.connected:
	case !s.running:
		s.helloDue = s.helloDue || now-s.helloAt >= repeatAfter
	case s.refused:
		s.refusalDue = s.refusalDue || now-s.tailAt >= repeatAfter
	case s.acknowledged.Less(s.sent) || s.Unsent() > 0 || s.endSent && !s.endHeld:
		s.tailDue = s.tailDue || now-s.tailAt >= repeatAfter
	default:
		s.tailDue = s.tailDue || now-s.tailAt >= keepAlive
	}
}

// refuseIfGone answers a request for what has been trimmed, once it is known what that is.
func (s *Sender) refuseIfGone() {
	if s.running && s.begun && s.sent.Less(s.low) && s.cfg.Off.On(protocol.Trimmed) {
		s.refused, s.refusalDue = true, true
	}
}
