package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestOutputTaken: while a query that keeps state writes a file, another run cannot, in whatever way it runs; what the first
// has written stays.
func TestOutputTaken(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"in.csv": "a\n1\n2\n", "other.csv": "a\n8\n9\n", "q.xml": followed} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	out := func() string {
		text, _ := os.ReadFile(filepath.Join(dir, "out.csv"))
		return string(text)
	}
	spec := filepath.Join(dir, "q.xml")
	first := command("run", "--quiet", "--state", filepath.Join(dir, "first"), "--checkpoint", "50ms", spec)
	if err := first.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = first.Process.Kill()
		_ = first.Wait()
	}()
	for end := time.Now().Add(time.Minute); out() != "a\n2\n"; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("out.csv has %q", out())
		}
	}
	for _, args := range [][]string{
		{}, {"--state", filepath.Join(dir, "second")}, {"--nodes", "2"},
	} {
		args = append([]string{"run", "--quiet", "--set", "source.follow=false", "--set", "source.path=other.csv"}, append(args, spec)...)
		text, err := command(args...).CombinedOutput()
		if err == nil || !strings.Contains(string(text), "out.csv\": another query or run is writing it; choose another path, or end that one first") {
			t.Errorf("sluice %s: %v\n%s", strings.Join(args, " "), err, text)
		}
		if got := out(); got != "a\n2\n" {
			t.Fatalf("out.csv has %q", got)
		}
	}

	// A scheduler knows nothing of the run: the sink finds it.
	s := startScheduler(t, filepath.Join(dir, "root"), "--cluster", "local:2")
	_, errs := s.client(exitFailed, "submit", spec, "--set", "source.path=other.csv", "--wait")
	if !strings.Contains(errs, "out.csv\": another query or run is writing it") {
		t.Errorf("a query of a scheduler: %s", errs)
	}
	if got := out(); got != "a\n2\n" {
		t.Errorf("out.csv has %q", got)
	}
	if err := first.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = first.Wait() // it was killed
	s.client(exitDone, "submit", spec, "--set", "source.path=other.csv", "--set", "source.follow=false", "--wait")
	if got := out(); got != "a\n8\n9\n" {
		t.Errorf("out.csv has %q", got)
	}
}
