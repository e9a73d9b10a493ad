package channel

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"sluice/internal/protocol"
	"sluice/operators"
)

var two = intSchema(2)

// epoch emits an epoch with rows rows, cut into frames of cut rows, and its mark.
func (p *pair) epoch(e, prev, rows, cut int64, end bool) {
	must(emit(p.s, e, prev, rows, cut))
	must(p.s.Mark(operators.Mark{Epoch: e, Prev: prev, Clock: e, Watermark: e, End: end}))
}

func emit(s *Sender, e, prev, rows, cut int64) error {
	s.smallRows = 0
	for from := int64(0); from < rows; from += cut {
		if err := s.Rows(e, prev, e, rowsOf(two, e, from, min(rows, from+cut), false, 0)); err != nil {
			return err
		}
	}
	return nil
}

func must(err error) {
	if err != nil {
		panic("assertion failed: " + err.Error())
	}
}

// delivered is what the receiver gives: "5/0-3" for rows 0 to 2 of epoch 5, "5." for its mark, "5!" if it is
// END. Each row is compared with what it should be.
func (p *pair) delivered() string {
	var out []string
	for d, ok := p.r.Deliver(); ok; d, ok = p.r.Deliver() {
		switch {
		case d.Rows != nil:
			to := d.Row + int64(d.Rows.Rows())
			if got, want := texts(d.Rows, false), texts(rowsOf(two, d.Epoch, d.Row, to, false, 0), false); !slices.Equal(got, want) {
				out = append(out, fmt.Sprintf("got %q, want %q", got, want))
			}
			out = append(out, fmt.Sprintf("%d/%d-%d", d.Epoch, d.Row, to))
		case d.Mark.End:
			out = append(out, fmt.Sprintf("%d!", d.Epoch))
		default:
			out = append(out, fmt.Sprintf("%d.", d.Epoch))
		}
		p.r.Release(d)
	}
	return strings.Join(out, " ")
}

// run talks for a few seconds, and says what was delivered.
func (p *pair) run() string {
	var out []string
	for end := p.now + 3*keepAlive; p.now < end; p.now += repeatAfter / 2 {
		p.s.Tick(p.now)
		p.r.Tick(p.now)
		if err := p.talk(); err != nil {
			return err.Error()
		}
		if d := p.delivered(); d != "" {
			out = append(out, d)
		}
	}
	return strings.Join(out, " ")
}

// lose takes n messages from the sender and forgets them.
func (p *pair) lose(n int) {
	for range n {
		if _, ok := p.s.Next(); !ok {
			panic("assertion failed: there is no message to lose")
		}
	}
}

// scenarios each show what a rule is for: run gives want, and something else with the rule switched off.
var scenarios = []struct {
	name string
	rule protocol.Rule
	run  func(off protocol.Off) string
	want string
}{
	{"a lost epoch is noticed", protocol.Prev, func(off protocol.Off) string {
		p := newPair(two, After(0), off)
		p.s.Connected()
		must(p.talk())
		p.epoch(1, 0, 2, 2, false)
		p.lose(2) // its rows and its mark
		p.epoch(5, 1, 1, 1, false)
		return p.run()
	}, "1/0-2 1. 5/0-1 5."},
	{"a frame that overlaps is cut", protocol.Dedup, func(off protocol.Off) string {
		p := newPair(two, After(0), off)
		p.s.Connected()
		must(emit(p.s, 1, 0, 3, 3))
		first := p.run()
		p.s = sender(two, 2, After(0), off) // the producer is launched anew, and cuts elsewhere
		p.s.Connected()
		p.epoch(1, 0, 8, 4, false)
		return first + " | " + p.run()
	}, "1/0-3 | 1/3-4 1/4-8 1."},
	{"an epoch that comes again is dropped", protocol.Dedup, func(off protocol.Off) string {
		p := newPair(two, After(0), off)
		p.s.Connected()
		must(p.talk())
		p.epoch(1, 0, 1, 1, false)
		old, _ := p.s.Next()
		again := append([]byte(nil), old...)
		must(p.r.Receive(1, old))
		p.epoch(2, 1, 1, 1, false)
		out := p.run()
		must(p.r.Receive(1, again))
		return out + p.run()
	}, "1/0-1 1. 2/0-1 2."},
	{"what comes twice is dropped", protocol.Dedup, func(off protocol.Off) string {
		p := newPair(two, After(0), off)
		p.s.Connected()
		must(p.talk())
		must(emit(p.s, 1, 0, 2, 2))
		msg, _ := p.s.Next()
		must(p.r.Receive(1, msg))
		must(p.r.Receive(1, msg))
		return p.run()
	}, "1/0-2"},
	{"who asks for what is trimmed is told", protocol.Trimmed, func(off protocol.Off) string {
		p := newPair(two, After(0), off)
		p.epoch(1, 0, 1, 1, false)
		p.epoch(2, 1, 1, 1, false)
		p.s.Trim(1)
		p.s.Connected()
		out := p.run()
		c, ok := p.r.Trimmed()
		return fmt.Sprint(out, c, ok)
	}, "1 true"},
	{"who asks for what is below the start is told", protocol.Trimmed, func(off protocol.Off) string {
		p := &pair{s: sender(two, 2, After(7), off), r: receiver(two, After(3), off)}
		p.epoch(8, 7, 1, 1, false)
		p.s.Connected()
		out := p.run()
		c, ok := p.r.Trimmed()
		return fmt.Sprint(out, c, ok)
	}, "7 true"},
	{"END answers a request beyond it", protocol.EndAny, func(off protocol.Off) string {
		p := &pair{s: sender(two, 1, After(0), off), r: receiver(two, After(9), off)}
		p.epoch(1, 0, 1, 1, false)
		p.epoch(2, 1, 0, 1, true)
		p.s.Connected()
		return p.run()
	}, "2!"},
	{"END is kept when all is trimmed", protocol.EndAny, func(off protocol.Off) string {
		p := &pair{s: sender(two, 1, After(0), off), r: receiver(two, After(4), off)}
		p.epoch(4, 0, 3, 1, true)
		p.s.Trim(4)
		p.s.Connected()
		return p.run()
	}, "4!"},
	{"a producer that is no more is not listened to", protocol.Fence, func(off protocol.Off) string {
		p := newPair(two, After(0), off)
		p.r.Fence(2)
		p.s.Connected()
		p.epoch(1, 0, 1, 1, false)
		return p.run()
	}, ""},
	{"nor is one that is not to be yet, and it changes nothing", protocol.Fence, func(off protocol.Off) string {
		p := newPair(two, After(0), off)
		p.r.Fence(1)
		p.s.Connected()
		right := p.s
		p.s = sender(two, 1<<62, After(0), off)
		p.s.Connected()
		p.epoch(1, 0, 7, 1, false)
		before := p.run()
		p.s = right
		p.epoch(1, 0, 3, 1, true)
		return before + "then " + p.run()
	}, "then 1/0-1 1/1-2 1/2-3 1!"},
	{"nor is one when its successor has been heard", protocol.Fence, func(off protocol.Off) string {
		p := newPair(two, After(0), off)
		zombie := p.s
		zombie.Connected()
		must(p.talk())
		p.s = sender(two, 2, After(0), off)
		p.s.Connected()
		must(p.talk())
		p.s = zombie
		p.s.Connected()
		p.epoch(1, 0, 1, 1, false)
		return p.run()
	}, ""},
}

func TestRules(t *testing.T) {
	for _, c := range scenarios {
		if got := c.run(0); got != c.want {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
		if got := c.run(protocol.Off(0).With(c.rule)); got == c.want {
			t.Errorf("%s: without the rule it is the same", c.name)
		} else {
			t.Logf("%s; without the rule: %q", c.name, got)
		}
	}
}

// TestConversation has what no rule of the protocol switches.
func TestConversation(t *testing.T) {
	for _, c := range []struct {
		name string
		run  func(p *pair) string
		want string
	}{
		{"rows, marks and the end", func(p *pair) string {
			p.s.Connected()
			p.epoch(1, 0, 5, 2, false)
			p.epoch(4, 1, 0, 2, false)
			p.epoch(5, 4, 1, 2, true)
			return p.run()
		}, "1/0-2 1/2-4 1/4-5 1. 4. 5/0-1 5!"},
		{"nothing without a connection", func(p *pair) string {
			p.epoch(1, 0, 5, 2, false)
			return p.run()
		}, ""},
		{"nothing after a disconnection", func(p *pair) string {
			p.s.Connected()
			p.epoch(1, 0, 1, 1, false)
			out := p.run()
			p.s.Disconnect()
			p.epoch(2, 1, 1, 1, false)
			return fmt.Sprint(out, p.run(), " ", p.s.Unsent() > 0)
		}, "1/0-1 1. true"},
		{"the hello is repeated", func(p *pair) string {
			p.s.Connected()
			p.lose(1)
			p.epoch(1, 0, 1, 1, false)
			return p.run()
		}, "1/0-1 1."},
		{"the resume is repeated", func(p *pair) string {
			p.s.Connected()
			hello, _ := p.s.Next()
			must(p.r.Receive(1, hello))
			p.r.Next()
			p.epoch(1, 0, 1, 1, false)
			return p.run()
		}, "1/0-1 1."},
		{"a loss at the end is noticed by the tail", func(p *pair) string {
			p.s.Connected()
			must(p.talk())
			p.epoch(1, 0, 1, 1, true)
			p.lose(2)
			return p.run()
		}, "1/0-1 1!"},
		{"a lost END behind the position is noticed", func(p *pair) string {
			p.r = receiver(two, After(3), 0)
			p.s.Connected()
			must(p.talk())
			p.epoch(1, 0, 0, 1, true)
			p.lose(1)
			return p.run()
		}, "1!"},
		{"a consumer launched anew behind the same connection is found", func(p *pair) string {
			p.s.Connected()
			p.epoch(1, 0, 1, 1, false)
			out := p.run()
			p.r = receiver(two, After(0), 0)
			return out + " | " + p.run()
		}, "1/0-1 1. | 1/0-1 1."},
		{"a request that is ahead is held", func(p *pair) string {
			p.r = receiver(two, After(2), 0)
			p.s.Connected()
			p.epoch(1, 0, 1, 1, false)
			out := p.run()
			p.epoch(2, 1, 1, 1, false)
			p.epoch(3, 2, 1, 1, false)
			return out + p.run()
		}, "3/0-1 3."},
		{"a loss within an epoch is noticed", func(p *pair) string {
			p.s.Connected()
			must(p.talk())
			must(emit(p.s, 1, 0, 2, 1))
			must(p.talk())
			must(emit(p.s, 1, 0, 1, 1)) // a third row, like the first one
			p.lose(1)
			must(p.s.Mark(operators.Mark{Epoch: 1}))
			must(p.talk())
			return fmt.Sprint(p.r.Counters().Gaps, p.s.sent == After(1), p.r.Position() == After(1))
		}, "1 true true"},
		{"what comes late and twice is dropped", func(p *pair) string {
			p.s.Connected()
			must(p.talk())
			p.epoch(1, 0, 1, 1, false)
			p.epoch(2, 1, 0, 1, true)
			var all [][]byte
			for msg, ok := p.s.Next(); ok; msg, ok = p.s.Next() {
				all = append(all, msg)
			}
			for range 2 {
				for _, msg := range all {
					odd := append(make([]byte, 1), msg...)[1:] // wherever it is in memory
					must(p.r.Receive(1, odd))
				}
			}
			return fmt.Sprint(p.delivered(), " ", p.r.Counters())
		}, "1/0-1 1. 2! {1 3 0 0}"},
		{"a producer that ignores the credit is stopped", func(p *pair) string {
			p.s.Connected()
			must(p.talk())
			p.r.held = 2*p.r.cfg.Window + MaxFrame + 1
			p.epoch(1, 0, 1, 1, false)
			msg, _ := p.s.Next()
			return fmt.Sprint(errors.Is(p.r.Receive(1, msg), ErrDamaged), p.delivered())
		}, "true"},
		{"a damaged frame is asked for again", func(p *pair) string {
			p.s.Connected()
			must(p.talk())
			p.epoch(1, 0, 1, 1, false)
			msg, _ := p.s.Next()
			bad := append([]byte(nil), msg...)
			bad[headSize]++
			return fmt.Sprint(errors.Is(p.r.Receive(1, bad), ErrDamaged), " ", p.run())
		}, "true 1/0-1 1."},
		{"a producer restored where nothing ended goes on with who waits before it", func(p *pair) string {
			p.s.Connected()
			p.epoch(1, 0, 1, 1, false)
			out := p.run()
			p.s = sender(two, 2, After(5), 0)
			p.s.Connected()
			out += p.run() // it is not known yet what was last before 5
			p.epoch(7, 1, 1, 1, false)
			return out + " | " + p.run()
		}, "1/0-1 1. | 7/0-1 7."},
		{"but not with who lacks an epoch", func(p *pair) string {
			p.s.Connected()
			p.epoch(1, 0, 1, 1, false)
			p.run()
			p.s = sender(two, 2, After(5), 0)
			p.s.Connected()
			p.run()
			p.epoch(7, 3, 1, 1, false)
			out := p.run()
			c, ok := p.r.Trimmed()
			return fmt.Sprint(out, c, ok)
		}, "5 true"},
		{"a checkpoint where nothing ended is no reason to refuse", func(p *pair) string {
			p.r = receiver(two, After(2), 0)
			p.epoch(2, 0, 1, 1, false)
			p.epoch(9, 2, 1, 1, false)
			p.s.Trim(7)
			p.s.Connected()
			return p.run()
		}, "9/0-1 9."},
		{"what was under way when it was trimmed is refused", func(p *pair) string {
			p.s.Connected()
			must(p.talk())
			p.r.held = p.r.cfg.Window // no credit
			p.epoch(1, 0, 1, 1, false)
			p.lose(2)
			p.s.Trim(1)
			p.r.held = 0
			out := p.run()
			c, ok := p.r.Trimmed()
			return fmt.Sprint(out, c, ok)
		}, "1 true"},
		{"END once more from a task restored behind it", func(p *pair) string {
			p.s, p.r = sender(two, 2, After(8), 0), receiver(two, After(8), 0)
			must(p.s.Mark(operators.Mark{Epoch: 8, Prev: 8, End: true}))
			p.s.Connected()
			return p.run()
		}, "8!"},
		{"END says trimmed to who lacks rows before it", func(p *pair) string {
			p.r = receiver(two, After(3), 0)
			p.epoch(8, 3, 2, 1, true)
			p.s.Trim(8)
			p.s.Connected()
			out := p.run()
			c, ok := p.r.Trimmed()
			return fmt.Sprint(out, c, ok)
		}, "8 true"},
		{"END without rows misses nobody", func(p *pair) string {
			p.r = receiver(two, After(3), 0)
			p.epoch(3, 0, 2, 1, false)
			p.epoch(8, 3, 0, 1, true)
			p.s.Trim(8)
			p.s.Connected()
			return p.run()
		}, "8!"},
		{"what the transport refuses comes again", func(p *pair) string {
			p.s.Connected()
			p.epoch(1, 0, 1, 1, false)
			for i := 0; i < 40; i++ {
				p.lose(0)
				msg, ok := p.s.Next()
				if ok && i%2 == 0 {
					p.s.Unsend()
				} else if ok {
					must(p.r.Receive(1, msg))
				}
				if back, ok := p.r.Next(); ok {
					must(p.s.Message(back))
				}
			}
			return fmt.Sprint(p.delivered(), " ", p.r.Counters())
		}, "1/0-1 1. {1 0 0 0}"},
	} {
		if got := c.run(newPair(two, After(0), 0)); got != c.want {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
	}
}

// TestDiffers: a producer that does not repeat what it did is found out.
func TestDiffers(t *testing.T) {
	for _, c := range []struct {
		name  string
		again func(s *Sender) error
	}{
		{"other values", func(s *Sender) error {
			return errors.Join(s.Rows(1, 0, 1, rowsOf(two, 77, 0, 2, false, 0)), s.Rows(1, 0, 1, rowsOf(two, 1, 2, 4, false, 0)))
		}},
		{"another order", func(s *Sender) error {
			return errors.Join(s.Rows(1, 0, 1, rowsOf(two, 1, 1, 2, false, 0)), s.Rows(1, 0, 1, rowsOf(two, 1, 0, 1, false, 0)),
				s.Rows(1, 0, 1, rowsOf(two, 1, 2, 4, false, 0)))
		}},
		{"fewer rows", func(s *Sender) error { return s.Rows(1, 0, 1, rowsOf(two, 1, 0, 1, false, 0)) }},
	} {
		p := newPair(two, After(0), 0)
		p.s.Connected()
		must(emit(p.s, 1, 0, 2, 2))
		if got := p.run(); got != "1/0-2" {
			t.Fatal(got)
		}
		p.s = sender(two, 2, After(0), 0)
		p.s.Connected()
		if err := c.again(p.s); err != nil {
			t.Fatal(err)
		}
		if err := p.s.Mark(operators.Mark{Epoch: 1}); err != nil {
			t.Fatal(err)
		}
		if err := p.talk(); !errors.Is(err, ErrDiffers) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// TestOrder: a task that emits out of order is told.
func TestOrder(t *testing.T) {
	rows := rowsOf(two, 1, 0, 1, false, 0)
	for name, do := range map[string]func(s *Sender) error{
		"rows of the next epoch before the mark": func(s *Sender) error {
			return errors.Join(s.Rows(6, 5, 0, rows), s.Rows(7, 6, 0, rows))
		},
		"rows below the start":   func(s *Sender) error { return s.Rows(5, 4, 0, rows) },
		"a mark below the start": func(s *Sender) error { return s.Mark(operators.Mark{Epoch: 5, Prev: 4}) },
		"rows before their own":  func(s *Sender) error { return s.Rows(6, 6, 0, rows) },
		"rows after an epoch that was not the last": func(s *Sender) error {
			return errors.Join(s.Mark(operators.Mark{Epoch: 6, Prev: 5}), s.Rows(8, 7, 0, rows))
		},
		"rows after the end": func(s *Sender) error {
			return errors.Join(s.Mark(operators.Mark{Epoch: 6, Prev: 5, End: true}), s.Rows(8, 6, 0, rows))
		},
		"two ends": func(s *Sender) error {
			return errors.Join(s.Mark(operators.Mark{Epoch: 6, Prev: 5, End: true}), s.Mark(operators.Mark{Epoch: 6, Prev: 5, End: true}))
		},
	} {
		if err := do(sender(two, 1, After(5), 0)); !errors.Is(err, ErrOrder) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := sender(two, 1, After(0), 0).Rows(1, 0, 0, rowsOf(intSchema(3), 1, 0, 1, false, 0)); err == nil || !strings.Contains(err.Error(), "3 columns") {
		t.Errorf("rows of another schema: %v", err)
	}
}
