package fakemesos

import (
	"cmp"
	"slices"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
)

// Task is what the leading master knows of a task.
type Task struct {
	ID, Framework, Agent, Executor string
	State                          mesos.TaskState // the latest that the master knows
	Ended                          bool            // its end is acknowledged, or is the master's word
	Info                           mesos.TaskInfo
}

// Framework is what the leading master knows of a framework.
type Framework struct {
	ID        string
	Info      mesos.FrameworkInfo
	Connected bool
	Completed bool
}

// Agent is what the cluster knows of an agent.
type Agent struct {
	ID         string
	Hostname   string
	Addr       string // where executors find it
	Running    bool
	Registered bool
	Executors  []Executor
}

// Executor is one run of an executor.
type Executor struct {
	ID, Framework string
	Dir           string // the sandbox
	Pid           int    // 0 when it is no process
	Subscribed    bool
	Ended         bool
}

// Tasks are the tasks of all frameworks, in the order of their launch, those that ended last.
func (c *Cluster) Tasks() []Task {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.m == nil {
		return nil
	}
	var out []Task
	add := func(f *framework, ended bool, tasks []*task) {
		for _, t := range tasks {
			out = append(out, Task{t.id, f.id, t.agent, t.executor, t.state, ended, t.info})
		}
	}
	all := append(c.m.sortedFrameworks(), c.m.completed...)
	for _, f := range all {
		add(f, false, sorted(f.tasks))
		add(f, false, sorted(f.unreachable))
	}
	for _, f := range all {
		add(f, true, f.ended)
	}
	return out
}

// Frameworks are the frameworks, completed ones last.
func (c *Cluster) Frameworks() []Framework {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.m == nil {
		return nil
	}
	var out []Framework
	for _, f := range c.m.sortedFrameworks() {
		out = append(out, Framework{f.id, *f.info, f.connected, false})
	}
	for _, f := range c.m.completed {
		out = append(out, Framework{f.id, *f.info, false, true})
	}
	return out
}

// Agents are the agents in the order in which they were added.
func (c *Cluster) Agents() []Agent {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []Agent
	for _, a := range c.agents {
		n := c.nodeOf(a.id)
		v := Agent{ID: a.id, Hostname: a.hostname, Addr: a.addr, Running: a.running, Registered: n != nil && n.connected}
		for id, f := range a.frameworks {
			for _, e := range f.inOrder() {
				v.Executors = append(v.Executors, Executor{e.id, id, e.dir, int(e.pid), e.stream != nil, e.ended})
			}
		}
		slices.SortFunc(v.Executors, func(x, y Executor) int { return cmp.Or(cmp.Compare(x.Framework, y.Framework), cmp.Compare(x.ID, y.ID)) })
		out = append(out, v)
	}
	return out
}

// Offers is the number of offers that are open.
func (c *Cluster) Offers() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.m == nil {
		return 0
	}
	return len(c.m.offers)
}

// Settled says whether agents hold no update that is not acknowledged.
func (c *Cluster) Settled() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, a := range c.agents {
		for _, f := range a.frameworks {
			for _, u := range f.updates {
				if len(u.pending) > 0 {
					return false
				}
			}
		}
	}
	return true
}
