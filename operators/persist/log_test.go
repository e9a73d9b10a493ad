package persist

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

type fatal interface {
	Helper()
	Fatal(...any)
	Fatalf(string, ...any)
}

func openLog(t fatal, dir string) *Log {
	t.Helper()
	l, err := OpenLog(dir, true)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func must(t fatal, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// readLog reads the log from an offset to its end, some bytes at a time.
func readLog(t fatal, l *Log, from int64, most int) []byte {
	t.Helper()
	var got []byte
	buf := make([]byte, most)
	for {
		n, err := l.ReadAt(buf, from+int64(len(got)))
		got = append(got, buf[:n]...)
		if err == io.EOF {
			return got
		}
		if err != nil || n == 0 {
			t.Fatalf("%d bytes, error %v", n, err)
		}
	}
}

// TestTornLog: a log whose last file ends anywhere, or is damaged there, has the records before that, and goes on
// behind them.
func TestTornLog(t *testing.T) {
	whole := t.TempDir()
	l := openLog(t, whole)
	must(t, l.Begin(7, 0), l.Append([]byte("first,")), l.Append([]byte("second,")), l.Append([]byte("third,")), l.Close())
	name := filepath.Base(l.path(segment{0, 7}))
	data, err := os.ReadFile(filepath.Join(whole, name))
	must(t, err)
	ends := []int{0, 14, 29, 43}
	for n := range len(data) + 1 {
		for _, damaged := range []bool{false, true} {
			torn := slices.Clone(data[:n])
			good := n
			if damaged && n > 0 {
				torn[n-1] ^= 1
				good--
			}
			want := ""
			for i, text := range []string{"first,", "second,", "third,"} {
				if ends[i+1] <= good {
					want += text
				}
			}
			dir := t.TempDir()
			must(t, os.WriteFile(filepath.Join(dir, name), torn, 0o666))
			l := openLog(t, dir)
			must(t, l.Append([]byte("more")), l.Close())
			l = openLog(t, dir)
			if got := string(readLog(t, l, 0, 3)); got != want+"more" {
				t.Fatalf("%d bytes, damaged %v: %q, want %q", n, damaged, got, want+"more")
			}
			must(t, l.Close())
		}
	}
}

// TestDamagedLog: a record that is damaged and not the last one is an error, and is not taken for bytes of the input.
func TestDamagedLog(t *testing.T) {
	whole := t.TempDir()
	l := openLog(t, whole)
	l.full = 1
	must(t, l.Begin(7, 0), l.Append([]byte("first,")), l.Append([]byte("second,")), l.Close())
	path := l.path(segment{0, 7})
	data, err := os.ReadFile(path)
	must(t, err)
	for i := range data {
		damaged := slices.Clone(data)
		damaged[i] ^= 0x10
		must(t, os.WriteFile(path, damaged, 0o666))
		l := openLog(t, whole)
		if n, err := l.ReadAt(make([]byte, 10), 2); err == nil || n > 0 {
			t.Fatalf("byte %d: %d bytes, error %v", i, n, err)
		}
		must(t, l.Close())
	}
}

func TestForeignFiles(t *testing.T) {
	for _, names := range [][]string{
		{"input-5"}, {"input-5-7"}, {"input--0000000000000000005-0000000000000007"},
		{"input-00000000000000000005-0000000000000007", "input-00000000000000000005-0000000000000008"},
	} {
		dir := t.TempDir()
		for _, name := range names {
			must(t, os.WriteFile(filepath.Join(dir, name), nil, 0o666))
		}
		if _, err := OpenLog(dir, true); err == nil {
			t.Errorf("%q are taken", names)
		}
	}
}

// TestLogModel compares a log with a slice of bytes, whatever is done with it.
func TestLogModel(t *testing.T) {
	root := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		dir, err := os.MkdirTemp(root, "")
		must(t, err)
		full := rapid.Int64Range(1, 100).Draw(t, "full")
		open := func() *Log {
			l := openLog(t, dir)
			l.full = full
			return l
		}
		l := open()
		var all []byte
		start, trimmed, id := int64(0), int64(0), uint64(0)
		parts := map[int64]bool{0: true}
		begin := func(offset int64) {
			id++
			must(t, l.Begin(id, offset))
			all = all[:offset]
			for at := range parts {
				if at > offset {
					delete(parts, at)
				}
			}
			parts[offset] = true
		}
		begin(0)
		t.Repeat(map[string]func(*rapid.T){
			"append": func(t *rapid.T) {
				p := rapid.SliceOfN(rapid.Byte(), 0, 60).Draw(t, "bytes")
				must(t, l.Append(p))
				all = append(all, p...)
			},
			"begin": func(t *rapid.T) {
				begin(rapid.Int64Range(trimmed, int64(len(all))).Draw(t, "offset"))
			},
			"trim": func(t *rapid.T) {
				trimmed = rapid.Int64Range(trimmed, int64(len(all))).Draw(t, "offset")
				must(t, l.Trim(trimmed))
			},
			"reopen": func(*rapid.T) {
				must(t, l.Close())
				l = open()
			},
			"": func(t *rapid.T) {
				var end int64
				start, end = l.Bounds()
				if start > trimmed || end != int64(len(all)) {
					t.Fatalf("from %d to %d, want %d to %d", start, end, trimmed, len(all))
				}
				from := rapid.Int64Range(start, end).Draw(t, "from")
				if got := readLog(t, l, from, rapid.IntRange(1, 80).Draw(t, "most")); !bytes.Equal(got, all[from:]) {
					t.Fatalf("from %d: %q, want %q", from, got, all[from:])
				}
				for at := trimmed; at <= end; at++ {
					if l.Begins(at) != parts[at] {
						t.Fatalf("a part begins at %d: %v", at, l.Begins(at))
					}
				}
				if got, ok := l.Input(); !ok || got != id {
					t.Fatalf("input %d, want %d", got, id)
				}
			},
		})
		must(t, l.Close())
	})
}

// TestBeginAndDie: whatever the process has done of Begin when it dies, the bytes before the offset are there.
func TestBeginAndDie(t *testing.T) {
	for offset := range int64(19) {
		dir := t.TempDir()
		l := openLog(t, dir)
		l.full = 1
		must(t, l.Begin(7, 0), l.Append([]byte("first,")), l.Append([]byte("second,")), l.Append([]byte("third")))
		// The removal of a file fails.
		must(t, os.Mkdir(filepath.Join(dir, "away"), 0o777))
		blocked := l.path(l.files[1])
		must(t, os.Rename(blocked, filepath.Join(dir, "away", "file")), os.Mkdir(blocked, 0o777), os.WriteFile(filepath.Join(blocked, "x"), nil, 0o666))
		err := l.Begin(8, offset)
		if (err != nil) != (offset <= 6) {
			t.Fatalf("offset %d: %v", offset, err)
		}
		if err != nil && l.Append([]byte("x")) == nil {
			t.Fatalf("offset %d: something is added where it does not belong", offset)
		}
		must(t, l.Close(), os.RemoveAll(blocked), os.Rename(filepath.Join(dir, "away", "file"), blocked))
		l = openLog(t, dir)
		must(t, l.Begin(8, offset), l.Append([]byte("new")))
		if got, want := string(readLog(t, l, 0, 100)), "first,second,third"[:offset]+"new"; got != want {
			t.Fatalf("offset %d: %q, want %q", offset, got, want)
		}
		if !l.Begins(offset) {
			t.Fatalf("offset %d: no part begins there", offset)
		}
		must(t, l.Close())
	}
}
