package dataflow

import "unicode/utf8"

// Nearest returns the known name nearest to name by Levenshtein distance (insertions, deletions and
// substitutions of characters, each of cost 1), if its distance is at most half of name's length;
// otherwise "". Of equally near names the first in known wins.
func Nearest(name string, known []string) string {
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
