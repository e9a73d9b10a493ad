package persist

import (
	"errors"
	"io"
	"strings"
	"syscall"
	"testing"

	"sluice/operators"
)

// tap is an input that outlives processes.
type tap struct {
	*strings.Reader
	id     uint64
	opened int
}

func (o *tap) ID() uint64   { return o.id }
func (o *tap) Close() error { return nil }

func tapOf(id uint64, text string) *tap { return &tap{strings.NewReader(text), id, 0} }

func (o *tap) open() (Origin, error) {
	o.opened++
	return o, nil
}

// readAll reads pieces of at most most bytes until there is an error.
func readAll(i *Input, most int) (string, error) {
	var got strings.Builder
	buf := make([]byte, most)
	for {
		n, err := i.Read(buf)
		got.Write(buf[:n])
		if err != nil {
			return got.String(), err
		}
	}
}

func expect(t *testing.T, i *Input, want string, wantErr error) {
	t.Helper()
	if got, err := readAll(i, 5); got != want || !errors.Is(err, wantErr) {
		t.Fatalf("%q and %v, want %q and %v", got, err, want, wantErr)
	}
}

// TestInputGoesOn: a process reads what those before it have read, and then the input, which it opens only then.
func TestInputGoesOn(t *testing.T) {
	dir := t.TempDir()
	o := tapOf(1, "abcdefghijklmnopqrstuvwxyz")
	first := NewInput(openLog(t, dir), o.open)
	if n, err := first.Read(make([]byte, 10)); n != 10 || err != nil {
		t.Fatal(n, err)
	}
	must(t, first.Close())
	second := NewInput(openLog(t, dir), o.open)
	must(t, second.SeekTo(3))
	if n, err := second.Read(make([]byte, 20)); n != 7 || err != nil || o.opened != 1 {
		t.Fatal(n, err, o.opened)
	}
	expect(t, second, "klmnopqrstuvwxyz", io.EOF)
	for _, offset := range []int64{-1, 27} {
		if err := second.SeekTo(offset); err == nil {
			t.Errorf("there is something at %d", offset)
		}
	}
	must(t, second.Close())
	if n, err := second.Read(make([]byte, 1)); n > 0 || err == nil {
		t.Errorf("%d bytes of an input that is closed, error %v", n, err)
	}
}

// TestInputParts: where another input goes on there is a stop, and what was not completed is gone, in each process
// that reads the log.
func TestInputParts(t *testing.T) {
	dir := t.TempDir()
	i := NewInput(openLog(t, dir), tapOf(1, "one\ntwo\nthr").open)
	expect(t, i, "one\ntwo\nthr", io.EOF)
	must(t, i.Close())
	i = NewInput(openLog(t, dir), tapOf(2, "four\n").open)
	expect(t, i, "one\ntwo\nthr", ErrPart)
	must(t, i.Next(8))
	expect(t, i, "four\n", io.EOF)
	must(t, i.Close())
	for range 2 {
		i = NewInput(openLog(t, dir), tapOf(3, "five\n").open)
		expect(t, i, "one\ntwo\n", ErrPart)
		if err := i.Next(4); err == nil {
			t.Fatal("a part begins in the middle of what is kept")
		}
		must(t, i.Next(8))
		expect(t, i, "four\n", ErrPart)
		must(t, i.Next(13))
		must(t, i.Close())
	}
	i = NewInput(openLog(t, dir), tapOf(3, "five\n").open)
	must(t, i.SeekTo(13))
	if !i.Begins(8) || !i.Begins(13) || i.Begins(9) {
		t.Error("it is not known where parts begin")
	}
	expect(t, i, "five\n", io.EOF)
	must(t, i.Close())
}

// fullLog is a log without room now and then.
type fullLog struct {
	operators.InputLog
	calls int
}

func (l *fullLog) Append(p []byte) error {
	if l.calls++; l.calls%3 != 0 {
		return syscall.ENOSPC
	}
	return l.InputLog.Append(p)
}

func (l *fullLog) Begin(id uint64, offset int64) error {
	if l.calls++; l.calls%3 != 0 {
		return syscall.EDQUOT
	}
	return l.InputLog.Begin(id, offset)
}

// TestInputWithoutRoom: what cannot be kept is held, and nothing is read meanwhile.
func TestInputWithoutRoom(t *testing.T) {
	text := "abcdefghijklmnopqrstuvwxyz"
	o := tapOf(1, text)
	i := NewInput(&fullLog{InputLog: openLog(t, t.TempDir())}, o.open)
	got, failures := "", 0
	for k := 0; ; k++ {
		held, left := len(i.held) > 0, o.Len()
		s, err := readAll(i, 1+k%7)
		got += s
		if err == io.EOF {
			break
		}
		if !errors.Is(err, ErrKeep) || !errors.Is(err, syscall.ENOSPC) && !errors.Is(err, syscall.EDQUOT) {
			t.Fatal(err)
		}
		if failures++; held && s == "" && o.Len() < left {
			t.Fatalf("%d bytes are read while %q has not been kept", left-o.Len(), got)
		}
	}
	if got != text || failures < 4 {
		t.Errorf("%q after %d failures", got, failures)
	}
	must(t, i.Close())
}
