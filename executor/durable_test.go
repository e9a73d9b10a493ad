package executor

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"sluice/dataflow"
	"sluice/dataflow/batch"
	"sluice/executor/state"
	"sluice/operators"
)

// errCrash ends a process in the middle.
var errCrash = errors.New("crash")

// crash decides when: at one of the steps that call tick. The zero value never does.
type crash struct{ left atomic.Int64 }

func crashAfter(steps int) *crash {
	c := &crash{}
	c.left.Store(int64(steps))
	return c
}

func (c *crash) tick() error {
	if c.left.Add(-1) == 0 {
		return errCrash
	}
	return nil
}

// numbered is a source of rows with times 0, 1, 2, ... whose cut into batches differs every time.
type numbered struct {
	rows   int
	at     int
	cut    func() int
	epochs operators.EpochOptions
	out    operators.SourceRows
	crash  *crash
	stop   chan struct{}
	once   sync.Once
	pipe   bool // cannot be read again
}

func (s *numbered) Next(_ context.Context, most int) (*operators.SourceRows, error) {
	select {
	case <-s.stop:
		return nil, operators.ErrStopped
	default:
	}
	if err := s.crash.tick(); err != nil {
		return nil, err
	}
	n := min(most, s.rows-s.at, s.cut())
	if n == 0 {
		return nil, io.EOF
	}
	b := batch.New(timeSchema)
	b.Len = n
	b.Cols[0].Reset(dataflow.TimestampType, n)
	for i := range n {
		b.Cols[0].Ints[i] = int64(s.at + i)
	}
	s.at += n
	s.out = operators.SourceRows{Batch: b, Read: n}
	return &s.out, nil
}

func (s *numbered) Epochs() operators.EpochOptions { return s.epochs }
func (s *numbered) Stop()                          { s.once.Do(func() { close(s.stop) }) }
func (s *numbered) Close() error                   { return nil }
func (s *numbered) Replays() bool                  { return !s.pipe }
func (s *numbered) Position() []byte               { return binary.AppendVarint(nil, int64(s.at)) }

func (s *numbered) Seek(position []byte) error {
	at, _ := binary.Varint(position)
	s.at = int(at)
	return nil
}

// running is a stateful operator: it gives each row the sum of all so far.
type running struct {
	ctx   *operators.Context
	sum   int64
	crash *crash
}

func (r *running) Process(_ int, b *batch.Batch) error {
	if err := r.crash.tick(); err != nil {
		return err
	}
	out := batch.New(timeSchema)
	out.Len = b.Len
	out.Cols[0].Reset(dataflow.TimestampType, b.Len)
	for i := range b.Len {
		r.sum += b.Cols[0].Ints[i]
		out.Cols[0].Ints[i] = r.sum
	}
	return r.ctx.Outputs[0].Emit(out)
}

func (r *running) EndEpoch(operators.Mark) error { return r.crash.tick() }
func (r *running) Fingerprint() string           { return "running" }

func (r *running) Snapshot(keep func(int, []byte) error) error {
	if err := r.crash.tick(); err != nil {
		return err
	}
	return keep(operators.WholeState, strconv.AppendInt(nil, r.sum, 10))
}

func (r *running) Restore(_ int, piece []byte) (err error) {
	r.sum, err = strconv.ParseInt(string(piece), 10, 64)
	return err
}

// freezing is a running whose state is written in the background, which takes a while.
type freezing struct{ running }

func (f *freezing) Freeze() (operators.Frozen, error) {
	if err := f.crash.tick(); err != nil {
		return nil, err
	}
	return &frozenSum{sum: f.sum, crash: f.crash}, nil
}

type frozenSum struct {
	sum   int64
	crash *crash
}

func (f *frozenSum) Write(keep func(int, []byte) error) error {
	time.Sleep(time.Duration(f.sum%7) * 50 * time.Microsecond)
	if err := f.crash.tick(); err != nil {
		return err
	}
	return keep(operators.WholeState, strconv.AppendInt(nil, f.sum, 10))
}

// disk is what a sink has written, and survives its process.
type disk struct {
	rows    []int64
	commits int
}

// durableSink is a sink on a disk.
type durableSink struct {
	disk  *disk
	crash *crash
}

func (s *durableSink) Process(_ int, b *batch.Batch) error {
	s.disk.rows = append(s.disk.rows, b.Cols[0].Ints[:b.Len]...)
	return s.crash.tick()
}

func (s *durableSink) EndEpoch(operators.Mark) error { return nil }

func (s *durableSink) Recover(_ int64, witness []byte) (int64, error) {
	n, _ := binary.Varint(witness)
	if int(n) > len(s.disk.rows) {
		return 0, fmt.Errorf("%d rows of %d are left", len(s.disk.rows), n)
	}
	s.disk.rows = s.disk.rows[:n]
	return 0, nil
}

func (s *durableSink) Commit(int64, bool) ([]byte, bool, error) {
	s.disk.commits++
	return binary.AppendVarint(nil, int64(len(s.disk.rows))), true, s.crash.tick()
}

// TestCrashes runs a query whose process crashes again and again, or is told to stop, at any point and
// with tasks divided in any way. In the end the sink has what a run without a crash gives.
func TestCrashes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rows := rapid.IntRange(0, 200).Draw(t, "rows")
		var want []int64
		sum := int64(0)
		for i := range rows {
			sum += int64(i)
			want = append(want, sum)
		}
		d := &disk{}
		dir, err := os.MkdirTemp("", "sluice-state-")
		if err != nil {
			t.Fatal(err)
		}
		defer os.RemoveAll(dir)
		every := rapid.Int64Range(0, 5).Draw(t, "checkpoint")
		freezes := rapid.Bool().Draw(t, "freezes")
		epochRows := rapid.IntRange(1, 30).Draw(t, "epoch-rows")
		g, ops := chain()
		tasks := rapid.SampledFrom([][][]*dataflow.Operator{
			nil, {ops[:1], ops[1:]}, {ops[:2], ops[2:]}, {ops[:1], ops[1:2], ops[2:]}, {{ops[0], ops[2]}, ops[1:2]},
		}).Draw(t, "tasks")
		for life := 1; ; life++ {
			// Without checkpoints each process begins anew, so the last one must be left alone.
			c, stopAt := &crash{}, 0
			if life <= 15 {
				c = crashAfter(rapid.IntRange(1, 40*life).Draw(t, "crash"))
				stopAt = rapid.IntRange(0, 30).Draw(t, "stop")
			}
			err := oneLife(t, g, tasks, dir, d, c, rows, epochRows, every, stopAt, freezes)
			if errors.Is(err, ErrFinished) {
				break
			}
			if err != nil && !errors.Is(err, errCrash) {
				t.Fatalf("process %d: %v", life, err)
			}
		}
		if !slices.Equal(d.rows, want) {
			t.Fatalf("sink has %v, want %v", d.rows, want)
		}
		commits := d.commits
		if err := oneLife(t, g, tasks, dir, d, &crash{}, rows, epochRows, every, 0, freezes); !errors.Is(err, ErrFinished) || d.commits != commits {
			t.Fatalf("a finished query runs again: %v", err)
		}
	})
}

// oneLife is one process. stopAt, if not 0, is after how many batches it is told to stop.
func oneLife(t *rapid.T, g *dataflow.Graph, tasks [][]*dataflow.Operator, dir string, d *disk, c *crash, rows, epochRows int, every int64, stopAt int, freezes bool) error {
	store, err := state.Open(dir, state.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	src := &numbered{rows: rows, crash: &crash{}, stop: make(chan struct{})}
	random := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "cuts"), 0))
	n := 0
	src.cut = func() int {
		if n++; n == stopAt {
			stop()
		}
		return 1 + random.IntN(12)
	}
	src.epochs.Rows = epochRows
	_, err = Run(ctx, g, Options{
		State: store, CheckpointEpochs: every, Tasks: tasks,
		Build: func(o *operators.Context) (operators.Operator, error) {
			if o.Op.Name == "sink" {
				return &durableSink{disk: d, crash: c}, nil
			}
			if freezes {
				return &freezing{running{ctx: o, crash: c}}, nil
			}
			return &running{ctx: o, crash: c}, nil
		},
		OpenSource: func(*operators.Context) (operators.Source, error) { return src, nil },
	})
	return err
}
