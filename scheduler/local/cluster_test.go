package local

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"sluice/dataflow"
	"sluice/scheduler"
)

// roleVariable says in a child process of a test what it is to be.
const roleVariable = "SLUICE_TEST_ROLE"

func TestMain(m *testing.M) {
	role, arg, _ := strings.Cut(os.Getenv(roleVariable), ":")
	switch role {
	case "":
		goleak.VerifyTestMain(m)
	case "sleep":
		time.Sleep(10 * time.Minute)
	case "exit":
		os.Exit(3)
	case "parent":
		parentOfSleepers(arg)
	case "worker":
		runTestWorker(arg)
	}
}

// child is a command that runs this test program in a role.
func child(role string) *exec.Cmd {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), roleVariable+"="+role)
	cmd.Stderr = os.Stderr
	return cmd
}

func sleeper(scheduler.WorkerID) *exec.Cmd { return child("sleep") }

// pids waits until n workers have processes, and gives them.
func pids(c *Cluster, n int) map[scheduler.WorkerID]int {
	all := map[scheduler.WorkerID]int{}
	for begin := time.Now(); len(all) < n && time.Since(begin) < time.Minute; time.Sleep(time.Millisecond) {
		c.mu.Lock()
		for id, p := range c.procs {
			if p.cmd != nil {
				all[id] = p.cmd.Process.Pid
			}
		}
		c.mu.Unlock()
	}
	return all
}

// alive reports whether there is such a process that has not ended.
func alive(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, after, _ := bytes.Cut(stat, []byte(") "))
	return len(after) > 0 && after[0] != 'Z'
}

func TestCluster(t *testing.T) {
	c := NewCluster("t", nil, sleeper)
	c.Start(make([]dataflow.Resources, 3))
	all := pids(c, 3)
	if len(all) != 3 || all["w1-t"] == 0 || c.About("w2-t") != fmt.Sprintf("process %d", all["w2-t"]) || c.About("w9-t") != "no process" {
		t.Fatalf("%v", all)
	}
	c.Kill("w2-t")
	if e := <-c.Ended(); e.ID != "w2-t" || e.Quick != 0 || alive(all["w2-t"]) || c.Known("w2-t") || !c.Known("w1-t") {
		t.Errorf("%+v", e)
	}
	if err := syscall.Kill(all["w3-t"], syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if e := <-c.Ended(); e.ID != "w3-t" || e.Quick != 1 || e.Status != "signal: killed" {
		t.Errorf("%+v", e)
	}
	c.Kill("w2-t") // it is said again
	c.Kill("w1-before")
	for _, id := range []scheduler.WorkerID{"w2-t", "w1-before"} {
		if e := <-c.Ended(); e.ID != id {
			t.Errorf("%+v", e)
		}
	}
	c.Close(0)
	if alive(all["w1-t"]) {
		t.Error("a worker is alive after Close")
	}
}

// TestClusterPauses: workers that end at once are started more and more slowly, until one runs on.
func TestClusterPauses(t *testing.T) {
	c := NewCluster("t", nil, func(scheduler.WorkerID) *exec.Cmd { return child("exit") })
	begin := time.Now()
	for i := range 4 {
		c.Start(make([]dataflow.Resources, 1))
		if e := <-c.Ended(); e.Quick != i+1 || e.Status != "exit status 3" {
			t.Errorf("%+v", e)
		}
	}
	if d := time.Since(begin); d < 7*firstPause { // 1 + 2 + 4
		t.Errorf("four workers were started in %v", d)
	}
	c.Start(make([]dataflow.Resources, 1))
	c.Close(time.Minute) // does not wait for the pause
	if d := time.Since(begin); d > 30*time.Second {
		t.Errorf("ended after %v", d)
	}
	c = NewCluster("t", nil, func(scheduler.WorkerID) *exec.Cmd { return exec.Command("/nonexistent/program") })
	c.Start(make([]dataflow.Resources, 1))
	if e := <-c.Ended(); e.Quick != 1 || !strings.Contains(e.Status, "/nonexistent/program") {
		t.Errorf("%+v", e)
	}
	c.Close(0)
}

// TestClusterUnable: a worker that says that it cannot run the query is a quick end, also one that has run for long,
// so that it is not started again at once for ever. One that is killed beside it is not, and changes nothing.
func TestClusterUnable(t *testing.T) {
	c := NewCluster("t", nil, sleeper)
	begin := time.Now()
	capacity := dataflow.Resources{Mem: 1 << 20}
	for i := range 4 {
		c.Start([]dataflow.Resources{capacity, {}})
		n := 2*i + 1
		all := pids(c, 2)
		id, other := scheduler.WorkerID(fmt.Sprintf("w%d-t", n)), scheduler.WorkerID(fmt.Sprintf("w%d-t", n+1))
		if got := c.Running(); len(all) != 2 || !slices.Equal(got, []scheduler.WorkerID{id, other}) {
			t.Fatalf("%v run, %v", got, all)
		}
		c.mu.Lock()
		c.procs[id].began = begin.Add(-time.Hour)
		c.mu.Unlock()
		c.Unable(id, "no room")
		if e := <-c.Ended(); e.ID != id || e.Quick != i+1 || !e.Capacity.Equal(capacity) || alive(all[id]) {
			t.Errorf("%+v", e)
		}
		c.Kill(other)
		if e := <-c.Ended(); e.ID != other || e.Quick != 0 || !e.Capacity.IsZero() {
			t.Errorf("%+v", e)
		}
	}
	if d := time.Since(begin); d < 7*firstPause { // 1 + 2 + 4
		t.Errorf("four workers were started in %v", d)
	}
	c.Close(0)
}

// parentOfSleepers has two workers, says which, and waits.
func parentOfSleepers(lock string) {
	held, err := Lock(lock)
	if err != nil {
		fmt.Println(err)
		return
	}
	c := NewCluster("t", held, sleeper)
	c.Start(make([]dataflow.Resources, 2))
	for _, pid := range pids(c, 2) {
		fmt.Println(pid)
	}
	time.Sleep(10 * time.Minute)
}

// TestParentDies: workers end with their parent, and the lock that they share with it is free only then.
func TestParentDies(t *testing.T) {
	lock := filepath.Join(t.TempDir(), "workers")
	parent := child("parent:" + lock)
	out, err := parent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	var workers []int
	for len(workers) < 2 && lines.Scan() {
		pid, err := strconv.Atoi(lines.Text())
		if err != nil || !alive(pid) {
			t.Fatalf("parent says %q", lines.Text())
		}
		workers = append(workers, pid)
	}
	if _, err := Lock(lock); !errors.Is(err, ErrInUse) {
		t.Errorf("error %v", err)
	}
	if err := parent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = parent.Wait()
	f, err := Lock(lock)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, pid := range workers {
		for begin := time.Now(); alive(pid) && time.Since(begin) < time.Minute; time.Sleep(time.Millisecond) {
			// It lets go of its files shortly before it has ended, and does nothing in between.
		}
		if alive(pid) {
			t.Errorf("process %d has the lock no more and is alive", pid)
		}
	}
}
