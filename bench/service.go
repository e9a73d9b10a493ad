package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"time"

	"sluice/scheduler/api"
)

// measureService measures the scheduler of a cluster.
func measureService(o *options, progress io.Writer) (figures []figure, err error) {
	_, figures, err = measureParts(o, progress, []part{
		{"service placement", (*cluster).placement},
		{"service first row", (*cluster).firstRow},
	})
	return figures, err
}

// runService is that part alone.
func runService(o *options, out, progress io.Writer) error {
	fmt.Fprintf(out, "%s, %d cores; %s\n", processor(), runtime.NumCPU(), runtime.Version())
	figures, err := measureService(o, progress)
	if err != nil {
		return err
	}
	printFigures(out, "service", figures)
	return nil
}

const (
	firstRowRounds = 5
	firstRowRows   = 200_000
	rowPause       = time.Millisecond // how often the output is looked at
)

// firstRow measures how long a query that is submitted takes until the first row of its result is in its output.
func (c *cluster) firstRow() ([]result, []figure, error) {
	in, err := c.keyRows(fewKeys, firstRowRows)
	if err != nil {
		return nil, nil, err
	}
	text, err := os.ReadFile(specPath("keyless"))
	if err != nil {
		return nil, nil, err
	}
	s, err := c.startScheduler("local:3")
	if err != nil {
		return nil, nil, err
	}
	var times []time.Duration
	for i := range firstRowRounds {
		took, err := s.firstRow(c, fmt.Sprintf("q%d", i), string(text), in)
		if err != nil {
			return nil, nil, s.stop(err)
		}
		fmt.Fprintf(c.progress, "first row: %v\n", took.Round(time.Millisecond))
		times = append(times, took)
	}
	if err := s.stop(nil); err != nil {
		return nil, nil, err
	}
	worst := slices.Max(times)
	return nil, []figure{{fmt.Sprintf("local:3: from submit to the first row in the output, median of %d, worst", firstRowRounds),
		fmt.Sprintf("%s, %s", millis(median(times)), millis(worst)), "below 1 s"}}, nil
}

// scheduler is a sluice scheduler that runs.
type scheduler struct {
	cmd    *exec.Cmd
	client *api.Client
	remove func() // its state
	over   chan struct{}
	said   bytes.Buffer // to be read when it is over
}

var listensLine = regexp.MustCompile(`msg="the API listens" url=(\S+)`)

// startScheduler starts a scheduler, and waits until its API listens.
func (c *cluster) startScheduler(workers string) (*scheduler, error) {
	dir, remove, err := c.tempState()
	if err != nil {
		return nil, err
	}
	s := &scheduler{remove: remove, over: make(chan struct{})}
	s.cmd = exec.Command(c.o.sluice, "scheduler", "--listen", "127.0.0.1:0", "--cluster", workers, "--state-root", dir)
	log, err := s.cmd.StderrPipe()
	if err != nil {
		return nil, err
	}
	if err := s.cmd.Start(); err != nil {
		remove()
		return nil, err
	}
	address := make(chan string, 1)
	go func() {
		defer close(s.over)
		for lines := bufio.NewScanner(log); lines.Scan(); {
			fmt.Fprintln(&s.said, lines.Text())
			if m := listensLine.FindStringSubmatch(lines.Text()); m != nil {
				address <- m[1]
			}
		}
	}()
	select {
	case url := <-address:
		s.client, err = api.NewClient(url, "", nil)
	case <-s.over:
		err = fmt.Errorf("the scheduler has ended")
	case <-time.After(goingTime):
		err = fmt.Errorf("the scheduler does not listen")
	}
	if err != nil {
		return nil, s.stop(err)
	}
	return s, s.ready()
}

// ready waits until the scheduler leads.
func (s *scheduler) ready() error {
	deadline := time.Now().Add(goingTime)
	for {
		err := s.call(http.MethodGet, "/queries", nil)
		if err == nil {
			return nil
		}
		if time.Now().After(deadline) {
			return s.stop(err)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// stop ends the scheduler, and adds what it said to an error.
func (s *scheduler) stop(err error) error {
	_ = s.cmd.Process.Signal(os.Interrupt)
	late := time.AfterFunc(goingTime, func() { _ = s.cmd.Process.Kill() })
	defer late.Stop()
	<-s.over
	_ = s.cmd.Wait() // its log is over, and it with it
	s.remove()
	if err != nil {
		return fmt.Errorf("%w\n%s", err, s.said.Bytes())
	}
	return nil
}

func (s *scheduler) call(method, path string, in any) error {
	ctx, cancel := context.WithTimeout(context.Background(), goingTime)
	defer cancel()
	return s.client.Do(ctx, method, path, in, nil)
}

// firstRow submits a query, waits for the first row below the header of its output, and cancels the query.
func (s *scheduler) firstRow(c *cluster, name, spec, in string) (time.Duration, error) {
	out, err := c.out()
	if err != nil {
		return 0, err
	}
	dir, err := filepath.Abs("specs")
	if err != nil {
		return 0, err
	}
	begin := time.Now()
	err = s.call(http.MethodPost, "/queries", &api.Submission{Name: name, Spec: spec, Dir: dir, Set: []string{"source.path=" + in, "sink.path=" + out}})
	if err != nil {
		return 0, err
	}
	for !hasRow(out) {
		if time.Since(begin) > goingTime {
			return 0, fmt.Errorf("query %s: there is no row in %s", name, out)
		}
		time.Sleep(rowPause)
	}
	took := time.Since(begin)
	return took, s.cancel(name)
}

// hasRow tells whether a CSV file has a whole row below its header.
func hasRow(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	start := make([]byte, 4096)
	n, _ := io.ReadFull(f, start) // it may be shorter
	return bytes.Count(start[:n], []byte("\n")) > 1
}

// cancel ends a query and waits until nothing of it runs.
func (s *scheduler) cancel(name string) error {
	if err := s.call(http.MethodDelete, "/queries/"+name, nil); err != nil {
		return err
	}
	ctx, stop := context.WithTimeout(context.Background(), goingTime)
	defer stop()
	for {
		var q api.Query
		if err := s.client.Do(ctx, http.MethodGet, "/queries/"+name, nil, &q); err != nil {
			return err
		}
		if api.Ended(q.State) {
			return nil
		}
		time.Sleep(20 * time.Millisecond)
	}
}
