package window

import (
	"cmp"
	"math"
	"slices"
)

// floorDiv is a/b rounded down; b is positive.
func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}

// after is t + d, not beyond the last time there is; d is not negative.
func after(t, d int64) int64 {
	if t > math.MaxInt64-d {
		return math.MaxInt64
	}
	return t + d
}

// before is t - d, not before the first time there is; d is not negative.
func before(t, d int64) int64 {
	if t < math.MinInt64+d {
		return math.MinInt64
	}
	return t - d
}

// sortFaults sorts by row and keeps the first of each row.
func sortFaults(list []fault) []fault {
	slices.SortStableFunc(list, func(a, b fault) int { return cmp.Compare(a.row, b.row) })
	return slices.CompactFunc(list, func(a, b fault) bool { return a.row == b.row })
}
