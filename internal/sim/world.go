package sim

import (
	"container/heap"
	"fmt"
	"math/rand/v2"
	"strings"

	"sluice/dataflow"
	"sluice/internal/protocol"
)

// Units of the simulated clock.
const (
	millisecond = 1_000
	second      = 1_000 * millisecond
)

// beginning is when runs begin, in microseconds since 1970: a number small enough to read.
const beginning = 1_000 * second

// world is one run.
type world struct {
	plan  plan
	rand  *rand.Rand
	now   int64
	queue events
	order uint64 // of the next event

	query   *dataflow.Physical
	disk    *disk
	workers []*worker // in order of their start; dead ones too
	terms   int64     // schedulers so far
	shell   *shell    // nil while there is no scheduler
	former  []*shell  // that another one has replaced, and that run nevertheless
	checks  checks
	changes []change // parameters that are to be set
	sinks   map[string]*published
	inputs  map[string]*input

	workload workload
	counts   map[string]int // how often things happened that tests want to see
	outcome  *outcome
	err      error // why the run has failed
	moved    int64 // when something went forward last
	steps    int64
	trace    *trace
}

// event is something that happens at a time.
type event struct {
	at    int64
	order uint64
	do    func()
}

// events is a heap of events.
type events []event

func (q events) Len() int { return len(q) }
func (q events) Less(i, j int) bool {
	return q[i].at < q[j].at || q[i].at == q[j].at && q[i].order < q[j].order
}
func (q events) Swap(i, j int) { q[i], q[j] = q[j], q[i] }

// Push implements heap.Interface.
func (q *events) Push(x any) { *q = append(*q, x.(event)) }

// Pop implements heap.Interface.
func (q *events) Pop() any {
	old := *q
	e := old[len(old)-1]
	old[len(old)-1] = event{}
	*q = old[:len(old)-1]
	return e
}

// after plans an event.
func (w *world) after(delay int64, do func()) {
	w.order++
	heap.Push(&w.queue, event{w.now + max(delay, 0), w.order, do})
}

// between draws a number from lo to hi.
func (w *world) between(lo, hi int64) int64 {
	if hi <= lo {
		return lo
	}
	return lo + w.rand.Int64N(hi-lo+1)
}

// chance holds with a probability.
func (w *world) chance(p float64) bool { return p > 0 && w.rand.Float64() < p }

// fail ends the run with an error.
func (w *world) fail(format string, args ...any) {
	if w.err == nil {
		w.err = fmt.Errorf(format, args...)
		first, _, _ := strings.Cut(w.err.Error(), "\n")
		w.tracef("FAILED: %s", first)
	}
}

// progress notes that the run goes forward.
func (w *world) progress() { w.moved = w.now }

// on reports whether a rule of the protocol holds.
func (w *world) on(r protocol.Rule) bool { return w.plan.Off.On(r) }

// run lets events happen until the query is over or has failed.
func (w *world) run() error {
	for w.err == nil && w.outcome == nil {
		if len(w.queue) == 0 {
			w.fail("nothing is left to happen\n%s", w.dump())
			break
		}
		e := heap.Pop(&w.queue).(event)
		w.now = e.at
		e.do()
		w.steps++
		if w.err == nil && w.outcome == nil && (w.now-w.moved > w.plan.Patience || w.steps > w.plan.MostSteps) {
			w.fail("stuck: nothing has moved for %d ms (step %d)\n%s", (w.now-w.moved)/millisecond, w.steps, w.dump())
		}
	}
	return w.err
}

// trace keeps what happened last, or hands on all of it.
type trace struct {
	lines []string
	all   func(string)
}

const traceLines = 60

func (w *world) tracef(format string, args ...any) {
	if w.trace == nil {
		return
	}
	line := fmt.Sprintf("%9.3f ms  ", float64(w.now-beginning)/millisecond) + fmt.Sprintf(format, args...)
	if w.trace.all != nil {
		w.trace.all(line)
		return
	}
	if len(w.trace.lines) == traceLines {
		w.trace.lines = append(w.trace.lines[:0], w.trace.lines[1:]...)
	}
	w.trace.lines = append(w.trace.lines, line)
}

func (t *trace) String() string { return strings.Join(t.lines, "\n") }
