package main

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
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

// hasCheckpoint reports whether the query that runs with a state has a checkpoint.
func hasCheckpoint(state string) bool {
	text, err := command("status", "--state", state).Output()
	return err == nil && bytes.Contains(text, []byte(", checkpoint ")) && !bytes.Contains(text, []byte(", checkpoint 0"))
}

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
			const lives = 8
			for process := 1; process <= lives+1; process++ {
				disturbed := process <= lives
				cmd := command("run", "--nodes", strconv.Itoa(1+rand.IntN(3)), "-p", strconv.Itoa(1+process%3), "--state", state, "--checkpoint", "100ms", spec)
				if disturbed {
					// So slow that the input does not end, however long a life takes.
					cmd.Args = append(cmd.Args, "--set", "a.rate=100", "--set", "b.rate=50")
				}
				var text bytes.Buffer
				cmd.Stderr = &text
				// The workers are in its group, so that all die at once.
				cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
				if err := cmd.Start(); err != nil {
					t.Fatal(err)
				}
				if disturbed {
					// The others may end before anything runs.
					for begin := time.Now(); process%2 == 0 && (len(workersOf(state)) == 0 || !hasCheckpoint(state)) && time.Since(begin) < time.Minute; {
						time.Sleep(10 * time.Millisecond)
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
			}
			t.Logf("%d kills, %d edits", kills, edits)
			if kills == 0 || edits == 0 {
				t.Errorf("%d kills, %d edits", kills, edits)
			}
			compareOutput(t, killOutput(t, dir), want)
		})
	}
}

// conditionSpec writes some rows, and their number and sum.
const conditionSpec = `<dataflow name="condition">
  <type name="Row"><column name="t" type="timestamp" eventtime="true"/><column name="k" type="int"/><column name="v" type="int"/></type>
  <operator name="a" type="reader"><output name="all" type="Row"/><param name="path" value="a*.csv"/><param name="epoch-rows" value="50"/><param name="watermark-delay" value="1h"/></operator>
  <operator name="f" type="filter"><input name="all"/><param name="condition" value="v >= 900"/><output name="rows"/></operator>
  <operator name="total" type="aggregate"><input name="rows"/><param name="select" value="count(*) AS n, sum(v) AS s"/><output name="totals"/></operator>
  <operator name="w1" type="writer"><input name="rows"/><param name="path" value="rows.csv"/></operator>
  <operator name="w2" type="writer"><input name="totals"/><param name="path" value="total.ndjson"/></operator>
</dataflow>`

// TestKillEditedCondition gives a query another condition each time that all its processes have been killed. Each row
// counts under one condition for both sinks, also one that was written but in no checkpoint: with --fsync never rows
// count as written at the end of each epoch.
func TestKillEditedCondition(t *testing.T) {
	dir := t.TempDir()
	writeKillData(t, dir)
	spec, state := filepath.Join(dir, "condition.xml"), filepath.Join(dir, "state")
	if err := os.WriteFile(spec, []byte(conditionSpec), 0o666); err != nil {
		t.Fatal(err)
	}
	const lives = 6
	for process := 1; process <= lives+1; process++ {
		cmd := command("run", "--quiet", "--nodes", "3", "--state", state, "--checkpoint", "1s", "--fsync", "never", "--set", "a.rate=3000",
			"--set", fmt.Sprintf("f.condition=v >= %d", process%4*250), spec)
		if process > lives {
			cmd.Args = append(cmd.Args, "--set", "a.rate=0")
		}
		var text bytes.Buffer
		cmd.Stderr = &text
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if process <= lives {
			for begin := time.Now(); len(workersOf(state)) == 0 && time.Since(begin) < time.Minute; {
				time.Sleep(10 * time.Millisecond)
			}
			time.Sleep(time.Duration(300+rand.IntN(900)) * time.Millisecond)
			_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		}
		if err := cmd.Wait(); err != nil && cmd.ProcessState.Exited() {
			t.Fatalf("process %d: %v: %s", process, err, text.String())
		}
	}
	written, err := os.ReadFile(filepath.Join(dir, "rows.csv"))
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(written)), "\n")[1:]
	sum := 0
	for _, l := range lines {
		v, err := strconv.Atoi(l[strings.LastIndexByte(l, ',')+1:])
		if err != nil {
			t.Fatal(err)
		}
		sum += v
	}
	got, err := os.ReadFile(filepath.Join(dir, "total.ndjson"))
	if err != nil {
		t.Fatal(err)
	}
	if want := fmt.Sprintf("{\"n\":%d,\"s\":%d}\n", len(lines), sum); string(got) != want {
		t.Errorf("the totals are %q; what was written gives %q", got, want)
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
