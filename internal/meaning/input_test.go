package meaning

import (
	"fmt"
	"math"
	"strings"

	"sluice/dataflow"
	"sluice/dataflow/batch"
	"sluice/dataflow/decimal"
)

// drawRows draws the rows of a reader of type T: a few keys, NULLs, times that are out of order here and
// there, a few extreme numbers.
func drawRows(d *drawer, op *dataflow.Operator) *input {
	in := &input{rows: batch.New(op.Outputs[0].Schema)}
	b := in.rows
	now := int64(978307200) * 1e6 // 2001-01-01T00:00:00Z
	null := func() bool { return d.chance(8, "NULL") }
	n := d.int(0, 40, "rows")
	ordered := d.chance(3, "in order")
	fewNulls := d.chance(3, "no NULLs")
	for range n {
		now += int64(d.int(0, 3, "step")) * 1_000_000
		at := now
		if !ordered && d.chance(3, "out of order") {
			at -= int64(d.int(0, 25, "back")) * 1_000_000
		}
		for i := range b.Cols {
			v := &b.Cols[i]
			if i > 0 && !fewNulls && null() {
				v.AppendNull()
				continue
			}
			switch b.Schema.Columns[i].Name {
			case "ts":
				appendInt(v, at)
			case "k":
				v.AppendBytes([]byte(draw(d, "k", "a", "b", "c", "")))
			case "j":
				appendInt(v, int64(d.int(0, 4, "j")))
			case "v":
				appendInt(v, drawInt(d))
			case "f":
				f := draw(d, "f", 0, math.Copysign(0, -1), 0.5, 1, -1.5, 0.25, 8)
				v.Append(&batch.Vector{Type: dataflow.FloatType, Len: 1, Floats: []float64{f}}, 0)
			case "m":
				m := decimal.FromInt64(int64(draw(d, "m", 0, 1, -1, 150, 250, 99999)))
				v.Append(&batch.Vector{Type: v.Type, Len: 1, Decimals: []decimal.Num{m}}, 0)
			case "b":
				v.Append(&batch.Vector{Type: dataflow.BoolType, Len: 1, Bits: batch.Bitmap{uint64(d.int(0, 1, "b"))}}, 0)
			}
		}
		b.Len++
	}
	if op.OutputPort("errors") >= 0 {
		for range n {
			in.bad = append(in.bad, d.chance(6, "bad"))
		}
	}
	return in
}

func drawInt(d *drawer) int64 {
	if d.chance(30, "extreme") {
		return draw[int64](d, "extreme int", math.MaxInt64, math.MinInt64, 1<<62, -1<<62)
	}
	return int64(d.int(-3, 6, "v"))
}

func appendInt(v *batch.Vector, x int64) {
	v.Append(&batch.Vector{Type: v.Type, Len: 1, Ints: []int64{x}}, 0)
}

// String gives the rows as a CSV file, for a reader to read.
func (in *input) String() string {
	var t table
	t.take(in.rows)
	var w strings.Builder
	w.WriteString("ts,k,j,v,f,m,b\n")
	for i, r := range t.rows {
		var fields []string
		for _, c := range r {
			text := strings.TrimSuffix(strings.TrimPrefix(c.String(), "{x: "), "}")
			if text == "NULL" {
				text = ""
			}
			fields = append(fields, text)
		}
		w.WriteString(strings.Join(fields, ","))
		if in.bad != nil && in.bad[i] {
			w.WriteString(" <- is bad")
		}
		w.WriteString("\n")
	}
	return w.String()
}

func drawCuts(d *drawer, epoch bool) cuts {
	c := cuts{}
	for range d.int(1, 4, "batches") {
		c.batches = append(c.batches, draw(d, "batch", 1, 2, 3, 7, 100))
	}
	if epoch {
		c.epoch = draw(d, "epoch", 1, 2, 3, 4, 7, 11, 1000)
	}
	return c
}

var wholeInput = cuts{batches: []int{1000}}

func describeCuts(c cuts) string {
	if c.epoch == 0 {
		return fmt.Sprint("batches of ", c.batches)
	}
	return fmt.Sprint("epochs of ", c.epoch, ", batches of ", c.batches)
}
