package dataflow

import (
	"slices"
	"unicode/utf8"
)

// Nearest returns the known name nearest to name by Levenshtein distance (insertions, deletions and
// substitutions of characters, each of cost 1), if its distance is at most half of name's length;
// otherwise "". Of equally near names the first in known wins. A name of more than 256 bytes has none.
func Nearest(name string, known []string) string {
	if len(name) > 256 {
		return ""
	}
	best, bestDist := "", utf8.RuneCountInString(name)/2+1
	for _, k := range known {
		if k == name {
			continue
		}
		if d := editDistance(name, k, bestDist); d < bestDist {
			best, bestDist = k, d
		}
	}
	return best
}

// editDistance is the Levenshtein distance of a and b in characters, or limit if it is not below it.
func editDistance(a, b string, limit int) int {
	ra, rb := []rune(a), []rune(b)
	if len(ra)-len(rb) >= limit || len(rb)-len(ra) >= limit {
		return limit
	}
	prev := make([]int, len(rb)+1)
	cur := make([]int, len(rb)+1)
	for j := range prev {
		prev[j] = j
	}
	for i, ca := range ra {
		cur[0] = i + 1
		rowBest := cur[0]
		for j, cb := range rb {
			cost := 1
			if ca == cb {
				cost = 0
			}
			cur[j+1] = min(prev[j]+cost, prev[j+1]+1, cur[j]+1)
			rowBest = min(rowBest, cur[j+1])
		}
		if rowBest >= limit {
			return limit
		}
		prev, cur = cur, prev
	}
	return min(prev[len(rb)], limit)
}

// suggestWork bounds the work that one pass over a spec spends on suggestions, as the sum of the
// products of the lengths that are compared: a spec with thousands of unknown names is still refused
// at once, and only the first of them get suggestions.
const suggestWork = 100_000_000

// suggester gives suggestions as Nearest does until its work is used up.
type suggester struct{ work int }

// nearest is the nearest of the known names but for those that are left out.
func (s *suggester) nearest(name string, known []string, but ...string) string {
	for _, k := range known {
		s.work -= len(name)*len(k) + len(but) + 1
	}
	if s.work < 0 {
		return ""
	}
	if len(but) > 0 {
		known = slices.DeleteFunc(slices.Clone(known), func(k string) bool { return slices.Contains(but, k) })
	}
	return Nearest(name, known)
}
