package storetest

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"sluice/executor/state"
	"sluice/executor/state/shared"
)

type piece struct {
	Group int
	Bytes string
}

func writeSnapshot(s shared.State, key string, gen, lo, hi int64, pieces []piece) (string, error) {
	return s.WriteSnapshot(key, gen, lo, hi, "print of "+key, func(keep func(int, []byte) error) error {
		buf := make([]byte, 0, 1<<10)
		for _, p := range pieces {
			buf = append(buf[:0], p.Bytes...) // one memory for all: none is kept
			if err := keep(p.Group, buf); err != nil {
				return err
			}
		}
		return nil
	})
}

func readSnapshot(s shared.State, ref string) (fingerprint string, pieces []piece, err error) {
	fingerprint, err = s.ReadSnapshot(ref, func(group int, b []byte) error {
		pieces = append(pieces, piece{group, string(b)})
		return nil
	})
	return fingerprint, pieces, err
}

func testSnapshots(t *testing.T, open Shared) {
	coordinated(t, open)
	a, b := worker(t, open, "a"), worker(t, open, "b")
	lists := [][]piece{
		nil,
		{{-1, ""}},
		{{0, "x"}, {719, strings.Repeat("y", 100000)}, {3, ""}, {-1, "z"}, {3, "again"}},
	}
	refs := map[string]bool{}
	for i, list := range lists {
		for range 3 { // those that are the same do not replace each other
			ref, err := writeSnapshot(a, "agg/1", 2, int64(i), math.MaxInt64, list)
			must(t, err)
			if refs[ref] || strings.HasPrefix(ref, "/") {
				t.Errorf("ref %q", ref)
			}
			refs[ref] = true
			fingerprint, got, err := readSnapshot(b, ref)
			must(t, err)
			same(t, "fingerprint", fingerprint, "print of agg/1")
			same(t, "pieces", got, list)
		}
	}
	stop := errors.New("stop")
	_, err := a.WriteSnapshot("k", 1, 1, 2, "", func(keep func(int, []byte) error) error { return errors.Join(keep(1, []byte("x")), stop) })
	is(t, err, stop)
	for _, group := range []int{-2, 720} {
		_, err = writeSnapshot(a, "k", 1, 1, 2, []piece{{group, "x"}})
		isAssertion(t, err)
	}
	_, err = writeSnapshot(a, "k", 1, 3, 2, nil)
	isAssertion(t, err)
	ref, err := writeSnapshot(a, "k", 1, 1, 2, lists[2])
	must(t, err)
	_, err = a.ReadSnapshot(ref, func(int, []byte) error { return stop })
	is(t, err, stop)
	for _, bad := range []string{"", "snapshots", "snapshots/..", "../x", "shared", "lock", "/etc/passwd", "snapshots/../shared", ref + "/", ref + ".1", ref[:len(ref)-1] + "9"} {
		if _, _, err := readSnapshot(a, bad); err == nil {
			t.Errorf("read the snapshot %q", bad)
		}
	}
}

func testTrimSnapshots(t *testing.T, open Shared) {
	c := coordinated(t, open)
	a := worker(t, open, "a")
	write := func(gen, lo, hi int64) string {
		ref, err := writeSnapshot(a, "k", gen, lo, hi, []piece{{1, fmt.Sprint(gen, lo, hi)}})
		must(t, err)
		return ref
	}
	old, used, wide, later, ended := write(1, 1, 4), write(1, 5, 9), write(2, 8, 14), write(2, 15, 19), write(1, 20, math.MaxInt64)
	check := func(what string, want ...string) {
		t.Helper()
		for _, ref := range []string{old, used, wide, later, ended} {
			_, _, err := readSnapshot(a, ref)
			if (err == nil) != slices.Contains(want, ref) {
				t.Errorf("%s: snapshot %q: %v", what, ref, err)
			}
		}
	}
	must(t, c.Trim(0, nil))
	check("trimmed to 0", old, used, wide, later, ended)
	must(t, c.Trim(10, []string{used, "snapshots/none"}))
	check("trimmed to 10", used, wide, later, ended)
	must(t, c.Trim(14, []string{wide}))
	check("trimmed to 14", wide, later, ended)
	must(t, c.Trim(math.MaxInt64, []string{ended}))
	check("trimmed to the end", ended)
}

func testDecisions(t *testing.T, open Shared) {
	coordinated(t, open)
	a, b := worker(t, open, "a"), worker(t, open, "b")
	_, known, err := a.Decided(1)
	must(t, err)
	same(t, "decided before", known, false)
	for i := int64(1); i <= 20; i++ {
		got, err := a.Decide(i, i%2 == 0)
		must(t, err)
		same(t, "first decision", got, i%2 == 0)
		got, err = b.Decide(i, i%2 != 0)
		must(t, err)
		same(t, "second decision", got, i%2 == 0)
		committed, known, err := b.Decided(i)
		must(t, err)
		same(t, "decided", []bool{committed, known}, []bool{i%2 == 0, true})
	}
	for i := int64(21); i <= 1005; i++ {
		_, err := a.Decide(i, true)
		must(t, err)
	}
	for i, want := range map[int64]error{5: shared.ErrForgotten, 6: nil, 1005: nil} {
		_, err := b.Decide(i, true)
		is(t, err, want)
		_, _, err = b.Decided(i)
		is(t, err, want)
	}
	_, err = a.Decide(-1, true)
	isAssertion(t, err)
}

func testRecord(t *testing.T, open Shared) {
	a, b := coordinated(t, open), worker(t, open, "b")
	record, version, err := a.Load()
	must(t, err)
	same(t, "at first", []any{record, version}, []any{[]byte(nil), int64(0)})
	_, err = a.Save([]byte("x"), version)
	isAssertion(t, err)
	must(t, a.Claim(1))
	_, version, err = a.Load()
	must(t, err)
	for i := range int64(10) {
		old := version
		version, err = a.Save(fmt.Appendf(nil, "record %d", i), version)
		must(t, err)
		_, err = a.Save([]byte("lost"), old)
		is(t, err, shared.ErrSuperseded)
	}
	is(t, b.Claim(1), shared.ErrSuperseded)
	is(t, a.Claim(0), shared.ErrSuperseded)
	must(t, b.Claim(7))
	_, err = a.Save([]byte("lost"), version)
	is(t, err, shared.ErrSuperseded)
	record, version, err = b.Load()
	must(t, err)
	same(t, "record", string(record), "record 9")
	// Not even with the version of the new one.
	_, err = a.Save([]byte("lost"), version)
	is(t, err, shared.ErrSuperseded)
	_, err = b.Save([]byte("of term 7\nand\x00more"), version)
	must(t, err)
	record, _, err = a.Load()
	must(t, err)
	same(t, "record", string(record), "of term 7\nand\x00more")
}

func testSpec(t *testing.T, open Shared) {
	c := coordinated(t, open)
	a := worker(t, open, "a")
	text, err := a.Spec()
	must(t, err)
	same(t, "spec at first", text, []byte(nil))
	for _, want := range []string{"source a\nsink b\n", strings.Repeat("x", 100000), ""} {
		must(t, c.SetSpec([]byte(want)))
		text, err := a.Spec()
		must(t, err)
		if text == nil || !bytes.Equal(text, []byte(want)) {
			t.Errorf("spec %q, want %q", text, want)
		}
	}
}

// Only one process is the coordinator, and the next one finds everything.
func testCoordinator(t *testing.T, open Shared) {
	first, err := open("first", true)
	must(t, err)
	_, err = open("second", true)
	is(t, err, state.ErrInUse)
	must(t, first.Claim(1))
	_, err = first.Save([]byte("record"), 1)
	must(t, err)
	must(t, first.Close())
	must(t, first.Close())
	_, _, err = first.Load()
	is(t, err, state.ErrClosed)
	_, _, err = first.OpenSource("src", 1)
	is(t, err, state.ErrClosed)
	_, err = first.Decide(1, true)
	is(t, err, state.ErrClosed)
	_, err = writeSnapshot(first, "k", 1, 1, 1, nil)
	is(t, err, state.ErrClosed)
	second := coordinated(t, open)
	record, version, err := second.Load()
	must(t, err)
	same(t, "record", []any{string(record), version}, []any{"record", int64(2)})
}
