package dataflow_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"sluice/dataflow"
)

// randomEdges draws which operators read from which, with or without cycles.
func randomEdges(t *rapid.T, acyclic bool) [][]int {
	n := rapid.IntRange(1, 12).Draw(t, "operators")
	place := rapid.Permutation(numbers(n)).Draw(t, "places")
	inputs := make([][]int, n)
	for range rapid.IntRange(0, 2*n).Draw(t, "edges") {
		from, to := rapid.IntRange(0, n-1).Draw(t, "from"), rapid.IntRange(0, n-1).Draw(t, "to")
		if acyclic && place[from] >= place[to] {
			continue
		}
		inputs[to] = append(inputs[to], from)
	}
	return inputs
}

func numbers(n int) []int {
	s := make([]int, n)
	for i := range s {
		s[i] = i
	}
	return s
}

// graphOf makes operator i the producer of stream s<i>.
func graphOf(inputs [][]int) *dataflow.Graph {
	g := &dataflow.Graph{}
	for i, ins := range inputs {
		op := &dataflow.Operator{
			Name: fmt.Sprint("o", i), Type: "any", Outputs: []dataflow.Output{{Stream: fmt.Sprint("s", i)}},
			Pos: dataflow.Pos{File: "g", Line: i + 1, Col: 1},
		}
		for _, in := range ins {
			op.Inputs = append(op.Inputs, dataflow.Input{Stream: fmt.Sprint("s", in)})
		}
		g.Operators = append(g.Operators, op)
	}
	return g
}

var anyCatalog = fakeCatalog{"any": {Name: "any", MaxInputs: -1, Output: true}}

// The order is the one that is found by looking for the first operator that is ready, again and again.
func TestTopologicalIsSpecOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		inputs := randomEdges(t, true)
		g := graphOf(inputs)
		var want []*dataflow.Operator
		done := make([]bool, len(inputs))
		for len(want) < len(inputs) {
			i := slices.IndexFunc(numbers(len(inputs)), func(i int) bool {
				return !done[i] && !slices.ContainsFunc(inputs[i], func(from int) bool { return !done[from] })
			})
			done[i] = true
			want = append(want, g.Operators[i])
		}
		if got := g.Topological(); !slices.Equal(got, want) {
			t.Fatalf("got %v, want %v", opNames(got), opNames(want))
		}
	})
}

func opNames(ops []*dataflow.Operator) (names []string) {
	for _, op := range ops {
		names = append(names, op.Name)
	}
	return names
}

// A cycle is reported for each set of operators that reach one another, once, and is one.
func TestCycles(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		inputs := randomEdges(t, false)
		n := len(inputs)
		reach := make([][]bool, n)
		for i := range reach {
			reach[i] = make([]bool, n)
		}
		for to, froms := range inputs {
			for _, from := range froms {
				reach[from][to] = true
			}
		}
		for range n { // transitive closure, the slow way
			for a := range n {
				for b := range n {
					for c := range n {
						reach[a][c] = reach[a][c] || reach[a][b] && reach[b][c]
					}
				}
			}
		}
		var firsts []string // the first operator of each set that has a cycle
		for a := range n {
			if reach[a][a] && !slices.ContainsFunc(numbers(a), func(b int) bool { return reach[a][b] && reach[b][a] }) {
				firsts = append(firsts, fmt.Sprint("o", a))
			}
		}
		g := graphOf(inputs)
		var got []string
		for _, d := range dataflow.Resolve(g, anyCatalog) {
			path, ok := strings.CutPrefix(d.Message, "is on a cycle: ")
			if !ok {
				continue
			}
			got = append(got, d.Operator)
			names := strings.Split(path, " -> ")
			if names[0] != d.Operator || names[len(names)-1] != d.Operator {
				t.Errorf("cycle %s is not one of %s", path, d.Operator)
			}
			if inside := slices.Sorted(slices.Values(names[1:])); len(slices.Compact(inside)) != len(names)-1 {
				t.Errorf("cycle %s has an operator twice", path)
			}
			for i := 1; i < len(names); i++ {
				op := g.Operator(names[i])
				if !slices.ContainsFunc(op.Inputs, func(in dataflow.Input) bool { return in.From.Name == names[i-1] }) {
					t.Errorf("cycle %s: %s does not read from %s", path, names[i], names[i-1])
				}
			}
		}
		if !slices.Equal(got, firsts) {
			t.Fatalf("cycles at %v, want %v", got, firsts)
		}
		if order := g.Topological(); len(order) != n {
			t.Fatalf("order has %d of %d operators", len(order), n)
		}
	})
}

// A term defines each operator once, and says for each one what it reads.
func TestTermIsComplete(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		inputs := randomEdges(t, rapid.Bool().Draw(t, "acyclic"))
		term := graphOf(inputs).Term(dataflow.TermOptions{})
		got := readTerm(t, term)
		for i, froms := range inputs {
			name := fmt.Sprint("o", i)
			var want []string
			for _, from := range froms {
				want = append(want, fmt.Sprint("o", from))
			}
			if reads, ok := got[name]; !ok || !slices.Equal(reads, want) {
				t.Fatalf("%s reads %v in\n%s\nwant %v", name, reads, term, want)
			}
		}
	})
}

// readTerm reads a term without ports and parameters: the inputs of each operator.
func readTerm(t *rapid.T, term string) map[string][]string {
	reads := make(map[string][]string)
	for _, line := range strings.Split(strings.TrimSuffix(term, "\n"), "\n") {
		var read func() string
		read = func() string {
			n := strings.IndexAny(line+"\n", " ,)\n")
			name := line[:n]
			line = line[n:]
			rest, ok := strings.CutPrefix(line, " := any")
			if !ok {
				return name
			}
			if _, twice := reads[name]; twice {
				t.Fatalf("%s is defined twice in\n%s", name, term)
			}
			reads[name] = nil
			line = rest
			if !strings.HasPrefix(line, "(") {
				return name
			}
			for !strings.HasPrefix(line, ")") {
				line = strings.TrimLeft(line, "(, ")
				in := read()
				reads[name] = append(reads[name], in)
			}
			line = line[1:]
			return name
		}
		read()
		if line != "" {
			t.Fatalf("%q is left of a line of\n%s", line, term)
		}
	}
	return reads
}

// Graphs at the bounds of a spec run out of neither stack nor time: what takes quadratic time here does
// not end before the tests' own time limit.
func TestLargeGraphs(t *testing.T) {
	const n = 20_000
	chain, ring, unknown := make([][]int, n), make([][]int, n), make([][]int, n)
	for i := range n {
		ring[i] = []int{(i + 1) % n}
		if i > 0 {
			chain[i] = []int{i - 1}
		}
		unknown[i] = []int{n + i}
	}
	for name, inputs := range map[string][][]int{"chain": chain, "ring": ring, "unknown streams": unknown} {
		g := graphOf(inputs)
		diags := dataflow.Resolve(g, anyCatalog)
		term, dot := g.Term(dataflow.TermOptions{Params: true}), g.Dot()
		if strings.Count(term, ":=") != n || strings.Count(dot, "[label=\"o") != n {
			t.Errorf("%s: not all operators are shown", name)
		}
		switch name {
		case "ring":
			if len(diags) == 0 || len(diags[0].String()) > 1000 || !strings.Contains(diags.Error(), "(19960 more)") {
				t.Errorf("ring: first diagnostic %.2000s", diags.Error())
			}
		case "unknown streams":
			if got := strings.Count(diags.Error(), ": unknown stream "); got != n {
				t.Errorf("unknown streams: %d are reported", got)
			}
		}
	}
}
