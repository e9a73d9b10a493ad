package channel

import (
	"testing"

	"sluice/operators"
)

// TestCredit: the sender sends what the window allows, and goes on as deliveries are released.
func TestCredit(t *testing.T) {
	s := sender(two, 1, After(0), 0)
	r := NewReceiver(ReceiverConfig{Channel: "c", Schema: two, From: After(0), Window: 10_000})
	p := &pair{s: s, r: r}
	s.Connected()
	if err := emit(s, 1, 0, 1000, 100); err != nil {
		t.Fatal(err)
	}
	size := s.shelf.frames[0].size
	if err := p.talk(); err != nil {
		t.Fatal(err)
	}
	if want := 10_000 / size * size; r.held != want {
		t.Fatalf("%d bytes wait at the consumer, want %d", r.held, want)
	}
	if s.Unsent() != s.Retained()-r.held {
		t.Errorf("%d bytes are not sent of %d, %d have arrived", s.Unsent(), s.Retained(), r.held)
	}
	for got := 0; got < 10; got++ {
		d, ok := r.Deliver()
		if !ok {
			t.Fatalf("%d frames came", got)
		}
		if r.held > 10_000 {
			t.Fatalf("%d bytes wait", r.held)
		}
		r.Release(d)
		if err := p.talk(); err != nil {
			t.Fatal(err)
		}
	}
	if s.Unsent() != 0 {
		t.Errorf("%d bytes are not sent", s.Unsent())
	}
	p.run()
	if s.Acknowledged() != (Position{1, 1000}) {
		t.Errorf("acknowledged is %v", s.Acknowledged())
	}
}

// TestFrameLargerThanTheWindow goes alone.
func TestFrameLargerThanTheWindow(t *testing.T) {
	s := sender(two, 1, After(0), 0)
	r := NewReceiver(ReceiverConfig{Channel: "c", Schema: two, From: After(0), Window: 100})
	p := &pair{s: s, r: r}
	s.Connected()
	if err := emit(s, 1, 0, 300, 100); err != nil {
		t.Fatal(err)
	}
	for n := range 3 {
		if err := p.talk(); err != nil {
			t.Fatal(err)
		}
		d, ok := r.Deliver()
		if !ok || r.held != d.Cost {
			t.Fatalf("frame %d: delivered %v, %d bytes wait", n, ok, r.held)
		}
		r.Release(d)
	}
}

// TestLostCreditComesAgain: nothing waits for ever for a message that was lost.
func TestLostCreditComesAgain(t *testing.T) {
	s := sender(two, 1, After(0), 0)
	r := NewReceiver(ReceiverConfig{Channel: "c", Schema: two, From: After(0), Window: 5000})
	p := &pair{s: s, r: r}
	s.Connected()
	if err := emit(s, 1, 0, 1000, 100); err != nil {
		t.Fatal(err)
	}
	for range 100 {
		p.now += repeatAfter
		s.Tick(p.now)
		r.Tick(p.now)
		if err := p.talk(); err != nil {
			t.Fatal(err)
		}
		p.delivered()
		r.Next() // lost
	}
	if r.Position() != (Position{1, 1000}) {
		t.Errorf("the receiver is at %v", r.Position())
	}
}

// TestHeldOverSessions: what an earlier session delivered counts until it is released.
func TestHeldOverSessions(t *testing.T) {
	s := sender(two, 1, After(0), 0)
	r := NewReceiver(ReceiverConfig{Channel: "c", Schema: two, From: After(0), Window: 5000})
	p := &pair{s: s, r: r}
	if err := emit(s, 1, 0, 1000, 100); err != nil {
		t.Fatal(err)
	}
	for range 5 {
		s.Connected()
		if err := p.talk(); err != nil {
			t.Fatal(err)
		}
		if r.held > 5000 {
			t.Fatalf("%d bytes wait with a window of 5000", r.held)
		}
	}
}

// TestPressure travels with the next message, comes again with each session, and is over with the connection.
func TestPressure(t *testing.T) {
	p := newPair(two, After(0), 0)
	p.s.Connected()
	r := p.r
	r.SetPressure(true)
	p.run()
	if !p.s.Pressure() {
		t.Error("the sender does not know of the pressure")
	}
	p.s.Connected()
	if p.s.Pressure() {
		t.Error("pressure of a connection that is no more")
	}
	p.run()
	if !p.s.Pressure() {
		t.Error("a new session does not know of the pressure")
	}
	r.SetPressure(false)
	if p.run(); p.s.Pressure() {
		t.Error("the pressure does not end")
	}
	r.SetPressure(true)
	p.run()
	if p.s.Disconnect(); p.s.Pressure() || p.s.IsConnected() {
		t.Error("pressure without a connection")
	}
}

// TestQuiet: ends that have nothing to say say little, even when they do not understand each other.
func TestQuiet(t *testing.T) {
	for name, c := range map[string]struct {
		from Position
		most int
	}{
		"all is said":               {After(0), 40},
		"a request before an epoch": {Position{1, 7}, 300},
	} {
		p := newPair(two, c.from, 0)
		p.s = sender(two, 1, After(0), 0)
		p.s.Connected()
		p.epoch(1, 0, 1, 1, false)
		p.epoch(2, 1, 1, 1, false)
		n := 0
		for range 100 { // ten seconds
			p.now += repeatAfter / 2
			p.s.Tick(p.now)
			p.r.Tick(p.now)
			for {
				down, ok := p.s.Next()
				if ok {
					n++
					_ = p.r.Receive(1, down) // it may be of no use
				}
				up, back := p.r.Next()
				if back {
					n++
					_ = p.s.Message(up)
				}
				if !ok && !back {
					break
				}
			}
		}
		if n > c.most {
			t.Errorf("%s: %d messages", name, n)
		}
	}
}

// TestUnsentWithoutConnection: rows for a target that is gone only wait.
func TestUnsentWithoutConnection(t *testing.T) {
	p := newPair(two, After(0), 0)
	p.epoch(1, 0, 10, 1, false)
	if p.s.Unsent() != p.s.Retained() || p.s.Retained() == 0 {
		t.Errorf("%d bytes of %d are not sent", p.s.Unsent(), p.s.Retained())
	}
	p.s.Trim(1)
	if p.s.Unsent() != 0 || p.s.Retained() != 0 {
		t.Errorf("%d bytes of %d are not sent after the trim", p.s.Unsent(), p.s.Retained())
	}
	if err := p.s.Mark(operators.Mark{Epoch: 2, Prev: 1, End: true}); err != nil {
		t.Fatal(err)
	}
	p.s.Connected()
	p.r = receiver(two, After(1), 0)
	if got := p.run(); got != "2!" || !p.r.Ended() {
		t.Errorf("got %q", got)
	}
}
