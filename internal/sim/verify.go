package sim

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"sluice/dataflow"
)

// verify compares what has been published with what had to be.
func (w *world) verify() error {
	if w.lossy() {
		return w.verifyLossy()
	}
	if o := w.outcome; o.Error != "" {
		return fmt.Errorf("the query has ended with an error: %s", o.Error)
	}
	if !w.outcome.Finished {
		return fmt.Errorf("outcome %+v", w.outcome.Outcome)
	}
	want, err := w.expected()
	if err != nil {
		return fmt.Errorf("reference: %w", err)
	}
	for _, name := range slices.Sorted(maps.Keys(w.sinks)) {
		if w.plan.NoCheckpoints && reaches(w.query.Graph.Operator(name), hasState) {
			continue // what was lost is not in the rows
		}
		got, err := w.sinks[name].lines(w.disk.commits[name].witness)
		if err != nil {
			return err
		}
		if diff := difference(want[name], got, w.ordered(name)); diff != "" {
			return fmt.Errorf("%s: %s", name, diff)
		}
	}
	return w.verifyPlain()
}

// ordered tells whether the rows of a sink come in the order of the logical graph: not behind a
// merge of partitions by key.
func (w *world) ordered(sink string) bool {
	return !reaches(w.query.Graph.Operator(sink), func(op *dataflow.Operator) bool {
		return op.Type == "merge" || op.Type == "partition-filter" || op.Type == "aggregate" && op.Origin != nil && op.Origin.Stage > 0
	})
}

func hasState(op *dataflow.Operator) bool {
	return !op.Desc.Source() && !op.Desc.Sink() && !op.Properties().Stateless
}

// reaches tells whether the condition holds for op or something above it.
func reaches(op *dataflow.Operator, holds func(*dataflow.Operator) bool) bool {
	return holds(op) || slices.ContainsFunc(op.Inputs, func(in dataflow.Input) bool { return reaches(in.From, holds) })
}

// difference tells how lines differ, "" if they do not.
func difference(want, got []line, ordered bool) string {
	if !ordered {
		want, got = sortedLines(want), sortedLines(got)
	}
	for i := range max(len(want), len(got)) {
		switch {
		case i >= len(want):
			return fmt.Sprintf("%d rows, want %d; the first that is too much: %v%s", len(got), len(want), got[i], around(want, got, i))
		case i >= len(got):
			return fmt.Sprintf("%d rows, want %d; the first that is missing: %v%s", len(got), len(want), want[i], around(want, got, i))
		case want[i] != got[i]:
			return fmt.Sprintf("row %d is %v, want %v%s", i+1, got[i], want[i], around(want, got, i))
		}
	}
	return ""
}

// around shows the rows about a place.
func around(want, got []line, i int) string {
	from := max(0, i-3)
	show := func(lines []line) string {
		var b strings.Builder
		for _, l := range lines[min(from, len(lines)):min(i+4, len(lines))] {
			fmt.Fprintf(&b, "\n    %d %s", l.epoch, l.text)
		}
		return b.String()
	}
	return "\n  want ..." + show(want) + "\n  got ..." + show(got)
}

func sortedLines(lines []line) []line {
	lines = slices.Clone(lines)
	slices.SortFunc(lines, func(a, b line) int {
		if a.epoch != b.epoch {
			return int(a.epoch - b.epoch)
		}
		return strings.Compare(a.text, b.text)
	})
	return lines
}
