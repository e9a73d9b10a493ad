package local

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"sync"
	"syscall"
	"time"

	"sluice/dataflow"
	"sluice/scheduler"
	"sluice/scheduler/shell"
)

// Cluster is worker processes on this machine, a shell.Cluster. Each ends when this process does, whatever
// ends it.
type Cluster struct {
	command func(id scheduler.WorkerID) *exec.Cmd
	held    *os.File
	tag     string

	starts chan scheduler.WorkerID
	ended  chan shell.Ended
	alerts chan string
	stop   chan struct{} // closed when no more are to be started
	over   sync.WaitGroup

	closing sync.Once

	mu    sync.Mutex
	next  int
	procs map[scheduler.WorkerID]*process
	quick int       // workers in a row that have ended soon after their start
	told  time.Time // when users were told last of one that cannot run the query
}

type process struct {
	capacity dataflow.Resources
	cmd      *exec.Cmd // nil before it has been started
	killed   bool
	unable   bool // it has said that it cannot run the query
	began    time.Time
}

// quickEnd is how long a worker must have run for its end to be no sign that none can run.
const quickEnd = 2 * time.Second

// Pauses before a worker is started after some have ended quickly, doubled for each.
const (
	firstPause  = 100 * time.Millisecond
	longestWait = 5 * time.Second
)

// NewCluster makes a cluster without workers. tag makes their names differ from those of other clusters
// for the same query. command gives the command of a worker; how it ends with this process is added.
// held, if not nil, is open in all workers too, so that a lock on it is held until the last has ended.
func NewCluster(tag string, held *os.File, command func(id scheduler.WorkerID) *exec.Cmd) *Cluster {
	c := &Cluster{
		command: command, held: held, tag: tag, procs: map[scheduler.WorkerID]*process{},
		starts: make(chan scheduler.WorkerID, 1024), ended: make(chan shell.Ended, 1024), alerts: make(chan string, 16), stop: make(chan struct{}),
	}
	c.over.Go(c.starter)
	return c
}

// Ended gives the workers that have ended.
func (c *Cluster) Ended() <-chan shell.Ended { return c.ended }

// Start begins to start a worker for each element. All of them have what this machine has, so nothing is
// kept for them.
func (c *Cluster) Start(capacities []dataflow.Resources) {
	for _, capacity := range capacities {
		c.mu.Lock()
		c.next++
		id := scheduler.WorkerID(fmt.Sprintf("w%d-%s", c.next, c.tag))
		c.procs[id] = &process{capacity: capacity}
		c.mu.Unlock()
		c.starts <- id
	}
}

// Kill ends a worker at once. That of a cluster before this one has ended, or else this one would not
// have been made; so has one that is not known any more.
func (c *Cluster) Kill(id scheduler.WorkerID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.procs[id]
	if p == nil {
		c.ended <- shell.Ended{ID: id, Status: "has ended before", Killed: true}
		return
	}
	p.kill()
}

func (p *process) kill() {
	p.killed = true
	if p.cmd != nil {
		_ = p.cmd.Process.Kill() // it may have ended
	}
}

// Unable ends a worker that cannot run the query. That is a quick end, however long the worker has run. Users are told of the
// first one, and now and then that it goes on so.
func (c *Cluster) Unable(id scheduler.WorkerID, why string) {
	c.mu.Lock()
	if p := c.procs[id]; p != nil {
		p.unable = true
	}
	if now := time.Now(); c.told.IsZero() || now.Sub(c.told) >= shell.TellAgain {
		c.told = now
		select {
		case c.alerts <- fmt.Sprintf("worker %s cannot run the query: %s; another one is started", id, why):
		default: // it is told later
		}
	}
	c.mu.Unlock()
	c.Kill(id)
}

// Capacity is what a worker was started with.
func (c *Cluster) Capacity(id scheduler.WorkerID) dataflow.Resources {
	c.mu.Lock()
	defer c.mu.Unlock()
	if p := c.procs[id]; p != nil {
		return p.capacity
	}
	return dataflow.Resources{}
}

// Running are the workers that have been started and have not ended.
func (c *Cluster) Running() []scheduler.WorkerID {
	c.mu.Lock()
	defer c.mu.Unlock()
	var list []scheduler.WorkerID
	for id, p := range c.procs {
		if p.cmd != nil && !p.killed {
			list = append(list, id)
		}
	}
	slices.Sort(list)
	return list
}

// Known reports whether a worker is one of this cluster that has not ended.
func (c *Cluster) Known(id scheduler.WorkerID) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.procs[id] != nil
}

// About names the process of a worker.
func (c *Cluster) About(id scheduler.WorkerID) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if p := c.procs[id]; p != nil && p.cmd != nil {
		return fmt.Sprintf("process %d", p.cmd.Process.Pid)
	}
	return "no process"
}

// Alerts tells of workers that cannot run the query. What else goes wrong is seen in how they end.
func (c *Cluster) Alerts() <-chan string { return c.alerts }

// Close waits up to grace for all workers to end, kills those that have not, and starts no more. It may be
// called again.
func (c *Cluster) Close(grace time.Duration) {
	c.closing.Do(func() { close(c.stop) })
	late := time.AfterFunc(grace, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, p := range c.procs {
			p.kill()
		}
	})
	defer late.Stop()
	c.over.Wait()
}

// starter starts workers. It stays on one thread until all of them have ended: what the system watches is
// the thread that has started a process.
func (c *Cluster) starter() {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var waits sync.WaitGroup
	defer waits.Wait()
	for {
		select {
		case <-c.stop:
			return
		case id := <-c.starts:
			if !c.pause() {
				return
			}
			c.start(id, &waits)
		}
	}
}

// pause waits if the workers before have ended quickly. It returns false if no more are to be started.
func (c *Cluster) pause() bool {
	c.mu.Lock()
	quick := c.quick
	c.mu.Unlock()
	if quick == 0 {
		return true
	}
	select {
	case <-c.stop:
		return false
	case <-time.After(min(firstPause<<min(quick-1, 10), longestWait)):
		return true
	}
}

func (c *Cluster) start(id scheduler.WorkerID, waits *sync.WaitGroup) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.procs[id]
	if p.killed {
		c.forget(id, p, "was killed")
		return
	}
	cmd := c.command(id)
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	if c.held != nil {
		cmd.ExtraFiles = append(cmd.ExtraFiles, c.held)
	}
	p.began = time.Now()
	if err := cmd.Start(); err != nil {
		c.forget(id, p, err.Error())
		return
	}
	p.cmd = cmd
	waits.Go(func() {
		status := "exit status 0"
		if err := cmd.Wait(); err != nil {
			status = err.Error()
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		c.forget(id, p, status)
	})
}

// forget tells that a worker has ended. mu is held.
func (c *Cluster) forget(id scheduler.WorkerID, p *process, status string) {
	delete(c.procs, id)
	e := shell.Ended{ID: id, Status: status, Killed: p.killed, Capacity: p.capacity}
	switch {
	case p.unable, !p.killed && time.Since(p.began) <= quickEnd:
		c.quick++
		e.Quick = c.quick
	case !p.killed:
		c.quick = 0
	}
	c.ended <- e
}
