package window

import (
	"testing"

	"pgregory.net/rapid"

	"sluice/dataflow/batch"
)

// TestSelections: the selected rows of batches give what the same rows give in batches of their own, whatever lies
// between them, with and without bounds, NULLs, late and bad rows.
func TestSelections(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		params := []string{"group-by: v % 3", "on-error: skip", "select: v % 3 AS k, count(*) AS n, sum(v) AS s, count(*) FILTER (WHERE v > 2) AS f, max(10 / (v - 4)) AS m"}
		if w := rapid.SampledFrom([]string{"", "tumbling(10s)", "hopping(10s, 4s)"}).Draw(t, "window"); w != "" {
			params = append(params, "window: "+w)
			if rapid.Bool().Draw(t, "lateness") {
				params = append(params, "allowed-lateness: 5s")
			}
		}
		plain, selected := newRig(t, nil, params...), newRig(t, nil, params...)
		if selected.op.(*aggregate).dense.cols == nil {
			t.Fatal("the operator takes rows as they are")
		}
		watermark := int64(-100)
		for range rapid.IntRange(1, 6).Draw(t, "epochs") {
			for range rapid.IntRange(0, 3).Draw(t, "batches") {
				all, own, sel := drawSelection(t, &watermark)
				plain.rows(own...)
				b := eventBatch(all)
				b.Sel = sel
				if rapid.Bool().Draw(t, "bounded") && b.Len > 0 {
					b.SetBounds(0, boundsOf(b))
				}
				if err := selected.op.Process(0, b); err != nil {
					t.Fatal(err)
				}
			}
			plain.mark(watermark)
			selected.mark(watermark)
		}
		plain.end()
		selected.end()
		if want, got := plain.take(""), selected.take(""); got != want {
			t.Fatalf("the selections give\n%s\nthe rows alone\n%s", got, want)
		}
		if want, got := plain.ctx.Counters, selected.ctx.Counters; got.Late.Load() != want.Late.Load() || got.Skipped.Load() != want.Skipped.Load() {
			t.Fatalf("%d late rows and %d bad ones, want %d and %d", got.Late.Load(), got.Skipped.Load(), want.Late.Load(), want.Skipped.Load())
		}
	})
}

// drawSelection draws the rows of a batch: all of them, and those that are selected.
func drawSelection(t *rapid.T, watermark *int64) (all, own []event, sel []int32) {
	sel = []int32{}
	nulls := rapid.IntRange(0, 3).Draw(t, "nulls") == 0
	bad := rapid.IntRange(0, 3).Draw(t, "bad") == 0
	for i := range rapid.IntRange(0, 12).Draw(t, "rows") {
		e := event{time: rapid.Int64Range(-5, 40).Draw(t, "time"), watermark: *watermark, value: rapid.SampledFrom([]int64{0, 1, 2, 3, 5, 6}).Draw(t, "v")}
		switch {
		case nulls && rapid.Bool().Draw(t, "null"):
			e.value = nil
		case bad && rapid.Bool().Draw(t, "zero"):
			e.value = int64(4) // 10 / (v - 4) cannot be computed
		}
		if rapid.IntRange(0, 3).Draw(t, "on") == 0 {
			*watermark = max(*watermark, e.time-3)
		}
		all = append(all, e)
		if rapid.IntRange(0, 2).Draw(t, "selected") > 0 {
			own, sel = append(own, e), append(sel, int32(i))
		}
	}
	return all, own, sel
}

func boundsOf(b *batch.Batch) batch.Bounds {
	times := b.Cols[0].Ints
	to := batch.Bounds{Low: times[0], High: times[0], Watermark: batch.MinWatermark}
	for i, x := range times {
		to.Low, to.High, to.Watermark = min(to.Low, x), max(to.High, x), max(to.Watermark, b.RowWatermarks[i])
	}
	return to
}
