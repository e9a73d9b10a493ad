package shared

import (
	"os"
	"testing"

	"sluice/executor/state"
)

// hooked is a file whose next write is preceded or followed by something else.
type hooked struct {
	logFile
	h *hooks
}

type hooks struct{ before, after func() }

func (f *hooked) WriteAt(b []byte, at int64) (int, error) {
	before, after := f.h.before, f.h.after
	f.h.before, f.h.after = nil, nil
	if before != nil {
		before()
	}
	n, err := f.logFile.WriteAt(b, at)
	if after != nil {
		after()
	}
	return n, err
}

// A successor that opens the log amid an append has its entry, or not; the one who appends is told.
func TestSealedAmidAppend(t *testing.T) {
	for _, first := range []bool{true, false} {
		h := &hooks{}
		s := openNew(t, Options{wrapFile: func(f logFile) logFile { return &hooked{f, h} }})
		log, _ := source(t, s, 1)
		must(t, log.Append(epoch(1)))
		var list []state.Epoch
		open := func() { _, list = source(t, s, 2) }
		want := 2
		if h.after = open; first {
			h.before, h.after, want = open, nil, 1
		}
		is(t, log.Append(epoch(2)), state.ErrSealed)
		if len(list) != want {
			t.Errorf("%d entries, want %d", len(list), want)
		}
	}
}

// Of an opening that is overtaken between reading and publishing, nothing counts.
func TestSealedAmidOpen(t *testing.T) {
	h := &hooks{}
	s := openNew(t, Options{wrapFile: func(f logFile) logFile { return &hooked{f, h} }})
	log, _ := source(t, s, 1)
	must(t, log.Append(epoch(1)))
	h.before = func() {
		third, list := source(t, s, 3)
		if len(list) != 1 {
			t.Errorf("%d entries for generation 3", len(list))
		}
		must(t, third.Append(epoch(2)))
	}
	_, _, err := s.OpenSource("src", 2)
	is(t, err, state.ErrSealed)
	if _, list := source(t, s, 4); len(list) != 2 {
		t.Errorf("%d entries for generation 4", len(list))
	}
}

// An opening whose claim appears when a higher one is there already is sealed: the higher one has not
// seen the claim.
func TestSealedAmidClaim(t *testing.T) {
	s := openNew(t, Options{})
	source(t, s, 2)
	l := &log{own: opening{1, 1}}
	s.prepare(l, sourcesDir, "src")
	l.claimed = l.path(l.own.String() + openSuffix)
	must(t, os.WriteFile(l.claimed, nil, 0o644))
	is(t, l.sealLower(), state.ErrSealed)
}

// Who saves over a version that was replaced so long ago that the next one is no longer there has not saved.
func TestStaleSave(t *testing.T) {
	s := openNew(t, Options{})
	must(t, s.Claim(1))
	stale, err := s.current()
	must(t, err)
	number := stale.number
	for range 10 {
		number, err = s.Save([]byte("record"), number)
		must(t, err)
	}
	if _, err := os.Stat(s.versionPath(stale.number + 1)); err == nil {
		t.Fatal("the next version is still there")
	}
	_, err = s.replace(stale, 1, []byte("stale"))
	is(t, err, ErrSuperseded)
	record, last, err := s.Load()
	if err != nil || string(record) != "record" || last != number {
		t.Errorf("version %d %q: %v", last, record, err)
	}
	_, err = s.Save([]byte("next"), number)
	must(t, err)
}

// Who finds no decision, and records his own when another has done so, learns of that one.
func TestDecidedMeanwhile(t *testing.T) {
	s := openNew(t, Options{})
	for _, commit := range []bool{true, false} {
		committed, err := s.decideFirst(1, commit)
		if err != nil || !committed {
			t.Errorf("committed %v: %v", committed, err)
		}
	}
}

// Only what number writes is a number.
func TestNumbers(t *testing.T) {
	for s, want := range map[string]bool{
		number(0): true, number(1<<63 - 1): true, number(12): true, "": false, "1": false, "-" + number(1)[1:]: false,
		"+" + number(1)[1:]: false, "_" + number(1)[1:]: false, "9999999999999999999": false, number(1) + "0": false, "00000000000000000x1": false,
	} {
		if n, ok := parseNumber(s); ok != want || ok && number(n) != s {
			t.Errorf("%q: %d %v", s, n, ok)
		}
	}
}
