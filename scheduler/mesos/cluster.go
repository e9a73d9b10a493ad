package mesos

import (
	"fmt"
	"time"

	"sluice/scheduler"
	"sluice/scheduler/shell"
)

// cluster is the workers of one query, for its shell.
type cluster struct {
	f      *Framework
	query  string
	ended  *queue[shell.Ended]
	alerts *queue[string]
	// The channels behind the queues.
	endedOut  chan shell.Ended
	alertsOut chan string
}

// Cluster gives the workers of a query to its shell. One that was given before is of no use any more: a query has
// one shell. Workers that an earlier scheduler has started for the query are part of it, and are told the
// address of the control stream.
func (f *Framework) Cluster(query string, need Need, executor ExecutorSpec) (shell.Cluster, error) {
	if err := need.Validate(); err != nil {
		return nil, fmt.Errorf("query %q: %w", query, err)
	}
	c := &cluster{
		f: f, query: query, ended: newQueue[shell.Ended](), alerts: newQueue[string](),
		endedOut: make(chan shell.Ended), alertsOut: make(chan string),
	}
	f.mu.Lock()
	f.clusters[query] = c
	f.mu.Unlock()
	f.spawn(func() { c.ended.pump(c.endedOut, f.done) })
	f.spawn(func() { c.alerts.pump(c.alertsOut, f.done) })
	f.handle(Event{Query: &Query{Name: query, Need: need, Executor: executor}})
	return c, nil
}

// Start implements shell.Cluster.
func (c *cluster) Start(n int) { c.f.handle(Event{Start: &Start{Query: c.query, N: n}}) }

// Kill implements shell.Cluster.
func (c *cluster) Kill(id scheduler.WorkerID) {
	if !c.Known(id) {
		c.ended.put(shell.Ended{ID: id, Status: "has ended before"})
		return
	}
	c.f.handle(Event{Kill: id})
}

// Known implements shell.Cluster.
func (c *cluster) Known(id scheduler.WorkerID) bool {
	c.f.mu.Lock()
	defer c.f.mu.Unlock()
	w := c.f.core.workers[id]
	return w != nil && w.rec.Query == c.query
}

// Ended implements shell.Cluster.
func (c *cluster) Ended() <-chan shell.Ended { return c.endedOut }

// About implements shell.Cluster.
func (c *cluster) About(id scheduler.WorkerID) string {
	c.f.mu.Lock()
	defer c.f.mu.Unlock()
	if w := c.f.core.workers[id]; w != nil {
		return w.about()
	}
	return ""
}

// Alerts implements shell.Cluster.
func (c *cluster) Alerts() <-chan string { return c.alertsOut }

// Close implements shell.Cluster.
func (c *cluster) Close(grace time.Duration) {
	c.f.handle(Event{Close: &Close{Query: c.query}})
	c.f.spawn(func() {
		late := time.NewTimer(grace)
		defer late.Stop()
		select {
		case <-c.f.done:
		case <-late.C:
			c.f.handle(Event{Close: &Close{Query: c.query, Kill: true}})
		}
	})
}

// ended tells the shell of a query that a worker has ended.
func (f *Framework) ended(e *Ended) {
	f.mu.Lock()
	c := f.clusters[e.Query]
	f.mu.Unlock()
	if c != nil {
		c.ended.put(shell.Ended{ID: e.ID, Status: e.Status, Quick: e.Quick})
	}
}

// alert tells users something, and the log.
func (f *Framework) alert(a *Alert) {
	text := a.Text
	if a.Query != "" {
		text = fmt.Sprintf("query %q: %s", a.Query, text)
	}
	f.opts.Log(text)
	f.mu.Lock()
	defer f.mu.Unlock()
	for name, c := range f.clusters {
		if a.Query == "" || a.Query == name {
			c.alerts.put(a.Text)
		}
	}
}
