package sim

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"sluice/dataflow"
	"sluice/metaquery"
)

// result is what a run was like.
type result struct {
	world *world
	err   error
}

// run runs a plan. all, if not nil, is told everything that happens.
func (p plan) run(all func(string)) (r result) {
	w := &world{plan: p, rand: rand.New(rand.NewPCG(p.Seed, 2)), now: beginning, moved: beginning, checks: newChecks(), counts: map[string]int{}, trace: &trace{all: all}}
	w.disk = newDisk(w)
	r.world = w
	if r.err = w.drawWorkload(); r.err != nil {
		return r
	}
	w.drawChanges()
	w.drawPreferences()
	w.startScheduler()
	w.faultLater()
	if r.err = w.run(); r.err == nil {
		r.err = w.verify()
	}
	return r
}

// drawChanges draws what the user sets, and when.
func (w *world) drawChanges() {
	var filters []string
	for _, op := range w.workload.logical.Operators {
		if op.Type == "filter" && w.settable(op.Name) {
			filters = append(filters, op.Name)
		}
	}
	if len(filters) == 0 {
		return
	}
	at := int64(0)
	for range w.plan.Sets {
		at += w.between(0, max(w.plan.Span, 1))
		name := w.pick(filters...)
		value := w.pick("v % 10 < 5", "v % 2 = 0", "k <> 'b'", "v % 7 <> 3")
		c := change{at: at}
		names := []string{name}
		if w.chance(0.3) {
			names = filters // all of them at one epoch
		}
		for _, name := range names {
			for _, op := range w.query.Graph.Named(name) {
				c.tuples = append(c.tuples, metaquery.Tuple{Operator: op.Name, Param: "condition", Value: value})
			}
		}
		w.changes = append(w.changes, c)
	}
}

// drawPreferences draws from which inputs selectors are to have their rows, and when that is set.
func (w *world) drawPreferences() {
	var selectors []*dataflow.Operator
	for _, op := range w.query.Graph.Operators {
		if op.Desc.Races {
			selectors = append(selectors, op)
		}
	}
	if len(selectors) == 0 {
		return
	}
	for range w.plan.Prefers {
		op := selectors[w.between(0, int64(len(selectors)-1))]
		value := fmt.Sprint(w.between(0, int64(len(op.Inputs))))
		at := w.between(0, max(w.plan.Span, 1))
		w.changes = append(w.changes, change{at: at, tuples: []metaquery.Tuple{{Operator: op.Name, Param: metaquery.Active, Value: value}}})
		w.counts["preferences"]++
	}
	slices.SortStableFunc(w.changes, func(a, b change) int { return cmp.Compare(a.at, b.at) })
}

// settable tells whether a filter of the spec is there as such, and has not been divided into stages.
func (w *world) settable(name string) bool {
	for _, op := range w.query.Graph.Named(name) {
		if op.Type != "filter" || op.Origin != nil && op.Origin.Stage > 0 {
			return false
		}
	}
	return len(w.query.Graph.Named(name)) > 0
}

// describe tells what was run, and how it ended.
func (r result) describe() string {
	w := r.world
	var b strings.Builder
	fmt.Fprintf(&b, "%v\n\nplan: %v\n\n%srewrites: %s\n", r.err, w.plan, w.workload.text, strings.Join(w.workload.steps, ", "))
	if w.query != nil {
		b.WriteString(w.query.Text())
	}
	for _, name := range sorted(w.inputs) {
		fmt.Fprintf(&b, "log of %s, whose input has %d rows:", name, len(w.inputs[name].rows))
		for _, e := range w.disk.history[name] {
			fmt.Fprintf(&b, " %d<%d:%d", e.Prev, e.Epoch, e.Rows)
			if e.End {
				b.WriteString("E")
			}
		}
		b.WriteString("\n")
	}
	for _, name := range sorted(w.sinks) {
		fmt.Fprintf(&b, "output of %s: %s, committed: %+v\n", name, w.sinks[name], w.disk.commits[name])
	}
	for _, k := range w.workers {
		for _, h := range k.hosts {
			fmt.Fprintf(&b, "%s on %s:", h, k.id)
			for _, o := range w.checks.reports[h.id].Operators {
				fmt.Fprintf(&b, " %s %d>%d", o.Name, o.In, o.Out)
			}
			b.WriteString("\n")
		}
	}
	fmt.Fprintf(&b, "\nwhat happened last:\n%s\n", w.trace)
	return b.String()
}
