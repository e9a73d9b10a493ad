package shared

import (
	"testing"

	"sluice/executor/state"
)

// plan is a Faults that a test sets: the fault of the next operation of this name.
type plan struct {
	op    string
	fault Fault
}

func (p *plan) decide(_, op string) Fault {
	if op != p.op {
		return NoFault
	}
	p.op = ""
	return p.fault
}

func opened(t *testing.T, m *Memory, name string) *Process {
	t.Helper()
	p, err := m.Open(name, false)
	must(t, err)
	return p
}

// Each fault does what it says, to the operation and to the process.
func TestMemoryFaults(t *testing.T) {
	for fault, want := range map[Fault]struct {
		err     error
		entries int
		over    bool
	}{
		NoFault: {nil, 2, false},
		Fail:    {ErrFault, 1, false},
		Torn:    {state.ErrClosed, 1, true},
		Crash:   {state.ErrClosed, 2, true},
	} {
		var next plan
		m := NewMemory(next.decide)
		p := opened(t, m, "p")
		log, _, err := p.OpenSource("src", 1)
		must(t, err)
		must(t, log.Append(epoch(1)))
		next = plan{"Append", fault}
		is(t, log.Append(epoch(2)), want.err)
		_, _, err = p.Load()
		if (err != nil) != want.over {
			t.Errorf("fault %d: the process has %v", fault, err)
		}
		_, list, err := opened(t, m, "q").OpenSource("src", 2)
		must(t, err)
		if len(list) != want.entries {
			t.Errorf("fault %d: %d entries", fault, len(list))
		}
	}
}

// All operations can fail, and can then be repeated.
func TestMemoryFailures(t *testing.T) {
	var next plan
	m := NewMemory(next.decide)
	p := opened(t, m, "p")
	fail := func(op string, call func() error) {
		t.Helper()
		next = plan{op, Fail}
		is(t, call(), ErrFault)
		must(t, call())
	}
	var source state.SourceLog
	var sink state.SinkLog
	var ref string
	fail("OpenSource", func() (err error) { source, _, err = p.OpenSource("src", 1); return err })
	fail("OpenSink", func() (err error) { sink, _, _, err = p.OpenSink("snk", 1); return err })
	fail("AppendRows", func() error { return source.(state.RowLog).AppendRows(1, []byte("rows")) })
	fail("Append", func() error { return source.Append(epoch(1)) })
	fail("Rows", func() error { return source.(state.RowLog).Rows(1, func([]byte) error { return nil }) })
	fail("TrimLog", func() error { return source.Trim(1) })
	fail("Commit", func() error { return sink.Commit(1, nil) })
	fail("WriteSnapshot", func() (err error) {
		ref, err = p.WriteSnapshot("k", 1, 1, 1, "", func(keep func(int, []byte) error) error { return keep(0, []byte("x")) })
		return err
	})
	fail("ReadSnapshot", func() error { _, err := p.ReadSnapshot(ref, func(int, []byte) error { return nil }); return err })
	fail("Decide", func() error { _, err := p.Decide(1, true); return err })
	fail("Decided", func() error { _, _, err := p.Decided(1); return err })
	fail("Claim", func() error { return p.Claim(1) })
	fail("Load", func() error { _, _, err := p.Load(); return err })
	fail("Save", func() error { _, err := p.Save(nil, 1); return err })
	fail("SetSpec", func() error { return p.SetSpec([]byte("x")) })
	fail("Spec", func() error { _, err := p.Spec(); return err })
	fail("Trim", func() error { return p.Trim(1, nil) })
}

// A machine that dies takes what is not synced with it, as far as it is told to.
func TestMemoryCrash(t *testing.T) {
	for keep := -1; keep <= 4; keep++ {
		m := NewMemory(nil)
		p := opened(t, m, "p")
		source, _, err := p.OpenSource("src", 1)
		must(t, err)
		sink, _, _, err := p.OpenSink("snk", 1)
		must(t, err)
		for i := int64(1); i <= 5; i++ {
			must(t, source.(state.RowLog).AppendRows(i, []byte("x")))
			must(t, source.Append(epoch(i)))
			must(t, sink.Commit(i, []byte("w")))
			if i == 2 {
				m.Sync()
			}
		}
		asked := map[string]int{}
		m.Crash("p", func(log string, unsynced int) int {
			asked[log] = unsynced
			return keep
		})
		m.Crash("nobody", nil)
		if len(asked) != 2 || asked["sources/src"] != 3 || asked["sinks/snk"] != 3 {
			t.Errorf("asked for %v", asked)
		}
		is(t, source.Append(epoch(6)), state.ErrClosed)
		is(t, sink.Commit(6, nil), state.ErrClosed)
		want := int64(2 + min(max(keep, 0), 3))
		q := opened(t, m, "p") // the same process again
		log, list, err := q.OpenSource("src", 2)
		must(t, err)
		_, epochs, _, err := q.OpenSink("snk", 2)
		must(t, err)
		if int64(len(list)) != want || epochs != want {
			t.Errorf("kept %d: %d entries, commit %d, want %d", keep, len(list), epochs, want)
		}
		must(t, log.Append(epoch(want+1)))
		if err := log.(state.RowLog).Rows(want+1, func([]byte) error { return ErrFault }); err != nil {
			t.Error("rows of an entry that is gone came back")
		}
	}
}

// What a successor was given is not cut any more when its predecessor ends.
func TestMemoryCrashOfZombie(t *testing.T) {
	m := NewMemory(nil)
	p, q := opened(t, m, "p"), opened(t, m, "q")
	zombie, _, err := p.OpenSource("src", 1)
	must(t, err)
	must(t, zombie.Append(epoch(1)))
	_, list, err := q.OpenSource("src", 2)
	must(t, err)
	m.Crash("p", func(log string, unsynced int) int {
		t.Errorf("asked for %s", log)
		return 0
	})
	_, again, err := q.OpenSource("src", 3)
	must(t, err)
	if len(list) != 1 || len(again) != 1 {
		t.Errorf("%d and %d entries", len(list), len(again))
	}
}
