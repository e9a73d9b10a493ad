package mesostest

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"sluice/internal/fakemesos"
	"sluice/scheduler/api"
)

// newFetchingCluster is one whose agents fetch the program of the scheduler that launches a worker.
func newFetchingCluster(t *testing.T, agents int) *cluster {
	t.Helper()
	c := newBareCluster(t, agents, fakemesos.Options{})
	c.args = append(c.args, "--cluster", "mesos://"+strings.Join(c.Endpoints(), ","))
	return c
}

// sumOf is the checksum of a program.
func sumOf(t *testing.T, path string) string {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		t.Fatal(err)
	}
	return string(sum.Sum(nil))
}

// builds counts the workers of a query that run the program of this build, and others.
func (c *cluster) builds(q *api.Query, build string) (these, others int) {
	c.t.Helper()
	want := sumOf(c.t, build)
	for _, p := range q.Processes {
		if _, e := c.executor(p.ID); sumOf(c.t, filepath.Join(e.Dir, "sluice", "sluice")) == want {
			these++
		} else {
			others++
		}
	}
	return these, others
}

// TestUpgrade: a scheduler of another build of the same code takes over. The workers go on with the program that they
// have; one that dies is replaced by one with the new program, and both work together.
func TestUpgrade(t *testing.T) {
	t.Parallel()
	next := filepath.Join(t.TempDir(), "sluice")
	if err := build(next, "-ldflags=-s -w -buildid=next"); err != nil {
		t.Fatal(err)
	}
	c := newFetchingCluster(t, 5)
	first, second := c.scheduler(), c.schedulerOf(next)
	q := newStream(t, 7, checkpoint)
	q.submit(first)
	now := first.runs("stream")
	before, begin := c.pids(), time.Now()
	for worker, pid := range before {
		env, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
		if err != nil || !bytes.Contains(env, []byte("MALLOC_TRIM_THRESHOLD_=")) {
			t.Errorf("worker %s does not have the allocator's settings: %q, error %v", worker, env, err)
		}
	}
	first.end(syscall.SIGTERM)
	now = second.again("stream", startTime, now)
	c.undisturbed(begin, before, now)
	if these, others := c.builds(now, program); others > 0 {
		t.Errorf("%d workers of the old build, %d others", these, others)
	}
	c.killExecutor(workerOf(t, now, checkpoint.sink))
	now = second.again("stream", startTime, now)
	if these, others := c.builds(now, next); these != 1 || others != now.Workers-1 {
		t.Errorf("%d workers of the new build, %d others", these, others)
	}
	q.finish(second)
	c.quiet()
}

// TestAnotherVersion: the scheduler that takes over is of a release that speaks another version of the control stream. It
// says so, and replaces the workers; they go on from the last checkpoint.
func TestAnotherVersion(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	next := filepath.Join(dir, "sluice")
	if err := build(next, "-ldflags=-s -w", "-overlay", versionOverlay(t, dir)); err != nil {
		t.Fatal(err)
	}
	c := newFetchingCluster(t, 5)
	first := c.scheduler()
	second := c.schedulerOf(next)
	q := newStream(t, 7, checkpoint)
	q.submit(first)
	now := first.runs("stream")
	before := c.pids()
	first.end(syscall.SIGTERM)
	begin := time.Now()
	now = second.again("stream", startTime, now)
	t.Logf("all workers are replaced after %v", time.Since(begin).Round(time.Millisecond))
	for _, p := range now.Processes {
		if before[p.ID] != 0 {
			t.Errorf("worker %s of the old release goes on", p.ID)
		}
	}
	told := 0
	for _, a := range now.Alerts {
		if strings.Contains(a.Text, "speaks version 1 of the control stream, and this program version 1000") {
			told++
		}
	}
	if told != len(before) {
		t.Errorf("%d of %d workers are told of: %+v", told, len(before), now.Alerts)
	}
	q.finish(second)
	c.quiet()
}

// versionOverlay has the source of the package metaquery with another version, for a build.
func versionOverlay(t *testing.T, dir string) string {
	t.Helper()
	source, err := filepath.Abs(filepath.Join("..", "..", "metaquery", "version.go"))
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(source)
	if err != nil {
		t.Fatal(err)
	}
	version := []byte("const Version = 1\n")
	if !bytes.Contains(text, version) {
		t.Fatalf("%s does not say which version is spoken", source)
	}
	other := bytes.Replace(text, version, []byte("const Version = 1000\n"), 1)
	to, list := filepath.Join(dir, "version.go"), filepath.Join(dir, "overlay.json")
	overlay, err := json.Marshal(map[string]map[string]string{"Replace": {source: to}})
	if err != nil {
		t.Fatal(err)
	}
	for path, text := range map[string][]byte{to: other, list: overlay} {
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return list
}
