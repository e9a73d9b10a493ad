package realtest

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"sluice/scheduler/local"
)

// program is the path of the program under test, and buildFlags are those with which it is built: with the checks
// that these tests have.
var (
	program    string
	buildFlags []string
)

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "realtest")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	program = filepath.Join(dir, "sluice")
	build := exec.Command("go", append(append([]string{"build"}, buildFlags...), "-o", program, "sluice/cmd/sluice")...)
	code := 1
	if text, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "building the program: %v\n%s", err, text)
	} else {
		code = m.Run()
	}
	os.RemoveAll(dir)
	os.Exit(code)
}

// Times that are waited for something that must happen.
const (
	startTime  = time.Minute // a query runs on all its workers
	finishTime = 90 * time.Second
	pollTime   = 10 * time.Millisecond
)

// run is a `sluice run` that is under way.
type run struct {
	t     *testing.T
	cmd   *exec.Cmd
	state string
	said  text
	over  chan struct{} // closed when the process has ended, with err
	err   error
}

// text is what a process writes, to be read while it runs.
type text struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *text) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *text) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// startRun starts `sluice run` with the state and the arguments.
func startRun(t *testing.T, dir, state string, args ...string) *run {
	t.Helper()
	r := &run{t: t, state: state, over: make(chan struct{})}
	r.cmd = exec.Command(program, append([]string{"run", "--state", state}, args...)...)
	r.cmd.Env = append(os.Environ(), "TMPDIR="+dir, "XDG_RUNTIME_DIR=")
	r.cmd.Stderr = &r.said
	if err := r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		r.err = r.cmd.Wait()
		close(r.over)
	}()
	t.Cleanup(func() {
		_ = r.cmd.Process.Kill() // its workers end with it
		<-r.over
	})
	return r
}

// finish waits for the end, which must be a good one.
func (r *run) finish() {
	r.t.Helper()
	select {
	case <-r.over:
	case <-time.After(finishTime):
		s, _ := r.status()
		for _, w := range s.workers() {
			s.signal(r.t, w, syscall.SIGQUIT) // it says where it stands
		}
		time.Sleep(pollTime)
		awaitGone(r.t, slices.Collect(maps.Values(s.pids)))
		r.t.Fatalf("the query has not ended:\n%s\n%s", s.text, r.said.String())
	}
	if r.err != nil {
		r.t.Fatalf("%v: %s", r.err, r.said.String())
	}
}

// ended reports whether the process has ended.
func (r *run) ended() bool {
	select {
	case <-r.over:
		return true
	default:
		return false
	}
}

// taskStatus is what `sluice status` says of a task.
type taskStatus struct {
	state, worker        string
	generation, received int64
	epoch                string
	unprotected          bool
}

// status is what `sluice status` says.
type status struct {
	text  string
	tasks map[string]taskStatus
	pids  map[string]int // of the workers
}

var (
	taskLine    = regexp.MustCompile(`^task (\S+): (\w+)(?: on (\S+))?, generation (\d+), \w+, epoch (\w+)`)
	receivedIn  = regexp.MustCompile(`, (\d+) rows? received`)
	processLine = regexp.MustCompile(`^process (\d+): worker (\S+)`)
)

// status asks the query how it is; false if it does not answer, before and after it runs.
func (r *run) status() (status, bool) {
	s := status{tasks: map[string]taskStatus{}, pids: map[string]int{}}
	a, err := local.Ask(r.state, local.Request{Status: true})
	if err != nil || a.Error != "" {
		return s, false
	}
	s.text = a.Text
	for line := range strings.Lines(a.Text) {
		if m := processLine.FindStringSubmatch(line); m != nil {
			s.pids[m[2]], _ = strconv.Atoi(m[1])
		}
		m := taskLine.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		t := taskStatus{state: m[2], worker: m[3], epoch: m[5], unprotected: strings.Contains(line, ", unprotected")}
		t.generation, _ = strconv.ParseInt(m[4], 10, 64)
		if m := receivedIn.FindStringSubmatch(line); m != nil {
			t.received, _ = strconv.ParseInt(m[1], 10, 64)
		}
		s.tasks[m[1]] = t
	}
	return s, true
}

// await waits until the status is as wanted, and gives it. It is a failure if the query ends before.
func (r *run) await(what string, good func(status) bool) status {
	r.t.Helper()
	s, ok := r.awaitOrEnd(what, good)
	if !ok {
		r.t.Fatalf("%s: the query has ended: %v: %s", what, r.err, r.said.String())
	}
	return s
}

// awaitOrEnd waits until the status is as wanted, or the query has ended; then it returns false.
func (r *run) awaitOrEnd(what string, good func(status) bool) (status, bool) {
	r.t.Helper()
	var s status
	for deadline := time.Now().Add(startTime); time.Now().Before(deadline); time.Sleep(pollTime) {
		var ok bool
		if s, ok = r.status(); ok && good(s) {
			return s, true
		}
		if r.ended() {
			return s, false
		}
	}
	r.t.Fatalf("%s: it does not come to that:\n%s\n%s", what, s.text, r.said.String())
	return s, false
}

// running reports whether all tasks that should run do.
func (s status) running() bool {
	for _, t := range s.tasks {
		if !slices.Contains([]string{"running", "standby", "finished"}, t.state) {
			return false
		}
	}
	return len(s.tasks) > 0 && len(s.pids) > 0
}

// on is running, with so many workers.
func on(workers int) func(status) bool {
	return func(s status) bool { return s.running() && len(s.pids) == workers }
}

// workers are the names of the workers, in order.
func (s status) workers() []string {
	var names []string
	for name := range s.pids {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// signal sends a signal to the process of a worker.
func (s status) signal(t *testing.T, worker string, signal syscall.Signal) {
	t.Helper()
	pid := s.pids[worker]
	if pid <= 1 {
		t.Fatalf("worker %q has no process:\n%s", worker, s.text)
	}
	if err := syscall.Kill(pid, signal); err != nil && !errors.Is(err, syscall.ESRCH) {
		t.Fatal(err)
	}
}

// gone reports whether a process has ended.
func gone(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return true
	}
	_, after, _ := bytes.Cut(stat, []byte(") "))
	return len(after) == 0 || after[0] == 'Z'
}

// awaitGone waits until processes have ended.
func awaitGone(t *testing.T, pids []int) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); slices.ContainsFunc(pids, func(p int) bool { return !gone(p) }); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("of the workers %v some run on without their parent", pids)
		}
	}
}
