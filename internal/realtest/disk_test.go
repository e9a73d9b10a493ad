package realtest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// mount gives a file system of its own, with so many bytes.
func mount(t *testing.T, size int) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "rtd")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.Remove(dir) })
	err = syscall.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%d", size))
	if errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.EACCES) {
		t.Skipf("a small file system cannot be mounted, which takes the rights of root: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// ballast fills a disk. It is to be removed.
func ballast(t *testing.T, dir string) string {
	t.Helper()
	path := filepath.Join(dir, "ballast")
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o666)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for size := 1 << 20; size > 0; {
		if _, err := f.Write(make([]byte, size)); err == nil {
			continue
		} else if !errors.Is(err, syscall.ENOSPC) {
			t.Fatal(err)
		}
		size /= 8
	}
	return path
}

// TestFullDisk fills the disk with the state. The query says so and stands still, and goes on when there is room.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	disk := mount(t, 16<<20)
	q := newQuery(t, everything, usual, rewrite("hot-standby", "tumbling"), usualArgs...)
	r := startRun(t, q.dir, filepath.Join(disk, "state"), append(q.args, filepath.Join(q.dir, "query.xml"))...)
	fillDisk(t, r, disk)
	r.finish()
	q.check()
}

// TestFullOutput fills the disk with the output.
func TestFullOutput(t *testing.T) {
	t.Parallel()
	disk := mount(t, 16<<20)
	q := newQuery(t, everything, usual, "", usualArgs...)
	inputs, outputs := q.dir, filepath.Join(disk, "q")
	if err := os.CopyFS(outputs, os.DirFS(inputs)); err != nil {
		t.Fatal(err)
	}
	q.dir = outputs
	r := startRun(t, inputs, filepath.Join(inputs, "state"), append(q.args, filepath.Join(q.dir, "query.xml"))...)
	fillDisk(t, r, disk)
	r.finish()
	q.check()
}

// standstill is for how long the disk stays full after the query has said so.
const standstill = time.Second

// fillDisk fills a disk while a query runs, which must say so, and make do with few words.
func fillDisk(t *testing.T, r *run, disk string) {
	t.Helper()
	first := r.await("all run", on(3))
	r.await("epochs pass", func(s status) bool {
		for name, task := range s.tasks {
			if task.state == "running" && task.epoch == first.tasks[name].epoch {
				return false
			}
		}
		return true
	})
	full := ballast(t, disk)
	for deadline := time.Now().Add(time.Minute); !strings.Contains(r.said.String(), syscall.ENOSPC.Error()); time.Sleep(pollTime) {
		if time.Now().After(deadline) || r.ended() {
			t.Fatalf("nothing is said of the full disk: %s", r.said.String())
		}
	}
	time.Sleep(standstill)
	if r.ended() {
		t.Fatalf("ended with a full disk: %v: %s", r.err, r.said.String())
	}
	if err := os.Remove(full); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(r.said.String(), "\n"); n > 100 {
		t.Errorf("%d lines are said: %s", n, r.said.String())
	}
}
