package main

import (
	"fmt"
	"slices"
	"strings"
	"syscall"
	"time"
)

// takeover is a pattern whose failover is measured.
type takeover struct {
	name, spec, rule string
	task             string // whose process fails
	fault            syscall.Signal
	aim              string
}

var takeovers = []takeover{
	{"no rule", "keys", "", "work", syscall.SIGKILL, ""},
	{"checkpoint", "keys", "checkpoint", "work.1", syscall.SIGKILL, "below 2 s"},
	{"standby", "keyless", "standby", "work.1", syscall.SIGKILL, "below 1.5 s"},
	{"hot standby", "keys", "hot-standby", "work.1", syscall.SIGKILL, "below 100 ms"},
	{"standby", "keyless", "standby", "work.1", syscall.SIGSTOP, "below 1.5 s"},
	{"hot standby", "keys", "hot-standby", "work.1", syscall.SIGSTOP, "below 100 ms"},
}

// how says what happens to the process.
func (t *takeover) how() string {
	if t.fault == syscall.SIGSTOP {
		return "stalled process"
	}
	return "kill -9"
}

const (
	failoverRounds = 2 // at most
	failoverRows   = 400_000
	failoverSteps  = 1500 * time.Millisecond // how long a query runs before, more than one checkpoint, and how long it is watched at least
	failoverMost   = 10 * time.Second        // how long it is watched at most
)

// failover measures for how long the output stands still when the process of an operator dies, which its
// parent sees, or stalls, which is seen by its silence.
func (c *cluster) failover() ([]result, []figure, error) {
	in, err := c.keyRows(fewKeys, failoverRows)
	if err != nil {
		return nil, nil, err
	}
	var figures []figure
	gaps := make([][]time.Duration, len(takeovers))
	usual := make([][]time.Duration, len(takeovers))
	for range min(c.o.repeats, failoverRounds) {
		for i, t := range takeovers {
			before, gap, err := c.failOnce(t, in)
			if err != nil {
				return nil, nil, fmt.Errorf("%s: %w", t.name, err)
			}
			fmt.Fprintf(c.progress, "failover: %s, %s: %v\n", t.name, t.how(), gap.Round(time.Millisecond))
			gaps[i], usual[i] = append(gaps[i], gap), append(usual[i], before)
		}
	}
	for i, t := range takeovers {
		figures = append(figures, figure{fmt.Sprintf("failover, %s, %s: longest gap in the output (before it)", t.name, t.how()),
			fmt.Sprintf("%s (%s)", millis(median(gaps[i])), millis(median(usual[i]))), t.aim})
	}
	return nil, figures, nil
}

// failOnce gives the longest gap of the output before and after the fault.
func (c *cluster) failOnce(t takeover, in string) (before, after time.Duration, err error) {
	q, err := c.start(t.spec, t.rule, in, "--nodes", "3")
	if err != nil {
		return 0, 0, err
	}
	defer q.stop()
	if err := q.await("the output grows", func() bool { return q.out.length() > 1000 }); err != nil {
		return 0, 0, err
	}
	begin := time.Now()
	time.Sleep(failoverSteps)
	before = q.out.gap(begin, time.Now())
	after, err = q.fail(t.task, t.fault)
	return before, after, err
}

// fail makes the process of a task fail, and gives the longest gap of the output after that.
func (q *query) fail(task string, fault syscall.Signal) (time.Duration, error) {
	pid, err := q.process(task)
	if err != nil {
		return 0, err
	}
	begin := time.Now()
	if err := syscall.Kill(pid, fault); err != nil {
		return 0, err
	}
	time.Sleep(failoverSteps)
	at := q.out.length()
	for end := begin.Add(failoverMost); time.Now().Before(end) && q.out.length() < at+1000; time.Sleep(watchPause) {
		if err := q.ended(); err != nil {
			return 0, err
		}
	}
	gap := q.out.gap(begin, time.Now())
	return gap, q.without(pid)
}

// What the pause is measured with.
const (
	pauseRate = 400_000 // rows per second
	pauseRows = 6_000_000
	pauseStep = time.Second // between two checkpoints
	pauses    = 5           // how many are looked at
)

// pause measures what a checkpoint of many keys costs: the longest gap of the output over some checkpoints, and
// without them; and how long the state takes to be there again when its process is killed.
func (c *cluster) pause() ([]result, []figure, error) {
	in, err := c.keyRows(manyKeys, pauseRows)
	if err != nil {
		return nil, nil, err
	}
	few, err := c.keyRows(fewKeys, failoverRows)
	if err != nil {
		return nil, nil, err
	}
	_, small, err := c.failOnce(takeovers[0], few)
	if err != nil {
		return nil, nil, err
	}
	var figures []figure
	for _, args := range [][]string{nil, {"--nodes", "3"}} {
		name := "one process"
		if args != nil {
			name = strings.Join(args, " ")
		}
		off, _, err := c.pauseOnce(in, false, append([]string{"--checkpoint", "off"}, args...))
		if err != nil {
			return nil, nil, err
		}
		on, restore, err := c.pauseOnce(in, args != nil, args)
		if err != nil {
			return nil, nil, err
		}
		figures = append(figures, figure{"pause, " + name + ", a million keys: longest gap in the output around a checkpoint, median, worst (without)",
			fmt.Sprintf("%s (%s)", worst(on), worst(off)), "below 50 ms"})
		if args != nil {
			figures = append(figures, figure{"restore, " + name + ", a million keys: longest gap after kill -9, more than with 100 keys",
				fmt.Sprintf("%s, %s", millis(restore), millis(restore-small)), "below 3 s more"})
		}
	}
	return nil, figures, nil
}

// worst is the median and the worst of several gaps, as text.
func worst(gaps []time.Duration) string {
	return fmt.Sprintf("%s, %s", millis(median(gaps)), millis(slices.Max(gaps)))
}

// pauseOnce gives the longest gap of each period between two checkpoints, while nothing else happens, and if asked
// the one after the death of the process that has the keys.
func (c *cluster) pauseOnce(in string, kill bool, args []string) (gaps []time.Duration, restore time.Duration, err error) {
	q, err := c.start("keys", "", in, append(args, "--set", fmt.Sprintf("source.rate=%d", pauseRate))...)
	if err != nil {
		return nil, 0, err
	}
	defer q.stop()
	// A row is one of some ten bytes: by then all keys are there.
	if err := q.await("all keys are there", func() bool { return q.out.length() > 13*manyKeys }); err != nil {
		return nil, 0, err
	}
	for range pauses {
		begin := time.Now()
		time.Sleep(pauseStep)
		gaps = append(gaps, q.out.gap(begin, time.Now()))
	}
	if err := q.ended(); err != nil || !kill {
		return gaps, 0, err
	}
	restore, err = q.fail("work", syscall.SIGKILL)
	return gaps, restore, err
}
