package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"
)

// query is a query that runs.
type query struct {
	c     *cluster
	cmd   *exec.Cmd
	state string
	said  bytes.Buffer
	over  chan struct{} // closed when it has ended
	out   *watch
}

// start runs a spec, under a rewrite rule if one is named, and watches its output.
func (c *cluster) start(spec, rule, in string, args ...string) (*query, error) {
	path, err := c.withRule(spec, rule)
	if err != nil {
		return nil, err
	}
	out, err := c.out()
	if err != nil {
		return nil, err
	}
	q := &query{c: c, over: make(chan struct{})}
	var remove func()
	if q.state, remove, err = c.tempState(); err != nil {
		return nil, err
	}
	q.cmd = exec.Command(c.o.sluice, append([]string{"run", "--quiet", "--state", q.state, "--set", "source.path=" + in,
		"--set", "sink.path=" + out, path}, args...)...)
	q.cmd.Stderr = &q.said
	if err := q.cmd.Start(); err != nil {
		remove()
		return nil, err
	}
	q.out = watchFile(out)
	go func() {
		defer close(q.over)
		_ = q.cmd.Wait() // it is stopped
		remove()
	}()
	return q, nil
}

// withRule gives the path of a spec under a rewrite rule for its operator work.
func (c *cluster) withRule(spec, rule string) (string, error) {
	if rule == "" {
		return specPath(spec), nil
	}
	text, err := os.ReadFile(specPath(spec))
	if err != nil {
		return "", err
	}
	end := "</dataflow>"
	changed := strings.Replace(string(text), end, fmt.Sprintf("  <rewrite rule=%q operator=\"work\"/>\n", rule)+end, 1)
	path := filepath.Join(c.dir, spec+"-"+rule+".xml")
	return path, os.WriteFile(path, []byte(changed), 0o666)
}

// stop ends the query, whose output does not matter any more.
func (q *query) stop() {
	q.out.end()
	_ = q.cmd.Process.Kill() // its workers end with it
	<-q.over
}

// ended is an error if the query has ended.
func (q *query) ended() error {
	select {
	case <-q.over:
		return fmt.Errorf("the query has ended: %s", bytes.TrimSpace(q.said.Bytes()))
	default:
		return nil
	}
}

// goingTime is how long a query may take to get going.
const goingTime = 20 * time.Second

// await waits until something is so.
func (q *query) await(what string, so func() bool) error {
	for deadline := time.Now().Add(goingTime); !so(); time.Sleep(20 * time.Millisecond) {
		if err := q.ended(); err != nil {
			return err
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("it has not come to that: %s", what)
		}
	}
	return nil
}

var (
	taskLine    = regexp.MustCompile(`(?m)^task (\S+): \w+ on (\S+), generation \d+`)
	processLine = regexp.MustCompile(`(?m)^process (\d+): worker (\S+)`)
)

// status asks the query how it is.
func (q *query) status() (string, error) {
	text, err := exec.Command(q.c.o.sluice, "status", "--state", q.state).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("sluice status: %w: %s", err, text)
	}
	return string(text), nil
}

// process finds the process that runs a task.
func (q *query) process(task string) (pid int, err error) {
	text, err := q.status()
	if err != nil {
		return 0, err
	}
	worker := ""
	for _, m := range taskLine.FindAllStringSubmatch(text, -1) {
		if m[1] == task {
			worker = m[2]
		}
	}
	for _, m := range processLine.FindAllStringSubmatch(text, -1) {
		if m[2] == worker {
			return strconv.Atoi(m[1])
		}
	}
	return 0, fmt.Errorf("no process runs the task %q:\n%s", task, text)
}

// without checks that a process is part of the query no more.
func (q *query) without(pid int) error {
	text, err := q.status()
	if err != nil {
		return err
	}
	for _, m := range processLine.FindAllStringSubmatch(text, -1) {
		if m[1] == strconv.Itoa(pid) {
			return fmt.Errorf("process %d is still there:\n%s", pid, text)
		}
	}
	return nil
}

// watch knows when a file has grown.
type watch struct {
	stop chan struct{}
	over chan struct{}

	mu    sync.Mutex
	size  int64
	grown []time.Time
}

// watchPause is how often a watch looks.
const watchPause = time.Millisecond

func watchFile(path string) *watch {
	w := &watch{stop: make(chan struct{}), over: make(chan struct{})}
	go func() {
		defer close(w.over)
		tick := time.NewTicker(watchPause)
		defer tick.Stop()
		for {
			select {
			case <-w.stop:
				return
			case <-tick.C:
			}
			if info, err := os.Stat(path); err == nil {
				w.saw(info.Size(), time.Now())
			}
		}
	}()
	return w
}

func (w *watch) saw(size int64, at time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if size > w.size {
		w.size, w.grown = size, append(w.grown, at)
	}
}

func (w *watch) end() {
	close(w.stop)
	<-w.over
}

// length is how large the file is.
func (w *watch) length() int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.size
}

// gap is the longest time in which the file did not grow, of those that end after from and begin before to.
func (w *watch) gap(from, to time.Time) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	longest := time.Duration(0)
	last := from
	for _, at := range append(w.grown[:len(w.grown):len(w.grown)], to) {
		if at.After(from) && last.Before(to) {
			longest = max(longest, at.Sub(last))
		}
		last = at
	}
	return longest
}
