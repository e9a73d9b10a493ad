package window

import (
	"fmt"
	"math"
	"math/big"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"sluice/dataflow"
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

// check compares a query over rows, given in one batch and one epoch, with the model.
func (q *query) check(t *testing.T, rows []modelRow) {
	t.Helper()
	for i := range rows {
		rows[i].seq = int64(i)
	}
	got, err := q.run([]step{{rows: rows}})
	if err != nil {
		t.Fatal(err)
	}
	want := q.model.run(rows)
	if d := difference(got, want); d != "" {
		t.Errorf("%s: %s\ngot:\n%swant:\n%s", q.text, d, show(got), show(want))
	}
}

func countQuery(text string, m modelQuery) *query {
	m.keyed, m.calls = true, []modelCall{{fn: "count(*)"}}
	return &query{text: text, keys: []dataflow.Type{dataflow.IntType}, calls: []call{{fn: countStar, result: dataflow.IntType, text: "n"}}, model: m}
}

func plainRow(time, watermark, key int64) modelRow {
	return modelRow{time: time, watermark: watermark, key: []any{key}, args: []any{nil}, pass: []bool{true}}
}

// TestFirstAppearanceOfDelayedRow has a row that waits because it is late for one of its windows while
// later rows of its key and of another, from a slower source, do not.
func TestFirstAppearanceOfDelayedRow(t *testing.T) {
	q := countQuery("hopping(10us, 5us)", modelQuery{kind: "hopping", size: 10, hop: 5})
	q.check(t, []modelRow{plainRow(7, 11, 1), plainRow(7, 0, 2), plainRow(7, 0, 1)})
}

// TestFirstAppearanceInJoinedSession joins two sessions of which the later one was seen first.
func TestFirstAppearanceInJoinedSession(t *testing.T) {
	q := countQuery("session(5us)", modelQuery{kind: "session", size: 5})
	for _, order := range [][]int64{{8, 0, 4}, {0, 8, 4}} {
		q.check(t, []modelRow{plainRow(order[0], -9, 1), plainRow(0, -9, 2), plainRow(4, -9, 2), plainRow(8, -9, 2), plainRow(order[1], -9, 1), plainRow(order[2], -9, 1)})
	}
}

// TestManyOverlappingRowWindows has more pairs of row and window than are copied at a time.
func TestManyOverlappingRowWindows(t *testing.T) {
	q := countQuery("rows(120, 1)", modelQuery{kind: "rows", size: 120, hop: 1})
	q.calls = append(q.calls, call{fn: sum, arg: dataflow.IntType, result: dataflow.IntType, filter: true, text: "s"})
	q.model.calls = append(q.model.calls, modelCall{fn: "sum"})
	for keep := range 8 {
		var rows []modelRow
		for i := range int64(300) {
			r := plainRow(0, 0, i%2)
			r.args, r.pass = []any{nil, i}, []bool{true, i < int64(60+keep*30)}
			rows = append(rows, r)
		}
		q.check(t, rows)
	}
}
