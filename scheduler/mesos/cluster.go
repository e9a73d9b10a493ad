package mesos

import (
	"fmt"
	"slices"
	"time"

	"sluice/dataflow"
	"sluice/scheduler"
	"sluice/scheduler/shell"
)

// cluster is the workers of one query, for its shell.
type cluster struct {
	f      *Framework
	query  string
	ended  chan shell.Ended
	alerts chan string
	over   bool // closed, and all have ended; guarded by f.mu
}

// What a shell may leave untaken: more ends are kept elsewhere, more alerts are in the log only.
const (
	endsKept   = 1024
	alertsKept = 64
)

// Cluster gives the workers of a query to its shell. One that was given before is of no use any more: a query has
// one shell. Workers that an earlier scheduler has started for the query are part of it, and are told the
// address of the control stream.
func (f *Framework) Cluster(query string, need Need, executor ExecutorSpec) (shell.Cluster, error) {
	if err := f.opts.possible(need); err != nil {
		return nil, fmt.Errorf("query %q: %w", query, err)
	}
	c := &cluster{f: f, query: query, ended: make(chan shell.Ended, endsKept), alerts: make(chan string, alertsKept)}
	f.mu.Lock()
	f.clusters[query] = c
	f.mu.Unlock()
	f.handle(Event{Query: &Query{Name: query, Need: need, Executor: executor}})
	return c, nil
}

// tell says that a worker has ended. It does not wait for the shell.
func (c *cluster) tell(e shell.Ended) {
	select {
	case c.ended <- e:
		return
	default:
	}
	c.f.spawn(func() {
		select {
		case c.ended <- e:
		case <-c.f.done:
		}
	})
}

// Start implements shell.Cluster.
func (c *cluster) Start(capacities []dataflow.Resources) {
	c.f.handle(Event{Start: &Start{Query: c.query, Capacities: capacities}})
}

// Capacity implements shell.Cluster.
func (c *cluster) Capacity(id scheduler.WorkerID) dataflow.Resources {
	c.f.mu.Lock()
	defer c.f.mu.Unlock()
	if w := c.f.core.workers[id]; w != nil {
		return w.rec.Capacity.resources()
	}
	return dataflow.Resources{}
}

// Unable implements shell.Cluster.
func (c *cluster) Unable(id scheduler.WorkerID, why string) {
	c.finishOff(id, Event{Unable: &Unable{Worker: id, Why: why}})
}

// Kill implements shell.Cluster.
func (c *cluster) Kill(id scheduler.WorkerID) { c.finishOff(id, Event{Kill: id}) }

// finishOff ends a worker. One that is not known has ended.
func (c *cluster) finishOff(id scheduler.WorkerID, e Event) {
	if !c.Known(id) {
		c.tell(shell.Ended{ID: id, Status: "has ended before", Killed: true})
		return
	}
	c.f.handle(e)
}

// Known implements shell.Cluster.
func (c *cluster) Known(id scheduler.WorkerID) bool {
	c.f.mu.Lock()
	defer c.f.mu.Unlock()
	w := c.f.core.workers[id]
	return w != nil && w.rec.Query == c.query
}

// Running implements shell.Cluster.
func (c *cluster) Running() []scheduler.WorkerID {
	c.f.mu.Lock()
	defer c.f.mu.Unlock()
	var list []scheduler.WorkerID
	for id, w := range c.f.core.workers {
		if w.rec.Query == c.query && w.rec.Killed.IsZero() && w.rec.Lost.IsZero() {
			list = append(list, id)
		}
	}
	slices.Sort(list)
	return list
}

// Ended implements shell.Cluster.
func (c *cluster) Ended() <-chan shell.Ended { return c.ended }

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
func (c *cluster) Alerts() <-chan string { return c.alerts }

// Close implements shell.Cluster.
func (c *cluster) Close(grace time.Duration) {
	if c.close(false) {
		c.f.spawn(func() { c.finish(grace) })
	}
}

// close says that the query needs no more workers, unless another shell has the query by now, and its workers.
func (c *cluster) close(kill bool) bool {
	c.f.mu.Lock()
	defer c.f.mu.Unlock()
	if c.f.clusters[c.query] != c {
		return false
	}
	c.f.handleLocked(Event{Close: &Close{Query: c.query, Kill: kill}})
	return true
}

// finish waits for the workers to end, kills those that are late, and forgets the query.
func (c *cluster) finish(grace time.Duration) {
	late := time.NewTimer(grace)
	defer late.Stop()
	look := time.NewTicker(tick)
	defer look.Stop()
	for c.f.has(c.query) {
		select {
		case <-c.f.done:
			return
		case <-late.C:
			if !c.close(true) {
				return
			}
		case <-look.C:
		}
	}
	c.f.mu.Lock()
	defer c.f.mu.Unlock()
	if c.f.clusters[c.query] == c {
		c.over = true
		c.f.handleLocked(Event{Forget: c.query})
	}
}

// has says whether a query has workers.
func (f *Framework) has(query string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, w := range f.core.workers {
		if w.rec.Query == query {
			return true
		}
	}
	return false
}

// forget lets go of a query, unless it has been given to another shell since.
func (f *Framework) forget(query string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if c := f.clusters[query]; c != nil && c.over {
		delete(f.clusters, query)
	}
}

// Check says why no worker could ever run tasks that need resources where every worker takes need, nil if one may.
func (f *Framework) Check(need Need, tasks dataflow.Resources) error {
	_, err := f.opts.of(need, tasks)
	return err
}

// ended tells the shell of a query that a worker has ended.
func (f *Framework) ended(e *Ended) {
	f.mu.Lock()
	c := f.clusters[e.Query]
	f.mu.Unlock()
	if c != nil {
		c.tell(shell.Ended{ID: e.ID, Status: e.Status, Quick: e.Quick, Killed: e.Killed, Capacity: e.Capacity})
	}
}

// alert tells users something. What the shell of a query is told is logged there; the rest is logged here.
func (f *Framework) alert(a *Alert) {
	if !f.tellShells(a) {
		text := a.Text
		if a.Query != "" {
			text = fmt.Sprintf("query %q: %s", a.Query, text)
		}
		f.opts.Log(text)
	}
}

// tellShells tells the shells of queries something. It reports whether that was for one query, and its shell will take it.
func (f *Framework) tellShells(a *Alert) (taken bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for name, c := range f.clusters {
		if a.Query != "" && a.Query != name {
			continue
		}
		select {
		case c.alerts <- a.Text:
			taken = a.Query != "" && !c.over
		default: // the log has it
		}
	}
	return taken
}
