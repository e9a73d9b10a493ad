package file

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"sluice/dataflow"
	"sluice/dataflow/batch"
	"sluice/operators"
)

var numberSchema = &dataflow.Schema{Columns: []dataflow.Column{{Name: "n", Type: dataflow.IntType}}}

func numbers(values ...int64) *batch.Batch {
	b := batch.New(numberSchema)
	b.Len = len(values)
	b.Cols[0] = batch.Vector{Type: dataflow.IntType, Len: len(values), Ints: values}
	return b
}

// scripted is a decoder that gives out prepared chunks.
type scripted struct{ chunks []*Chunk }

func (s *scripted) Next(context.Context) (*Chunk, error) {
	if len(s.chunks) == 0 {
		return nil, io.EOF
	}
	c := s.chunks[0]
	s.chunks = s.chunks[1:]
	return c, nil
}

func (s *scripted) Close() error { return nil }

func sourceOver(chunks []*Chunk, policy string) *source {
	op := &dataflow.Operator{Name: "source", Outputs: []dataflow.Output{{Port: ""}, {Port: "errors"}}}
	return &source{
		ctx: &operators.Context{Op: op, Counters: &operators.Counters{}}, stop: make(chan struct{}), policy: policy, rate: newLimiter(),
		format: "csv", opts: DecodeOptions{Name: "in.csv"}, in: &input{}, dec: &scripted{chunks: chunks},
	}
}

// TestTakeCutsAnywhere: however many rows are asked for at a time, they come once and in order, bad
// rows between the right ones, and never more than were asked for.
func TestTakeCutsAnywhere(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var chunks []*Chunk
		var want []string
		next := 0
		for range rapid.IntRange(0, 4).Draw(t, "chunks") {
			c := &Chunk{}
			var good []int64
			for range rapid.IntRange(0, 150).Draw(t, "rows") {
				if rapid.IntRange(0, 9).Draw(t, "bad") == 0 {
					c.Bad = append(c.Bad, BadRow{Before: len(good), Line: int64(next), Raw: []byte("x"), Reason: "bad"})
					want = append(want, fmt.Sprint("in.csv:", next))
				} else {
					good = append(good, int64(next))
					want = append(want, fmt.Sprint(next))
				}
				next++
			}
			c.Batch = numbers(good...)
			chunks = append(chunks, c)
		}
		policy := rapid.SampledFrom([]string{"fail", "dead-letter"}).Draw(t, "policy")
		failAt := slices.IndexFunc(want, func(s string) bool { return strings.HasPrefix(s, "in") })
		s := sourceOver(chunks, policy)
		var got, dead, good, bad []string
		for {
			most := rapid.IntRange(1, 70).Draw(t, "max")
			r, err := s.Next(context.Background(), most)
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				if policy == "fail" && failAt == len(got) && strings.Contains(err.Error(), want[failAt]+": bad") {
					return
				}
				t.Fatalf("after %d rows of %v: %v", len(got), want, err)
			}
			if r.Read > most || r.Read == 0 {
				t.Fatalf("%d rows read, at most %d asked for", r.Read, most)
			}
			before := len(got) + len(dead)
			if r.Batch != nil {
				for _, v := range r.Batch.Cols[0].Ints[:r.Batch.Len] {
					got = append(got, fmt.Sprint(v))
				}
			}
			if r.Errors != nil {
				for i := range r.Errors.Len {
					dead = append(dead, string(r.Errors.Cols[1].Bytes(i)))
				}
				r.Errors = nil
			}
			if len(got)+len(dead)-before != r.Read {
				t.Fatalf("%d rows given, Read says %d", len(got)+len(dead)-before, r.Read)
			}
		}
		for _, w := range want {
			if strings.HasPrefix(w, "in") {
				bad = append(bad, w)
			} else {
				good = append(good, w)
			}
		}
		if policy == "fail" && failAt >= 0 || !slices.Equal(got, good) || !slices.Equal(dead, bad) {
			t.Fatalf("got %v and bad %v, want %v and %v", got, dead, good, bad)
		}
	})
}

// TestDeadLettersAreText: what is not UTF-8 is shown as a replacement character.
func TestDeadLettersAreText(t *testing.T) {
	s := sourceOver([]*Chunk{{Batch: numbers(), Bad: []BadRow{{Line: 1, Raw: []byte("a\xffb"), Reason: "bad"}}}}, "dead-letter")
	r, err := s.Next(context.Background(), 10)
	if err != nil {
		t.Fatal(err)
	}
	if got := string(r.Errors.Cols[0].Bytes(0)); got != "a\uFFFDb" {
		t.Errorf("dead letter %q", got)
	}
}

func TestLimiter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter()
		l.set(100)
		ctx := context.Background()
		begin := time.Now()
		for rows := 0; rows < 201; {
			n, err := l.wait(ctx, nil, 1000)
			if err != nil {
				t.Fatal(err)
			}
			rows += n
			l.took(n)
		}
		if d := time.Since(begin); d < 1990*time.Millisecond || d > 2010*time.Millisecond {
			t.Errorf("201 rows at 100 a second took %v", d)
		}
		time.Sleep(time.Minute)
		if n, _ := l.wait(ctx, nil, 1000); n != 1 {
			t.Errorf("%d rows at once after a pause", n)
		}
		l.took(1)
		short, cancel := context.WithTimeout(ctx, time.Millisecond)
		defer cancel()
		if _, err := l.wait(short, nil, 1); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a limiter that must wait longer than its context: %v", err)
		}
		stop := make(chan struct{})
		close(stop)
		if _, err := l.wait(ctx, stop, 1); !errors.Is(err, operators.ErrStopped) {
			t.Errorf("a stopped limiter: %v", err)
		}
	})
}

// readAsync reads from the follower until it has n bytes or an error.
func readAsync(f *follower, n int) func() (string, error) {
	type result struct {
		text string
		err  error
	}
	c := make(chan result, 1)
	go func() {
		var text []byte
		buf := make([]byte, 64)
		for len(text) < n {
			k, err := f.Read(buf)
			text = append(text, buf[:k]...)
			if err != nil {
				c <- result{string(text), err}
				return
			}
		}
		c <- result{string(text), nil}
	}()
	return func() (string, error) {
		select {
		case r := <-c:
			return r.text, r.err
		case <-time.After(10 * time.Second):
			return "", errors.New("nothing was read in 10 s")
		}
	}
}

func TestFollower(t *testing.T) {
	path := filepath.Join(t.TempDir(), "grow.csv")
	stop := make(chan struct{})
	f := &follower{path: path, stop: stop}
	t.Cleanup(func() { f.Close() })
	write := func(text string, flag int) {
		t.Helper()
		w, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|flag, 0o666)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.WriteString(text); err != nil {
			t.Fatal(err)
		}
		w.Close()
	}
	expect := func(what, want string, wantErr error, read func() (string, error)) {
		t.Helper()
		if got, err := read(); got != want || !errors.Is(err, wantErr) {
			t.Fatalf("%s: read %q and %v, want %q and %v", what, got, err, want, wantErr)
		}
	}
	read := readAsync(f, 2)
	write("a\n", 0)
	expect("a file that appears", "a\n", nil, read)
	read = readAsync(f, 2)
	write("b\n", os.O_APPEND)
	expect("a file that grows", "b\n", nil, read)

	write("c\n", os.O_APPEND)
	if err := os.Rename(path, path+".old"); err != nil {
		t.Fatal(err)
	}
	write("d\n", 0)
	expect("the rest of a replaced file", "c\n", io.EOF, readAsync(f, 100))
	f.Close()

	f = &follower{path: path, stop: stop}
	expect("the file in its place", "d\n", nil, readAsync(f, 2))
	read = readAsync(f, 100)
	if err := os.Truncate(path, 0); err != nil {
		t.Fatal(err)
	}
	expect("a file that is cut", "", io.EOF, read)
	f.Close()

	f = &follower{path: path, stop: stop}
	read = readAsync(f, 1)
	close(stop)
	expect("Stop", "", operators.ErrStopped, read)
}

// noLog is a log that is only there.
type noLog struct{ operators.InputLog }

func (noLog) Close() error { return nil }

// TestPersistedReader: only an input that cannot be read again is kept, and only where there is a place for it.
func TestPersistedReader(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "in.csv"), []byte("n\n1\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(filepath.Join(dir, "pipe.csv"), 0o666); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		path, persist string
		log           operators.InputLog
		kept          bool
	}{{"pipe.csv", "true", noLog{}, true}, {"pipe.csv", "true", nil, false}, {"pipe.csv", "false", noLog{}, false}, {"in.csv", "true", noLog{}, false}} {
		op := &dataflow.Operator{Name: "source", Desc: Reader, Outputs: []dataflow.Output{{Stream: "rows", Schema: numberSchema}},
			Params: []dataflow.Param{{Name: "path", Value: c.path}, {Name: "persist", Value: c.persist}}}
		s, err := OpenReader(&operators.Context{Op: op, Counters: &operators.Counters{}, Dir: dir, Log: c.log})
		if err != nil {
			t.Fatal(err)
		}
		if _, kept := s.(operators.Trimmer); kept != c.kept || s.(operators.Replayable).Replays() != (c.kept || c.path == "in.csv") {
			t.Errorf("%v: the rows are kept: %v", c, kept)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
