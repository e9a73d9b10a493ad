package window

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"sluice/dataflow"
	"sluice/dataflow/batch"
)

// TestIndexAgainstMap puts and removes ids whose tags collide.
func TestIndexAgainstMap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var x index
		known := map[int32]uint32{}
		for id := range rapid.Int32Range(0, 60).Draw(t, "steps") {
			if len(known) > 0 && rapid.IntRange(0, 2).Draw(t, "remove") == 0 {
				victims := make([]int32, 0, len(known))
				for id := range known {
					victims = append(victims, id)
				}
				slices.Sort(victims)
				v := rapid.SampledFrom(victims).Draw(t, "victim")
				x.remove(known[v], v)
				delete(known, v)
			}
			tag := rapid.Uint32Range(0, 20).Draw(t, "tag") | 1<<31
			x.put(tag, id)
			known[id] = tag
			if x.n != len(known) {
				t.Fatalf("%d entries, want %d", x.n, len(known))
			}
			for id, tag := range known {
				if !indexHas(&x, tag, id) {
					t.Fatalf("id %d with tag %d is lost", id, tag)
				}
			}
		}
	})
}

func indexHas(x *index, tag uint32, id int32) bool {
	mask := uint32(len(x.entries) - 1)
	for p := tag & mask; x.entries[p] != 0; p = (p + 1) & mask {
		if x.entries[p] == uint64(tag)<<32|uint64(uint32(id)) {
			return true
		}
	}
	return false
}

func TestIdsAreUsedAgain(t *testing.T) {
	var a ids
	for range 10 {
		a.take()
	}
	a.give([]int32{3, 5, 7})
	got := []int32{a.take(), a.take(), a.take(), a.take()}
	if want := []int32{3, 5, 7, 10}; !slices.Equal(got, want) {
		t.Errorf("took %v, want %v", got, want)
	}
}

// TestTextAgainstMap replaces, moves and releases texts long enough for the buffer to be compacted.
func TestTextAgainstMap(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	var x text
	x.grow(50)
	want := map[int32]string{}
	compacted := false
	for step := range 4000 {
		id := rng.Int32N(50)
		switch rng.IntN(5) {
		case 0:
			x.release([]int32{id})
			delete(want, id)
		case 1:
			from := rng.Int32N(50)
			x.set(id, x.get(from))
			want[id] = want[from]
		default:
			s := fmt.Sprintf("%d %0*d", step, rng.IntN(3000), step)
			before := len(x.data)
			x.set(id, []byte(s))
			compacted = compacted || len(x.data) < before
			want[id] = s
		}
		for id := range int32(50) {
			if string(x.get(id)) != want[id] {
				t.Fatalf("step %d: text %d is %.20q, want %.20q", step, id, x.get(id), want[id])
			}
		}
		if len(x.data) > 2*x.live+wasteAllowed+50 {
			t.Fatalf("step %d: %d bytes for %d", step, len(x.data), x.live)
		}
	}
	if !compacted {
		t.Error("the buffer was never compacted")
	}
}

// TestScheduleAgainstSort takes numbers out in order of time.
func TestScheduleAgainstSort(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var s schedule
		want := map[int32]int64{}
		for range rapid.IntRange(0, 60).Draw(t, "steps") {
			id := rapid.Int32Range(0, 15).Draw(t, "id")
			if rapid.IntRange(0, 4).Draw(t, "remove") == 0 {
				s.remove(id)
				delete(want, id)
				continue
			}
			at := rapid.Int64Range(-5, 20).Draw(t, "time")
			s.set(id, at)
			if old, ok := want[id]; !ok || at < old {
				want[id] = at
			}
		}
		for len(want) > 0 {
			now, ok := s.earliest()
			if !ok {
				t.Fatalf("%v is missing", want)
			}
			id, ok := s.popAt(now)
			if !ok || want[id] != now {
				t.Fatalf("number %d comes at %d, want %d", id, now, want[id])
			}
			for _, at := range want {
				if at < now {
					t.Fatalf("something was due at %d, before %d", at, now)
				}
			}
			delete(want, id)
		}
		if _, ok := s.earliest(); ok {
			t.Fatal("something is left")
		}
	})
}

// TestDistinctAgainstSet has enough values for the table to be compacted.
func TestDistinctAgainstSet(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	slots := ids{n: 20}
	a := newAccumulators([]call{{fn: count, arg: dataflow.IntType, result: dataflow.IntType, distinct: true}}, &slots, false)
	d := a.list[0].(*distinct)
	want := make([]map[int64]bool, 20)
	for step := range 300 {
		vals, where := make([]any, 100), make([]int32, 100)
		for i := range vals {
			v, s := rng.Int64N(40), rng.Int32N(20)
			vals[i], where[i] = v, s
			if want[s] == nil {
				want[s] = map[int64]bool{}
			}
			want[s][v] = true
		}
		a.add(&input{n: 100, args: []*batch.Vector{vectorOf(dataflow.IntType, vals)}, masks: make([]batch.Bitmap, 1)}, nil, where)
		if step%3 == 0 {
			gone := []int32{rng.Int32N(10), 10 + rng.Int32N(10)}
			a.reset(gone)
			want[gone[0]], want[gone[1]] = nil, nil
		}
		if step%7 == 0 {
			dst, src := rng.Int32N(10), 10+rng.Int32N(10)
			a.merge([]int32{dst}, []int32{src})
			for v := range want[src] {
				if want[dst] == nil {
					want[dst] = map[int64]bool{}
				}
				want[dst][v] = true
			}
		}
		var out batch.Vector
		all := []int32{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19}
		d.result(all, &out, &faults{})
		for s := range all {
			if out.Ints[s] != int64(len(want[s])) {
				t.Fatalf("step %d: slot %d has %d values, want %d", step, s, out.Ints[s], len(want[s]))
			}
		}
	}
	if len(d.slot) > 20*40+2048+1 {
		t.Errorf("%d entries are kept for at most %d values", len(d.slot), 20*40)
	}
}

// TestManyGroups goes through keys of every type, in enough groups for tables to grow and be used again.
func TestManyGroups(t *testing.T) {
	types := []dataflow.Type{dataflow.IntType, dataflow.StringType, dataflow.FloatType, dataflow.DecimalType(20, 3)}
	for _, typ := range types {
		rng := rand.New(rand.NewPCG(7, 8))
		q := &query{text: "tumbling(1000us)", keys: []dataflow.Type{typ}, calls: []call{{fn: countStar, result: dataflow.IntType, text: "n"}, {fn: minimum, arg: dataflow.StringType, result: dataflow.StringType, text: "m"}}}
		q.model = modelQuery{kind: "tumbling", size: 1000, hop: 1000, keyed: true, calls: []modelCall{{fn: "count(*)"}, {fn: "min"}}}
		var rows []modelRow
		var steps []step
		for i := range int64(9000) {
			n := rng.Int64N(900)
			r := modelRow{seq: i, time: i/2 + rng.Int64N(30), watermark: i/2 - 1, args: []any{nil, fmt.Sprint("text ", rng.IntN(1000))}, pass: []bool{true, true}}
			r.key = []any{map[dataflow.Kind]any{dataflow.Int: n, dataflow.String: fmt.Sprint("key ", n), dataflow.Float: float64(n) / 8}[typ.Kind]}
			if typ.Kind == dataflow.Decimal {
				r.key = []any{bigOf(numOf(bigSum([]any{n})))}
			}
			if n == 0 {
				r.key = []any{nil}
			}
			rows = append(rows, r)
			if i%1500 == 1499 {
				steps = append(steps, step{rows: rows[i-1499:]}, step{advance: true, mark: i / 2})
			}
		}
		got, err := q.run(steps)
		if err != nil {
			t.Fatal(err)
		}
		if d := difference(got, q.model.run(rows)); d != "" {
			t.Errorf("%s: %s", typ, d)
		}
	}
}
