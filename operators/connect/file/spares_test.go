package file

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"sluice/dataflow"
	"sluice/dataflow/batch"
	"sluice/operators"
)

// TestGivenAway: batches that a source has given away stay as they are until they are given back, whatever is
// decoded meanwhile and whenever that is; those that are taken back are used again.
func TestGivenAway(t *testing.T) {
	schema := &dataflow.Schema{Columns: []dataflow.Column{
		{Name: "n", Type: dataflow.IntType}, {Name: "text", Type: dataflow.StringType, Nullable: true}, {Name: "f", Type: dataflow.FloatType, Nullable: true},
	}}
	var text strings.Builder
	var want []string
	const rows = 20_000
	for i := range rows {
		switch {
		case i%97 == 3:
			fmt.Fprintf(&text, "%d,x,bad\n", i)
		case i%5 == 0:
			fmt.Fprintf(&text, "%d,,\n", i)
			want = append(want, fmt.Sprintf("{n: %d, text: NULL, f: NULL}", i))
		default:
			fmt.Fprintf(&text, "%d,t%d,%d.5\n", i, i*7, i)
			want = append(want, fmt.Sprintf(`{n: %d, text: "t%d", f: %d.5}`, i, i*7, i))
		}
	}
	r := rand.New(rand.NewPCG(1, 1))
	for _, most := range []int{1 << 20, 700} {
		got, whole, parts := give(t, schema, text.String(), most, r)
		if !slices.Equal(got, want) {
			t.Errorf("up to %d rows at a time: the rows differ from those of the input", most)
		}
		if whole == 0 || most == 700 && parts == 0 {
			t.Errorf("up to %d rows at a time: %d batches given away, %d not", most, whole, parts)
		}
	}
}

// give reads text and holds some of the batches that are given away for a while.
func give(t *testing.T, schema *dataflow.Schema, text string, most int, r *rand.Rand) (got []string, whole, parts int) {
	format, err := newCSVFormat(DecodeOptions{Schema: schema})
	if err != nil {
		t.Fatal(err)
	}
	s := sourceOver(nil, "skip")
	s.dec = newTextDecoder(strings.NewReader(text), format, DecodeOptions{Schema: schema, Workers: 2}, textSizes{block: 4 << 10, row: 1 << 16, raw: 1 << 10})
	type lent struct {
		b       *batch.Batch
		at      int
		release func(*batch.Batch)
	}
	var held []lent
	rows := map[int][]string{}
	settle := func(k int) {
		l := held[k]
		held = slices.Delete(held, k, k+1)
		rows[l.at] = rowTexts(l.b)
		for c := range l.b.Cols { // who gives it back has no say in it any more
			clear(l.b.Cols[c].Ints)
			clear(l.b.Cols[c].Data)
		}
		l.release(l.b)
	}
	calls := 0
	for ; ; calls++ {
		at := calls
		next, err := s.Next(context.Background(), 1+r.IntN(most))
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		switch {
		case next.Batch == nil:
		case next.Release == nil:
			parts++
			rows[at] = rowTexts(next.Batch)
		default:
			whole++
			held = append(held, lent{next.Batch, at, next.Release})
		}
		for len(held) > 0 && r.IntN(2) == 0 {
			settle(r.IntN(len(held)))
		}
	}
	for len(held) > 0 {
		settle(0)
	}
	if len(s.spare.free) == 0 {
		t.Error("no batch came back")
	}
	for at := range calls {
		got = append(got, rows[at]...)
	}
	return got, whole, parts
}

func rowTexts(b *batch.Batch) []string {
	var rows []string
	for i := range b.Len {
		rows = append(rows, string(operators.AppendRow(nil, b, i)))
	}
	return rows
}
