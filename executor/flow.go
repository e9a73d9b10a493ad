package executor

import (
	"math"
	"sync"
	"sync/atomic"
	"time"

	"sluice/operators"
)

// flow lets sources brake: it knows how far the ends of the graph are, and whether they want more. A
// nil flow knows nothing.
type flow struct {
	mu     sync.Mutex
	moved  sync.Cond
	epochs map[*node]int64 // last epoch that each node without consumers has ended
	ahead  int64           // epochs that a source that fills its own may be ahead
	open   bool            // sources no longer wait
	closed bool

	anySink bool
	sinks   atomic.Int64 // that want more rows
}

// epochsInFlight is how many epochs a source may be ahead of the ends of the graph. Each is bounded, so
// this bounds what waits between tasks. It is what a source with an interval needs, whose epochs are short.
const epochsInFlight = 8

// A source that fills its epochs need not be as far ahead: what it has read then is still in the caches when
// others get to it. But partitions that take epochs in turn need one each.
const (
	fullEpochsInFlight = 3
	mostEpochsInFlight = 16
)

// newFlow watches the nodes of the tasks.
func newFlow(tasks []*Task) *flow {
	f := &flow{epochs: map[*node]int64{}, ahead: fullEpochsInFlight}
	f.moved.L = &f.mu
	for _, t := range tasks {
		for _, n := range t.nodes {
			n.flow = f
			if op := n.ctx.Op; op.Desc.Divides && op.Value("key") == "" {
				f.ahead = max(f.ahead, min(int64(len(op.Outputs))+2, mostEpochsInFlight))
			}
			if n.leaf = n.isLeaf(); n.leaf {
				f.epochs[n] = 0
			}
			if n.ctx.Op.Desc.Sink() {
				f.sinks.Add(1)
				f.anySink = true
			}
		}
	}
	return f
}

func (n *node) isLeaf() bool {
	for _, e := range n.out {
		if len(e.to)+len(e.remote) > 0 {
			return false
		}
	}
	return true
}

// ended is told of each epoch that a node has ended.
func (f *flow) ended(n *node, m operators.Mark) {
	if f == nil || !n.leaf {
		return
	}
	f.mu.Lock()
	f.epochs[n] = m.Epoch
	if m.End {
		f.epochs[n] = math.MaxInt64
	}
	f.mu.Unlock()
	f.moved.Broadcast()
}

// sinkDone is told of each sink that wants no more rows.
func (f *flow) sinkDone() {
	if f != nil {
		f.sinks.Add(-1)
	}
}

// done reports whether there are sinks and none wants more rows, so that nothing that sources bring
// matters.
func (f *flow) done() bool { return f.anySink && f.sinks.Load() == 0 }

// wait waits until the given epoch may begin. It returns false if the query has been aborted.
func (f *flow) wait(epoch int64, interval time.Duration) bool {
	ahead := f.ahead
	if interval > 0 {
		ahead = epochsInFlight
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for !f.closed && !f.open && f.least() < epoch-ahead {
		f.moved.Wait()
	}
	return !f.closed
}

func (f *flow) least() int64 {
	least := int64(math.MaxInt64)
	for _, e := range f.epochs {
		least = min(least, e)
	}
	return least
}

// begin says that the first epoch comes after this one.
func (f *flow) begin(epoch int64) {
	for n := range f.epochs {
		f.epochs[n] = epoch
	}
}

// release lets all sources go on, because they are about to stop.
func (f *flow) release() {
	f.mu.Lock()
	f.open = true
	f.mu.Unlock()
	f.moved.Broadcast()
}

// close aborts the query: nothing waits any longer.
func (f *flow) close() {
	f.mu.Lock()
	f.closed = true
	f.mu.Unlock()
	f.moved.Broadcast()
}
