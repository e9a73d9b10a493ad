package mesostest

import (
	"bytes"
	"cmp"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"sluice/internal/zktest"
)

// program is the path of the program under test, and buildFlags are those with which it is built: with the invariants
// that these tests check, but never for the race detector, for then two cores do not do for forty processes.
var (
	program    string
	buildFlags []string
)

// Times that are waited for something that must happen.
const (
	startTime  = time.Minute // a query runs on all its workers
	finishTime = 90 * time.Second
	quietTime  = 20 * time.Second // nothing of a query is left
	pollTime   = 10 * time.Millisecond
)

// takeOverTime bounds how long a query may be without a scheduler.
const takeOverTime = 5 * time.Second

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "mesostest")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	program = filepath.Join(dir, "sluice")
	code := 1
	if err := build(program, "-ldflags=-s -w"); err != nil {
		fmt.Fprintln(os.Stderr, err)
	} else {
		flag.Parse()
		stalls.doubts = map[*testing.T][]string{}
		go watchStalls()
		code = cmp.Or(atOnce(), zktest.Main(m))
	}
	os.RemoveAll(dir)
	os.Exit(code)
}

// build builds the program.
func build(to string, flags ...string) error {
	cmd := exec.Command("go", slices.Concat([]string{"build", "-o", to}, flags, buildFlags, []string{"sluice/cmd/sluice"})...)
	if text, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("building the program: %w\n%s", err, text)
	}
	return nil
}

// atOnce has several tests run at a time: they wait most of the time.
func atOnce() int {
	if err := flag.Set("test.parallel", "6"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// eventually waits until something is so.
func eventually(t *testing.T, limit time.Duration, what string, good func() bool) {
	t.Helper()
	for end := time.Now().Add(limit); !good(); time.Sleep(pollTime) {
		if time.Now().After(end) {
			t.Fatalf("within %v it is not so that %s", limit, what)
		}
	}
}

// stalls are the times at which this process was not run for a while, for the machine was busy.
var stalls struct {
	sync.Mutex
	at     []time.Time
	doubts map[*testing.T][]string // by tests that are done again if something is not calm
}

// Stalls of more than longStall are noted: several of them in a row make processes look dead.
const longStall = 150 * time.Millisecond

func watchStalls() {
	for last := time.Now(); ; time.Sleep(pollTime) {
		if now := time.Now(); now.Sub(last) > longStall {
			stalls.Lock()
			stalls.at = append(stalls.at, now)
			stalls.Unlock()
		}
		last = time.Now()
	}
}

// calm checks something that is only so if the machine is not too busy: it is said and no failure if that stood still.
func calm(t *testing.T, since time.Time, ok bool, format string, args ...any) {
	t.Helper()
	if ok {
		return
	}
	stalls.Lock()
	defer stalls.Unlock()
	stood := len(stalls.at) > 0 && stalls.at[len(stalls.at)-1].After(since)
	if stood {
		t.Logf("the machine stood still: "+format, args...)
		return
	}
	if _, again := stalls.doubts[t]; again {
		stalls.doubts[t] = append(stalls.doubts[t], fmt.Sprintf(format, args...))
		return
	}
	t.Errorf(format, args...)
}

// mostDoubts is how often in a row processes may be in want of time though this one is not.
const mostDoubts = 3

// calmOnce does what must be calm at least once: where calm finds something it is done again.
func calmOnce(t *testing.T, do func()) {
	t.Helper()
	for tries := 1; ; tries++ {
		stalls.Lock()
		stalls.doubts[t] = nil
		stalls.Unlock()
		do()
		stalls.Lock()
		doubts := stalls.doubts[t]
		delete(stalls.doubts, t)
		stalls.Unlock()
		if len(doubts) == 0 {
			return
		}
		if tries == mostDoubts {
			t.Fatalf("it is not calm each time: %q", doubts)
		}
		t.Logf("once more, for it was not calm: %q", doubts)
	}
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
