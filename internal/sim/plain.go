package sim

import (
	"context"
	"fmt"
	"slices"

	"sluice/dataflow"
	"sluice/executor"
	"sluice/operators"
	"sluice/operators/catalog"
)

// verifyPlain compares the rows with those of executor.Run of the logical graph, which cuts other epochs.
// That is possible where the rows do not depend on the epochs: with one source, and no change while it runs.
func (w *world) verifyPlain() error {
	if len(w.inputs) != 1 || len(w.checks.changes) > 0 || w.plan.NoCheckpoints || w.plan.Endless || w.plan.StopEnds || w.unions() {
		return nil
	}
	got, err := w.plain()
	if err != nil {
		return err
	}
	for _, name := range sorted(got) {
		lines, err := w.sinks[name].lines(w.disk.commits[name].witness)
		if err != nil {
			return err
		}
		if diff := difference(withoutEpochs(got[name].lines), withoutEpochs(lines), w.ordered(name)); diff != "" {
			return fmt.Errorf("%s, as in one process: %s", name, diff)
		}
	}
	return nil
}

// plain gives the rows of executor.Run of the logical graph.
func (w *world) plain() (map[string]*collector, error) {
	got := map[string]*collector{}
	_, err := executor.Run(context.Background(), w.workload.logical, executor.Options{
		OpenSource: func(c *operators.Context) (operators.Source, error) {
			return w.openSource(&host{worker: &worker{world: w}}, c)
		},
		Build: func(c *operators.Context) (operators.Operator, error) {
			if c.Op.Type == "writer" {
				got[c.Op.Name] = &collector{}
				return got[c.Op.Name], nil
			}
			return catalog.Build(c, catalog.Options{Limit: -1})
		},
	})
	if err != nil {
		return nil, fmt.Errorf("in one process: %w", err)
	}
	return got, nil
}

func (w *world) unions() bool {
	return slices.ContainsFunc(w.workload.logical.Operators, func(op *dataflow.Operator) bool { return op.Type == "union" })
}

func withoutEpochs(lines []line) []line {
	out := make([]line, len(lines))
	for i, l := range lines {
		out[i].text = l.text
	}
	return out
}
