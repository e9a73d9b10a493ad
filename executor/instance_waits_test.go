package executor_test

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"sluice/executor"
	"sluice/executor/state"
	"sluice/executor/state/shared"
	"sluice/metaquery"
	"sluice/operators"
	"sluice/operators/catalog"
)

const waitsSpec = `<dataflow name="waits">
  <type name="Row"><column name="t" type="timestamp" eventtime="true"/><column name="k" type="int"/><column name="v" type="int"/></type>
  <operator name="in" type="reader"><output name="rows" type="Row"/><param name="path" value="in.csv"/><param name="epoch-rows" value="10"/></operator>
  <operator name="out" type="writer"><input name="rows"/><param name="path" value="out.csv"/></operator>
</dataflow>`

// fullStore is a store that has no room for epochs while full.
type fullStore struct {
	executor.Store
	full bool
}

// fullLog is a log of a fullStore.
type fullLog struct {
	state.SourceLog
	store *fullStore
}

func (s *fullStore) OpenSource(source string, gen int64) (state.SourceLog, []state.Epoch, error) {
	log, entries, err := s.Store.OpenSource(source, gen)
	return &fullLog{log, s}, entries, err
}

func (l *fullLog) Append(e state.Epoch) error {
	if l.store.full {
		return fmt.Errorf("writing the log: %w", syscall.ENOSPC)
	}
	return l.SourceLog.Append(e)
}

// loneEnv is the surroundings of an instance without channels.
type loneEnv struct{ changes int }

func (e *loneEnv) Dial(string, string)                            {}
func (e *loneEnv) Send(string, []byte) bool                       { return true }
func (e *loneEnv) Reply(string, []byte)                           {}
func (e *loneEnv) Background(work func() error, done func(error)) { done(work()) }
func (e *loneEnv) Now() int64                                     { return time.Now().UnixMicro() }
func (e *loneEnv) Changed()                                       { e.changes++ }
func (e *loneEnv) Progressed()                                    { e.changes++ }

// TestWaitsForRoom: a source whose epoch cannot be logged says so, at once, until it can.
func TestWaitsForRoom(t *testing.T) {
	dir := editDir(t, 100)
	kept, err := shared.Open(filepath.Join(dir, "state"), shared.Options{Coordinator: true})
	if err != nil {
		t.Fatal(err)
	}
	defer kept.Close()
	store, env := &fullStore{Store: kept}, &loneEnv{}
	p := editPlan(t, dir, waitsSpec, 1, nil)
	task := p.Task("in")
	if task == nil {
		t.Fatal("no task in")
	}
	i, err := executor.NewInstance(executor.InstanceConfig{
		Query: p, Task: task, Launch: metaquery.Launch{ID: metaquery.TaskID{Task: "in", Gen: 1}, Every: 5, Flight: 4}, Store: store, Env: env,
		Build: func(c *operators.Context) (operators.Operator, error) {
			return catalog.Build(c, catalog.Options{Limit: -1})
		},
		OpenSource: catalog.OpenSource,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer i.Close()
	i.Cut(context.Background())
	if r := i.Report(); r.Waits != "" || r.Cut != 1 {
		t.Fatalf("with room: waits %q, cut %d", r.Waits, r.Cut)
	}
	store.full = true
	changes := env.changes
	for range 3 {
		i.Cut(context.Background())
		if r := i.Report(); !strings.Contains(r.Waits, syscall.ENOSPC.Error()) || r.Retry != "" {
			t.Fatalf("without room: waits %q, retry %q", r.Waits, r.Retry)
		}
	}
	if env.changes == changes {
		t.Error("nobody is told that the report has changed")
	}
	store.full = false
	changes = env.changes
	i.Cut(context.Background())
	if r := i.Report(); r.Waits != "" || r.Cut != 2 || env.changes == changes {
		t.Errorf("with room again: waits %q, cut %d, %d changes", r.Waits, r.Cut, env.changes-changes)
	}
}

// lostStore is a store the logs of which are given up, by kind.
type lostStore struct {
	executor.Store
	lost map[string]error
}

// lostLog is what a log of a lostStore says of the disk.
type lostLog struct {
	state.Syncing
	store *lostStore
	kind  string
}

func (l *lostLog) Failed() error { return l.store.lost[l.kind] }

func (s *lostStore) OpenSource(source string, gen int64) (state.SourceLog, []state.Epoch, error) {
	log, entries, err := s.Store.OpenSource(source, gen)
	return struct {
		state.SourceLog
		*lostLog
	}{log, &lostLog{log.(state.Syncing), s, "source"}}, entries, err
}

func (s *lostStore) OpenSink(sink string, gen int64) (state.SinkLog, int64, []byte, error) {
	log, epoch, witness, err := s.Store.OpenSink(sink, gen)
	return struct {
		state.SinkLog
		*lostLog
	}{log, &lostLog{log.(state.Syncing), s, "sink"}}, epoch, witness, err
}

// TestLostLog: an instance whose log is given up ends, to be launched again, also if its sources have ended and nothing is
// to be appended any more.
func TestLostLog(t *testing.T) {
	for kind, name := range map[string]string{"source": `source "in"`, "sink": `sink "out"`} {
		dir := editDir(t, 100)
		kept, err := shared.Open(filepath.Join(dir, "state"), shared.Options{Coordinator: true})
		if err != nil {
			t.Fatal(err)
		}
		defer kept.Close()
		store, env := &lostStore{kept, map[string]error{}}, &loneEnv{}
		p := editPlan(t, dir, waitsSpec, 1, nil)
		i, err := executor.NewInstance(executor.InstanceConfig{
			Query: p, Task: p.Task("in"), Launch: metaquery.Launch{ID: metaquery.TaskID{Task: "in", Gen: 1}, Every: 1000, Flight: 100}, Store: store, Env: env,
			Build: func(c *operators.Context) (operators.Operator, error) {
				return catalog.Build(c, catalog.Options{Limit: -1})
			},
			OpenSource: catalog.OpenSource,
		})
		if err != nil {
			t.Fatal(err)
		}
		defer i.Close()
		for range 20 {
			i.Cut(context.Background())
			i.Tick()
		}
		if r := i.Report(); r.Retry != "" || r.Failure != nil || r.Frontiers["out"] != metaquery.LastEpoch {
			t.Fatalf("%s: at the end: %+v", kind, r)
		}
		store.lost[kind] = syscall.EIO
		changes := env.changes
		i.Tick()
		r := i.Report()
		if !strings.Contains(r.Retry, name) || !strings.Contains(r.Retry, syscall.EIO.Error()) || r.Failure != nil || env.changes == changes {
			t.Errorf("%s: retry %q, failure %v, %d changes", kind, r.Retry, r.Failure, env.changes-changes)
		}
	}
}

// backEnv has a clock that is set back.
type backEnv struct {
	loneEnv
	now int64
}

func (e *backEnv) Now() int64 { return e.now }

// TestClockSetBack: a source that starts again with epochs ahead of the clock goes on, though not at full pace.
func TestClockSetBack(t *testing.T) {
	const interval = 100_000
	dir := editDir(t, 1000)
	store, err := shared.Open(filepath.Join(dir, "state"), shared.Options{Coordinator: true})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	p, env := editPlan(t, dir, waitsSpec, 1, nil), &backEnv{now: 1_000_000_000_000_000}
	open := func(gen int64) *executor.Instance {
		i, err := executor.NewInstance(executor.InstanceConfig{
			Query: p, Task: p.Task("in"), Store: store, Env: env,
			Launch: metaquery.Launch{ID: metaquery.TaskID{Task: "in", Gen: gen}, Every: 1000, Flight: 4, Interval: interval},
			Build: func(c *operators.Context) (operators.Operator, error) {
				return catalog.Build(c, catalog.Options{Limit: -1})
			},
			OpenSource: catalog.OpenSource,
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { i.Close() })
		return i
	}
	i := open(1)
	cuts := func(over time.Duration) int64 {
		before := i.Report().Cut
		for end := env.now + over.Microseconds(); env.now < end; env.now += 10_000 {
			i.Cut(context.Background())
		}
		return i.Report().Cut - before
	}
	cuts(time.Second)
	if n := cuts(time.Second); n != 10 {
		t.Fatalf("%d epochs in a second; want 10", n)
	}
	env.now -= time.Hour.Microseconds()
	i = open(2)
	if n := cuts(2 * time.Second); n < 5 || n > 15 {
		t.Errorf("%d epochs in 2 s after the clock has been set back; want about 10", n)
	}
}
