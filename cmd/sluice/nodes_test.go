package main

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// command is the program under test.
func command(args ...string) *exec.Cmd {
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), "SLUICE_TEST_MAIN=1")
	return cmd
}

var statusProcess = regexp.MustCompile(`(?m)^process (\d+): worker`)

// workersOf are the worker processes of the query with this state.
func workersOf(state string) []int {
	text, err := command("status", "--state", state).Output()
	if err != nil {
		return nil
	}
	var pids []int
	for _, m := range statusProcess.FindAllSubmatch(text, -1) {
		pid, _ := strconv.Atoi(string(m[1]))
		pids = append(pids, pid)
	}
	return pids
}

// running reports whether there is such a process that has not ended.
func running(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, after, _ := bytes.Cut(stat, []byte(") "))
	return len(after) > 0 && after[0] != 'Z'
}

// writeKillQuery writes the query of TestKill and its data, and returns the spec and what the query writes.
func writeKillQuery(t *testing.T, dir, window, sel, lateness string) (spec string, want map[string]string) {
	t.Helper()
	writeKillData(t, dir)
	spec = filepath.Join(dir, "kill.xml")
	if err := os.WriteFile(spec, fmt.Appendf(nil, killSpec, window, sel, lateness), 0o666); err != nil {
		t.Fatal(err)
	}
	if text, err := command("run", "--quiet", spec).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	want = killOutput(t, dir)
	if err := os.RemoveAll(filepath.Join(dir, "large")); err != nil {
		t.Fatal(err)
	}
	for name := range want {
		if name != "large" {
			if err := os.Remove(filepath.Join(dir, name)); err != nil {
				t.Fatal(err)
			}
		}
	}
	return spec, want
}

// compareOutput compares rows, not their order: how a union mixes its inputs follows from where epochs were
// cut.
func compareOutput(t *testing.T, got, want map[string]string) {
	t.Helper()
	for name := range want {
		g, w := slices.Sorted(strings.Lines(got[name])), slices.Sorted(strings.Lines(want[name]))
		if !slices.Equal(g, w) {
			t.Errorf("%s differs: %d rows, want %d", name, len(g), len(w))
		}
	}
}

// TestExamplesOnNodes: on several processes every example prints what it prints in one.
func TestExamplesOnNodes(t *testing.T) {
	specs, err := filepath.Glob("../../examples/*/*.xml")
	if err != nil || len(specs) < 2 {
		t.Fatalf("found examples %v, error %v", specs, err)
	}
	for _, spec := range specs {
		want, err := os.ReadFile(filepath.Join(filepath.Dir(spec), "expected.csv"))
		if err != nil {
			t.Fatal(err)
		}
		got, err := command("run", "--quiet", "--nodes", "3", spec).Output()
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s: error %v, output:\n%s", spec, err, got)
		}
	}
}

// rowsOf counts the rows of killOutput, in which CSV has a header.
func rowsOf(out map[string]string) int {
	rows := 0
	for name, text := range out {
		rows += strings.Count(text, "\n")
		if !strings.HasSuffix(name, ".ndjson") {
			rows--
		}
	}
	return rows
}

// TestKillWorkers kills worker processes with SIGKILL while a query runs on them. They are replaced, and
// everything that the query writes is what an undisturbed run writes.
func TestKillWorkers(t *testing.T) {
	tumbling := "window_start, k, count(*) AS n, sum(v) AS s, max(v) AS l"
	for name, c := range map[string]struct{ window, sel, rules string }{
		"session":     {"session(15s)", "window_start, window_end, k, count(*) AS n, max(v) AS s", ""},
		"standby":     {"tumbling(1m)", tumbling, `<rewrite rule="standby" operator="large"/><rewrite rule="checkpoint" operator="perMinute"/>`},
		"hot standby": {"tumbling(1m)", tumbling, `<rewrite rule="hot-standby" operator="perMinute"/><rewrite rule="hot-standby" operator="large"/>`},
		"partitions":  {"tumbling(1m)", tumbling, `<rewrite rule="partition" operator="perMinute"><param name="k" value="3"/></rewrite>`},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			spec, want := writeKillQuery(t, dir, c.window, c.sel, "10s")
			text, err := os.ReadFile(spec)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(spec, bytes.Replace(text, []byte("</dataflow>"), []byte(c.rules+"</dataflow>"), 1), 0o666); err != nil {
				t.Fatal(err)
			}
			state := filepath.Join(dir, "state")
			cmd := command("run", "--nodes", "3", "--state", state, "--checkpoint", "100ms", "--set", "a.rate=4000", "--set", "b.rate=2000", spec)
			var said bytes.Buffer
			cmd.Stderr = &said
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			over := make(chan error, 1)
			go func() { over <- cmd.Wait() }()
			kills, replaced := 0, map[int]bool{}
			for {
				select {
				case err := <-over:
					if err != nil {
						t.Fatalf("%v: %s", err, said.String())
					}
					t.Logf("%d kills, %d processes: %s", kills, len(replaced), said.String())
					if kills == 0 {
						t.Error("no worker was killed")
					}
					got := killOutput(t, dir)
					compareOutput(t, got, want)
					if text := fmt.Sprintf(" rows read, %d written", rowsOf(got)); !strings.Contains(said.String(), text) {
						t.Errorf("the summary is not %q", text)
					}
					return
				case <-time.After(time.Duration(300+rand.IntN(500)) * time.Millisecond):
				}
				pids := workersOf(state)
				for _, pid := range pids {
					replaced[pid] = true
				}
				if len(pids) == 3 && kills < 6 && syscall.Kill(pids[rand.IntN(3)], syscall.SIGKILL) == nil {
					kills++
				}
			}
		})
	}
}

// TestKillAll kills or stops the whole run again and again. No worker outlives it, and the next run goes on.
func TestKillAll(t *testing.T) {
	dir := t.TempDir()
	spec, want := writeKillQuery(t, dir, "hopping(1m, 20s)", "window_start, k, count(DISTINCT v) AS n, avg(v) AS s", "30s")
	state := filepath.Join(dir, "state")
	seen := 0
	for process := 1; ; process++ {
		cmd := command("run", "--quiet", "--nodes", "2", "--state", state, "--checkpoint", "100ms", "--set", "a.rate=8000", "--set", "b.rate=4000", spec)
		var text bytes.Buffer
		cmd.Stderr = &text
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		var workers []int
		if process <= 4 {
			for begin := time.Now(); len(workers) == 0 && time.Since(begin) < time.Minute; {
				workers = workersOf(state)
			}
			time.Sleep(time.Duration(rand.IntN(600)) * time.Millisecond)
			workers = append(workers, workersOf(state)...)
			signal := syscall.SIGKILL
			if process%2 == 0 {
				signal = syscall.SIGINT
			}
			if err := cmd.Process.Signal(signal); err != nil {
				t.Fatal(err)
			}
		}
		err := cmd.Wait()
		seen += len(workers)
		for _, pid := range workers {
			for end := time.Now().Add(time.Minute); running(pid); time.Sleep(time.Millisecond) {
				if time.Now().After(end) {
					t.Fatalf("worker %d runs on without its parent", pid)
				}
			}
		}
		if err != nil && cmd.ProcessState.Exited() {
			t.Fatalf("process %d: %v: %s", process, err, text.String())
		}
		if err == nil && process > 4 {
			break
		}
	}
	if seen == 0 {
		t.Error("no worker was seen")
	}
	compareOutput(t, killOutput(t, dir), want)
}
