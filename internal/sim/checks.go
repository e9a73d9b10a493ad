package sim

import (
	"fmt"
	"slices"
	"strings"

	"sluice/dataflow"
	"sluice/metaquery"
	"sluice/scheduler"
)

// checks are what has to hold at every step.
type checks struct {
	launches map[metaquery.TaskID]scheduler.WorkerID
	reports  map[metaquery.TaskID]metaquery.Report
	parts    map[string]int               // parts of each sink that have been looked at
	epochs   map[string]map[int64]bool    // that have been published, by sink
	changes  map[string][]metaquery.Tuple // committed changes of each operator's parameter
	reached  map[string]int64             // highest epoch that any instance of a task has ended or cut
	gens     map[string]int64             // highest generation of each task that has been saved
	complete int64
	stopping bool // the record says that the query is being stopped
}

func newChecks() checks {
	return checks{
		launches: map[metaquery.TaskID]scheduler.WorkerID{}, reports: map[metaquery.TaskID]metaquery.Report{}, parts: map[string]int{},
		epochs: map[string]map[int64]bool{}, changes: map[string][]metaquery.Tuple{}, reached: map[string]int64{},
	}
}

// launched: a generation runs at most once.
func (c *checks) launched(w *world, k *worker, l metaquery.Launch) {
	if on, twice := c.launches[l.ID]; twice {
		w.fail("generation %d of task %s is launched on %s, and was on %s before", l.ID.Gen, l.ID.Task, k.id, on)
	}
	c.launches[l.ID] = k.id
	c.room(w, k, l.ID)
	w.counts["launches"]++
	if l.ID.Gen > 1 && l.Checkpoint > 0 {
		w.counts["launches from a checkpoint"]++
	}
	if h := w.query.Task(l.ID.Task); h != nil && h.Standby {
		w.counts["standbys launched"]++
	}
}

// room: a worker has what the tasks there need together. Cores may be shared.
func (c *checks) room(w *world, k *worker, id metaquery.TaskID) {
	var held dataflow.Resources
	there := []metaquery.TaskID{id}
	for _, h := range k.hosts {
		there = append(there, h.id)
	}
	for _, id := range there {
		if t := w.query.Task(id.Task); t != nil && c.gens[id.Task] == id.Gen {
			held, _ = held.Together(t.Resources)
		}
	}
	if !k.has.Covers(held.WithoutCPUs()) {
		w.fail("task %s is launched on %s, which has %v, and %v need %v", id.Task, k.id, k.has, there, held)
	}
	if !held.IsZero() {
		w.counts["launches of tasks that need resources"]++
	}
}

// saved: complete checkpoints ascend. What the record has of changes is noted, since it is forgotten later.
func (c *checks) saved(w *world, r *scheduler.Record) {
	if r.Checkpoint < c.complete {
		w.fail("complete checkpoint %d is recorded after %d", r.Checkpoint, c.complete)
	}
	if r.Checkpoint > c.complete {
		w.tracef("checkpoint %d is complete", r.Checkpoint)
		w.counts["checkpoints"]++
		w.progress()
	}
	c.complete, c.gens = r.Checkpoint, r.Generations
	c.stopping = r.Stop != 0
	for _, t := range r.Changes {
		name := t.Operator + "." + t.Param
		if !slices.ContainsFunc(c.changes[name], func(o metaquery.Tuple) bool { return o.Epoch == t.Epoch && o.Seq == t.Seq }) {
			c.changes[name] = append(c.changes[name], t)
			w.counts["changes"]++
			w.tracef("change: %s = %s at %d", name, t.Value, t.Epoch)
		}
	}
}

// reported: what a task says of itself goes forward.
func (c *checks) reported(w *world, h *host, r metaquery.Report) {
	old, ok := c.reports[h.id]
	c.reports[h.id] = r
	if r.From != h.id {
		w.fail("%s reports as %v", h, r.From)
	}
	if at := max(r.Epoch, r.Cut); at > c.reached[h.id.Task] {
		c.reached[h.id.Task] = at
		w.progress()
	}
	if r.Vote != nil && r.Vote.Late && (old.Vote == nil || old.Vote.Attempt != r.Vote.Attempt) {
		w.counts["late votes"]++
	}
	if r.Trimmed && !old.Trimmed {
		w.counts["trimmed"]++
	}
	if r.Retry != "" && old.Retry == "" {
		w.counts["retries"]++
	}
	if h.worker.cut && r.Epoch > old.Epoch {
		w.counts["epochs of zombies"]++
	}
	if !ok {
		return
	}
	for _, name := range sorted(old.Frontiers) {
		if r.Frontiers[name] < old.Frontiers[name] && !w.lossy() {
			w.fail("%s: the frontier of %s falls from %d to %d", h, name, old.Frontiers[name], r.Frontiers[name])
		}
	}
}

// published: no epoch is published twice.
func (c *checks) published(w *world, p *published) {
	seen := c.epochs[p.name]
	if seen == nil {
		seen = map[int64]bool{}
		c.epochs[p.name] = seen
	}
	for ; c.parts[p.name] < len(p.parts); c.parts[p.name]++ {
		q := p.parts[c.parts[p.name]]
		for e := range epochsOf(q.lines) {
			if seen[e] && !w.lossy() {
				w.fail("%s: epoch %d is published twice", p.name, e)
			}
			seen[e] = true
		}
	}
}

func epochsOf(lines []line) map[int64]bool {
	m := map[int64]bool{}
	for _, l := range lines {
		m[l.epoch] = true
	}
	return m
}

// dump tells where everything stands.
func (w *world) dump() string {
	var b strings.Builder
	fmt.Fprintf(&b, "checkpoint %d, there is a scheduler: %v\n", w.checks.complete, w.shell != nil)
	if w.shell != nil {
		b.WriteString(w.shell.core.Status().String())
	}
	for _, k := range w.workers {
		if k.dead {
			continue
		}
		fmt.Fprintf(&b, "%s (cut off: %v)\n", k.id, k.cut)
		for _, h := range k.hosts {
			h.dump(&b)
		}
	}
	return b.String()
}

// dump tells where an instance stands.
func (h *host) dump(b *strings.Builder) {
	if h.task == nil {
		fmt.Fprintf(b, "  %s has not begun\n", h)
		return
	}
	r := h.task.Report()
	fmt.Fprintf(b, "  %s from %d: ended %d, begun %d, cut %d, obeyed %d of term %d", h, h.launch.Checkpoint, r.Epoch, r.Begun, r.Cut, r.Obeyed, r.Term)
	for _, s := range r.Snapshots {
		fmt.Fprintf(b, ", %s %d-%d", s.Key, s.Lo, s.Hi)
	}
	for _, name := range sorted(r.Frontiers) {
		fmt.Fprintf(b, ", frontier of %s %d", name, r.Frontiers[name])
	}
	if r.Vote != nil {
		fmt.Fprintf(b, ", vote %+v", *r.Vote)
	}
	fmt.Fprintf(b, ", retained %d, backlog %d", r.Retained, r.Backlog)
	if r.Trimmed || r.Retry != "" || r.Failure != nil {
		fmt.Fprintf(b, ", trimmed %v, retry %q, failure %v", r.Trimmed, r.Retry, r.Failure)
	}
	b.WriteByte('\n')
	for _, name := range sorted(h.conns) {
		c := h.conns[name]
		to := "nobody"
		if c.to != nil {
			to = string(c.to.id)
		}
		fmt.Fprintf(b, "    %s -> %s up %v, %d under way\n", name, to, c.up, c.flying)
	}
}
