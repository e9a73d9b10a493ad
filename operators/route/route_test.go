package route

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"sluice/dataflow"
	"sluice/dataflow/batch"
	"sluice/operators"
)

var schema = &dataflow.Schema{Columns: []dataflow.Column{
	{Name: "k", Type: dataflow.IntType, Nullable: true}, {Name: "id", Type: dataflow.IntType},
}}

// keep is an output that writes down the rows that it gets, as "key:id".
type keep struct{ rows []string }

func (k *keep) Emit(b *batch.Batch) error {
	sel := b.Sel
	if sel == nil {
		for i := range b.Len {
			sel = append(sel, int32(i))
		}
	}
	for _, i := range sel {
		key := "null"
		if !b.Cols[0].IsNull(int(i)) {
			key = fmt.Sprint(b.Cols[0].Ints[i])
		}
		k.rows = append(k.rows, fmt.Sprint(key, ":", b.Cols[1].Ints[i]))
	}
	return nil
}

// node makes a running operator with n outputs.
func node(t interface{ Fatal(...any) }, desc *dataflow.Descriptor, make func(*operators.Context) (operators.Operator, error), n int, params ...string) (operators.Operator, []*keep) {
	return nodeAt(t, new(int64), desc, make, n, params...)
}

// nodeAt is node, for an operator that asks for the epoch.
func nodeAt(t interface{ Fatal(...any) }, epoch *int64, desc *dataflow.Descriptor, make func(*operators.Context) (operators.Operator, error), n int, params ...string) (operators.Operator, []*keep) {
	op := &dataflow.Operator{Name: "x", Type: desc.Name, Desc: desc, Inputs: []dataflow.Input{{Stream: "rows", Schema: schema}}}
	for i := 0; i < len(params); i += 2 {
		op.Params = append(op.Params, dataflow.Param{Name: params[i], Value: params[i+1]})
	}
	ctx := &operators.Context{Op: op, Clock: new(int64), Epoch: epoch, Counters: &operators.Counters{}}
	var outs []*keep
	for range n {
		op.Outputs = append(op.Outputs, dataflow.Output{Schema: schema})
		k := &keep{}
		outs = append(outs, k)
		ctx.Outputs = append(ctx.Outputs, k)
	}
	o, err := make(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return o, outs
}

// drawBatch draws rows with rising ids, with or without a selection, and says which are selected.
func drawBatch(t *rapid.T, next *int64) (*batch.Batch, []string) {
	n := rapid.IntRange(0, 40).Draw(t, "rows")
	b := batch.New(schema)
	b.Len = n
	b.Cols[0].Reset(dataflow.IntType, n)
	b.Cols[1].Reset(dataflow.IntType, n)
	b.Cols[0].Valid = batch.GrowBitmap(nil, n)
	b.Cols[0].Valid.Fill(n, true)
	selecting := rapid.Bool().Draw(t, "selecting")
	nulls := rapid.Bool().Draw(t, "nulls")
	lowest := int64(-1)
	if !nulls {
		b.Cols[0].Valid = nil
		lowest = rapid.Int64Range(-1, 0).Draw(t, "lowest")
	}
	far := rapid.SampledFrom([]int64{0, 0, 1 << 16, -1 << 40}).Draw(t, "far") // some keys are this far from the small ones
	var want []string
	for i := range n {
		key := rapid.Int64Range(lowest, 20).Draw(t, "key")
		null := key == -1 && nulls
		if far != 0 && rapid.Bool().Draw(t, "is far") {
			key += far
		}
		b.Cols[0].Ints[i], b.Cols[1].Ints[i] = key, *next
		text := fmt.Sprint(key, ":", *next)
		if null {
			b.Cols[0].Valid.Clear(i)
			text = fmt.Sprint("null:", *next)
		}
		*next++
		if selecting {
			if rapid.Bool().Draw(t, "selected") {
				b.Sel = append(b.Sel, int32(i))
			} else {
				continue
			}
		}
		want = append(want, text)
	}
	if selecting && b.Sel == nil {
		b.Sel = []int32{}
	}
	return b, want
}

// TestKeysStayTogether: a splitter by key and partition filters over equal ranges send every row one
// way, all rows of a key the same way and in order, and both choose the same way.
func TestKeysStayTogether(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		k := rapid.IntRange(1, 5).Draw(t, "k")
		split, outs := node(t, Splitter, NewSplitter, k, "key", "rows.k")
		var filters []operators.Operator
		var filtered []*keep
		for i := range k {
			from, to := GroupRange(i, k)
			f, o := node(t, PartitionFilter, NewPartitionFilter, 1, "key", "k", "groups", fmt.Sprintf("%d-%d", from, to-1))
			filters, filtered = append(filters, f), append(filtered, o[0])
		}
		next := int64(0)
		want := map[string][]string{}
		for range rapid.IntRange(0, 5).Draw(t, "batches") {
			b, rows := drawBatch(t, &next)
			for _, r := range rows {
				key, _, _ := strings.Cut(r, ":")
				want[key] = append(want[key], r)
			}
			if err := split.Process(0, b); err != nil {
				t.Fatal(err)
			}
			for _, f := range filters {
				if err := f.Process(0, b); err != nil {
					t.Fatal(err)
				}
			}
		}
		seen := map[string]int{}
		for i, o := range outs {
			if !slices.Equal(o.rows, filtered[i].rows) {
				t.Fatalf("splitter sent %v to output %d, the filter kept %v", o.rows, i, filtered[i].rows)
			}
			byKey := map[string][]string{}
			for _, r := range o.rows {
				key, _, _ := strings.Cut(r, ":")
				byKey[key] = append(byKey[key], r)
			}
			for key, rows := range byKey {
				seen[key]++
				if seen[key] > 1 || !slices.Equal(rows, want[key]) {
					t.Fatalf("key %s: output %d has %v, want %v all in one output", key, i, rows, want[key])
				}
			}
		}
		if len(seen) != len(want) {
			t.Fatalf("keys %v came out of %v", seen, want)
		}
	})
}

// TestRoutesChange: a splitter whose routes are set anew sends rows where one would that had these from the start.
func TestRoutesChange(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		k := rapid.IntRange(2, 4).Draw(t, "k")
		split, outs := node(t, Splitter, NewSplitter, k, "key", "k")
		next := int64(0)
		for range rapid.IntRange(1, 4).Draw(t, "changes") {
			cut := rapid.IntRange(1, dataflow.KeyGroups-1).Draw(t, "cut")
			routes := fmt.Sprintf("0-%d=%d, %d-%d=%d", cut-1, rapid.IntRange(1, k).Draw(t, "a"), cut, dataflow.KeyGroups-1, rapid.IntRange(1, k).Draw(t, "b"))
			if err := split.(operators.Settable).Set("routes", routes); err != nil {
				t.Fatal(err)
			}
			fresh, want := node(t, Splitter, NewSplitter, k, "key", "k", "routes", routes)
			for i := range outs {
				outs[i].rows = nil
			}
			for range 2 {
				b, _ := drawBatch(t, &next)
				if err := errors.Join(split.Process(0, b), fresh.Process(0, b)); err != nil {
					t.Fatal(err)
				}
			}
			for i := range outs {
				if !slices.Equal(outs[i].rows, want[i].rows) {
					t.Fatalf("with routes %s output %d gets %v, want %v", routes, i, outs[i].rows, want[i].rows)
				}
			}
		}
	})
}

// TestSplitByEpoch: without a key each epoch goes to one output as a whole; they take turns, by the epoch's
// number alone, so that one that is made later goes on in the same way.
func TestSplitByEpoch(t *testing.T) {
	want := map[int64]int{1: 0, 2: 1, 3: 2, 4: 0, 8: 1, 9: 2, 1_000_000: 0}
	for epoch, output := range want {
		split, outs := nodeAt(t, &epoch, Splitter, NewSplitter, 3)
		b := batch.New(schema)
		b.Cols[0].Append(&batch.Vector{Type: dataflow.IntType, Len: 1, Ints: []int64{epoch}}, 0)
		b.Cols[1].Append(&batch.Vector{Type: dataflow.IntType, Len: 1, Ints: []int64{7}}, 0)
		b.Len = 1
		if err := split.Process(0, b); err != nil {
			t.Fatal(err)
		}
		for i, o := range outs {
			if (i == output) != (len(o.rows) == 1) {
				t.Errorf("epoch %d: output %d has %v", epoch, i, o.rows)
			}
		}
	}
}

func TestFailoverSendsToTheActive(t *testing.T) {
	f, outs := node(t, Failover, NewFailover, 3, "active", "2")
	b := batch.New(schema)
	b.Cols[0].AppendNull()
	b.Cols[1].Append(&batch.Vector{Type: dataflow.IntType, Len: 1, Ints: []int64{7}}, 0)
	b.Len = 1
	if err := f.Process(0, b); err != nil {
		t.Fatal(err)
	}
	for i, o := range outs {
		if want := map[int]int{1: 1}[i]; len(o.rows) != want {
			t.Errorf("output %d has %v", i, o.rows)
		}
	}
}

func TestParseGroups(t *testing.T) {
	for text, want := range map[string]string{"0-719": "0 720 <nil>", "5-5": "5 6 <nil>"} {
		from, to, err := parseGroups(text)
		if got := fmt.Sprint(from, " ", to, " ", err); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
	for _, text := range []string{"", "3", "7-6", "0-720", "-1-5", "a-b"} {
		if _, _, err := parseGroups(text); err == nil {
			t.Errorf("%q is accepted", text)
		}
	}
}

func TestParseRoutes(t *testing.T) {
	r, err := parseRoutes("100-719=1, 0-99=2", 2)
	if err != nil || r[0] != 1 || r[99] != 1 || r[100] != 0 || r[719] != 0 {
		t.Errorf("routes %v, error %v", r, err)
	}
	for text, want := range map[string]string{
		"0-719":            "must have the form",
		"0-719=3":          "must have the form",
		"0-99=1, 99-719=2": "key group 99 to two outputs",
		"0-99=1":           "key group 100 to no output",
	} {
		if _, err := parseRoutes(text, 2); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want %q", text, err, want)
		}
	}
}
