package rewrite_test

import (
	"fmt"
	"slices"
	"strings"

	"sluice/dataflow"
)

// row is a row of the model.
type row struct{ ID, Ref int }

// evaluate runs the graph on the rows of its sources, by the plainest means, and returns what each sink
// gets, sorted. Rows of a source with a negative ref go to its errors.
func evaluate(g *dataflow.Graph, sources map[string][]row) map[string][]row {
	streams := make(map[string][]row)
	sinks := make(map[string][]row)
	for _, op := range g.Topological() {
		var inputs [][]row
		for _, in := range op.Inputs {
			inputs = append(inputs, streams[in.Stream])
		}
		if op.Type == "write" {
			sinks[op.Name] = sorted(inputs[0])
			continue
		}
		outputs := evaluateOperator(op, inputs, sources)
		for i, o := range op.Outputs {
			streams[o.Stream] = outputs[i]
		}
	}
	return sinks
}

func sorted(rows []row) []row {
	rows = slices.Clone(rows)
	slices.SortFunc(rows, func(a, b row) int { return (a.ID-b.ID)*1_000_000 + a.Ref - b.Ref })
	return rows
}

func evaluateOperator(op *dataflow.Operator, inputs [][]row, sources map[string][]row) [][]row {
	outputs := make([][]row, len(op.Outputs))
	main, errs := op.OutputPort(""), op.OutputPort("errors")
	emit := func(port int, rows ...row) {
		if port >= 0 {
			outputs[port] = append(outputs[port], rows...)
		}
	}
	switch op.Type {
	case "read":
		for _, r := range sources[op.Name] {
			if r.Ref < 0 {
				emit(errs, r)
			} else {
				emit(main, r)
			}
		}
	case "filter":
		for _, r := range inputs[0] {
			if passesAll(op.Value("condition"), r) {
				emit(main, r)
			} else if r.ID%7 == 0 {
				emit(errs, r)
			}
		}
	case "map":
		for _, r := range inputs[0] {
			emit(main, row{r.ID, r.Ref + 1})
		}
	case "union", "merge":
		emit(main, slices.Concat(inputs...)...)
	case "dedup":
		emit(main, distinct(inputs[0])...)
	case "join":
		for _, l := range inputs[0] {
			for _, r := range inputs[1] {
				if l.ID == r.Ref {
					emit(main, row{l.ID, l.Ref*100 + r.ID})
				}
			}
		}
	case "aggregate", "partial", "combine":
		key := op.Value("group-by")
		if op.Type == "combine" {
			key = "id" // the key of a partial result stands there
		}
		emit(main, sums(slices.Concat(inputs...), key)...)
		for _, r := range slices.Concat(inputs...) {
			if r.ID%5 == 0 {
				emit(errs, r)
			}
		}
	case "final", "partition-filter", "netwriter", "netreader":
		emit(main, inputs[0]...)
	case "splitter":
		for i, r := range inputs[0] {
			emit(part(op, i, r, len(outputs)), r)
		}
	case "multicast":
		for i := range outputs {
			emit(i, inputs[0]...)
		}
	case "failover":
		emit(0, inputs[0]...)
	case "stream-selector":
		emit(main, slices.MaxFunc(inputs, func(a, b []row) int { return len(a) - len(b) })...)
	default:
		panic("no model of " + op.Type)
	}
	if op.Type == "partition-filter" {
		outputs[main] = slices.DeleteFunc(outputs[main], func(r row) bool { return !inGroups(op, r) })
	}
	return outputs
}

// passesAll takes conditions like "2 AND 3": the id is a multiple of all of these numbers.
func passesAll(condition string, r row) bool {
	for _, part := range strings.Split(condition, " AND ") {
		n := 1
		fmt.Sscan(part, &n)
		if r.ID%n != 0 {
			return false
		}
	}
	return true
}

func distinct(rows []row) []row {
	var out []row
	for _, r := range rows {
		if !slices.Contains(out, r) {
			out = append(out, r)
		}
	}
	return out
}

// sums adds up ref by id, or without a key into one row.
func sums(rows []row, key string) []row {
	total := make(map[int]int)
	if key == "" {
		total[0] = 0
	}
	for _, r := range rows {
		if key == "" {
			r.ID = 0
		}
		total[r.ID] += r.Ref
	}
	var out []row
	for id, sum := range total {
		out = append(out, row{id, sum})
	}
	return out
}

// group is the key group of a row.
func group(op *dataflow.Operator, r row) int {
	v := r.ID
	if strings.HasPrefix(op.Value("key"), "ref") {
		v = r.Ref
	}
	return v * 97 % dataflow.KeyGroups
}

func part(op *dataflow.Operator, i int, r row, parts int) int {
	if op.Value("key") == "" {
		return i % parts
	}
	return group(op, r) * parts / dataflow.KeyGroups
}

func inGroups(op *dataflow.Operator, r row) bool {
	var first, last int
	fmt.Sscanf(op.Value("groups"), "%d-%d", &first, &last)
	g := group(op, r)
	return first <= g && g <= last
}
