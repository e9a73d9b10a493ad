package window

import (
	"fmt"
	"math"
	"math/big"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestCoreAgainstModel runs random queries over random streams, cut at random into batches and epochs,
// and compares all that comes out, in order, with the model's answer.
func TestCoreAgainstModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		q := drawQuery(t)
		rows, marks := q.drawRows(t)
		want := q.model.run(rows)
		got, err := q.run(q.drawSteps(t, rows, marks))
		if err != nil {
			t.Fatal(err)
		}
		if d := difference(got, want); d != "" {
			t.Fatalf("%s allowed-lateness %d: %s\ngot:\n%swant:\n%srows:\n%s", q.text, q.model.lateness, d, show(got), show(want), showRows(rows))
		}
	})
}

// difference tells where two results differ.
func difference(got, want modelResult) string {
	if len(got.out) != len(want.out) {
		return fmt.Sprintf("%d rows, want %d", len(got.out), len(want.out))
	}
	for i, g := range got.out {
		w := want.out[i]
		switch {
		case g.bad || w.bad:
			if g.bad != w.bad {
				return fmt.Sprintf("row %d is out of range: %t, want %t", i, g.bad, w.bad)
			}
		case g.start != w.start || g.end != w.end:
			return fmt.Sprintf("row %d is of the window [%d, %d), want [%d, %d)", i, g.start, g.end, w.start, w.end)
		case g.watermark != w.watermark:
			return fmt.Sprintf("row %d carries %d, want %d", i, g.watermark, w.watermark)
		case !equalValues(g.key, w.key):
			return fmt.Sprintf("row %d has the key %v, want %v", i, g.key, w.key)
		case !equalValues(g.values, w.values):
			return fmt.Sprintf("row %d has the values %v, want %v", i, g.values, w.values)
		}
	}
	if got.late != want.late {
		return fmt.Sprintf("%d times late, want %d", got.late, want.late)
	}
	slices.Sort(got.lost)
	slices.Sort(want.lost)
	if !slices.Equal(got.lost, want.lost) {
		return fmt.Sprintf("late rows %v, want %v", got.lost, want.lost)
	}
	return ""
}

func equalValues(a, b []any) bool {
	return slices.EqualFunc(a, b, func(x, y any) bool {
		switch x := x.(type) {
		case float64:
			y, ok := y.(float64)
			return ok && (x == y || x != x && y != y || math.Abs(x-y) <= 1e-12+1e-9*max(math.Abs(x), math.Abs(y)))
		case *big.Int:
			y, ok := y.(*big.Int)
			return ok && x.Cmp(y) == 0
		}
		return x == y
	})
}

func show(r modelResult) string {
	s := ""
	for _, o := range r.out {
		s += fmt.Sprintf("  [%d, %d) %v: %v @%d bad %t\n", o.start, o.end, o.key, o.values, o.watermark, o.bad)
	}
	return s
}

func showRows(rows []modelRow) string {
	s := ""
	for _, r := range rows {
		s += fmt.Sprintf("  %d: t %d w %d key %v args %v pass %v\n", r.seq, r.time, r.watermark, r.key, r.args, r.pass)
	}
	return s
}
