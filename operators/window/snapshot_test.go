package window

import (
	"bytes"
	"cmp"
	"fmt"
	"math"
	"math/big"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"sluice/dataflow"
	"sluice/operators"
	"sluice/operators/expr"
)

// machine is an operator whose expressions have been evaluated, with the rows that it has given.
type machine struct {
	q   *query
	op  *aggregate
	out *collector
}

func (q *query) machine(t interface{ Fatal(...any) }) *machine {
	spec, err := Parse(q.text)
	if err != nil {
		t.Fatal(err)
	}
	out := &collector{keys: len(q.keys), calls: len(q.calls), timed: spec.Timed()}
	op := &aggregate{core: newCore(q.config(out, spec)), fingerprint: q.text, reached: noWatermark, time: -1}
	if spec.Timed() {
		op.time = 0
	}
	return &machine{q: q, op: op, out: out}
}

// run takes the operator through steps.
func (m *machine) run(t interface{ Fatal(...any) }, steps []step) {
	for _, s := range steps {
		m.op.loaded()
		var err error
		if s.advance {
			m.op.reached = max(m.op.reached, s.mark)
			err = m.op.core.advance(m.op.reached)
		} else {
			in := m.q.input(s, &m.op.seq)
			m.out.seqs = in.payload[0]
			err = m.op.core.add(in)
			mangle(in)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func (m *machine) end(t interface{ Fatal(...any) }) {
	m.op.loaded()
	if err := m.op.core.end(); err != nil {
		t.Fatal(err)
	}
}

// stored is a piece of state.
type storedPiece struct {
	group int
	data  []byte
}

// snapshot collects what write gives.
func snapshot(t interface{ Fatal(...any) }, write func(keep func(int, []byte) error) error) []storedPiece {
	var list []storedPiece
	err := write(func(group int, piece []byte) error {
		list = append(list, storedPiece{group, bytes.Clone(piece)})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func (m *machine) restore(t interface{ Fatal(...any) }, list []storedPiece) {
	for _, p := range list {
		piece := bytes.Clone(p.data)
		if err := m.op.Restore(p.group, piece); err != nil {
			t.Fatal(err)
		}
		for i := range piece {
			piece[i] = 0xAA
		}
	}
}

func equalPieces(a, b []storedPiece) bool {
	return slices.EqualFunc(a, b, func(x, y storedPiece) bool { return x.group == y.group && bytes.Equal(x.data, y.data) })
}

// exact writes everything of a result down, floats by their bits.
func exact(r modelResult) string {
	s := ""
	for _, o := range r.out {
		s += o.exact() + "\n"
	}
	return s + fmt.Sprintln("late", r.late, r.lost)
}

func (o *modelOut) exact() string {
	s := fmt.Sprintf("[%d, %d) %s @%d bad %t:", o.start, o.end, keyText(o.key), o.watermark, o.bad)
	for _, v := range o.values {
		if f, ok := v.(float64); ok && f == f {
			v = math.Float64bits(f)
		}
		s += fmt.Sprintf(" %v", v)
	}
	return s
}

func keyText(key []any) string { return fmt.Sprintf("%#v", key) }

// perKey is a result as far as it does not depend on the order between keys.
func perKey(results ...modelResult) string {
	keys := map[string][]string{}
	var names []string
	late, lost := int64(0), []int64{}
	for _, r := range results {
		late += r.late
		lost = append(lost, r.lost...)
		for _, o := range r.out {
			var key []any
			for _, v := range o.key {
				if b, ok := v.(*big.Int); ok {
					v = b.String()
				}
				key = append(key, v)
			}
			o.key = key
			k := keyText(key)
			if keys[k] == nil {
				names = append(names, k)
			}
			keys[k] = append(keys[k], o.exact())
		}
	}
	slices.Sort(names)
	slices.Sort(lost)
	s := ""
	for _, n := range names {
		s += fmt.Sprintln(n, keys[n])
	}
	return s + fmt.Sprintln("late", late, lost)
}

func joined(a, b modelResult) modelResult {
	return modelResult{out: slices.Concat(a.out, b.out), late: a.late + b.late, lost: slices.Concat(a.lost, b.lost)}
}

// drawRun draws a query, what happens to it, and where it is cut: at the end of an epoch, or before all.
func drawRun(t *rapid.T) (*query, []step, int) {
	q := drawQuery(t)
	rows, marks := q.drawRows(t)
	steps := q.drawSteps(t, rows, marks)
	cuts := []int{0}
	for i, s := range steps {
		if s.advance {
			cuts = append(cuts, i+1)
		}
	}
	return q, steps, rapid.SampledFrom(cuts).Draw(t, "cut")
}

// TestRestoreContinues: an operator that gets another's state continues as that one would have, which
// does not notice that its state was taken.
func TestRestoreContinues(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		q, steps, cut := drawRun(t)
		whole := q.machine(t)
		whole.run(t, steps)
		whole.end(t)

		old := q.machine(t)
		old.run(t, steps[:cut])
		pieces := snapshot(t, old.op.Snapshot)
		frozen, err := old.op.Freeze()
		if err != nil {
			t.Fatal(err)
		}
		before := old.out.result
		before.out, before.lost = slices.Clone(before.out), slices.Clone(before.lost)
		written := make(chan []storedPiece)
		go func() { written <- snapshot(t, frozen.Write) }()
		old.run(t, steps[cut:])
		old.end(t)
		later := <-written
		if got, want := exact(old.out.result), exact(whole.out.result); got != want {
			t.Fatalf("%s: after a snapshot\n%swant\n%s", q.text, got, want)
		}
		if !equalPieces(later, pieces) {
			t.Fatalf("%s: what was frozen differs from the snapshot", q.text)
		}

		next := q.machine(t)
		next.restore(t, pieces)
		if !equalPieces(snapshot(t, next.op.Snapshot), pieces) {
			t.Fatalf("%s: a snapshot of what was restored differs from what it was restored from", q.text)
		}
		next.run(t, steps[cut:])
		next.end(t)
		if got, want := exact(joined(before, next.out.result)), exact(whole.out.result); got != want {
			t.Fatalf("%s allowed-lateness %d, cut at %d of %d: restored\n%swant\n%s", q.text, q.model.lateness, cut, len(steps), got, want)
		}
	})
}

// part is the steps of partition i of k.
func (q *query) part(steps []step, i, k int) []step {
	from, to := i*dataflow.KeyGroups/k, (i+1)*dataflow.KeyGroups/k
	var list []step
	for _, s := range steps {
		if !s.advance {
			var rows []modelRow
			for _, r := range s.rows {
				if g := q.keyGroup(r); g >= from && g < to {
					rows = append(rows, r)
				}
			}
			if len(rows) == 0 {
				continue
			}
			s.rows = rows
		}
		list = append(list, s)
	}
	return list
}

func (q *query) keyGroup(r modelRow) int {
	s := step{rows: []modelRow{r}}
	var h expr.KeyHasher
	return expr.KeyGroup(h.Hash(q.input(s, new(int64)).keys, 0))
}

// ofPart lists the pieces that partition i of k gets.
func ofPart(pieces []storedPiece, i, k int) []storedPiece {
	from, to := i*dataflow.KeyGroups/k, (i+1)*dataflow.KeyGroups/k
	var list []storedPiece
	for _, p := range pieces {
		if p.group == operators.WholeState || p.group >= from && p.group < to {
			list = append(list, p)
		}
	}
	return list
}

// TestRestorePartitions: the state of some partitions can be given to another number of them. Each key
// then continues as it would have, and the new operators can be restored themselves. The order of
// pieces makes no difference.
func TestRestorePartitions(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		q, steps, cut := drawRun(t)
		if len(q.keys) == 0 {
			t.Skip("all rows are one group")
		}
		for i := range steps {
			// A row that stands for a batch in order does not stand for each part of the batch.
			steps[i].scalar = false
		}
		whole := q.machine(t)
		whole.run(t, steps)
		whole.end(t)

		from, to := rapid.IntRange(1, 3).Draw(t, "from"), rapid.IntRange(1, 3).Draw(t, "to")
		var results []modelResult
		var pieces []storedPiece
		for _, i := range rapid.Permutation([]int{0, 1, 2}[:from]).Draw(t, "order") {
			m := q.machine(t)
			m.run(t, q.part(steps[:cut], i, from))
			pieces = append(pieces, snapshot(t, m.op.Snapshot)...)
			results = append(results, m.out.result)
		}
		later := rapid.IntRange(cut, len(steps)).Draw(t, "later")
		for later > cut && !steps[later-1].advance {
			later--
		}
		for i := range to {
			m, again, other := q.machine(t), q.machine(t), q.machine(t)
			m.restore(t, ofPart(pieces, i, to))
			other.restore(t, rapid.Permutation(ofPart(pieces, i, to)).Draw(t, "pieces"))
			m.run(t, q.part(steps[cut:later], i, to))
			other.run(t, q.part(steps[cut:], i, to))
			other.end(t)
			again.restore(t, snapshot(t, m.op.Snapshot))
			at := m.out.result
			at.out, at.lost = slices.Clone(at.out), slices.Clone(at.lost)
			for _, x := range []*machine{m, again} {
				x.run(t, q.part(steps[later:], i, to))
				x.end(t)
			}
			if got, want := exact(joined(at, again.out.result)), exact(m.out.result); got != want {
				t.Fatalf("%s: restored again\n%swant\n%s", q.text, got, want)
			}
			if got, want := exact(other.out.result), exact(m.out.result); got != want {
				t.Fatalf("%s: with pieces in another order\n%swant\n%s", q.text, got, want)
			}
			results = append(results, m.out.result)
		}
		if got, want := perKey(results...), perKey(whole.out.result); got != want {
			t.Fatalf("%s allowed-lateness %d, %d to %d partitions at %d of %d: got\n%swant\n%s", q.text, q.model.lateness, from, to, cut, len(steps), got, want)
		}
	})
}

// TestOrderBetweenPartitions joins partitions whose rows have the same places in their streams: the key
// group decides.
func TestOrderBetweenPartitions(t *testing.T) {
	for _, c := range []struct {
		query     *query
		watermark int64
	}{
		{countQuery("", modelQuery{}), 0},
		{countQuery("rows(3)", modelQuery{}), 0},
		{countQuery("tumbling(5us)", modelQuery{}), -100},
		{countQuery("session(5us)", modelQuery{}), -100},
		// The rows wait, and are taken one by one.
		{countQuery("tumbling(5us)", modelQuery{lateness: 10}), 6},
		{countQuery("session(5us)", modelQuery{lateness: 10}), 6},
	} {
		q := c.query
		type place struct{ seq, group, key int }
		var want []place
		var pieces []storedPiece
		for _, part := range []int{2, 0, 1} {
			var rows []modelRow
			for key := 0; len(rows) < 20; key++ {
				r := plainRow(0, c.watermark, int64(key))
				if g := q.keyGroup(r); g*3/dataflow.KeyGroups == part {
					want = append(want, place{len(rows), g, key})
					rows = append(rows, r)
				}
			}
			m := q.machine(t)
			m.run(t, []step{{rows: rows}})
			pieces = append(pieces, snapshot(t, m.op.Snapshot)...)
		}
		slices.SortFunc(want, func(a, b place) int { return cmp.Or(a.seq-b.seq, a.group-b.group) })
		m := q.machine(t)
		m.restore(t, pieces)
		m.end(t)
		if len(m.out.result.out) != len(want) {
			t.Fatalf("%s: %d rows, want %d", q.text, len(m.out.result.out), len(want))
		}
		for i, o := range m.out.result.out {
			if o.key[0] != int64(want[i].key) {
				t.Fatalf("%s: row %d is of key %v, want %d", q.text, i, o.key[0], want[i].key)
			}
		}
	}
}
