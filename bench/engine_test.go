package main

import (
	"testing"

	"sluice/dataflow"
	"sluice/dataflow/batch"
)

const testRows = 3*batch.TargetRows + 100

// TestLoopsAgree compares the hand-written loops of each job with each other and with the operator.
func TestLoopsAgree(t *testing.T) {
	rows := memoryRows(testRows)
	for i := range engineJobs {
		j := &engineJobs[i]
		var want digest
		if err := j.engine(rows, func(b *batch.Batch) { digestBatch(&want, b) }); err != nil {
			t.Errorf("%s: %v", j.name, err)
			continue
		}
		if want.rows == 0 {
			t.Errorf("%s gives no rows", j.name)
		}
		for _, l := range j.loops {
			var got digest
			l.run(rows, func(b *batch.Batch) { digestBatch(&got, b) })
			if got != want {
				t.Errorf("%s: %s gives %v, the operator %v", j.name, l.name, got, want)
			}
		}
	}
}

// TestWindowLoops compares the hand-written windows with the plainest way to find them, over rows that
// span several windows and are a little out of order.
func TestWindowLoops(t *testing.T) {
	rows := memoryRows(testRows)
	at := int64(0)
	for _, b := range rows {
		for i := range b.Cols[timeColumn].Ints {
			b.Cols[timeColumn].Ints[i] = startTime*1e6 + at*10e3 - at%3*1e6
			at++
		}
	}
	type windowKey struct{ start, key int64 }
	sums := map[windowKey]*group{}
	for _, b := range rows {
		for i := range b.Len {
			k := windowKey{b.Cols[timeColumn].Ints[i] / minute * minute, b.Cols[keyColumn].Ints[i]}
			if sums[k] == nil {
				sums[k] = &group{}
			}
			sums[k].count++
			sums[k].sum += b.Cols[valueColumn].Floats[i]
			sums[k].top = max(sums[k].top, b.Cols[valueColumn].Floats[i])
		}
	}
	var want digest
	for k, g := range sums {
		digestBatch(&want, &batch.Batch{Len: 1, Cols: []batch.Vector{
			{Type: dataflow.TimestampType, Ints: []int64{k.start}},
			{Type: dataflow.IntType, Ints: []int64{k.key}},
			{Type: dataflow.IntType, Ints: []int64{g.count}},
			{Type: dataflow.FloatType, Floats: []float64{g.sum}},
			{Type: dataflow.FloatType, Floats: []float64{g.top}},
		}})
	}
	for _, f := range []func([]*batch.Batch, func(*batch.Batch)){windowTable, windowMap} {
		var got digest
		f(rows, func(b *batch.Batch) { digestBatch(&got, b) })
		if got != want {
			t.Errorf("a loop gives %v, the windows are %v", got, want)
		}
	}
}

func TestDigestBatchIgnoresOrderAndSelection(t *testing.T) {
	b := memoryRows(4)[0]
	picked := *b
	picked.Sel = []int32{1, 3}
	turned := &batch.Batch{Len: 2, Cols: make([]batch.Vector, len(b.Cols))}
	for c := range b.Cols {
		turned.Cols[c].Gather(&b.Cols[c], []int32{3, 1})
	}
	var all, some, other digest
	digestBatch(&all, b)
	digestBatch(&some, &picked)
	digestBatch(&other, turned)
	if some != other || some.rows != 2 {
		t.Errorf("digests of the same rows are %v and %v", some, other)
	}
	if all == some {
		t.Error("different rows have the same digest")
	}
}
