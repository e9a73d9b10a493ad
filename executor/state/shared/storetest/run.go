package storetest

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sluice/executor/state"
	"sluice/executor/state/shared"
)

// Shared opens one shared state for a process. The coordinator's comes first.
type Shared func(process string, coordinator bool) (shared.State, error)

// Run runs all tests. fresh makes an empty one, which is removed by t.Cleanup.
func Run(t *testing.T, fresh func(t testing.TB) Shared) {
	tests := []struct {
		name string
		test func(t *testing.T, open Shared)
	}{
		{"Source", testSource},
		{"Zombie", testZombie},
		{"OutOfOrder", testOutOfOrder},
		{"SameGeneration", testSameGeneration},
		{"TrimSource", testTrimSource},
		{"Rows", testRows},
		{"Sink", testSink},
		{"Names", testNames},
		{"Snapshots", testSnapshots},
		{"TrimSnapshots", testTrimSnapshots},
		{"Decisions", testDecisions},
		{"Record", testRecord},
		{"Spec", testSpec},
		{"Coordinator", testCoordinator},
		{"RaceSeal", testRaceSeal},
		{"RaceOpen", testRaceOpen},
		{"RaceDecide", testRaceDecide},
		{"RaceRecord", testRaceRecord},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) { test.test(t, fresh(t)) })
	}
	t.Run("Model", func(t *testing.T) { testModel(t, fresh) })
}

// tester is what a *testing.T and a *rapid.T have in common.
type tester interface {
	Helper()
	Errorf(format string, args ...any)
	Fatal(args ...any)
}

func must(t tester, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func is(t tester, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("error %v, want %v", err, want)
	}
}

func isAssertion(t tester, err error) {
	t.Helper()
	if a := (*state.AssertionError)(nil); !errors.As(err, &a) {
		t.Errorf("error %v, want an AssertionError", err)
	}
}

func same(t tester, what string, got, want any) {
	t.Helper()
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("%s: -want +got\n%s", what, d)
	}
}

// coordinated opens the state as its coordinator, for the whole test.
func coordinated(t testing.TB, open Shared) shared.State {
	t.Helper()
	s, err := open("coordinator", true)
	must(t, err)
	t.Cleanup(func() { must(t, s.Close()) })
	return s
}

// worker opens the state as one of its workers, after the coordinator.
func worker(t testing.TB, open Shared, name string) shared.State {
	t.Helper()
	s, err := open(name, false)
	must(t, err)
	t.Cleanup(func() { must(t, s.Close()) })
	return s
}

func epochOf(source string, n, prev int64) state.Epoch {
	return state.Epoch{
		Source: source, Epoch: n, Prev: prev, Clock: 1e15 + n, Watermark: -n, Latest: n * 3, Begun: n%2 == 0,
		Rows: n * 7, Idle: n%3 == 0, Position: fmt.Appendf(nil, "position %d", n),
	}
}

// openSource opens the log of a source "src" and closes it after the test.
func openSource(t testing.TB, s shared.State, gen int64) (state.SourceLog, []state.Epoch) {
	t.Helper()
	log, list, err := s.OpenSource("src", gen)
	must(t, err)
	t.Cleanup(func() { must(t, log.Close()) })
	return log, list
}

func testSource(t *testing.T, open Shared) {
	coordinated(t, open)
	s := worker(t, open, "a")
	log, list := openSource(t, s, 1)
	same(t, "entries at first", list, []state.Epoch(nil))
	var want []state.Epoch
	for i := range int64(20) {
		e := epochOf("src", 3*i, 3*i-3)
		e.End, e.Stop = i == 19, i == 18
		want = append(want, e)
		must(t, log.Append(e))
	}
	want[4].Position = want[4].Position[:0]
	isAssertion(t, log.Append(epochOf("src", 57, 56)))
	isAssertion(t, log.Append(epochOf("src", 90, 90)))
	isAssertion(t, log.Append(epochOf("other", 91, 90)))
	isAssertion(t, log.Append(state.Epoch{Source: "src", Epoch: 91, Prev: 90, Position: make([]byte, 9<<20)}))
	must(t, log.Close())
	is(t, log.Append(epochOf("src", 99, 57)), state.ErrClosed)
	want[4].Position = []byte("position 12")
	_, list = openSource(t, worker(t, open, "b"), 2)
	same(t, "entries", list, want)
	_, _, err := s.OpenSource("src", -1)
	isAssertion(t, err)
}

// What a zombie appends after its log was sealed is seen by nobody, and it is told.
func testZombie(t *testing.T, open Shared) {
	coordinated(t, open)
	a, b, c := worker(t, open, "a"), worker(t, open, "b"), worker(t, open, "c")
	zombie, _ := openSource(t, a, 1)
	must(t, zombie.Append(epochOf("src", 1, 0)))
	must(t, zombie.Append(epochOf("src", 2, 1)))
	next, list := openSource(t, b, 2)
	same(t, "generation 2", list, []state.Epoch{epochOf("src", 1, 0), epochOf("src", 2, 1)})
	is(t, zombie.Append(epochOf("src", 3, 2)), state.ErrSealed)
	must(t, next.Append(epochOf("src", 5, 2)))
	is(t, zombie.Append(epochOf("src", 4, 2)), state.ErrSealed)
	is(t, zombie.Trim(2), state.ErrSealed)
	third, list := openSource(t, c, 5)
	want := []state.Epoch{epochOf("src", 1, 0), epochOf("src", 2, 1), epochOf("src", 5, 2)}
	same(t, "generation 5", list, want)
	is(t, next.Append(epochOf("src", 6, 5)), state.ErrSealed)
	must(t, third.Append(epochOf("src", 7, 5)))
	_, list = openSource(t, a, 6)
	same(t, "generation 6", list, append(want, epochOf("src", 7, 5)))
}

// A generation that comes after a higher one has been sealed before it began.
func testOutOfOrder(t *testing.T, open Shared) {
	coordinated(t, open)
	a, b := worker(t, open, "a"), worker(t, open, "b")
	log, _ := openSource(t, a, 3)
	must(t, log.Append(epochOf("src", 1, 0)))
	for gen := range int64(3) {
		_, _, err := b.OpenSource("src", gen)
		is(t, err, state.ErrSealed)
		must(t, log.Append(epochOf("src", 2+gen, 1+gen)))
	}
	_, list := openSource(t, b, 4)
	same(t, "entries", len(list), 4)
	_, _, err := a.OpenSource("src", 3)
	is(t, err, state.ErrSealed)

	sink, _, _, err := a.OpenSink("snk", 3)
	must(t, err)
	_, _, _, err = b.OpenSink("snk", 2)
	is(t, err, state.ErrSealed)
	must(t, sink.Commit(1, nil))
	must(t, sink.Close())
}

// A generation that is launched again, as its first instance was lost, takes over from it.
func testSameGeneration(t *testing.T, open Shared) {
	coordinated(t, open)
	a, b := worker(t, open, "a"), worker(t, open, "b")
	first, _ := openSource(t, a, 0)
	must(t, first.Append(epochOf("src", 1, 0)))
	second, list := openSource(t, b, 0)
	same(t, "entries", list, []state.Epoch{epochOf("src", 1, 0)})
	is(t, first.Append(epochOf("src", 2, 1)), state.ErrSealed)
	must(t, second.Append(epochOf("src", 3, 1)))
}

func testTrimSource(t *testing.T, open Shared) {
	coordinated(t, open)
	a := worker(t, open, "a")
	log, _ := openSource(t, a, 1)
	last, gen := int64(0), int64(1)
	for i := int64(1); i <= 300; i++ {
		must(t, log.Append(epochOf("src", 2*i, last)))
		last = 2 * i
		if i%10 != 0 {
			continue
		}
		at := last - 5 // between two epochs: the one below it stays
		must(t, log.Trim(at))
		must(t, log.Trim(at-20))
		if i%50 != 0 {
			continue
		}
		gen++
		var list []state.Epoch
		log, list = openSource(t, a, gen)
		var want []state.Epoch
		for e := at - 1; e <= last; e += 2 {
			want = append(want, epochOf("src", e, e-2))
		}
		same(t, fmt.Sprintf("entries after %d", i), list, want)
	}
}

func rowsOf(t testing.TB, log state.SourceLog, epoch int64) []string {
	t.Helper()
	var list []string
	must(t, log.(state.RowLog).Rows(epoch, func(rows []byte) error {
		list = append(list, string(rows))
		return nil
	}))
	return list
}

// Rows are there with the entry of their epoch, for all later generations, until they are trimmed.
func testRows(t *testing.T, open Shared) {
	coordinated(t, open)
	a, b := worker(t, open, "a"), worker(t, open, "b")
	log, _ := openSource(t, a, 1)
	rows := log.(state.RowLog)
	big := bytes.Repeat([]byte("big "), 600)
	for i := int64(1); i <= 9; i++ {
		if i != 4 {
			must(t, rows.AppendRows(i, fmt.Appendf(nil, "first of %d", i)))
			must(t, rows.AppendRows(i, big))
			isAssertion(t, rows.AppendRows(i+1, nil))
			isAssertion(t, log.Append(epochOf("src", i+1, i-1)))
		}
		must(t, log.Append(epochOf("src", i, i-1)))
	}
	isAssertion(t, rows.AppendRows(9, []byte("late")))
	isAssertion(t, rows.AppendRows(10, make([]byte, 9<<20)))
	must(t, rows.AppendRows(10, []byte("never counted")))
	next, list := openSource(t, b, 2)
	same(t, "entries", len(list), 9)
	for _, l := range []state.SourceLog{log, next} {
		same(t, "rows of 1", rowsOf(t, l, 1), []string{"first of 1", string(big)})
		same(t, "rows of 4", rowsOf(t, l, 4), []string(nil))
		same(t, "rows of 9", rowsOf(t, l, 9), []string{"first of 9", string(big)})
	}
	is(t, rows.AppendRows(10, []byte("x")), state.ErrSealed)
	is(t, log.Append(epochOf("src", 10, 9)), state.ErrSealed)
	must(t, next.(state.RowLog).AppendRows(10, []byte("again")))
	must(t, next.Append(epochOf("src", 10, 9)))
	same(t, "rows of 10", rowsOf(t, next, 10), []string{"again"})
	must(t, next.Trim(9))
	isAssertion(t, next.(state.RowLog).Rows(8, nil))
	third, _ := openSource(t, a, 3)
	same(t, "rows of 9", rowsOf(t, third, 9), []string{"first of 9", string(big)})
	same(t, "rows of 10", rowsOf(t, third, 10), []string{"again"})
	stop := errors.New("stop")
	is(t, third.(state.RowLog).Rows(9, func([]byte) error { return stop }), stop)
}

func testSink(t *testing.T, open Shared) {
	coordinated(t, open)
	a, b := worker(t, open, "a"), worker(t, open, "b")
	log, epoch, witness, err := a.OpenSink("snk", 1)
	must(t, err)
	same(t, "first", []any{epoch, witness}, []any{int64(0), []byte(nil)})
	must(t, log.Commit(0, []byte("begin")))
	for i := int64(1); i < 200; i++ {
		must(t, log.Commit(i*2, fmt.Appendf(nil, "part %d", i)))
	}
	isAssertion(t, log.Commit(397, nil))
	must(t, log.Commit(398, []byte("file 199")))
	isAssertion(t, log.Commit(400, make([]byte, 9<<20)))
	next, epoch, witness, err := b.OpenSink("snk", 2)
	must(t, err)
	same(t, "second", []any{epoch, witness}, []any{int64(398), []byte("file 199")})
	is(t, log.Commit(400, nil), state.ErrSealed)
	must(t, next.Commit(401, nil))
	must(t, next.Close())
	is(t, next.Commit(402, nil), state.ErrClosed)
	must(t, log.Close())
	last, epoch, witness, err := a.OpenSink("snk", 3)
	must(t, err)
	same(t, "third", []any{epoch, witness}, []any{int64(401), []byte(nil)})
	must(t, last.Close())
}

// Any name is one log, and no two are the same.
func testNames(t *testing.T, open Shared) {
	coordinated(t, open)
	s := worker(t, open, "a")
	long := string(bytes.Repeat([]byte("x"), 4000))
	names := []string{"a", "A", "a.b", "a/b", "../a", ".", "..", "a%2Fb", "tmp-a", "\x00", "é", long, long + "y", long + "z"}
	for i, name := range names {
		log, list, err := s.OpenSource(name, 1)
		must(t, err)
		same(t, "entries of "+name, list, []state.Epoch(nil))
		must(t, log.Append(epochOf(name, int64(i), int64(i)-1)))
		must(t, log.Close())
	}
	for i, name := range names {
		log, list, err := s.OpenSource(name, 2)
		must(t, err)
		same(t, "entries of "+name, list, []state.Epoch{epochOf(name, int64(i), int64(i)-1)})
		must(t, log.Close())
	}
	for _, name := range []string{"", long + long} {
		_, _, err := s.OpenSource(name, 1)
		isAssertion(t, err)
		_, _, _, err = s.OpenSink(name, 1)
		isAssertion(t, err)
		_, err = s.WriteSnapshot(name, 1, 1, 1, "", nil)
		isAssertion(t, err)
	}
}
