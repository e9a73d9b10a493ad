package executor

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"sluice/dataflow"
	"sluice/operators"
)

// raced is a record whose inputs race.
type raced struct{ record }

func (*raced) Race() {}

func raceTask(t interface{ Fatal(...any) }, inputs int) (*Task, *raced) {
	op := &dataflow.Operator{Name: "selector", Desc: testNode}
	for range inputs {
		from := &dataflow.Operator{Name: "elsewhere"}
		op.Inputs = append(op.Inputs, dataflow.Input{Stream: "s", From: from, Schema: idSchema})
	}
	r := &raced{}
	task, err := NewTask([]*dataflow.Operator{op}, nil, "", func(c *operators.Context) (operators.Operator, error) {
		r.ctx = c
		return r, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return task, r
}

// copyOf is one copy of a stream: its epochs, and how far it has been sent.
type copyOf struct {
	epochs     [][]int64
	epoch, row int
	stalled    bool
}

// send sends the next few rows, or the mark, of the copy.
func (c *copyOf) send(task *Task, inlet, most int, selection bool) error {
	rows := c.epochs[c.epoch]
	if c.row == len(rows) {
		c.epoch++
		c.row = 0
		return task.inletMark(inlet, operators.Mark{Epoch: int64(c.epoch), Watermark: int64(c.epoch), End: c.epoch == len(c.epochs)})
	}
	part := rows[c.row:min(len(rows), c.row+most)]
	c.row += len(part)
	if !selection {
		return task.inletRows(inlet, ids(slices.Clone(part)...), stamp{epoch: int64(c.epoch + 1)}, nil)
	}
	// The same rows with others between them that are not selected.
	var padded []int64
	var sel []int32
	for _, v := range part {
		padded = append(padded, -1, v)
		sel = append(sel, int32(len(padded)-1))
	}
	b := ids(padded...)
	b.Sel = sel
	return task.inletRows(inlet, b, stamp{epoch: int64(c.epoch + 1)}, nil)
}

// TestRace: whichever copy lags or stalls, in the middle of an epoch too, each row comes once and in
// order, and as soon as the first copy has brought it.
func TestRace(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var epochs [][]int64
		next := int64(0)
		for range rapid.IntRange(1, 5).Draw(t, "epochs") {
			var rows []int64
			for range rapid.IntRange(0, 6).Draw(t, "rows") {
				rows = append(rows, next)
				next++
			}
			epochs = append(epochs, rows)
		}
		n := rapid.IntRange(1, 3).Draw(t, "copies")
		copies := make([]*copyOf, n)
		for i := range copies {
			copies[i] = &copyOf{epochs: epochs}
		}
		// Any copy may stall for good, but one.
		alive := rapid.IntRange(0, n-1).Draw(t, "alive")
		task, r := raceTask(t, n)
		for {
			var can []int
			for i, c := range copies {
				if !c.stalled && c.epoch < len(epochs) {
					can = append(can, i)
				}
			}
			if len(can) == 0 {
				break
			}
			i := rapid.SampledFrom(can).Draw(t, "copy")
			if i != alive && rapid.IntRange(0, 9).Draw(t, "stall") == 0 {
				copies[i].stalled = true
				continue
			}
			if err := copies[i].send(task, i, rapid.IntRange(1, 4).Draw(t, "most"), rapid.Bool().Draw(t, "selection")); err != nil {
				t.Fatal(err)
			}
			checkProgress(t, r, copies)
		}
		for e, want := range epochs {
			if !slices.Equal(r.rows[e], want) {
				t.Fatalf("epoch %d: rows %v, want %v", e+1, r.rows[e], want)
			}
		}
		if last := r.marks[len(r.marks)-1]; len(r.marks) != len(epochs) || !last.End {
			t.Fatalf("marks %+v for %d epochs", r.marks, len(epochs))
		}
	})
}

// checkProgress: the output is as far as the copy that is farthest.
func checkProgress(t *rapid.T, r *raced, copies []*copyOf) {
	epoch, row := 0, 0
	for _, c := range copies {
		if c.epoch > epoch || c.epoch == epoch && c.row > row {
			epoch, row = c.epoch, c.row
		}
	}
	got := 0
	if len(r.rows) > len(r.marks) {
		got = len(r.rows[len(r.rows)-1])
	}
	if len(r.marks) != epoch || got != row {
		t.Fatalf("output is at epoch %d row %d, the first copy at epoch %d row %d", len(r.marks), got, epoch, row)
	}
}

// TestRaceCopiesDiffer: copies that are not copies end the query.
func TestRaceCopiesDiffer(t *testing.T) {
	for name, second := range map[string][][]int64{"fewer rows": {{1, 2}, {4}}, "more rows": {{1, 2, 3, 3}, {4}}} {
		task, _ := raceTask(t, 2)
		a, b := &copyOf{epochs: [][]int64{{1, 2, 3}, {4}}}, &copyOf{epochs: second}
		var err error
		for a.epoch < 2 && err == nil {
			err = a.send(task, 0, 10, false)
		}
		for b.epoch < 2 && err == nil {
			err = b.send(task, 1, 10, false)
		}
		if err == nil || !strings.Contains(err.Error(), "the copies differ") {
			t.Errorf("%s: error %v", name, err)
		}
	}
}
