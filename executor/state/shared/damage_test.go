package shared

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sluice/executor/state"
	"sluice/executor/state/internal/format"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func is(t testing.TB, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("error %v, want %v", err, want)
	}
}

// openNew makes a directory in memory and opens it as its coordinator.
func openNew(t testing.TB, o Options) *Store {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "sluice-shared-")
	if err != nil {
		dir = t.TempDir()
	}
	o.Coordinator = true
	s, err := Open(filepath.Join(dir, "q"), o)
	must(t, err)
	t.Cleanup(func() { must(t, errors.Join(s.Close(), os.RemoveAll(dir))) })
	return s
}

func epoch(n int64) state.Epoch {
	return state.Epoch{Source: "src", Epoch: n, Prev: n - 1, Clock: 1e15 + n, Rows: n, Position: fmt.Appendf(nil, "offset %d", n)}
}

// source opens the log of "src".
func source(t testing.TB, s *Store, gen int64) (*sourceLog, []state.Epoch) {
	t.Helper()
	log, list, err := s.OpenSource("src", gen)
	must(t, err)
	t.Cleanup(func() { _ = log.Close() })
	return log.(*sourceLog), list
}

func logPath(s *Store, kind, name string, o opening) string {
	return s.disk.path(kind, name, o.String()+logSuffix)
}

// written makes a log with a base of two entries and some behind it, and tells where each of these ends.
func written(t *testing.T) (s *Store, path string, ends []int64) {
	s = openNew(t, Options{})
	first, _ := source(t, s, 1)
	must(t, first.Append(epoch(1)))
	must(t, first.Append(epoch(2)))
	log, _ := source(t, s, 2)
	ends = append(ends, log.log.size)
	for i := int64(3); i <= 8; i++ {
		must(t, log.Append(epoch(i)))
		ends = append(ends, log.log.size)
	}
	must(t, log.Close())
	return s, logPath(s, sourcesDir, "src", opening{2, 1}), ends
}

// However much a killed process has written, what was whole is there, and the log goes on.
func TestTornTails(t *testing.T) {
	s, path, ends := written(t)
	whole, err := os.ReadFile(path)
	must(t, err)
	for _, rest := range [][]byte{nil, make([]byte, 5), make([]byte, 300), bytes.Repeat([]byte("garbage"), 9)} {
		for size := range len(whole) + 1 {
			must(t, os.WriteFile(path, append(bytes.Clone(whole[:size]), rest...), 0o644))
			log, list, err := s.OpenSource("src", 3)
			if int64(size) < ends[0] {
				is(t, err, state.ErrDamaged) // the base appears whole
				must(t, os.RemoveAll(filepath.Dir(path)))
				must(t, os.Mkdir(filepath.Dir(path), 0o755))
				continue
			}
			must(t, err)
			want := 2
			for _, end := range ends[1:] {
				if end <= int64(size) {
					want++
				}
			}
			if len(list) != want || list[want-1].Epoch != int64(want) {
				t.Fatalf("%d bytes: %d entries, want %d", size, len(list), want)
			}
			must(t, log.Append(epoch(int64(want)+1)))
			must(t, log.Close())
			again, list, err := s.OpenSource("src", 3)
			must(t, err)
			if len(list) != want+1 {
				t.Fatalf("%d bytes: %d entries after an append", size, len(list))
			}
			must(t, again.Close())
			must(t, os.RemoveAll(filepath.Dir(path)))
			must(t, os.Mkdir(filepath.Dir(path), 0o755))
		}
	}
}

// A byte that changes is found out, or is in the last record, which then does not count.
func TestDamagedLog(t *testing.T) {
	s, path, ends := written(t)
	whole, err := os.ReadFile(path)
	must(t, err)
	for i := range whole {
		b := bytes.Clone(whole)
		b[i] ^= 0x41
		must(t, os.WriteFile(path, b, 0o644))
		log, list, err := s.OpenSource("src", 3)
		last := int64(i) >= ends[len(ends)-2]
		switch {
		case err == nil:
			must(t, log.Close())
			if !last || len(list) != 7 {
				t.Errorf("byte %d: %d entries", i, len(list))
			}
		case last || !errors.Is(err, state.ErrDamaged) || !strings.Contains(err.Error(), path):
			t.Errorf("byte %d: %v", i, err)
		}
		must(t, os.RemoveAll(filepath.Dir(path)))
		must(t, os.Mkdir(filepath.Dir(path), 0o755))
	}
}

// What processes leave that are killed while they open a log, and what zombies write later, does no harm.
func TestLeftovers(t *testing.T) {
	s := openNew(t, Options{SegmentSize: 1 << 10})
	zombie, _ := source(t, s, 1)
	for i := int64(1); i < 50; i++ {
		must(t, zombie.Append(epoch(i)))
	}
	folder := s.disk.path(sourcesDir, "src")
	// A claim without a log, and a log whose claim has gone.
	must(t, os.WriteFile(filepath.Join(folder, opening{2, 1}.String()+openSuffix), nil, 0o644))
	log, list := source(t, s, 3)
	if len(list) != 49 {
		t.Fatalf("%d entries", len(list))
	}
	must(t, log.Append(epoch(50)))
	// A zombie that had looked for its claim before this opening, and makes its file appear again.
	must(t, zombie.log.write(zombie.base(), false))
	_, err := zombie.log.file.WriteAt(appendEntry(nil, &state.Epoch{Source: "src", Epoch: 77}, extent{}), zombie.log.size)
	must(t, err)
	must(t, os.Remove(log.log.claimed))
	is(t, log.Append(epoch(51)), state.ErrSealed)
	_, list = source(t, s, 3)
	if len(list) != 50 || list[49].Epoch != 50 {
		t.Errorf("%d entries", len(list))
	}
	names, err := s.disk.names(sourcesDir, "src")
	must(t, err)
	if len(names) != 2 {
		t.Errorf("files %q", names)
	}
	must(t, os.WriteFile(filepath.Join(folder, opening{9, 1}.String()+openSuffix), nil, 0o644))
	_, _, err = s.OpenSource("src", 8)
	is(t, err, state.ErrSealed)
}

// Rows that are damaged or missing are found out when they are asked for.
func TestDamagedRows(t *testing.T) {
	s := openNew(t, Options{})
	log, _ := source(t, s, 1)
	must(t, log.AppendRows(1, []byte("some rows")))
	must(t, log.AppendRows(1, []byte("more rows")))
	must(t, log.Append(epoch(1)))
	path := log.log.path(log.rows.name.name())
	whole, err := os.ReadFile(path)
	must(t, err)
	read := func() (n int, err error) {
		err = log.Rows(1, func([]byte) error { n++; return nil })
		return n, err
	}
	for i := range whole {
		b := bytes.Clone(whole)
		b[i] ^= 0x20
		must(t, os.WriteFile(path, b, 0o644))
		_, err := read()
		is(t, err, state.ErrDamaged)
		must(t, os.WriteFile(path, whole[:i], 0o644))
		_, err = read()
		is(t, err, state.ErrDamaged)
	}
	must(t, os.WriteFile(path, append(whole, 1, 2, 3), 0o644))
	if n, err := read(); err != nil || n != 2 {
		t.Errorf("%d pieces of rows: %v", n, err)
	}
	must(t, os.Remove(path))
	if _, err := read(); err == nil {
		t.Error("read rows that are not there")
	}
}

// Files of rows go when no entry names them, and only then.
func TestRowFiles(t *testing.T) {
	s := openNew(t, Options{SegmentSize: 1 << 10})
	log, _ := source(t, s, 1)
	for i := int64(1); i <= 20; i++ {
		for range 3 {
			must(t, log.AppendRows(i, make([]byte, 500)))
		}
		must(t, log.Append(epoch(i)))
	}
	count := func() (n int) {
		names, err := s.disk.names(sourcesDir, "src")
		must(t, err)
		for _, name := range names {
			if _, ok := parseRowFile(name); ok {
				n++
			}
		}
		return n
	}
	if n := count(); n != 20 {
		t.Errorf("%d files of rows", n)
	}
	must(t, log.Trim(15))
	if n := count(); n != 6 {
		t.Errorf("%d files of rows when 6 epochs are kept", n)
	}
	must(t, log.AppendRows(21, make([]byte, 2000)))
	source(t, s, 2)
	if n := count(); n != 6 {
		t.Errorf("%d files of rows for the next generation", n)
	}
}

func TestDamagedSnapshot(t *testing.T) {
	s := openNew(t, Options{})
	ref, err := s.WriteSnapshot("k", 1, 2, 3, "print", func(keep func(int, []byte) error) error {
		return errors.Join(keep(5, []byte("piece")), keep(-1, nil))
	})
	must(t, err)
	path := s.disk.path(ref)
	whole, err := os.ReadFile(path)
	must(t, err)
	read := func() error {
		_, err := s.ReadSnapshot(ref, func(int, []byte) error { return nil })
		return err
	}
	for i := range whole {
		b := bytes.Clone(whole)
		b[i] ^= 0x01
		must(t, os.WriteFile(path, b, 0o644))
		is(t, read(), state.ErrDamaged)
		must(t, os.WriteFile(path, whole[:i], 0o644))
		is(t, read(), state.ErrDamaged)
	}
	must(t, os.WriteFile(path, append(bytes.Clone(whole), 0), 0o644))
	is(t, read(), state.ErrDamaged)
	must(t, os.WriteFile(path, whole, 0o644))
	must(t, read())
	other := strings.Replace(ref, number(3), number(4), 1)
	must(t, os.Rename(path, s.disk.path(other)))
	_, err = s.ReadSnapshot(other, func(int, []byte) error { return nil })
	is(t, err, state.ErrDamaged)
}

// Sealed files that are damaged say where and what to do.
func TestDamagedSealed(t *testing.T) {
	s := openNew(t, Options{})
	must(t, s.SetSpec([]byte("spec")))
	must(t, s.Claim(1))
	_, err := s.Decide(7, true)
	must(t, err)
	for path, call := range map[string]func() error{
		s.disk.path(specFile): func() error { _, err := s.Spec(); return err },
		s.versionPath(1):      func() error { _, _, err := s.Load(); return err },
		s.decisionPath(7):     func() error { _, _, err := s.Decided(7); return err },
		s.disk.path(format.SharedFile): func() error {
			_, err := Open(s.disk.dir, Options{})
			return err
		},
	} {
		must(t, call())
		b, err := os.ReadFile(path)
		must(t, err)
		for i := range b {
			broken := bytes.Clone(b)
			broken[i] ^= 0x04
			must(t, os.WriteFile(path, broken, 0o644))
			if err := call(); !errors.Is(err, state.ErrDamaged) || !strings.Contains(err.Error(), path) {
				t.Errorf("%s, byte %d: %v", path, i, err)
			}
		}
		must(t, os.WriteFile(path, b, 0o644))
	}
}

// A directory is of one form, or of none.
func TestOtherDirectories(t *testing.T) {
	s := openNew(t, Options{})
	dir := s.disk.dir
	if _, err := state.Open(dir, state.Options{}); err == nil || !strings.Contains(err.Error(), "several processes") {
		t.Errorf("single-process form of a shared directory: %v", err)
	}
	if _, err := Open(dir, Options{Coordinator: true}); !errors.Is(err, state.ErrInUse) || !strings.Contains(err.Error(), fmt.Sprint("process ", os.Getpid())) {
		t.Errorf("second coordinator: %v", err)
	}
	single := filepath.Join(t.TempDir(), "q")
	st, err := state.Open(single, state.Options{})
	must(t, err)
	must(t, st.Close())
	foreign := t.TempDir()
	must(t, os.WriteFile(filepath.Join(foreign, "mine"), nil, 0o644))
	for path, want := range map[string]string{single: "single process", foreign: "other files"} {
		for _, coordinator := range []bool{false, true} {
			if _, err := Open(path, Options{Coordinator: coordinator}); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v", path, err)
			}
		}
	}
	if _, err := Open(filepath.Join(foreign, "none"), Options{}); err == nil {
		t.Error("a worker opened a directory that is not there")
	}
	if _, err := Open(t.TempDir(), Options{}); err == nil || !strings.Contains(err.Error(), "has not begun") {
		t.Errorf("a worker opened an empty directory: %v", err)
	}
	for _, o := range []Options{{Fsync: 9}, {Interval: -1}, {SegmentSize: 1}} {
		if _, err := Open(dir, o); err == nil {
			t.Errorf("opened with %+v", o)
		}
	}
}

// Logs, rows and snapshots of any bytes give what is in them or an error. With sums, the bytes are payloads
// of records, so that what is behind the checksum is reached.
func FuzzFiles(f *testing.F) {
	f.Add([]byte("\x02\x01\x01s\x01\x02\x03\x04"), true, uint64(0))
	f.Add([]byte("\x04\x02\x02\x02\x18\x30\x01\x01\x03src\x02\x02\x02"), true, uint64(3))
	f.Add([]byte("\x01\x03key\x02\x02\x02print"), true, uint64(1))
	f.Add([]byte("\xff\xff\xff\x7f1234"), false, uint64(1<<63))
	f.Fuzz(func(t *testing.T, b []byte, sums bool, base uint64) {
		var records []byte
		for rest := b; sums && len(rest) > 0; {
			n := 1 + int(rest[0])%min(len(rest), 60)
			start := len(records)
			records = append(format.Begin(records), rest[:n]...)
			format.Seal(records, start)
			rest = rest[n:]
		}
		if !sums {
			records = b
		}
		o := opening{1, 1}
		head := appendHead(nil, o, int(base))
		for _, replay := range []func([]byte) error{(&sourceLog{kept: entries{name: "src"}}).replay, (&sinkLog{kept: commit{name: "s"}}).replay} {
			_ = replayLog(append(bytes.Clone(head), records...), o, replay)
		}
		file := append(binary.LittleEndian.AppendUint32([]byte(snapshotMagic), snapshotVersion), records...)
		seen := 0
		_, _, err := readSnapshot(bytes.NewReader(file), int64(len(file)), snapshot{key: "key", lo: 1, hi: 1, gen: 1}, func(group int, piece []byte) error {
			seen += len(piece)
			return nil
		})
		if err == nil && seen > len(file) {
			t.Errorf("%d bytes of pieces in a file of %d", seen, len(file))
		}
	})
}

func FuzzNames(f *testing.F) {
	f.Add("snapshots/k." + strings.Repeat(number(1)+".", 3) + number(1))
	f.Add("../" + number(1) + ".open")
	f.Fuzz(func(t *testing.T, name string) {
		if s, ok := parseRef(name); ok && (s.ref() != name || filepath.Dir(filepath.Clean(name)) != snapshotsDir) {
			t.Errorf("ref %q", name)
		}
		for _, o := range openings([]string{name}, openSuffix, logSuffix) {
			if o.gen < 0 || o.n < 0 {
				t.Errorf("opening %v of %q", o, name)
			}
		}
		if e := escape(name); name != "" && (!escapedOnly(e) || filepath.Base(e) != e) {
			t.Errorf("%q is escaped as %q", name, e)
		}
	})
}
