package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"sluice/dataflow"
	"sluice/internal/fakemesos"
	"sluice/scheduler/mesos"
	"sluice/scheduler/store"
)

// The program runs itself with these as its first argument: the masters and agents of a cluster that is not
// there, and the scheduler's framework, so that each has its memory for itself.
const (
	mesosMasters   = "mesos-masters"
	mesosFramework = "mesos-framework"
)

// What is placed.
const (
	placementAgents  = 200
	placementQueries = 100
	placementWorkers = 10 // of each query
	placementRounds  = 3
)

// placed is what the framework says when all workers run.
type placed struct {
	Took      time.Duration
	Heap      uint64 // bytes, after a collection
	RSS, Peak uint64 // bytes
}

// taken is what the masters say at the end.
type taken struct {
	Calls  map[string]int // by type
	Offers int            // that were answered
}

func (t *taken) calls() int {
	sum := 0
	for _, n := range t.Calls {
		sum += n
	}
	return sum
}

// placement measures how long the workers of many queries take until all run on simulated agents.
func (c *cluster) placement() ([]result, []figure, error) {
	var times []time.Duration
	var p placed
	var t taken
	for range placementRounds {
		var err error
		if p, t, err = c.place(); err != nil {
			return nil, nil, err
		}
		fmt.Fprintf(c.progress, "placement: %v, calls %v\n", p.Took.Round(time.Millisecond), t.Calls)
		times = append(times, p.Took)
	}
	middle, worst := median(times), slices.Max(times)
	return nil, []figure{
		{fmt.Sprintf("placement: %d workers of %d queries on %d agents, until all run, median of %d, worst", placementQueries*placementWorkers,
			placementQueries, placementAgents, placementRounds), fmt.Sprintf("%.1f s, %.1f s", middle.Seconds(), worst.Seconds()), ""},
		{"placement: offers answered, calls made, in the last round", fmt.Sprintf("%d, %d", t.Offers, t.calls()), ""},
		{"placement: memory of the scheduler's process: heap, resident, its peak",
			fmt.Sprintf("%.0f, %.0f, %.0f MB", float64(p.Heap)/1e6, float64(p.RSS)/1e6, float64(p.Peak)/1e6), ""},
	}, nil
}

// place runs the masters and the framework once.
func (c *cluster) place() (p placed, t taken, err error) {
	self, err := os.Executable()
	if err != nil {
		return p, t, err
	}
	masters := exec.Command(self, mesosMasters, strconv.Itoa(placementAgents))
	masters.Stderr = os.Stderr
	end, err := masters.StdinPipe()
	if err != nil {
		return p, t, err
	}
	said, err := masters.StdoutPipe()
	if err != nil {
		return p, t, err
	}
	if err := masters.Start(); err != nil {
		return p, t, err
	}
	answers := bufio.NewReader(said)
	addr, err := answers.ReadString('\n')
	if err == nil {
		p, err = c.runFramework(self, strings.TrimSpace(addr))
	}
	if err == nil {
		end.Close()
		err = json.NewDecoder(answers).Decode(&t)
	}
	if err != nil {
		_ = masters.Process.Kill()
		return p, t, errors.Join(err, masters.Wait())
	}
	return p, t, masters.Wait()
}

func (c *cluster) runFramework(self, addr string) (p placed, err error) {
	dir, remove, err := c.tempState()
	if err != nil {
		return p, err
	}
	defer remove()
	cmd := exec.Command(self, mesosFramework, addr, dir)
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		return p, fmt.Errorf("the framework: %w: %s", err, said.Bytes())
	}
	return p, json.Unmarshal(out, &p)
}

// runMesos is one of the programs that this one runs itself as.
func runMesos(role string, args []string) error {
	switch {
	case role == mesosMasters && len(args) == 1:
		return runMasters(args[0], os.Stdin, os.Stdout)
	case role == mesosFramework && len(args) == 2:
		return runFramework(args[0], args[1], os.Stdout)
	}
	return fmt.Errorf("%s: %d arguments are not what it takes", role, len(args))
}

// runMasters runs masters and agents, says where they are, and when its input ends, what was asked of them.
func runMasters(agents string, in io.Reader, out io.Writer) error {
	n, err := strconv.Atoi(agents)
	if err != nil {
		return err
	}
	o := fakemesos.Options{Scale: 1} // the times of Mesos
	for i := range n {
		o.Agents = append(o.Agents, fakemesos.AgentSpec{Hostname: fmt.Sprintf("h%d", i), Simulate: true})
	}
	if o.WorkDir, err = os.MkdirTemp("", "sluice-bench-"); err != nil {
		return err
	}
	defer os.RemoveAll(o.WorkDir)
	c := fakemesos.New(untested{}, o)
	fmt.Fprintln(out, c.Endpoint())
	if _, err := io.Copy(io.Discard, in); err != nil {
		return err
	}
	t := taken{Calls: map[string]int{}}
	for _, x := range c.Calls() {
		t.Calls[x.Type]++
		t.Offers += len(x.Call.GetAccept().GetOfferIDs()) + len(x.Call.GetDecline().GetOfferIDs())
	}
	c.Close()
	return json.NewEncoder(out).Encode(t)
}

// untested stands for the test to which a cluster belongs. What it would fail with ends the program.
type untested struct{ testing.TB }

func (untested) Helper()        {}
func (untested) Cleanup(func()) {}
func (untested) Fatal(args ...any) {
	fmt.Fprintln(os.Stderr, args...)
	os.Exit(1)
}
func (t untested) Error(args ...any)                 { t.Fatal(args...) }
func (t untested) Errorf(format string, args ...any) { t.Fatal(fmt.Sprintf(format, args...)) }

// placementTime is how long the workers may take.
const placementTime = 2 * time.Minute

// runFramework starts the workers of all queries, and says how it went when they run.
func runFramework(addr, dir string, out io.Writer) error {
	s, err := store.OpenDir(dir)
	if err != nil {
		return err
	}
	defer s.Close()
	var ids atomic.Int64
	begin := time.Now()
	f, err := mesos.New(mesos.Options{
		Config: mesos.Config{User: "bench", Name: "bench", NewID: func() string { return fmt.Sprintf("w%d", ids.Add(1)) }},
		Store:  s, Masters: []string{addr}, Log: func(text string) { fmt.Fprintln(os.Stderr, text) },
	})
	if err != nil {
		return err
	}
	defer f.Close()
	for i := range placementQueries {
		query, err := f.Cluster(fmt.Sprintf("q%d", i), mesos.Need{CPUs: 0.5, MemMB: 128}, mesos.ExecutorSpec{Command: "true", Control: "c"})
		if err != nil {
			return err
		}
		query.Start(make([]dataflow.Resources, placementWorkers))
	}
	for runningWorkers(f) < placementQueries*placementWorkers {
		if time.Since(begin) > placementTime {
			return fmt.Errorf("only %d workers run after %v", runningWorkers(f), placementTime)
		}
		time.Sleep(10 * time.Millisecond)
	}
	p := placed{Took: time.Since(begin)}
	if p.RSS, p.Peak, err = resident(); err != nil {
		return err
	}
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	p.Heap = m.HeapAlloc
	return json.NewEncoder(out).Encode(p)
}

func runningWorkers(f *mesos.Framework) int {
	n := 0
	for _, w := range f.Workers() {
		if w.State == "TASK_RUNNING" && !w.Lost && !w.Killed {
			n++
		}
	}
	return n
}

// resident is how much memory this process has, and has had at most, in bytes.
func resident() (now, peak uint64, err error) {
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, 0, err
	}
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(line, ":")
		kilobytes, _ := strconv.ParseUint(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 10, 64)
		switch name {
		case "VmRSS":
			now = kilobytes * 1024
		case "VmHWM":
			peak = kilobytes * 1024
		}
	}
	return now, peak, nil
}
