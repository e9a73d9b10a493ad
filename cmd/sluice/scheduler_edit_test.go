package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"sluice/metaquery"
	"sluice/scheduler/api"
	"sluice/scheduler/store"
)

// TestSchedulerKillEdited edits a query again and again, with other numbers of partitions and workers, and kills the
// scheduler at random moments after it has been asked. The next one finishes the edit, and the output is exact.
func TestSchedulerKillEdited(t *testing.T) {
	t.Parallel()
	dir, root := t.TempDir(), t.TempDir()
	spec, want := writeKillQuery(t, dir, "hopping(40s, 20s)", "window_start, k, count(*) AS n, sum(v) AS s", "5s")
	s := startScheduler(t, root)
	submitKill(s, spec)
	text, err := os.ReadFile(spec)
	if err != nil {
		t.Fatal(err)
	}
	done, kills := 0, 0
	for i := range 8 {
		var q *api.Query
		eventually(t, "the query runs or has ended", func() bool {
			q = s.query("kill")
			return q != nil && (q.State == api.Running || api.Ended(q.State))
		})
		if api.Ended(q.State) {
			break
		}
		time.Sleep(time.Duration(rand.IntN(300)) * time.Millisecond)
		edited := &api.Submission{
			Spec: string(text), File: filepath.Base(spec), Dir: dir, Checkpoint: "100ms", Partitions: 1 + i%3, Workers: 1 + rand.IntN(3),
			Set: []string{fmt.Sprintf("a.rate=%d", killRates), fmt.Sprintf("b.rate=%d", killRates/2)},
		}
		asked := make(chan string, 1)
		go func() {
			var q api.Query
			status, err := s.try("PUT", "/queries/kill", edited, &q)
			if status == http.StatusOK {
				done++
			}
			asked <- fmt.Sprintf("status %d, %+v, error %v", status, q.Edit, err)
		}()
		if i%4 != 3 {
			time.Sleep(time.Duration(rand.IntN(150)) * time.Millisecond)
			s.kill(syscall.SIGKILL)
			kills++
		}
		t.Log(<-asked)
		if i%4 != 3 {
			s = startScheduler(t, root)
		}
		q = s.query("kill")
		for end := time.Now().Add(time.Minute); q == nil || q.Edit != nil && q.Edit.State == api.EditPending; q = s.query("kill") {
			if time.Sleep(20 * time.Millisecond); time.Now().After(end) {
				t.Fatalf("the edit does not end: %+v", q)
			}
		}
		if q.Edit != nil && q.Edit.State != api.EditDone {
			t.Fatalf("%+v", q.Edit)
		}
		if api.Ended(q.State) {
			break
		}
	}
	q := s.wait("kill", api.Finished)
	if kills == 0 || q.Edit == nil {
		t.Errorf("%d kills, %+v", kills, q.Edit)
	}
	t.Logf("%d kills, %d edits answered", kills, done)
	compareOutput(t, killOutput(t, dir), want)
}

// TestSchedulerTerm: SIGTERM brings queries to a checkpoint before their workers end, so that the next scheduler has
// nothing to do again; a second one ends all at once.
func TestSchedulerTerm(t *testing.T) {
	t.Parallel()
	dir, root := t.TempDir(), t.TempDir()
	spec, want := writeKillQuery(t, dir, "tumbling(1m)", "window_start, k, count(*) AS n, sum(v) AS s, max(v) AS l", "10s")
	s := startScheduler(t, root)
	s.submit(spec, func(sub *api.Submission) {
		sub.Set = []string{"a.rate=1500", "b.rate=750"} // so that it runs for some seconds more
		sub.Checkpoint = "1h"
	})
	var before *api.Query
	eventually(t, "rows have been read", func() bool {
		before = s.query("kill")
		return before != nil && before.State == api.Running && len(before.Operators) > 0 && before.Operators[0].Out > 0
	})
	begin := time.Now()
	s.kill(syscall.SIGTERM)
	t.Logf("it ended after %v", time.Since(begin))
	s = startScheduler(t, root)
	q := s.wait("kill", api.Running)
	if q.Checkpoint <= before.Checkpoint || q.Checkpoint%360_000 == 0 {
		t.Errorf("%+v after %+v", q, before)
	}
	// A worker that stands still keeps the query from a checkpoint, until others take its place. A second SIGTERM does not
	// wait for that; on a busy machine it may come too late a few times.
	for round, reached := 1, q.Checkpoint; ; round++ {
		var pids []int
		eventually(t, "the query has its workers", func() bool { pids = workers(s.query("kill")); return len(pids) > 0 })
		for _, pid := range pids {
			_ = syscall.Kill(pid, syscall.SIGSTOP) // it may have been replaced
		}
		begin = time.Now()
		_ = s.cmd.Process.Signal(syscall.SIGTERM)
		time.Sleep(200 * time.Millisecond) // two that come at once would count as one
		s.kill(syscall.SIGTERM)
		t.Logf("two ended it after %v", time.Since(begin))
		s = startScheduler(t, root)
		q := s.wait("kill", api.Running)
		if q.Checkpoint == reached {
			break
		}
		if reached = q.Checkpoint; round == 5 {
			t.Errorf("with two SIGTERM the query comes to a checkpoint each time: %+v", q)
			break
		}
	}
	s.wait("kill", api.Finished)
	compareOutput(t, killOutput(t, dir), want)
}

// kept is what the store has of what has happened to a query: the rows that have left its operators, and its events.
type kept struct {
	Operators map[string]int64
	Events    map[string]bool
}

// storedHistory reads the history of the only query of a scheduler.
func storedHistory(t *testing.T, root string) kept {
	t.Helper()
	s, err := store.OpenDir(filepath.Join(root, "store"))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	k := kept{map[string]int64{}, map[string]bool{}}
	ids, err := s.List(t.Context(), "queries")
	if err != nil || len(ids) != 1 {
		t.Fatalf("stored queries %v, error %v", ids, err)
	}
	text, _, err := s.Get(t.Context(), "queries/"+ids[0]+"/history")
	if errors.Is(err, store.ErrNotFound) {
		return k
	}
	var h struct {
		Sums    map[string]metaquery.OperatorReport
		Reports map[string]metaquery.Report
		Events  []api.Event
	}
	if err == nil {
		err = json.Unmarshal(text, &h)
	}
	if err != nil {
		t.Fatal(err)
	}
	for name, o := range h.Sums {
		k.Operators[name] += o.Out
	}
	for _, r := range h.Reports {
		for _, o := range r.Operators {
			k.Operators[o.Name] += o.Before + o.Out
		}
	}
	for _, e := range h.Events {
		k.Events[e.ID] = true
	}
	return k
}

// TestSchedulerEventsGoOn: events and counts go on when another scheduler takes over, for those who watch too.
func TestSchedulerEventsGoOn(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	spec, dir := writeFollow(t)
	first := startScheduler(t, root)
	second := startScheduler(t, root)
	second.submit(spec, nil)
	waitOutput(t, dir, "a\n50\n")
	// One watches through the second scheduler, from now on: there is no event before the first one is gone.
	watch := command("events", "follow", "--scheduler", second.url)
	out, err := watch.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := watch.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = watch.Process.Kill()
		_ = watch.Wait()
	}()
	lines := bufio.NewScanner(out)
	next := func(kind string) string {
		t.Helper()
		for lines.Scan() {
			if strings.Contains(lines.Text(), " "+kind+" follow: ") {
				return strings.Fields(lines.Text())[1]
			}
		}
		t.Fatalf("no event %s", kind)
		return ""
	}
	next("checkpoint")
	first.call("POST", "/queries/follow/set", api.Setting{Operator: "src", Param: "rate", Value: "1000"}, nil)
	change := next("change")
	eventually(t, "all rows are counted", func() bool {
		q := second.query("follow")
		return q != nil && len(q.Operators) > 2 && q.Operators[0].Out == 2 && q.Operators[2].Out == 1
	})
	eventually(t, "counts and events are stored", func() bool {
		h := storedHistory(t, root)
		return h.Operators["src"] == 2 && h.Operators["out"] == 1 && h.Events[change]
	})
	first.kill(syscall.SIGKILL)
	if began := next("started"); began[0] != '2' {
		t.Errorf("the query begins again with the event %s", began)
	}
	second.wait("follow", api.Running)
	var operators []api.Operator
	eventually(t, "the counts are those of before", func() bool { // the sink says its own once it runs
		if q := second.query("follow"); q != nil {
			operators = q.Operators
		}
		return len(operators) > 2 && operators[0].Out >= 2 && operators[2].Out >= 1
	})
	if operators[0].Out != 2 || operators[2].Out != 1 {
		t.Errorf("%+v", operators)
	}
	var o, e bytes.Buffer
	if status := run([]string{"events", "follow", "--no-follow", "--after", "1-2", "--scheduler", second.url}, streams{strings.NewReader(""), &o, &e}); status != exitDone {
		t.Fatalf("exit status %d: %s", status, &e)
	}
	text := o.String()
	if strings.Contains(text, " submitted ") || !strings.Contains(text, " "+change+" change ") || strings.Index(text, " "+change+" ") > strings.Index(text, " 2-") {
		t.Errorf("events after 1-2:\n%s", text)
	}
}
