package local

import (
	"strconv"

	"sluice/dataflow"
)

// spreadGroup is the placement group of operators that Spread places. Groups of rules have a "#".
const spreadGroup = "nodes"

// Spread gives operators that no rule has placed a placement, so that the graph has a task for each of n
// nodes if it has operators enough; g is changed. The operators are taken in topological order and cut
// into pieces of equal number, the fewest that do; sources and what follows come first. The result
// depends on nothing but g and n. g must have been resolved.
func Spread(g *dataflow.Graph, n int) error {
	var free []*dataflow.Operator
	for _, op := range g.Topological() {
		if len(op.Placement) == 0 && !op.Standby {
			free = append(free, op)
		}
	}
	for pieces := 1; pieces <= min(n, len(free)); pieces++ {
		place(free, pieces)
		p, err := dataflow.BuildTasks(g, dataflow.TaskOptions{})
		if err != nil {
			return err
		}
		if running(p) >= n {
			return nil
		}
	}
	return nil
}

// place cuts the operators into pieces. One piece needs no placement.
func place(ops []*dataflow.Operator, pieces int) {
	for i, op := range ops {
		op.Placement = nil
		if pieces > 1 {
			label := strconv.Itoa(1 + i*pieces/len(ops))
			op.Placement = []dataflow.Placement{{Group: spreadGroup, Label: label, Spread: true}}
		}
	}
}

// running counts the tasks that run from the beginning.
func running(p *dataflow.Physical) int {
	n := 0
	for _, t := range p.Tasks {
		if !t.Standby {
			n++
		}
	}
	return n
}
