package main

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"sluice/executor/state/shared"
	"sluice/metaquery"
	"sluice/scheduler"
	"sluice/scheduler/shell"
)

// TestKillEdited kills a query on several processes, all of them, at random moments, and goes on with other numbers
// of partitions and of processes each time. What it writes in the end is what an undisturbed run writes.
func TestKillEdited(t *testing.T) {
	for name, c := range map[string]struct{ window, sel, lateness string }{
		"hopping": {"hopping(40s, 20s)", "window_start, k, count(*) AS n, sum(v) AS s", "5s"},
		"session": {"session(15s)", "window_start, window_end, k, count(*) AS n, max(v) AS s", "10s"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			spec, want := writeKillQuery(t, dir, c.window, c.sel, c.lateness)
			state := filepath.Join(dir, "state")
			kills, edits := 0, 0
			for process := 1; ; process++ {
				disturbed := process <= 8 || edits == 0 && process <= 30
				cmd := command("run", "--nodes", strconv.Itoa(1+rand.IntN(3)), "-p", strconv.Itoa(1+rand.IntN(3)), "--state", state,
					"--checkpoint", "100ms", "--set", "a.rate=8000", "--set", "b.rate=4000", spec)
				var text bytes.Buffer
				cmd.Stderr = &text
				// The workers are in its group, so that all die at once.
				cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
				if err := cmd.Start(); err != nil {
					t.Fatal(err)
				}
				if disturbed {
					for begin := time.Now(); process%2 == 0 && len(workersOf(state)) == 0 && time.Since(begin) < 5*time.Second; {
						time.Sleep(10 * time.Millisecond) // the others may end before anything runs
					}
					time.Sleep(time.Duration(rand.IntN(1200)) * time.Millisecond)
					if rand.IntN(4) == 0 {
						_ = cmd.Process.Signal(syscall.SIGINT)
					} else if syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) == nil {
						kills++
					}
				}
				err := cmd.Wait()
				if bytes.Contains(text.Bytes(), []byte("goes on with its state")) {
					edits++
				}
				if err != nil && cmd.ProcessState.Exited() {
					t.Fatalf("process %d: %v: %s", process, err, text.String())
				}
				if err == nil && !disturbed {
					break
				}
			}
			t.Logf("%d kills, %d edits", kills, edits)
			if kills == 0 || edits == 0 {
				t.Errorf("%d kills, %d edits", kills, edits)
			}
			compareOutput(t, killOutput(t, dir), want)
		})
	}
}

// TestInterruptedEdit: while an edit is being saved its process may end at any moment, and so may the one after it
// that finds out. The query and the record that there are in the end belong together.
func TestInterruptedEdit(t *testing.T) {
	old := &savedQuery{Partitions: 1, Nodes: 2, Sets: []string{"a.b=1"}, graph: "old graph\n", text: []byte("old spec")}
	edited := savedQuery{Partitions: 3, Nodes: 2, Replicas: map[string]int{"total": 1}, graph: "edited graph\n", text: []byte("edited spec")}
	recordOf := func(name string) *scheduler.Record {
		return &scheduler.Record{Term: 1, Checkpoint: 9, State: map[string]metaquery.Snapshot{name: {Key: name, Lo: 9, Hi: 9}}}
	}
	held := map[string]int{}
	for _, fault := range []shared.Fault{shared.Fail, shared.Torn, shared.Crash} {
		saving := true // until a life has had no fault
		for first := 1; saving; first++ {
			for second := 1; second <= 6; second++ {
				left := -1 // operations until the next fault
				m := shared.NewMemory(func(string, string) shared.Fault {
					if left--; left == 0 {
						return fault
					}
					return shared.NoFault
				})
				life := func(name string, faultAt int, do func(r *nodesRun) error) error {
					store, err := m.Open(name, true)
					if err != nil {
						t.Fatal(err)
					}
					left = faultAt
					err = do(&nodesRun{c: &runCommand{}, store: store})
					left = -1
					m.Crash(name, nil)
					return err
				}
				err := life("old", -1, func(r *nodesRun) error {
					records := shell.Recorded(r.store)
					if _, err := records.Begin(); err != nil {
						return err
					}
					return errors.Join(r.setQuery(old), records.Save(recordOf("old")))
				})
				if err != nil {
					t.Fatal(err)
				}
				err = life("edit", first, func(r *nodesRun) error {
					q := edited
					return r.save(old, &q, recordOf("edited"))
				})
				saving = err != nil
				_ = life("finds out", second, func(r *nodesRun) error {
					_, err := r.savedQuery()
					return err
				})
				var q *savedQuery
				var record *scheduler.Record
				err = life("goes on", -1, func(r *nodesRun) (err error) {
					if q, err = r.savedQuery(); err == nil {
						record, err = r.record()
					}
					return err
				})
				if err != nil {
					t.Fatalf("fault %d at %d, then at %d: %v", fault, first, second, err)
				}
				name, _, _ := strings.Cut(q.graph, " ")
				if _, ok := record.State[name]; !ok || string(q.text) != name+" spec" || len(q.was) > 0 {
					t.Errorf("fault %d at %d, then at %d: query %+v, record %+v", fault, first, second, q, record)
				}
				if !saving && name != "edited" {
					t.Errorf("fault %d, then at %d: the edit has been saved and does not hold", fault, second)
				}
				held[name]++
			}
		}
	}
	if held["old"] == 0 || held["edited"] == 0 {
		t.Errorf("queries that held: %v", held)
	}
}
