package expr

import (
	"math/rand/v2"
	"testing"

	"github.com/zeebo/xxh3"

	"sluice/dataflow"
	"sluice/dataflow/batch"
)

// TestHashRows compares whole columns with the hash of the form that doc.go gives, row by row.
func TestHashRows(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, typ := range []dataflow.Type{
		dataflow.IntType, dataflow.TimestampType, dataflow.DurationType, dataflow.StringType, dataflow.BytesType, dataflow.FloatType, dataflow.BoolType,
	} {
		for _, nulls := range []bool{false, true} {
			keys := []*batch.Vector{randomKeys(r, typ, nulls)}
			checkHashRows(t, keys)
			checkHashRows(t, append(keys, randomKeys(r, dataflow.IntType, false)))
		}
	}
}

const hashedRows = 500

func randomKeys(r *rand.Rand, typ dataflow.Type, nulls bool) *batch.Vector {
	v := &batch.Vector{}
	v.Reset(typ, 0)
	for range hashedRows {
		one := &batch.Vector{Type: typ, Len: 1, Bits: batch.Bitmap{r.Uint64()}, Ints: []int64{int64(r.Uint64()) >> r.IntN(64)}, Floats: []float64{r.NormFloat64()}}
		one.Data = make([]byte, r.IntN(32))
		for i := range one.Data {
			one.Data[i] = byte(r.Uint32())
		}
		one.Offsets = []int32{0, int32(len(one.Data))}
		if nulls && r.IntN(3) == 0 {
			v.AppendNull()
			continue
		}
		v.Append(one, 0)
	}
	return v
}

func checkHashRows(t *testing.T, keys []*batch.Vector) {
	t.Helper()
	var h KeyHasher
	all, some := make([]int64, hashedRows), make([]int64, hashedRows)
	var sel []int32
	for i := range int32(hashedRows) {
		if i%3 > 0 {
			sel = append(sel, i)
		}
	}
	h.HashRows(keys, nil, all)
	h.HashRows(keys, sel, some)
	for i := range hashedRows {
		var form []byte
		for _, v := range keys {
			form = appendHashed(form, v, i)
		}
		want := int64(xxh3.Hash(form))
		if all[i] != want {
			t.Fatalf("type %s, row %d, % x: %016x, want %016x", keys[0].Type, i, form, uint64(all[i]), uint64(want))
		}
		if i%3 > 0 && some[i] != want {
			t.Fatalf("type %s, row %d of a selection, % x: %016x, want %016x", keys[0].Type, i, form, uint64(some[i]), uint64(want))
		}
	}
}
