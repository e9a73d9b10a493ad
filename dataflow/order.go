package dataflow

import (
	"container/heap"
	"slices"
)

// Topological returns the operators so that each one comes after those whose streams it reads. Of
// several that could be next, the first in the spec is. Operators on a cycle come where the cycle as
// a whole may stand, in the order of the spec. It needs no Resolve.
func (g *Graph) Topological() []*Operator {
	producers := g.producers()
	e := newEdges(len(g.Operators))
	for i, op := range g.Operators {
		for _, in := range op.Inputs {
			if from, ok := producers[in.Stream]; ok {
				e.add(from.operator, i)
			}
		}
	}
	ops := make([]*Operator, 0, len(g.Operators))
	for _, i := range e.order() {
		ops = append(ops, g.Operators[i])
	}
	return ops
}

// edges are the edges of a graph whose nodes are numbered in the order of the spec.
type edges struct {
	succ [][]int
}

func newEdges(nodes int) *edges { return &edges{succ: make([][]int, nodes)} }

func (e *edges) add(from, to int) { e.succ[from] = append(e.succ[from], to) }

// order is a topological order of the nodes, with the smallest number first among those that are ready.
// Edges inside a strongly connected component do not count, so that every node is in it.
func (e *edges) order() []int {
	component := e.components()
	waits := make([]int, len(e.succ))
	for from, tos := range e.succ {
		for _, to := range tos {
			if component[from] != component[to] {
				waits[to]++
			}
		}
	}
	var ready intHeap
	for i, n := range waits {
		if n == 0 {
			ready = append(ready, i)
		}
	}
	order := make([]int, 0, len(e.succ))
	for len(ready) > 0 {
		from := heap.Pop(&ready).(int)
		order = append(order, from)
		for _, to := range e.succ[from] {
			if component[from] == component[to] {
				continue
			}
			if waits[to]--; waits[to] == 0 {
				heap.Push(&ready, to)
			}
		}
	}
	return order
}

// components gives each node the number of its strongly connected component (Tarjan's algorithm, with
// a stack of its own because a graph may be a chain of many thousand operators).
func (e *edges) components() []int {
	const none = -1
	n := len(e.succ)
	index, low, component := make([]int, n), make([]int, n), make([]int, n)
	for i := range n {
		index[i], component[i] = none, none
	}
	type frame struct{ node, next int }
	var calls []frame
	var open []int
	count, components := 0, 0
	for root := range n {
		if index[root] != none {
			continue
		}
		calls = append(calls, frame{root, 0})
		for len(calls) > 0 {
			f := &calls[len(calls)-1]
			v := f.node
			if f.next == 0 {
				index[v], low[v] = count, count
				count++
				open = append(open, v)
			}
			if f.next < len(e.succ[v]) {
				w := e.succ[v][f.next]
				f.next++
				if index[w] == none {
					calls = append(calls, frame{w, 0})
				} else if component[w] == none {
					low[v] = min(low[v], index[w])
				}
				continue
			}
			if low[v] == index[v] {
				for {
					w := open[len(open)-1]
					open = open[:len(open)-1]
					component[w] = components
					if w == v {
						break
					}
				}
				components++
			}
			calls = calls[:len(calls)-1]
			if len(calls) > 0 {
				up := calls[len(calls)-1].node
				low[up] = min(low[up], low[v])
			}
		}
	}
	return component
}

// cycles returns one cycle for each strongly connected component that has one: the shortest through
// the component's first node, which it starts with, in the direction of the edges.
func (e *edges) cycles() [][]int {
	component := e.components()
	seen := make(map[int]bool)
	from := make([]int, len(e.succ)) // the node before, on the way from the start; -1 for not reached
	for i := range from {
		from[i] = -1
	}
	var cycles [][]int
	for start := range e.succ {
		if seen[component[start]] {
			continue
		}
		seen[component[start]] = true
		if c := e.cycleThrough(start, component, from); c != nil {
			cycles = append(cycles, c)
		}
	}
	return cycles
}

func (e *edges) cycleThrough(start int, component, from []int) []int {
	queue := []int{start}
	for len(queue) > 0 {
		v := queue[0]
		queue = queue[1:]
		for _, w := range e.succ[v] {
			if w == start {
				cycle := []int{v}
				for v != start {
					v = from[v]
					cycle = append(cycle, v)
				}
				slices.Reverse(cycle)
				return cycle
			}
			if component[w] == component[start] && from[w] < 0 {
				from[w] = v
				queue = append(queue, w)
			}
		}
	}
	return nil
}

// intHeap is a min-heap.
type intHeap []int

func (h intHeap) Len() int           { return len(h) }
func (h intHeap) Less(i, j int) bool { return h[i] < h[j] }
func (h intHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *intHeap) Push(x any)        { *h = append(*h, x.(int)) }

func (h *intHeap) Pop() any {
	old := *h
	x := old[len(old)-1]
	*h = old[:len(old)-1]
	return x
}
