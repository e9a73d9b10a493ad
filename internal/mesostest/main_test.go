package mesostest

import (
	"bytes"
	"cmp"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"sluice/internal/zktest"
)

// program is the path of the program under test, and buildFlags are those with which it is built: with the checks
// that these tests have.
var (
	program    string
	buildFlags []string
)

// Times that are waited for something that must happen.
const (
	startTime  = 30 * time.Second // a query runs on all its workers
	finishTime = 90 * time.Second
	quietTime  = 20 * time.Second // nothing of a query is left
	pollTime   = 10 * time.Millisecond
)

// takeOverTime bounds how long a query may be without a scheduler: five seconds are aimed at, and the machine may
// be busy.
const takeOverTime = 10 * time.Second

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "mesostest")
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
		flag.Parse()
		code = cmp.Or(atOnce(), zktest.Main(m))
	}
	os.RemoveAll(dir)
	os.Exit(code)
}

// atOnce has several tests run at a time: they wait most of the time.
func atOnce() int {
	if err := flag.Set("test.parallel", "10"); err != nil {
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
