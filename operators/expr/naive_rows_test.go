package expr_test

import (
	"math"
	"math/big"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"sluice/dataflow"
	"sluice/dataflow/batch"
	"sluice/dataflow/decimal"
	"sluice/internal/naive"
)

// table is a random stream: its columns and rows, as the naive evaluator and as the engine see them.
type table struct {
	types  []naive.Type
	names  []string
	schema *dataflow.Schema
	rows   [][]naive.Value
	// hidden is what stands in the place of each NULL, where nobody may look at it.
	hidden [][]naive.Value
	batch  *batch.Batch
}

// columnTypes are the types of a random table, two columns of most kinds.
func columnTypes(t *rapid.T) []naive.Type {
	types := []naive.Type{
		naive.BoolType, naive.IntType, naive.IntType, naive.FloatType, naive.FloatType, naive.StringType,
		naive.StringType, naive.BytesType, naive.TimestampType, naive.TimestampType, naive.DurationType,
	}
	for range 2 {
		types = append(types, decimalType(t))
	}
	return types
}

func decimalType(t *rapid.T) naive.Type {
	p := rapid.SampledFrom([]int{1, 2, 4, 9, 18, 19, 20, 37, 38, 38, 38}).Draw(t, "precision")
	s := rapid.SampledFrom([]int{0, 0, 1, 2, 6, 9, 18, 38}).Draw(t, "scale")
	return naive.DecimalType(p, min(p, s))
}

var columnNames = []string{"flag", "a", "b", "x", "y", "s", "t", "raw", "ts", "since", "d", "price", "rate"}

// newTable draws a table. Each column repeats a few values, with its own period, so that many rows cost
// few draws.
func newTable(t *rapid.T) *table {
	tab := &table{types: columnTypes(t), names: columnNames, schema: &dataflow.Schema{}}
	n := rapid.SampledFrom([]int{8, 12, 1, 2, 3, 8, 12, 20, 63, 64, 65, 130}).Draw(t, "rows")
	tab.rows, tab.hidden = make([][]naive.Value, n), make([][]naive.Value, n)
	for c, typ := range tab.types {
		nullable := rapid.IntRange(0, 3).Draw(t, "nullable") > 0
		tab.schema.Columns = append(tab.schema.Columns, dataflow.Column{Name: tab.names[c], Type: engineType(typ), Nullable: nullable})
		pool := make([]naive.Value, rapid.IntRange(1, min(n, 7)).Draw(t, "distinct"))
		for i := range pool {
			if nullable && rapid.IntRange(0, 3).Draw(t, "null") == 0 {
				pool[i] = naive.Value{Null: true}
			} else {
				pool[i] = randomValue(t, typ)
			}
		}
		hidden := randomValue(t, typ)
		for i := range tab.rows {
			tab.rows[i] = append(tab.rows[i], pool[i%len(pool)])
			tab.hidden[i] = append(tab.hidden[i], hidden)
		}
	}
	tab.batch = tab.slice(0, n)
	return tab
}

// slice is a batch of rows from to to.
func (tab *table) slice(from, to int) *batch.Batch {
	b := batch.New(tab.schema)
	for i := from; i < to; i++ {
		for c, v := range tab.rows[i] {
			if v.Null {
				v = tab.hidden[i][c]
			}
			appendValue(&b.Cols[c], v, tab.rows[i][c].Null)
		}
	}
	b.Len = to - from
	return b
}

func appendValue(v *batch.Vector, x naive.Value, null bool) {
	one := batch.Vector{Type: v.Type, Len: 1}
	if null {
		one.Valid = batch.Bitmap{0}
	}
	switch v.Type.Kind {
	case dataflow.Bool:
		one.Bits = batch.Bitmap{0}
		one.Bits.SetTo(0, x.Bool)
	case dataflow.Float:
		one.Floats = []float64{x.Float}
	case dataflow.Decimal:
		one.Decimals = []decimal.Num{engineDecimal(x.Dec)}
	case dataflow.String, dataflow.Bytes:
		one.Offsets, one.Data = []int32{0, int32(len(x.Text))}, []byte(x.Text)
	default:
		one.Ints = []int64{x.Int}
	}
	v.Append(&one, 0)
}

// engineDecimal writes a number as two's complement in 128 bits.
func engineDecimal(v *big.Int) decimal.Num {
	mod := new(big.Int).Mod(v, new(big.Int).Lsh(big.NewInt(1), 128))
	lo := new(big.Int).And(mod, new(big.Int).SetUint64(math.MaxUint64))
	return decimal.Num{Lo: lo.Uint64(), Hi: int64(new(big.Int).Rsh(mod, 64).Uint64())}
}

func naiveDecimal(n decimal.Num) *big.Int {
	v := new(big.Int).Lsh(big.NewInt(n.Hi), 64)
	return v.Add(v, new(big.Int).SetUint64(n.Lo))
}

var engineKinds = []dataflow.Kind{dataflow.Bool, dataflow.Int, dataflow.Float, dataflow.Decimal, dataflow.String,
	dataflow.Bytes, dataflow.Timestamp, dataflow.Duration, dataflow.Null}

func engineType(t naive.Type) dataflow.Type {
	return dataflow.Type{Kind: engineKinds[t.Kind], Precision: uint8(t.Precision), Scale: uint8(t.Scale)}
}

// valueAt reads row i of a result.
func valueAt(v *batch.Vector, i int) naive.Value {
	if v.IsNull(i) {
		return naive.Value{Null: true}
	}
	switch v.Type.Kind {
	case dataflow.Bool:
		return naive.Value{Bool: v.Bits.Get(i)}
	case dataflow.Float:
		return naive.Value{Float: v.Floats[i]}
	case dataflow.Decimal:
		return naive.Value{Dec: naiveDecimal(v.Decimals[i])}
	case dataflow.String, dataflow.Bytes:
		return naive.Value{Text: string(v.Bytes(i))}
	case dataflow.Null:
		return naive.Value{Null: true}
	}
	return naive.Value{Int: v.Ints[i]}
}

// same compares two values of type t; floats to 1e-9.
func same(a, b naive.Value, t naive.Type) bool {
	if a.Null || b.Null {
		return a.Null == b.Null
	}
	switch t.Kind {
	case naive.Bool:
		return a.Bool == b.Bool
	case naive.Float:
		return a.Float == b.Float || math.Abs(a.Float-b.Float) <= 1e-9*max(math.Abs(a.Float), math.Abs(b.Float))
	case naive.Decimal:
		return a.Dec.Cmp(b.Dec) == 0
	case naive.String, naive.Bytes:
		return a.Text == b.Text
	}
	return a.Int == b.Int
}

var edgeInts = []int64{0, 1, -1, 2, -2, 3, 5, 7, 10, -10, 100, 1000, math.MaxInt64, math.MinInt64, math.MaxInt64 - 1, math.MinInt64 + 1,
	1 << 53, 1<<53 + 1, 1 << 31, -(1 << 31), 1 << 32, 3037000500, -3037000500, 4611686018427387904}

var edgeFloats = []float64{0, 1, -1, 0.5, -0.5, 1.5, 2.5, -2.5, 0.1, 1e-7, 9.99e-8, 1e21, 1e20, 1e15, 123456.789, 2, 3, -7.25,
	math.MaxFloat64, -math.MaxFloat64, math.SmallestNonzeroFloat64, 9007199254740993, 9223372036854775807, -9223372036854775808, 1e300, 0.15, 2.675, 709.9}

var edgeTexts = []string{"", "a", "A", "ab", "abcabc", " a b ", "  ", "%", "_", `\`, `a\%b`, "é", "École", "日本語", "😀x😀", "ß", "İ", "aé日😀",
	"12", "-7", "+5", " 5", "1.50", "-0.005", "1e3", "9223372036854775807", "9223372036854775808", "1e400", "99999999999999999999999999999999999999",
	"true", "F", "TRUE", "yes", "2001-01-01", "2001-01-01T06:55:00Z", "1969-12-31 23:59", "2000-02-29 12:30:45.123456", "2001-02-29", "0001-01-01",
	"9999-12-31T23:59:59.999999Z", "2001-01-01T00:00:00+01:30", "1000000000000", "1h2m3.5s", "-90s", "2d", "250ms", "5x", "aGk=", "a,b,,c", ",", "a.c", "^a", "[", "b$", "(a|b)+",
	strings.Repeat("abc", 100), strings.Repeat("日", 40), "x\x00y", "a\nb"}

var edgeTimes = []int64{0, -1, 1, 1_000_000, -1_000_000, 978332100000000, 951782400000000 /* 2000-02-29 */, 951868799999999, -86400000000, -86400000001,
	-62135596800000000 /* year 1 */, 253402300799999999 /* year 9999 */, -2203891200000000 /* 1900-02-29 that was not */, 1709164800123456, 4107542399999999, -62162208000000001,
	math.MaxInt64, math.MinInt64, 1230768000000000 /* Thursday, week 1 */, 1293839999999999}

var edgeDurations = []int64{0, 1, -1, 1_000_000, 90_000_000, -90_000_000, 86_400_000_000, 3_723_500_000, 250_000, math.MaxInt64, math.MinInt64, 60_000_000}

// randomValue draws a value of type typ, which is not NULL.
func randomValue(t *rapid.T, typ naive.Type) naive.Value {
	edge := rapid.IntRange(0, 2).Draw(t, "edge") > 0
	switch typ.Kind {
	case naive.Bool:
		return naive.Value{Bool: rapid.Bool().Draw(t, "bool")}
	case naive.Int:
		return naive.Value{Int: edgeOr(t, edge, edgeInts, rapid.Int64())}
	case naive.Float:
		return naive.Value{Float: edgeOr(t, edge, edgeFloats, rapid.Float64Range(-1e6, 1e6)) + 0}
	case naive.Decimal:
		return naive.Value{Dec: randomDecimal(t, typ)}
	case naive.Timestamp:
		return naive.Value{Int: edgeOr(t, edge, edgeTimes, rapid.Int64Range(-4e15, 8e15))}
	case naive.Duration:
		return naive.Value{Int: edgeOr(t, edge, edgeDurations, rapid.Int64Range(-1e12, 1e12))}
	case naive.Bytes:
		return naive.Value{Text: edgeOr(t, edge, []string{"", "a", "hi", "\x00\xff", "ab"}, rapid.StringN(0, 5, 10))}
	}
	return naive.Value{Text: edgeOr(t, edge, edgeTexts, rapid.StringOfN(rapid.SampledFrom([]rune("abB%_\\ é日😀")), 0, 8, -1))}
}

func edgeOr[T any](t *rapid.T, edge bool, edges []T, gen *rapid.Generator[T]) T {
	if edge {
		return rapid.SampledFrom(edges).Draw(t, "value")
	}
	return gen.Draw(t, "value")
}

// randomDecimal draws a number of at most typ.Precision digits; small ones, whole ones and the largest
// are likely.
func randomDecimal(t *rapid.T, typ naive.Type) *big.Int {
	ten := func(n int) *big.Int { return new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(n)), nil) }
	v := big.NewInt(rapid.Int64Range(-120, 120).Draw(t, "digits"))
	switch rapid.IntRange(0, 4).Draw(t, "size") {
	case 1:
		v.Mul(v, ten(typ.Scale))
	case 2:
		v.Mul(v, ten(max(0, typ.Scale-1)))
	case 3:
		v.Add(v, ten(rapid.IntRange(0, typ.Precision).Draw(t, "power")))
	case 4:
		v = v.Sub(ten(typ.Precision), big.NewInt(1))
		if rapid.Bool().Draw(t, "negative") {
			v.Neg(v)
		}
	}
	return v.Rem(v, ten(typ.Precision))
}

func TestDecimalsSurviveTheTest(t *testing.T) {
	for _, text := range []string{"0", "-1", "18446744073709551616", "-18446744073709551617", "99999999999999999999999999999999999999", "-99999999999999999999999999999999999999"} {
		v, _ := new(big.Int).SetString(text, 10)
		if got := naiveDecimal(engineDecimal(v)); got.Cmp(v) != 0 {
			t.Errorf("%s became %s", v, got)
		}
	}
}
