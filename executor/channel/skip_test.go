package channel

import "testing"

// TestSkip: a producer that begins behind what is wanted is asked again once that has come another way, also if
// the receiver is in the middle of an epoch.
func TestSkip(t *testing.T) {
	for name, from := range map[string]Position{"between epochs": After(2), "in an epoch": {3, 1}} {
		p := &pair{s: sender(two, 2, After(6), 0), r: receiver(two, from, 0)}
		p.s.Connected()
		p.epoch(7, 6, 4, 2, false)
		if got := p.run(); got != "" {
			t.Errorf("%s: %q was delivered", name, got)
		}
		if epoch, ok := p.r.Trimmed(); !ok || epoch != 6 {
			t.Errorf("%s: trimmed %d, %t", name, epoch, ok)
		}
		p.r.Skip(5) // not far enough
		if _, ok := p.r.Trimmed(); !ok {
			t.Errorf("%s: skipping a part was enough", name)
		}
		p.r.Skip(6)
		if _, ok := p.r.Trimmed(); ok {
			t.Errorf("%s: skipping was not enough", name)
		}
		if got, want := p.run(), "7/0-2 7/2-4 7."; got != want {
			t.Errorf("%s: %q was delivered, want %q", name, got, want)
		}
		p.epoch(8, 7, 1, 1, true)
		if got, want := p.run(), "8/0-1 8!"; got != want {
			t.Errorf("%s: %q was delivered, want %q", name, got, want)
		}
	}
}

// TestSkipWhatHasCome: skipping less than what has been received changes nothing.
func TestSkipWhatHasCome(t *testing.T) {
	p := newPair(two, After(0), 0)
	p.s.Connected()
	p.epoch(1, 0, 2, 2, false)
	p.epoch(2, 1, 2, 2, false)
	if got, want := p.run(), "1/0-2 1. 2/0-2 2."; got != want {
		t.Fatalf("%q was delivered, want %q", got, want)
	}
	p.r.Skip(1)
	if got := p.r.Position(); got != After(2) {
		t.Errorf("the position is %v", got)
	}
	p.epoch(3, 2, 1, 1, true)
	if got, want := p.run(), "3/0-1 3!"; got != want {
		t.Errorf("%q was delivered, want %q", got, want)
	}
}
