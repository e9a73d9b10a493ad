package store_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"sluice/scheduler/store"
)

func openDir(t *testing.T, dir string) store.Store {
	t.Helper()
	s, err := store.OpenDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// TestLeaderResigned: while the next leader has the lock and has not said yet where it is, nobody is sent to the last one.
func TestLeaderResigned(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	dir := t.TempDir()
	s := openDir(t, dir)
	first, err := s.Lead(ctx, []byte("http://first"))
	if err != nil {
		t.Fatal(err)
	}
	if about, err := s.Leader(ctx); string(about) != "http://first" || err != nil {
		t.Fatalf("%q, error %v", about, err)
	}
	if err := first.Resign(); err != nil {
		t.Fatal(err)
	}
	var file *os.File
	for locked := false; !locked && ctx.Err() == nil; time.Sleep(time.Millisecond) {
		if file, err = os.OpenFile(filepath.Join(dir, "leader"), os.O_RDWR, 0); err != nil {
			t.Fatal(err)
		}
		if locked = syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil; !locked {
			file.Close()
		}
	}
	if about, err := s.Leader(ctx); len(about) > 0 || err != nil {
		t.Errorf("%q, error %v", about, err)
	}
	file.Close()
	second, err := s.Lead(ctx, []byte("http://second"))
	if err != nil {
		t.Fatal(err)
	}
	if about, err := s.Leader(ctx); string(about) != "http://second" || err != nil || second.Term() != first.Term()+1 {
		t.Errorf("%q, term %d after %d, error %v", about, second.Term(), first.Term(), err)
	}
}

// TestLeaderFileGone: a leader whose file was removed or replaced stops, and cannot write once another leads.
func TestLeaderFileGone(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for name, remove := range map[string]func(file string) error{
		"removed":  os.Remove,
		"moved":    func(file string) error { return os.Rename(file, file+"-old") },
		"replaced": func(file string) error { return errors.Join(os.Remove(file), os.WriteFile(file, nil, 0o644)) },
	} {
		dir := t.TempDir()
		s := openDir(t, dir)
		first, err := s.Lead(ctx, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := remove(filepath.Join(dir, "leader")); err != nil {
			t.Fatal(err)
		}
		second, err := openDir(t, dir).Lead(ctx, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range []store.Store{first.Store(), store.Careless(first)} {
			if _, err := s.Put(ctx, "x", nil, 0); !errors.Is(err, store.ErrNotLeader) {
				t.Errorf("%s: %v", name, err)
			}
		}
		select {
		case <-first.Lost():
		case <-time.After(time.Minute):
			t.Errorf("%s: the leader does not stop", name)
		}
		if second.Term() <= first.Term() {
			t.Errorf("%s: term %d after %d", name, second.Term(), first.Term())
		}
	}
}

// TestSpoiltFiles: what others have written to the files is an error.
func TestSpoiltFiles(t *testing.T) {
	ctx := context.Background()
	dir := t.TempDir()
	s := openDir(t, dir)
	if _, err := s.Put(ctx, "x", []byte("1"), 0); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "values", "x", "+value")
	good, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for n := range good {
		changed := append([]byte(nil), good...)
		changed[n] ^= 0x10
		for _, bad := range [][]byte{good[:n], changed} {
			if err := os.WriteFile(file, bad, 0o644); err != nil {
				t.Fatal(err)
			}
			value, version, err := s.Get(ctx, "x")
			if !errors.Is(err, store.ErrDamaged) {
				t.Errorf("byte %d, %q: %q version %d, error %v", n, bad, value, version, err)
			}
		}
	}
}

// TestOpenDir: a directory of somebody else is left alone, and what a killed process left is removed.
func TestOpenDir(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "thesis.tex"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := store.OpenDir(dir); err == nil || !strings.Contains(err.Error(), "thesis.tex") {
		t.Errorf("a directory with other files: %v", err)
	}
	if _, err := store.OpenDir(filepath.Join(dir, "thesis.tex")); err == nil {
		t.Error("a file is opened as a directory")
	}
	own := filepath.Join(dir, "own", "store")
	openDir(t, own)
	rest := filepath.Join(own, "tmp", "1.2.3", "deep")
	if err := os.MkdirAll(rest, 0o755); err != nil {
		t.Fatal(err)
	}
	openDir(t, own)
	if entries, err := os.ReadDir(filepath.Join(own, "tmp")); err != nil || len(entries) > 0 {
		t.Errorf("tmp holds %v, error %v", entries, err)
	}
}
