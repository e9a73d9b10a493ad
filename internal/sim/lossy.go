package sim

import (
	"fmt"
	"slices"

	"sluice/executor/state"
)

// lossy tells whether something has been lost with a machine that nobody had promised to keep.
func (w *world) lossy() bool {
	return w.plan.Fsync == state.FsyncNever && w.counts["epochs lost with machines"]+w.counts["commits lost with machines"]+
		w.counts["rows of files lost with machines"] > 0
}

// verifyLossy: rows may be missing or come twice, or the query ends with an error that says what is wrong. But behind
// operators without state there is no row that the input does not give, nor part of one.
func (w *world) verifyLossy() error {
	if w.outcome.Error != "" {
		w.counts["losses that were found out"]++
		return nil
	}
	w.counts["losses that were not found out"]++
	if w.plan.Sets > 0 || len(w.checks.changes) > 0 {
		return nil
	}
	for _, in := range w.inputs {
		in.endless = false
	}
	want, err := w.plain()
	if err != nil {
		return err
	}
	for _, name := range sorted(want) {
		if reaches(w.query.Graph.Operator(name), hasState) {
			continue
		}
		got, err := w.sinks[name].lines(w.disk.commits[name].witness)
		if err != nil {
			return err
		}
		for _, l := range got {
			if !slices.ContainsFunc(want[name].lines, func(o line) bool { return o.text == l.text }) {
				return fmt.Errorf("%s: the input gives no row %v", name, l)
			}
		}
	}
	return nil
}
