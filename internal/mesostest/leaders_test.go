package mesostest

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"sluice/internal/fakemesos"
	"sluice/internal/zktest"
)

// takesOver kills a scheduler and measures how long the next one takes until it has all workers of the query, which
// must be those that were there.
func (c *cluster) takesOver(q *stream, first, second *service) {
	c.t.Helper()
	now := first.runs("stream")
	before, size := c.pids(), q.size()
	begin := time.Now()
	first.end(syscall.SIGKILL)
	now = second.again("stream", startTime, now)
	took := time.Since(begin)
	c.t.Logf("another scheduler has the query after %v; %d bytes were written meanwhile", took.Round(time.Millisecond), q.size()-size)
	calm(c.t, begin, took < takeOverTime, "that is more than %v", takeOverTime)
	c.undisturbed(begin, before, now)
}

// TestLeaderKilled kills the leading scheduler by SIGKILL. The standby goes on with the workers that run. Then the last
// scheduler is killed: the query runs on without any, until there is one again.
func TestLeaderKilled(t *testing.T) {
	t.Parallel()
	for name, p := range map[string]pattern{"hot-standby": hotStandby, "checkpoint": checkpoint} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			calmOnce(t, func() {
				c := newCluster(t, 4)
				first, second := c.scheduler(), c.scheduler()
				q := newStream(t, 7, p)
				q.submit(second, "--checkpoint", "1s") // by way of the first
				c.takesOver(q, first, second)

				now := second.runs("stream")
				before, begin := c.pids(), time.Now()
				second.end(syscall.SIGKILL)
				for range 4 {
					size := q.size()
					time.Sleep(500 * time.Millisecond)
					calm(t, begin, q.size() > size, "nothing is written in half a second without a scheduler")
				}
				third := c.scheduler()
				now = third.again("stream", startTime, now)
				c.undisturbed(begin, before, now)
				c.killExecutor(workerOf(t, now, p.sink))
				third.again("stream", startTime, now)
				q.finish(third)
				c.quiet()
			})
		})
	}
}

// TestExecutorAndLeaderKilled: an executor and the leading scheduler die at once; the standby replaces the one and is
// the other.
func TestExecutorAndLeaderKilled(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 5)
	first, second := c.scheduler(), c.scheduler()
	q := newStream(t, 5, checkpoint)
	q.submit(first)
	now := first.runs("stream")
	begin := time.Now()
	c.killExecutor(workerOf(t, now, checkpoint.sink))
	first.end(syscall.SIGKILL)
	second.again("stream", startTime, now)
	t.Logf("whole again after %v", time.Since(begin).Round(time.Millisecond))
	q.finish(second)
	c.quiet()
}

// TestLeaderEnds: a scheduler that is told to end leaves the workers to the next one, at once, as for an upgrade.
func TestLeaderEnds(t *testing.T) {
	t.Parallel()
	calmOnce(t, func() { leaderEnds(t) })
}

func leaderEnds(t *testing.T) {
	c := newCluster(t, 4)
	first, second := c.scheduler(), c.scheduler()
	q := newStream(t, 5, hotStandby)
	q.submit(first)
	now := first.runs("stream")
	before, begin := c.pids(), time.Now()
	first.end(syscall.SIGTERM)
	now = second.again("stream", startTime, now)
	t.Logf("another scheduler has the query after %v", time.Since(begin).Round(time.Millisecond))
	c.undisturbed(begin, before, now)
	q.finish(second)
	c.quiet()
}

// TestZooKeeper has the store in a real ZooKeeper, with sessions of the usual time, and finds the masters there. The
// leading scheduler is killed, then the leading master.
func TestZooKeeper(t *testing.T) {
	t.Parallel()
	server := zktest.Shared(t)
	c := newBareCluster(t, 4, fakemesos.Options{})
	if err := c.Announce([]string{server}, "/mesos"); err != nil {
		t.Fatal(err)
	}
	c.args = append(c.args, "--cluster", fmt.Sprintf("zk://%s/mesos", server), "--store", fmt.Sprintf("zk://%s/sluice", server),
		"--mesos-executor", program)
	first, second := c.scheduler(), c.scheduler()
	if about := first.health().Cluster; !strings.Contains(about, "found through ZooKeeper") {
		t.Errorf("the cluster is %q", about)
	}
	q := newStream(t, 9, hotStandby)
	q.submit(first, "--checkpoint", "1500ms")
	c.takesOver(q, first, second)
	before, begin := c.pids(), time.Now()
	c.FailOver()
	eventually(t, startTime, "the framework is connected again", c.connected)
	now := second.runs("stream")
	c.undisturbed(begin, before, now)
	c.killExecutor(workerOf(t, now, hotStandby.copied))
	second.again("stream", startTime, now)
	q.finish(second)
	c.quiet()
}
