package service

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"

	"sluice/dataflow"
	"sluice/scheduler/api"
	"sluice/scheduler/mesos"
	"sluice/scheduler/shell"
	"sluice/scheduler/store"
)

// cutOff are clusters with a worker of each query that cannot be reached: its end is not known.
type cutOff struct {
	Clusters

	mu       sync.Mutex
	ended    bool
	clusters int // that shells have had
}

func (c *cutOff) opens(o *Options) {
	open := o.Clusters
	o.Clusters = func(ctx context.Context, s store.Store) (Clusters, error) {
		clusters, err := open(ctx, s)
		c.Clusters = clusters
		return c, err
	}
}

// Place implements Clusters.
func (c *cutOff) Place(ctx context.Context, o PlaceOptions) (*Place, error) {
	p, err := c.Clusters.Place(ctx, o)
	if err != nil {
		return nil, err
	}
	p.Fresh = false
	cluster := p.Cluster
	p.Cluster = func(control string) (shell.Cluster, error) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.clusters++
		return cluster(control)
	}
	p.Left = func() []string {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.ended {
			return nil
		}
		return []string{"worker w7 on agent h7 (a7), which cannot be reached"}
	}
	return p, nil
}

func (c *cutOff) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended = true
}

// waits checks that a query waits for the worker that is cut off, and says so.
func (b *bench) waits(name string) {
	b.t.Helper()
	b.until("it tells for what it waits", func() bool {
		q, err := b.Query(b.t.Context(), name)
		return err == nil && slices.ContainsFunc(q.Alerts, func(a api.Alert) bool {
			return strings.Contains(a.Text, "workers of the query have not ended yet: it waits for worker w7 on agent h7 (a7), which cannot be reached")
		})
	})
}

// TestEditWaitsForWorkers: nothing is done to what a query has left as long as one of its workers may run, also if it has
// ended in order; the user is told.
func TestEditWaitsForWorkers(t *testing.T) {
	t.Parallel()
	s := versions(t)
	c := &cutOff{}
	b := newBench(t, t.TempDir(), c.opens)
	b.leads()
	b.submit(s)
	b.rows(s, 100)
	asked := make(chan error, 1)
	go func() {
		_, err := b.Replace(context.Background(), "versions", version(s, 2), api.ReplaceOptions{})
		asked <- err
	}()
	b.waits("versions")
	q, err := b.Query(t.Context(), "versions")
	if err != nil || q.Edit == nil || q.Edit.State != api.EditPending || q.Revision != 0 {
		t.Errorf("%+v, error %v", q, err)
	}
	before := len(written(t, s))
	c.end()
	if err := <-asked; err != nil {
		t.Fatal(err)
	}
	b.until("the query is edited", func() bool {
		q, err := b.Query(t.Context(), "versions")
		return err == nil && q.Revision == 1 && q.Edit.State == api.EditDone
	})
	b.rows(s, before+100)
}

// TestRegraphWaitsForWorkers: a query that another scheduler has left, and whose graph has changed since, goes on under that
// once no worker of before is left. They are ended once.
func TestRegraphWaitsForWorkers(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	s := versions(t)
	first := newBench(t, root, nil)
	first.leads()
	first.submit(s)
	first.rows(s, 100)
	first.leave() // with a checkpoint
	<-first.over
	before := len(written(t, s))

	c := &cutOff{}
	b := newBench(t, root, func(o *Options) {
		c.opens(o)
		compile := o.Compile
		o.Compile = func(s *api.Submission, replicas map[string]int) (*Compiled, dataflow.Diagnostics, error) {
			compiled, diags, err := compile(s, replicas)
			if err == nil {
				compiled.Deploy.Graph += "\n-- of another release"
			}
			return compiled, diags, err
		}
	})
	b.leads()
	b.waits("versions")
	if q, err := b.Query(t.Context(), "versions"); err != nil || q.Edit != nil {
		t.Errorf("%+v, error %v", q, err)
	}
	if got := len(written(t, s)); got != before {
		t.Errorf("%d rows, then %d", before, got)
	}
	c.mu.Lock()
	clusters := c.clusters
	c.mu.Unlock()
	if clusters != 1 {
		t.Errorf("the workers of before are ended %d times", clusters)
	}
	c.end()
	b.until("the query is edited", func() bool {
		q, err := b.Query(t.Context(), "versions")
		return err == nil && q.Edit != nil && q.Edit.State == api.EditDone
	})
}

// TestLeft: the workers of a query that may run are those that the framework knows, whatever is known of them.
func TestLeft(t *testing.T) {
	workers := []mesos.WorkerInfo{
		{ID: "w1", Query: "q.1.1", Hostname: "h1", Agent: "a1"}, {ID: "w2", Query: "q.1.2", Hostname: "h2", Agent: "a2"},
		{ID: "w3", Query: "q.1.1", Hostname: "h3", Agent: "a3", Lost: true, Killed: true},
	}
	want := []string{"worker w1 on agent h1 (a1)", "worker w3 on agent h3 (a3), which cannot be reached"}
	if got := left(workers, "q.1.1"); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
