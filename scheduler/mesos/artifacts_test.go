package mesos

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"sluice/dataflow"
	"sluice/executor/mesos"
	"sluice/executor/transport"
	"sluice/internal/fakemesos"
)

// TestMain lets the test be what an agent starts: an executor whose workers run in a process of their own.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "executor" {
		os.Exit(runAsExecutor())
	}
	if os.Getenv("SLUICE_TEST_LIBRARIES") != "" {
		printLibraries()
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

func runAsExecutor() int {
	h := &host{fail: map[string]chan error{}}
	code, err := mesos.Run(context.Background(), mesos.Config{
		Control: func() (transport.Transport, error) { return transport.NewZMQ(transport.Options{}) },
		Work:    h.work,
		Log:     func(text string) { fmt.Fprintln(os.Stderr, text) },
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	return code
}

// printLibraries prints the files of the libraries of this process that are not of the C library.
func printLibraries() {
	f, err := os.Open("/proc/self/maps")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer f.Close()
	seen := map[string]bool{}
	for lines := bufio.NewScanner(f); lines.Scan(); {
		_, path, found := strings.Cut(lines.Text(), "/")
		if found && strings.Contains(path, ".so") && !ofSystem(filepath.Base(path)) && !seen[path] {
			seen[path] = true
			fmt.Println("/" + path)
		}
	}
}

func TestArtifacts(t *testing.T) {
	kept := t.TempDir()
	a, err := NewArtifacts(kept)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	if left, err := os.ReadDir(kept); err != nil || len(left) > 0 {
		t.Errorf("the archive is left for those who come: %v, error %v", left, err)
	}
	t.Run("the archive runs with its own libraries", func(t *testing.T) { archiveRuns(t, a) })
	t.Run("an agent fetches the executor", func(t *testing.T) { agentFetches(t, a) })
}

func archiveRuns(t *testing.T, a *Artifacts) {
	libs, err := libraries()
	if err != nil {
		t.Fatal(err)
	}
	if again, err := fingerprint(libs); err != nil || again != a.name {
		t.Errorf("it would be packed again as %s, not %s, error %v", again, a.name, err)
	}
	// The program must be where its libraries are found, and nowhere else.
	dir := t.TempDir()
	unpack := exec.Command("tar", "-xzf", "-", "-C", dir)
	unpack.Stdin = io.NewSectionReader(a.file, 0, a.size)
	if text, err := unpack.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	checkNeeds(t, a, filepath.Join(dir, "sluice", "sluice"))
	run := exec.Command(filepath.Join(dir, "sluice", "sluice"))
	run.Env = []string{"SLUICE_TEST_LIBRARIES=1", "LD_LIBRARY_PATH="}
	out, err := run.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	own, zmq := filepath.Join(dir, "sluice", "lib")+"/", false
	for _, path := range strings.Fields(string(out)) {
		if !strings.HasPrefix(path, own) {
			t.Errorf("it uses %s of this machine", path)
		}
		zmq = zmq || strings.HasPrefix(path, own+"libzmq.so")
	}
	if !zmq {
		t.Errorf("it does not use the libzmq of the archive:\n%s", out)
	}
	text, err := exec.Command("ldd", filepath.Join(dir, "sluice", "sluice")).CombinedOutput()
	if err != nil || !strings.Contains(string(text), "libzmq.so.5 => "+own) {
		t.Errorf("ldd: error %v\n%s", err, text)
	}
}

// checkNeeds checks what the program is said to need of an agent, by what binutils say of it.
func checkNeeds(t *testing.T, a *Artifacts, path string) {
	t.Helper()
	if a.machine != runtime.GOOS+"/"+runtime.GOARCH {
		t.Errorf("it is for %s", a.machine)
	}
	text, err := exec.Command("objdump", "-T", path).Output()
	if err != nil {
		t.Logf("what it needs is not checked: %v", err)
		return
	}
	if !strings.Contains(string(text), "GLIBC_") {
		t.Fatal("the test's program asks for no C library")
	}
	libs, err := filepath.Glob(filepath.Join(filepath.Dir(path), "lib", "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, lib := range libs {
		more, err := exec.Command("objdump", "-T", lib).Output()
		if err != nil {
			t.Fatal(err)
		}
		text = append(text, more...)
	}
	var versions []int
	for _, m := range regexp.MustCompile(`\(?GLIBC_2\.(\d+)`).FindAllSubmatch(text, -1) {
		n, err := strconv.Atoi(string(m[1]))
		if err != nil {
			t.Fatal(err)
		}
		versions = append(versions, n)
	}
	if want := fmt.Sprintf("2.%d", slices.Max(versions)); a.cLibrary != want {
		t.Errorf("it needs the C library %q, want %q", a.cLibrary, want)
	}
}

func agentFetches(t *testing.T, a *Artifacts) {
	server := httptest.NewServer(a)
	defer server.Close()
	if res, err := http.Get(server.URL + ArtifactsPath + "other"); err != nil || res.StatusCode != http.StatusNotFound {
		t.Errorf("another artifact: %v, error %v", res, err)
	} else {
		res.Body.Close()
	}
	h := newHost(t)
	z, err := transport.NewZMQ(transport.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer z.Close()
	l, err := z.Listen("tcp://127.0.0.1:*", answering{h, "control"})
	if err != nil {
		t.Fatal(err)
	}
	o := fakemesos.Options{Agents: []fakemesos.AgentSpec{{}}}
	o.Times.Register, o.Times.ShutdownGrace = time.Minute, time.Second
	b := newBench(t, o)
	b.Framework.Close()
	b.begin(patient) // as long as a process may take
	c := b.query("q", Need{CPUs: 1, MemMB: 128, Ports: 2}, a.Executor(server.URL, l.Addr()))
	c.Start(make([]dataflow.Resources, 1))
	w := b.running(1)[0]
	eventually(t, "the scheduler hears it", func() bool { return h.was(string(w.ID) + " at control") })
	framework, _ := b.ID()
	b.mesos.KillExecutor(w.Agent, framework, string(w.ID))
	if e := b.end(c); e.ID != w.ID || !strings.Contains(e.Status, "signal 9") {
		t.Fatalf("%+v", e)
	}
	c.Start(make([]dataflow.Resources, 1))
	w = b.running(1)[0]
	c.Kill(w.ID)
	if e := b.end(c); e.ID != w.ID || !strings.Contains(e.Status, "killed") {
		t.Fatalf("%+v", e)
	}
	c.Start(make([]dataflow.Resources, 1))
	w = b.running(1)[0]
	for _, e := range b.mesos.Agents()[0].Executors {
		if e.ID == string(w.ID) {
			if err := syscall.Kill(e.Pid, syscall.SIGSTOP); err != nil {
				t.Fatal(err)
			}
		}
	}
	c.Kill(w.ID)
	if e := b.end(c); e.ID != w.ID || !strings.Contains(e.Status, "signal 9") {
		t.Fatalf("a process that has stopped: %+v", e)
	}
}
