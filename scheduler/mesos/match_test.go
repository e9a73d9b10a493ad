package mesos

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// TestMatch compares how many workers are placed with what trying everything finds.
func TestMatch(t *testing.T) {
	for seed := range uint64(2000) {
		r := rand.New(rand.NewPCG(seed, 2))
		agents := make([]*agent, 1+r.IntN(6))
		for i := range agents {
			agents[i] = &agent{id: fmt.Sprint("A", i)}
		}
		fits, n := make([][]*offered, 1+r.IntN(4)), []int{}
		for i := range fits {
			n = append(n, 1+r.IntN(3))
			for _, a := range agents {
				for range r.IntN(3) { // offers of two roles
					fits[i] = append(fits[i], &offered{agent: a})
				}
			}
			r.Shuffle(len(fits[i]), func(x, y int) { fits[i][x], fits[i][y] = fits[i][y], fits[i][x] })
		}
		m := newMatch(fits, n)
		placed, used := 0, map[*agent]bool{}
		for i := range fits {
			chosen := m.chosen(i)
			if len(chosen) > n[i] {
				t.Errorf("seed %d: want %d has %d of %d", seed, i, len(chosen), n[i])
			}
			for _, g := range chosen {
				if used[g.agent] {
					t.Errorf("seed %d: agent %s is used twice", seed, g.agent.id)
				}
				used[g.agent] = true
				placed++
			}
		}
		if best := mostPlaced(fits, n, 0, map[*agent]bool{}); placed != best {
			t.Errorf("seed %d: %d workers are placed of %d", seed, placed, best)
		}
		if t.Failed() {
			return
		}
	}
}

// mostPlaced tries everything.
func mostPlaced(fits [][]*offered, n []int, want int, used map[*agent]bool) int {
	if want == len(fits) {
		return 0
	}
	best := 0
	if n[want] > 0 {
		n[want]--
		for _, g := range fits[want] {
			if !used[g.agent] {
				used[g.agent] = true
				best = max(best, 1+mostPlaced(fits, n, want, used))
				delete(used, g.agent)
			}
		}
		n[want]++
	}
	return max(best, mostPlaced(fits, n, want+1, used))
}
