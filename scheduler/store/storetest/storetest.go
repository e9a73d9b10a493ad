/*
Package storetest is what every store.Store must do, as a test that each implementation runs.

	func TestMain(m *testing.M) {
		storetest.Child(open) // a process that a test has started does its part and ends here
		os.Exit(m.Run())
	}

	func TestDir(t *testing.T) {
		storetest.Run(t, func(t *testing.T) string { return t.TempDir() }, open)
	}

open opens a store by a name that another process can open too. Each call gives a Store of its own, as another
process would have it.
*/
package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"sluice/scheduler/store"
)

// Open opens the store of that name.
type Open func(name string) (store.Store, error)

type test struct {
	name string
	run  func(*world)
}

var largeTests = []test{
	{"sizes", sizes},
	{"removal", removal},
	{"large values race", largeValuesRace},
	{"fencing", fencing},
	{"killed writers", killedWriters},
}

var otherTests = []test{
	{"values", values},
	{"versions grow over removals", versionsGrow},
	{"paths", paths},
	{"lists", lists},
	{"contexts", contexts},
	{"closed", closed},
	{"goroutines race", goroutinesRace},
	{"removals race", removalsRace},
	{"processes race", processesRace},
	{"leadership", leadership},
	{"waiting for the lead", waiting},
	{"a killed leader", killedLeader},
	{"terms race", termsRace},
}

// Run runs all tests. Each gets a store of its own, whose name fresh gives.
func Run(t *testing.T, fresh func(t *testing.T) string, open Open) {
	run(t, append(otherTests[:len(otherTests):len(otherTests)], largeTests...), fresh, open)
}

// RunLarge runs the tests in which there are large values.
func RunLarge(t *testing.T, fresh func(t *testing.T) string, open Open) {
	run(t, largeTests, fresh, open)
}

func run(t *testing.T, tests []test, fresh func(t *testing.T) string, open Open) {
	for _, test := range tests {
		t.Run(strings.ReplaceAll(test.name, " ", "-"), func(t *testing.T) {
			ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
			defer cancel()
			w := &world{T: t, ctx: ctx, name: fresh(t), open: open}
			test.run(w)
		})
	}
}

// world is what a test works with.
type world struct {
	*testing.T
	ctx  context.Context
	name string
	open Open
}

// store opens another Store of the test.
func (w *world) store() store.Store {
	w.Helper()
	s, err := w.open(w.name)
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() {
		if err := s.Close(); err != nil {
			w.Error(err)
		}
	})
	return s
}

func (w *world) put(s store.Store, path, value string, version int64) int64 {
	w.Helper()
	next, err := s.Put(w.ctx, path, []byte(value), version)
	if err != nil {
		w.Fatalf("Put %s: %v", path, err)
	}
	if next <= version {
		w.Fatalf("Put %s: version %d after %d", path, next, version)
	}
	return next
}

func (w *world) wantPut(s store.Store, path string, version int64, want error) {
	w.Helper()
	if _, err := s.Put(w.ctx, path, []byte("refused"), version); !errors.Is(err, want) {
		w.Fatalf("Put %s at %d: error %v, want %v", path, version, err, want)
	}
}

func (w *world) wantGet(s store.Store, path, value string, version int64) {
	w.Helper()
	got, v, err := s.Get(w.ctx, path)
	if err != nil || string(got) != value || v != version {
		w.Fatalf("Get %s: %.40q version %d error %v, want %.40q version %d", path, got, v, err, value, version)
	}
}

func (w *world) wantNone(s store.Store, path string) {
	w.Helper()
	if got, v, err := s.Get(w.ctx, path); !errors.Is(err, store.ErrNotFound) {
		w.Fatalf("Get %s: %.40q version %d error %v, want ErrNotFound", path, got, v, err)
	}
}

func (w *world) wantList(s store.Store, path string, want ...string) {
	w.Helper()
	got, err := s.List(w.ctx, path)
	if err != nil || !slices.Equal(got, want) {
		w.Fatalf("List %q: %q error %v, want %q", path, got, err, want)
	}
}

func (w *world) delete(s store.Store, path string, version int64, want error) {
	w.Helper()
	if err := s.Delete(w.ctx, path, version); !errors.Is(err, want) {
		w.Fatalf("Delete %s at %d: error %v, want %v", path, version, err, want)
	}
}

func values(w *world) {
	a, b := w.store(), w.store()
	w.wantNone(a, "framework")
	w.wantPut(a, "framework", 7, store.ErrVersion)
	v1 := w.put(a, "framework", "one", 0)
	w.wantGet(b, "framework", "one", v1)
	w.wantPut(b, "framework", 0, store.ErrVersion)
	w.wantPut(b, "framework", v1+1, store.ErrVersion)
	v2 := w.put(b, "framework", "two", v1)
	w.wantGet(a, "framework", "two", v2)
	w.wantPut(a, "framework", v1, store.ErrVersion)
	v3 := w.put(a, "framework", "", v2) // an empty value is one
	w.wantGet(b, "framework", "", v3)
	w.put(b, "framework", "line\nline\x00", v3)

	// A path may hold a value and have others below.
	deep := w.put(a, "queries/q1/record", "r", 0)
	w.wantNone(b, "queries/q1")
	q1 := w.put(b, "queries/q1", "spec", 0)
	w.wantGet(a, "queries/q1", "spec", q1)
	w.wantGet(b, "queries/q1/record", "r", deep)
	w.wantNone(a, "queries/q1/record/below/deeper")
}

func versionsGrow(w *world) {
	a, b := w.store(), w.store()
	first := w.put(a, "q/x", "1", 0)
	second := w.put(a, "q/x", "2", first)
	w.delete(b, "q/x", second, nil)
	third := w.put(a, "q/x", "3", 0)
	if third <= second {
		w.Fatalf("version %d after a removal, %d before", third, second)
	}
	// With the folder above removed it is no other.
	w.delete(b, "q", 0, nil)
	fourth := w.put(a, "q/x", "4", 0)
	if fourth <= third {
		w.Fatalf("version %d after a removal, %d before", fourth, third)
	}
	for _, old := range []int64{first, second, third} {
		w.wantPut(b, "q/x", old, store.ErrVersion)
		w.delete(b, "q/x", old, store.ErrVersion)
	}
	w.wantGet(b, "q/x", "4", fourth)
}

func paths(w *world) {
	s := w.store()
	long := strings.Repeat("n", 200)
	for _, p := range []string{"a", "A-z_0.9", "..x", "a/b/c/d", ".hidden", long} {
		v := w.put(s, p, p, 0)
		w.wantGet(s, p, p, v)
	}
	bad := []string{"", "/", "/a", "a/", "a//b", ".", "..", "a/../b", "a b", "ä", "a\x00", "+value", "a/+x", "a\\b", long + "n", strings.Repeat("a/", 12) + "a"}
	for _, p := range bad {
		w.wantPut(s, p, 0, store.ErrPath)
		w.delete(s, p, 0, store.ErrPath)
		if _, _, err := s.Get(w.ctx, p); !errors.Is(err, store.ErrPath) {
			w.Errorf("Get %q: %v", p, err)
		}
		if _, err := s.List(w.ctx, p); p != "" && !errors.Is(err, store.ErrPath) {
			w.Errorf("List %q: %v", p, err)
		}
	}
}

// pattern is a value of n bytes that begins with its seed, and of which each 64 KiB are others.
func pattern(seed, n int) string {
	var b strings.Builder
	for i := 0; b.Len() < n; i++ {
		b.WriteString(strings.Repeat(string([]byte{byte(seed + 31*i)}), min(64<<10, n-b.Len())))
	}
	return b.String()
}

func sizes(w *world) {
	a, b := w.store(), w.store()
	var version int64
	for i, n := range []int{0, 1, 1 << 19, 1<<19 + 1, 1 << 20, 3<<19 + 5, 4 << 20, 10, 1<<20 - 1, 0} {
		version = w.put(a, "large", pattern(i, n), version)
		w.wantGet(b, "large", pattern(i, n), version)
		w.wantGet(a, "large", pattern(i, n), version)
	}
	version = w.put(b, "large", pattern(1, 2<<20), version)
	w.wantPut(a, "large", version+1, store.ErrVersion)
	w.wantList(a, "", "large")
	w.wantList(a, "large")
	w.delete(a, "large", version, nil)
	w.wantNone(b, "large")
	if _, err := a.Put(w.ctx, "large", make([]byte, store.MaxValue+1), 0); !errors.Is(err, store.ErrPath) {
		w.Fatalf("a value above the bound: %v", err)
	}
}

func lists(w *world) {
	a, b := w.store(), w.store()
	w.wantList(a, "")
	w.wantList(a, "queries")
	var v int64
	for _, p := range []string{"queries/b", "queries/a/x", "queries/a/y/z", "queries/c", "queries/c/d", "other"} {
		v = w.put(a, p, p, 0)
	}
	w.wantList(b, "", "other", "queries")
	w.wantList(b, "queries", "a", "b", "c")
	w.wantList(b, "queries/a", "x", "y")
	w.wantList(b, "queries/b")
	w.delete(b, "other", v, nil)
	w.wantList(a, "", "queries")
	for i := range 50 {
		w.put(a, fmt.Sprintf("many/%02d", i), "x", 0)
	}
	if got, err := b.List(w.ctx, "many"); err != nil || len(got) != 50 || !slices.IsSorted(got) {
		w.Fatalf("List: %d names, sorted %v, error %v", len(got), slices.IsSorted(got), err)
	}
}

func removal(w *world) {
	a, b := w.store(), w.store()
	w.delete(a, "q", 0, store.ErrNotFound)
	w.delete(a, "q", 5, store.ErrNotFound)
	v := w.put(a, "queries/q1", "spec", 0)
	w.put(a, "queries/q1/record", "r", 0)
	w.put(a, "queries/q1/tasks/t1/intent", pattern(1, 700<<10), 0)
	w.delete(b, "queries/q1", 0, store.ErrVersion)
	w.delete(b, "queries/q1", v+1, store.ErrVersion)
	w.wantGet(b, "queries/q1", "spec", v)
	w.wantList(b, "queries/q1", "record", "tasks")
	w.delete(b, "queries/q1", v, nil)
	w.wantNone(a, "queries/q1")
	w.wantNone(a, "queries/q1/record")
	w.wantNone(a, "queries/q1/tasks/t1/intent")
	// The folder above held nothing else.
	w.wantList(a, "queries")
	w.wantList(a, "")
	w.delete(a, "queries/q1", v, store.ErrNotFound)

	// A path without a value goes with what is below, whose neighbours stay.
	w.put(a, "x/y/1", "1", 0)
	w.put(a, "x/y/2", "2", 0)
	kept := w.put(a, "x/kept", "k", 0)
	w.delete(b, "x/y", 0, nil)
	w.wantList(a, "x", "kept")
	w.wantGet(a, "x/kept", "k", kept)
	for i := range 130 {
		w.put(a, fmt.Sprintf("wide/%d/v", i), "x", 0)
	}
	w.delete(b, "wide", 0, nil)
	w.wantList(a, "", "x")
}

func contexts(w *world) {
	s := w.store()
	v := w.put(s, "a", "1", 0)
	ctx, cancel := context.WithCancel(w.ctx)
	cancel()
	_, _, get := s.Get(ctx, "a")
	_, list := s.List(ctx, "")
	_, leader := s.Leader(ctx)
	_, lead := s.Lead(ctx, nil)
	for what, err := range map[string]error{"Get": get, "List": list, "Leader": leader, "Lead": lead, "Delete": s.Delete(ctx, "a", v)} {
		if !errors.Is(err, context.Canceled) {
			w.Errorf("%s: %v", what, err)
		}
	}
	if _, err := s.Put(ctx, "b", nil, 0); !errors.Is(err, context.Canceled) {
		w.Errorf("Put: %v", err)
	}
}

func closed(w *world) {
	s := w.store()
	v := w.put(s, "a", "1", 0)
	l, err := s.Lead(w.ctx, nil)
	if err != nil {
		w.Fatal(err)
	}
	if err := s.Close(); err != nil {
		w.Fatal(err)
	}
	w.wantLost(l)
	_, _, get := s.Get(w.ctx, "a")
	_, list := s.List(w.ctx, "")
	_, lead := s.Lead(w.ctx, nil)
	for what, err := range map[string]error{"Get": get, "List": list, "Lead": lead, "Delete": s.Delete(w.ctx, "a", v)} {
		if !errors.Is(err, store.ErrClosed) {
			w.Errorf("%s: %v", what, err)
		}
	}
	w.wantPut(s, "a", v, store.ErrClosed)
	if err := s.Close(); err != nil {
		w.Errorf("closed twice: %v", err)
	}
	w.wantGet(w.store(), "a", "1", v)
}
