package main

import (
	"bufio"
	"bytes"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"sluice/scheduler/api"
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
		s.wait("kill", api.Running)
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
		q := s.query("kill")
		for end := time.Now().Add(30 * time.Second); q == nil || q.Edit != nil && q.Edit.State == api.EditPending; q = s.query("kill") {
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
		sub.Set = []string{fmt.Sprintf("a.rate=%d", killRates), fmt.Sprintf("b.rate=%d", killRates/2)}
		sub.Checkpoint = "1h"
	})
	s.wait("kill", api.Running)
	time.Sleep(500 * time.Millisecond)
	before := s.query("kill")
	if before == nil {
		t.Fatal("it does not answer")
	}
	begin := time.Now()
	s.kill(syscall.SIGTERM)
	t.Logf("it ended after %v", time.Since(begin))
	s = startScheduler(t, root)
	if q := s.wait("kill", api.Running); q.Checkpoint <= before.Checkpoint || q.Checkpoint%360_000 == 0 {
		t.Errorf("%+v after %+v", q, before)
	}
	// A worker that stands still keeps the query from a checkpoint.
	for _, pid := range workers(s.query("kill")) {
		if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
	}
	begin = time.Now()
	_ = s.cmd.Process.Signal(syscall.SIGTERM)
	time.Sleep(300 * time.Millisecond)
	s.kill(syscall.SIGTERM)
	if d := time.Since(begin); d > 4*time.Second {
		t.Errorf("a second SIGTERM ends it after %v", d)
	}
	s = startScheduler(t, root)
	s.wait("kill", api.Finished)
	compareOutput(t, killOutput(t, dir), want)
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
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		q := second.query("follow")
		if q != nil && len(q.Operators) > 2 && q.Operators[0].Out == 2 && q.Operators[2].Out == 1 {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("%+v", q)
		}
	}
	time.Sleep(6 * time.Second) // counts and events are stored every five
	first.kill(syscall.SIGKILL)
	if began := next("started"); began[0] != '2' {
		t.Errorf("the query begins again with the event %s", began)
	}
	q := second.wait("follow", api.Running)
	if q.Operators[0].Out != 2 || q.Operators[2].Out != 1 {
		t.Errorf("%+v", q.Operators)
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
