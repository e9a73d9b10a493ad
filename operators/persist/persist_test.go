package persist

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"sluice/dataflow"
	"sluice/dataflow/batch"
	"sluice/operators"
)

type fatal interface {
	Helper()
	Fatal(...any)
	Fatalf(string, ...any)
}

var schema = &dataflow.Schema{Columns: []dataflow.Column{{Name: "n", Type: dataflow.IntType}, {Name: "s", Type: dataflow.StringType, Nullable: true}}}

// pipe is what outlives processes: a number of rows that can be read once. Of those that 5 divides some are bad,
// of those that 7 divides some are skipped.
type pipe struct{ next, last int64 }

// reader is a source over the pipe.
type reader struct {
	pipe   *pipe
	sizes  func() int64 // of the next run
	fails  error        // of the next Next
	sought []byte
}

func (r *reader) Next(_ context.Context, max int) (*operators.SourceRows, error) {
	if r.fails != nil {
		return nil, r.fails
	}
	if r.pipe.next > r.pipe.last {
		return nil, io.EOF
	}
	rows := &operators.SourceRows{Batch: batch.New(schema), Errors: batch.New(operators.ErrorsSchema)}
	for n := min(int64(max), r.sizes(), r.pipe.last-r.pipe.next+1); n > 0; n-- {
		value := r.pipe.next
		r.pipe.next++
		rows.Read++
		switch {
		case value%7 == 0:
		case value%5 == 0:
			for c := range rows.Errors.Cols {
				rows.Errors.Cols[c].AppendBytes(fmt.Append(nil, value))
			}
			rows.Errors.Len++
		default:
			rows.Batch.Cols[0].Append(&batch.Vector{Type: dataflow.IntType, Len: 1, Ints: []int64{value}}, 0)
			if value%2 == 0 {
				rows.Batch.Cols[1].AppendNull()
			} else {
				rows.Batch.Cols[1].AppendBytes(fmt.Append(nil, value))
			}
			rows.Batch.Len++
		}
	}
	return rows, nil
}

func (r *reader) Epochs() operators.EpochOptions { return operators.EpochOptions{Rows: 3} }
func (r *reader) Stop()                          {}
func (r *reader) Close() error                   { return nil }
func (r *reader) Replays() bool                  { return false }
func (r *reader) Position() []byte               { return fmt.Append(nil, r.pipe.next) }
func (r *reader) Seek(p []byte) error            { r.sought = p; return nil }

func contextOf(log operators.RowLog) *operators.Context {
	op := &dataflow.Operator{Name: "x", Outputs: []dataflow.Output{{Schema: schema}, {Port: "errors", Schema: operators.ErrorsSchema}}}
	return &operators.Context{Op: op, Counters: &operators.Counters{}, Log: log}
}

// text writes rows down in the order of their numbers, with "bad" before those that are.
func text(rows *operators.SourceRows) []string {
	var got []string
	if b := rows.Batch; b != nil {
		for i := range b.Len {
			s := "null"
			if !b.Cols[1].IsNull(i) {
				s = string(b.Cols[1].Bytes(i))
			}
			got = append(got, fmt.Sprint(b.Cols[0].Ints[i], s))
		}
	}
	if b := rows.Errors; b != nil {
		for i := range b.Len {
			got = append(got, "bad"+string(b.Cols[0].Bytes(i)))
		}
	}
	return got
}

// epoch is an epoch as the epoch log has it.
type epoch struct {
	read     int
	position []byte
	rows     []string
}

// cut reads an epoch of at most n rows.
func cut(t fatal, s operators.Replayable, n int) (e epoch, end bool) {
	t.Helper()
	for e.read < n {
		rows, err := s.Next(context.Background(), n-e.read)
		if errors.Is(err, io.EOF) {
			end = true
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if rows.Read > n-e.read {
			t.Fatalf("%d rows where %d were asked for", rows.Read, n-e.read)
		}
		e.read += rows.Read
		e.rows = append(e.rows, text(rows)...)
	}
	e.position = s.Position()
	slices.Sort(e.rows) // within an epoch the two outputs do not depend on each other
	return e, end
}

// TestEveryRowOnce: whenever processes die, epochs that were logged are cut again as they were, and every row
// that was read from the pipe is in one.
func TestEveryRowOnce(t *testing.T) {
	root := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		dir, err := os.MkdirTemp(root, "")
		if err != nil {
			t.Fatal(err)
		}
		p := &pipe{next: 1, last: rapid.Int64Range(0, 60).Draw(t, "rows")}
		var logged []epoch // the first is where all begins
		for lives := 0; ; lives++ {
			log, err := OpenLog(dir)
			if err != nil {
				t.Fatal(err)
			}
			log.size = 300
			r := &reader{pipe: p, sizes: func() int64 { return rapid.Int64Range(1, 9).Draw(t, "run") }}
			s := New(contextOf(log), r)
			if logged == nil {
				logged = []epoch{{position: s.Position()}}
			}
			from := rapid.IntRange(0, len(logged)-1).Draw(t, "checkpoint")
			if err := errors.Join(s.Seek(logged[len(logged)-1].position), s.Seek(logged[from].position)); err != nil {
				t.Fatal(err)
			}
			for _, e := range logged[from+1:] {
				again, _ := cut(t, s, e.read)
				if !slices.Equal(again.rows, e.rows) || again.read != e.read {
					t.Fatalf("an epoch was %v and is %v", e.rows, again.rows)
				}
			}
			dies := false
			for !dies {
				e, end := cut(t, s, rapid.IntRange(1, 12).Draw(t, "epoch"))
				dies = lives < 5 && rapid.IntRange(0, 3).Draw(t, "dies") == 0 // before the epoch is logged
				if !dies {
					logged = append(logged, e)
				}
				if end {
					break
				}
			}
			if p.next <= p.last+1 && !dies {
				if err := log.Close(); err != nil {
					t.Fatal(err)
				}
				break
			}
		}
		var got, want []string
		for _, e := range logged {
			got = append(got, e.rows...)
		}
		for whole := (&reader{pipe: &pipe{next: 1, last: p.last}, sizes: func() int64 { return 1 }}); ; {
			rows, err := whole.Next(context.Background(), 1)
			if err != nil {
				break
			}
			want = append(want, text(rows)...)
		}
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Fatalf("got %v, want %v", got, want)
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
	})
}

// failing is a log that fails a number of times.
type failing struct {
	operators.RowLog
	times int
}

func (f *failing) AppendRows(number int64, payload []byte) error {
	if f.times > 0 {
		f.times--
		return errors.New("disk full")
	}
	return f.RowLog.AppendRows(number, payload)
}

// TestHeldRows: rows that cannot be written are not lost, and nobody gets them before they are.
func TestHeldRows(t *testing.T) {
	log, err := OpenLog(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	s := New(contextOf(&failing{log, 2}), &reader{pipe: &pipe{1, 3}, sizes: func() int64 { return 3 }})
	for range 2 {
		if _, err := s.Next(context.Background(), 3); err == nil {
			t.Fatal("rows that are not in the log")
		}
	}
	if e, _ := cut(t, s, 3); !slices.Equal(e.rows, []string{"11", "2null", "33"}) {
		t.Error(e.rows)
	}
}

// TestInnerPosition: behind the log the source itself goes on from where it stood.
func TestInnerPosition(t *testing.T) {
	log, err := OpenLog(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	p := &pipe{1, 100}
	s := New(contextOf(log), &reader{pipe: p, sizes: func() int64 { return 4 }})
	begin := s.Position()
	cut(t, s, 12)
	r := &reader{pipe: p, sizes: func() int64 { return 4 }}
	again := New(contextOf(log), r)
	if err := again.Seek(begin); err != nil {
		t.Fatal(err)
	}
	if cut(t, again, 12); r.sought != nil {
		t.Fatal("the source was sought while there were rows in the log")
	}
	cut(t, again, 1)
	if string(r.sought) != "13" {
		t.Errorf("the source has been brought to %q", r.sought)
	}
}

// TestCounters: rows that are given again count again, as those of a file do.
func TestCounters(t *testing.T) {
	log, err := OpenLog(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	s := New(contextOf(log), &reader{pipe: &pipe{1, 14}, sizes: func() int64 { return 14 }})
	begin := s.Position()
	cut(t, s, 14)
	ctx := contextOf(log)
	s = New(ctx, &reader{pipe: &pipe{15, 14}})
	if err := s.Seek(begin); err != nil {
		t.Fatal(err)
	}
	for range 14 {
		cut(t, s, 1)
	}
	if ctx.Counters.Dead.Load() != 2 || ctx.Counters.Skipped.Load() != 2 {
		t.Errorf("%d bad rows, %d skipped", ctx.Counters.Dead.Load(), ctx.Counters.Skipped.Load())
	}
}

// TestTrim: what lies before the last checkpoint goes, and what comes after it stays.
func TestTrim(t *testing.T) {
	dir := t.TempDir()
	log, err := OpenLog(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	log.size = 1
	s := New(contextOf(log), &reader{pipe: &pipe{1, 30}, sizes: func() int64 { return 3 }}).(operators.Trimmer)
	begin := s.Position()
	cut(t, s, 12)
	middle := s.Position()
	want, _ := cut(t, s, 18)
	if err := s.Trim(middle); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(dir, "rows-*"))
	if err != nil || len(files) != 6 {
		t.Errorf("%d files are left, %v", len(files), err)
	}
	if err := s.Seek(middle); err != nil {
		t.Fatal(err)
	}
	if got, _ := cut(t, s, 18); !slices.Equal(got.rows, want.rows) {
		t.Errorf("%v, want %v", got.rows, want.rows)
	}
	if err := s.Seek(begin); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Next(context.Background(), 1); err == nil {
		t.Error("rows that have been given up")
	}
}

// TestTornLog: of a log whose last file ends anywhere the whole entries are there, and it goes on behind them.
func TestTornLog(t *testing.T) {
	whole := t.TempDir()
	log, err := OpenLog(whole)
	if err != nil {
		t.Fatal(err)
	}
	for n := range int64(4) {
		if err := log.AppendRows(n+1, fmt.Append(nil, "entry ", n+1)); err != nil {
			t.Fatal(err)
		}
	}
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	name := filepath.Base(log.path(1))
	data, err := os.ReadFile(filepath.Join(whole, name))
	if err != nil {
		t.Fatal(err)
	}
	const size = headerBytes + len("entry 1")
	for n := range len(data) + 1 {
		for _, damaged := range []bool{false, true} {
			torn := slices.Clone(data[:n])
			entries := int64(n / size)
			if damaged && n > 0 {
				torn[n-1] ^= 1
				entries = int64((n - 1) / size)
			}
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, name), torn, 0o666); err != nil {
				t.Fatal(err)
			}
			log, err := OpenLog(dir)
			if err != nil {
				t.Fatal(err)
			}
			if err := log.AppendRows(entries+1, []byte("more")); err != nil {
				t.Fatalf("%d bytes: %v", n, err)
			}
			var got []string
			for i := range entries + 2 {
				if err := log.Rows(i+1, func(p []byte) error { got = append(got, string(p)); return nil }); err != nil {
					t.Fatal(err)
				}
			}
			want := append([]string{"entry 1", "entry 2", "entry 3", "entry 4"}[:entries:entries], "more")
			if !slices.Equal(got, want) {
				t.Fatalf("%d bytes: %v, want %v", n, got, want)
			}
			if err := log.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestDamagedEntries: whatever an entry holds, there is an error or rows.
func TestDamagedEntries(t *testing.T) {
	rows, err := (&reader{pipe: &pipe{1, 20}, sizes: func() int64 { return 20 }}).Next(context.Background(), 20)
	if err != nil {
		t.Fatal(err)
	}
	whole, err := encode(rows, []byte("here"))
	if err != nil {
		t.Fatal(err)
	}
	for n := range whole {
		if _, err := decode(whole[:n], schema); err == nil {
			t.Fatalf("%d bytes of %d are taken", n, len(whole))
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		damaged := slices.Clone(whole)
		damaged[rapid.IntRange(0, len(whole)-1).Draw(t, "at")] = rapid.Byte().Draw(t, "byte")
		e, err := decode(damaged, schema)
		if err == nil && e.main != nil {
			if err := e.main.Validate(); err != nil {
				t.Fatal(err)
			}
		}
	})
	s := New(contextOf(nil), &reader{pipe: &pipe{1, 1}})
	for _, p := range [][]byte{nil, {0, 0}, {1}, {0x80}} {
		if err := s.Seek(p); err == nil {
			t.Errorf("position %v is taken", p)
		}
	}
}
