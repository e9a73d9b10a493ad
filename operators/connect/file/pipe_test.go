package file

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"sluice/dataflow"
	"sluice/operators"
	"sluice/operators/persist"
)

// pipeText are n rows in a format: some of them bad, some of more than one line.
func pipeText(path string, header bool, n int) []byte {
	var b bytes.Buffer
	if header {
		b.WriteString("s,n,more\n")
	}
	for i := range n {
		switch {
		case strings.HasPrefix(path, "in.ndjson"):
			fmt.Fprintf(&b, "{\"more\":{\"n\":%d},\"n\":%d,\"s\":\"row {%d}\"}\n", i, i, i)
		case !header:
			fmt.Fprintf(&b, "%d,row %d\n", i, i)
		case i%97 == 0:
			fmt.Fprintf(&b, "row,%d\n", i)
		case i%5 == 0:
			fmt.Fprintf(&b, "\"row\n%d, it \"\"is\n\n\",%d,x\r\n", i, i)
		default:
			fmt.Fprintf(&b, "row %d,%d,\n", i, i)
		}
	}
	return b.Bytes()
}

// pipeReader opens a reader of a named pipe; log "" is none.
func pipeReader(t fatal, dir, path string, header bool, log string) operators.Replayable {
	t.Helper()
	op := &dataflow.Operator{Name: "source", Desc: Reader, Outputs: []dataflow.Output{{Port: "", Schema: readSchema}, {Port: "errors", Schema: operators.ErrorsSchema}}}
	op.Params = []dataflow.Param{{Name: "path", Value: path}, {Name: "header", Value: fmt.Sprint(header)}, {Name: "on-error", Value: "dead-letter"}, {Name: "persist", Value: fmt.Sprint(log != "")}}
	ctx := &operators.Context{Op: op, Counters: &operators.Counters{}, Dir: dir}
	if log != "" {
		l, err := persist.OpenLog(log, false)
		if err != nil {
			t.Fatal(err)
		}
		ctx.Log = l
	}
	s, err := OpenReader(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return s.(operators.Replayable)
}

// readRows reads n rows one by one, bad ones too.
func readRows(s operators.Replayable, n int) (rows []string, err error) {
	for range n {
		r, err := s.Next(context.Background(), 1)
		if err != nil {
			return rows, err
		}
		var x received
		x.add(r)
		for _, bad := range x.bad {
			_, bad, _ = strings.Cut(bad, " ") // without its place, which depends on where the reader began
			x.good = append(x.good, "bad "+bad)
		}
		rows = append(rows, x.good...)
	}
	return rows, nil
}

// named makes a named pipe and begins to write text to it, in pieces. close ends it, and returns at the test's end.
func named(t *testing.T, path string, text []byte) (close func()) {
	t.Helper()
	if err := syscall.Mkfifo(path, 0o666); err != nil {
		t.Fatal(err)
	}
	w, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	made, err := w.Stat()
	if err != nil {
		t.Fatal(err)
	}
	written := make(chan error, 1)
	go func() {
		for len(text) > 0 {
			n := min(len(text), 1+rand.IntN(5000))
			if _, err := w.Write(text[:n]); err != nil {
				written <- err
				return
			}
			text = text[n:]
		}
		written <- nil
	}()
	return func() {
		err := <-written
		for left := 1; left > 0 && err == nil; time.Sleep(time.Millisecond) { // or what it holds is lost
			left, err = unix.IoctlGetInt(int(w.Fd()), unix.TIOCINQ)
		}
		if err := errors.Join(err, w.Close()); err != nil {
			t.Error(err)
		}
		// Whoever opens it from now on sees an end too.
		for ; t.Context().Err() == nil && samePipe(path, made); time.Sleep(time.Millisecond) {
			if w, err := os.OpenFile(path, os.O_WRONLY|syscall.O_NONBLOCK, 0); err == nil {
				w.Close()
			}
		}
	}
}

func samePipe(path string, was os.FileInfo) bool {
	info, err := os.Stat(path)
	return err == nil && os.SameFile(info, was)
}

func wholeRows(t *testing.T, path string, header bool, text []byte) []string {
	t.Helper()
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, path), text)
	s := pipeReader(t, dir, path, header, "")
	defer s.Close()
	rows, err := readRows(s, 1<<30)
	if err != io.EOF {
		t.Fatal(err)
	}
	return rows
}

// TestKeptPipe: with a log each process reads again what those before it have read, from whatever position, and then
// goes on, as if there had been one process.
func TestKeptPipe(t *testing.T) {
	for _, c := range []struct {
		path   string
		header bool
	}{{"in.csv", true}, {"in.csv", false}, {"in.ndjson", true}, {"in.csv.gz", true}, {"in.ndjson.zst", true}} {
		t.Run(fmt.Sprint(c.path, c.header), func(t *testing.T) {
			const n = 20_000
			text := packed(t, pipeText(c.path, c.header && strings.HasPrefix(c.path, "in.csv"), n), compression(c.path))
			want := wholeRows(t, c.path, c.header, text)
			dir := t.TempDir()
			closePipe := named(t, filepath.Join(dir, c.path), text)
			type mark struct {
				rows     int
				position []byte
			}
			marks := []mark{{}}
			for process := range 12 {
				s := pipeReader(t, dir, c.path, c.header, filepath.Join(dir, "log"))
				from := mark{}
				if process == 0 {
					marks[0].position = s.Position()
				} else {
					i := rand.IntN(len(marks))
					from = marks[i]
					if err := errors.Join(s.Seek(marks[len(marks)-1].position), s.(operators.Trimmer).Trim(from.position), s.Seek(from.position)); err != nil {
						t.Fatal(err)
					}
					marks = marks[i:]
				}
				for epochs := rand.IntN(10); epochs > 0; epochs-- {
					count := min(rand.IntN(300), n-from.rows)
					got, err := readRows(s, count)
					if err != nil {
						t.Fatal(err)
					}
					if !slices.Equal(got, want[from.rows:from.rows+count]) {
						t.Fatalf("process %d, from row %d: %q, want %q", process, from.rows, got, want[from.rows:from.rows+count])
					}
					from = mark{from.rows + count, s.Position()}
					if from.rows > marks[len(marks)-1].rows {
						marks = append(marks, from)
					}
				}
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
			}
			s := pipeReader(t, dir, c.path, c.header, filepath.Join(dir, "log"))
			last := marks[len(marks)-1]
			if err := s.Seek(last.position); err != nil {
				t.Fatal(err)
			}
			go closePipe()
			got, err := readRows(s, n)
			if err != io.EOF || !slices.Equal(got, want[last.rows:]) {
				t.Errorf("at the end %d rows and %v, want %d", len(got), err, len(want)-last.rows)
			}
			if err := errors.Join(s.(operators.Trimmer).Trim(s.Position()), s.Close()); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// TestPipeGoesOn: without a log a process goes on with whole rows, each of which comes once, and what is missing is told. A
// process that has been stopped has lost none.
func TestPipeGoesOn(t *testing.T) {
	for _, c := range []struct {
		path        string
		header, end bool
	}{{"in.csv", true, false}, {"in.csv", false, false}, {"in.ndjson", false, false}, {"in.csv", true, true}, {"in.csv", false, true}, {"in.ndjson", false, true}} {
		t.Run(fmt.Sprint(c), func(t *testing.T) {
			const n = 100_000
			text := pipeText(c.path, c.header, n)
			want := wholeRows(t, c.path, c.header, text)
			dir := t.TempDir()
			closePipe := named(t, filepath.Join(dir, c.path), text)
			var got []string
			var position []byte
			for process := range 5 {
				s := pipeReader(t, dir, c.path, c.header, "")
				if s.Replays() {
					t.Fatal("a pipe can be read again")
				}
				if position != nil {
					if err := s.Seek(position); err != nil {
						t.Fatal(err)
					}
				}
				last := process == 4
				if last {
					go closePipe()
				}
				count := 1 + rand.IntN(2000)
				if last {
					count = n
				}
				rows, err := readRows(s, count)
				if err == nil && c.end {
					s.Stop()
					got = append(got, rows...)
					rows, err = readRows(s, n)
				}
				if err != nil && err != io.EOF && !errors.Is(err, operators.ErrStopped) {
					t.Fatal(err)
				}
				got = append(got, rows...)
				position = s.Position()
				counters := s.(*source).ctx.Counters
				if gaps := counters.Gaps.Load(); gaps != 0 && (c.end || process == 0) || gaps == 0 && process > 0 && !c.end {
					t.Errorf("process %d has %d gaps", process, gaps)
				}
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
			}
			if c.end && !slices.Equal(got, want) {
				t.Fatalf("%d rows, want %d", len(got), len(want))
			}
			at := 0
			for _, row := range got {
				i := slices.Index(want[at:], row)
				if i < 0 {
					t.Fatalf("row %q is none of the input, or comes again", row)
				}
				at += i + 1
			}
			if len(got) < 5 || at != len(want) {
				t.Errorf("%d rows, the last one is the %dth of %d", len(got), at, len(want))
			}
		})
	}
}

// replacePipe puts another pipe with text in the place of one, and ends it.
func replacePipe(t *testing.T, path, text string) {
	t.Helper()
	if err := os.Rename(path, path+".old"); err != nil { // so that its number is not used again
		t.Fatal(err)
	}
	go named(t, path, []byte(text))()
}

// TestAnotherPipe: another pipe begins anew, perhaps with a header; the start of a row that was the last of the one before is
// passed over.
func TestAnotherPipe(t *testing.T) {
	for _, c := range []struct{ next, want string }{
		{"n,s\n7,x\n8,x\n", "7|x 8|x"}, {"7,x\n8,x\n", "7|x 8|x"}, {"s,n\nx,7\nx,8\n", "7|x 8|x"},
	} {
		for _, log := range []string{"", "log"} {
			dir := t.TempDir()
			path := filepath.Join(dir, "in.csv")
			if log != "" {
				log = filepath.Join(dir, log)
			}
			closePipe := named(t, path, []byte("n,s\n1,x\n2,x\n3,torn"))
			s := pipeReader(t, dir, "in.csv", true, log)
			start := s.Position()
			first, err := readRows(s, 2)
			if err != nil {
				t.Fatal(err)
			}
			position := s.Position()
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			go closePipe()
			replacePipe(t, path, c.next)
			s = pipeReader(t, dir, "in.csv", true, log)
			if err := s.Seek(position); err != nil {
				t.Fatal(err)
			}
			rows, err := readRows(s, 1000)
			if got := strings.Join(rows, " "); err != io.EOF || got != c.want {
				t.Fatalf("log %q, then %q: %q and %v, want %q", log, c.next, got, err, c.want)
			}
			if err := s.Close(); err != nil || log == "" {
				continue
			}
			replacePipe(t, path, "9,x\n")
			s = pipeReader(t, dir, "in.csv", true, log)
			if err := s.Seek(start); err != nil {
				t.Fatal(err)
			}
			rows, err = readRows(s, 1000)
			want := strings.Join(first, " ") + " " + c.want
			if strings.HasPrefix(c.next, "s,n") {
				want += " bad column \"n\": \"x\" is not an int 9,x"
			} else {
				want += " 9|x"
			}
			if got := strings.Join(rows, " "); err != io.EOF || got != want {
				t.Fatalf("read again: %q and %v, want %q", got, err, want)
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestLostHeader: a process that died with the header leaves an input that cannot be gone on with.
func TestLostHeader(t *testing.T) {
	dir := t.TempDir()
	closePipe := named(t, filepath.Join(dir, "in.csv"), []byte("1,x\n2,x\n"))
	s := pipeReader(t, dir, "in.csv", true, "")
	position := s.Position()
	if err := s.Seek(position); err != nil {
		t.Fatal(err)
	}
	if _, err := readRows(s, 1); !errors.Is(err, errLostHeader) {
		t.Error(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	go closePipe()
}

// fullLog has no room now and then.
type fullLog struct {
	operators.InputLog
	calls int
}

func (l *fullLog) Append(p []byte) error {
	if l.calls++; l.calls%4 != 0 {
		return syscall.ENOSPC
	}
	return l.InputLog.Append(p)
}

// TestKeptWithoutRoom: where the log has no room Next says so, and goes on with all rows once it has.
func TestKeptWithoutRoom(t *testing.T) {
	const n = 20_000
	for _, path := range []string{"in.csv", "in.csv.gz"} {
		text := packed(t, pipeText(path, true, n), compression(path))
		want := wholeRows(t, path, true, text)
		dir := t.TempDir()
		go named(t, filepath.Join(dir, path), text)()
		for !exists(filepath.Join(dir, path)) {
		}
		s := pipeReader(t, dir, path, true, filepath.Join(dir, "log")).(keptSource)
		log, err := persist.OpenLog(filepath.Join(dir, "full"), true)
		if err != nil {
			t.Fatal(err)
		}
		s.kept = persist.NewInput(&fullLog{InputLog: log}, func() (persist.Origin, error) { return openPipe(filepath.Join(dir, path), s.stop) })
		var got []string
		failures := 0
		for {
			rows, err := readRows(s, 1<<30)
			got = append(got, rows...)
			if err == io.EOF {
				break
			}
			if !errors.Is(err, syscall.ENOSPC) {
				t.Fatal(err)
			}
			failures++
		}
		if !slices.Equal(got, want) || failures < 3 {
			t.Errorf("%s: %d rows after %d failures, want %d", path, len(got), failures, len(want))
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// syncedLog counts calls of Sync, the last of which fail.
type syncedLog struct {
	operators.InputLog
	good int
	end  int64 // of the log at the last one
}

func (l *syncedLog) Sync() error {
	if l.good--; l.good < 0 {
		return syscall.EIO
	}
	_, l.end = l.Bounds()
	return nil
}

// TestKeptIsSynced: what a position needs is on the disk when there is the position, or Next says that it is not.
func TestKeptIsSynced(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "in.csv")
	closePipe := named(t, path, []byte("n,s\n1,x\n2,x\n"))
	s := pipeReader(t, dir, "in.csv", true, filepath.Join(dir, "log")).(keptSource)
	log, err := persist.OpenLog(filepath.Join(dir, "synced"), true)
	if err != nil {
		t.Fatal(err)
	}
	synced := &syncedLog{InputLog: log, good: 1}
	s.kept = persist.NewInput(synced, func() (persist.Origin, error) { return openPipe(path, s.stop) })
	if _, err := readRows(s, 1); err != nil {
		t.Fatal(err)
	}
	if s.Position(); synced.end < int64(len("n,s\n1,x\n")) {
		t.Errorf("%d bytes are synced", synced.end)
	}
	s.Position()
	if _, err := readRows(s, 1); !errors.Is(err, syscall.EIO) {
		t.Errorf("the log cannot be synced, and Next returns %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	go closePipe()
}
