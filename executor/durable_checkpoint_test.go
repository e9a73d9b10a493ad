package executor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"sluice/dataflow/batch"
	"sluice/executor/state"
	"sluice/operators"
)

// gated is a stateful operator whose copies are written when write lets them.
type gated struct {
	running
	frozen *atomic.Int64
	write  func() error
}

func (g *gated) Freeze() (operators.Frozen, error) {
	g.frozen.Add(1)
	return &gatedCopy{frozenSum{sum: g.sum, crash: &crash{}}, g.write}, nil
}

type gatedCopy struct {
	frozenSum
	write func() error
}

func (c *gatedCopy) Write(keep func(int, []byte) error) error {
	if err := c.write(); err != nil {
		return err
	}
	return c.frozenSum.Write(keep)
}

// gatedRun runs a query of one row an epoch, with a checkpoint at each, whose copies are written by write.
func gatedRun(t *testing.T, store *state.Store, d *disk, src *numbered, write func() error, o Options) (frozen int64, err error) {
	t.Helper()
	var n atomic.Int64
	g, _ := chain()
	o.State, o.CheckpointEpochs = store, 1
	o.Build = func(c *operators.Context) (operators.Operator, error) {
		if c.Op.Name == "sink" {
			return &durableSink{disk: d, crash: &crash{}}, nil
		}
		return &gated{running{ctx: c, crash: &crash{}}, &n, write}, nil
	}
	o.OpenSource = func(*operators.Context) (operators.Source, error) { return src, nil }
	_, err = Run(context.Background(), g, o)
	return n.Load(), err
}

func oneByOne(rows int) *numbered {
	s := &numbered{rows: rows, crash: &crash{}, stop: make(chan struct{}), cut: func() int { return 1 }}
	s.epochs.Rows = 1
	return s
}

func openStore(t *testing.T) *state.Store {
	t.Helper()
	store, err := state.Open(t.TempDir(), state.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	return store
}

// TestOneCheckpointAtATime holds the first copy back until 50 epochs have passed: they are worked on meanwhile,
// and no second copy is made.
func TestOneCheckpointAtATime(t *testing.T) {
	store, d, src := openStore(t), &disk{}, oneByOne(60)
	passed := make(chan struct{})
	n := 0
	src.cut = func() int {
		if n++; n == 50 {
			close(passed)
		}
		return 1
	}
	var writers, most atomic.Int64
	frozen, err := gatedRun(t, store, d, src, func() error {
		most.Store(max(most.Load(), writers.Add(1)))
		defer writers.Add(-1)
		<-passed
		return nil
	}, Options{})
	if err != nil || len(d.rows) != 60 {
		t.Fatalf("%d rows, error %v", len(d.rows), err)
	}
	if most.Load() != 1 || frozen > 12 {
		t.Errorf("%d copies were made, %d at a time; the first one was being written for 50 of 60 epochs", frozen, most.Load())
	}
}

// TestFullDisk lets the disk be full for the first copies: the query goes on, says so once, and makes
// checkpoints as soon as there is room.
func TestFullDisk(t *testing.T) {
	store, d, src := openStore(t), &disk{}, oneByOne(1_000_000)
	var tries atomic.Int64
	var told []error
	var mu sync.Mutex
	src.cut = func() int {
		if c, err := store.Checkpoint(); err == nil && c != nil {
			src.crash = crashAfter(1) // there is one: no more is needed
		}
		time.Sleep(100 * time.Microsecond) // a copy is to be written now and then
		return 1
	}
	_, err := gatedRun(t, store, d, src, func() error {
		if tries.Add(1) <= 3 {
			return fmt.Errorf("state: %w", syscall.ENOSPC)
		}
		return nil
	}, Options{Waiting: func(err error) { mu.Lock(); told = append(told, err); mu.Unlock() }})
	if err != nil && !errors.Is(err, errCrash) {
		t.Fatal(err)
	}
	if c, err := store.Checkpoint(); err != nil || c == nil || tries.Load() < 4 {
		t.Errorf("checkpoint %v after %d tries, error %v", c, tries.Load(), err)
	}
	if len(told) != 1 || !errors.Is(told[0], syscall.ENOSPC) {
		t.Errorf("told %v, want one error of a full disk", told)
	}
}

// TestWriterFails lets the writing of a copy fail for good: the query ends with the error, and the next
// process goes on as if the copy had never been made.
func TestWriterFails(t *testing.T) {
	const rows = 20_000 // many more than it takes to hear of a failure
	store, d := openStore(t), &disk{}
	broken := errors.New("broken")
	_, err := gatedRun(t, store, d, oneByOne(rows), func() error { return broken }, Options{})
	if !errors.Is(err, broken) {
		t.Fatalf("error %v", err)
	}
	if _, err := gatedRun(t, store, d, oneByOne(rows), func() error { return nil }, Options{}); err != nil {
		t.Fatal(err)
	}
	var want []int64
	for i, sum := int64(0), int64(0); i < rows; i++ {
		sum += i
		want = append(want, sum)
	}
	if !slices.Equal(d.rows, want) {
		t.Errorf("sink has %d rows, want %d", len(d.rows), len(want))
	}
}

// TestCheckpointsWithoutState has a query without state and without checkpoints: its log is trimmed all the same.
func TestCheckpointsWithoutState(t *testing.T) {
	store, d, src := openStore(t), &disk{}, oneByOne(2*emptyCheckpoints+10)
	most := 0
	src.cut = func() int {
		most = max(most, len(store.Epochs("src")))
		return 1
	}
	g, _ := chain()
	_, err := Run(context.Background(), g, Options{
		State: store,
		Build: func(c *operators.Context) (operators.Operator, error) {
			if c.Op.Name == "sink" {
				return &durableSink{disk: d, crash: &crash{}}, nil
			}
			return &passing{c}, nil
		},
		OpenSource: func(*operators.Context) (operators.Source, error) { return src, nil },
	})
	if err != nil || len(d.rows) != src.rows {
		t.Fatalf("%d rows, error %v", len(d.rows), err)
	}
	if most < emptyCheckpoints/2 || most > emptyCheckpoints+100 {
		t.Errorf("the log had %d entries", most)
	}
}

// passing is an operator without state.
type passing struct{ ctx *operators.Context }

func (p *passing) Process(_ int, b *batch.Batch) error { return p.ctx.Outputs[0].Emit(b) }
func (p *passing) EndEpoch(operators.Mark) error       { return nil }
