package expr

import (
	"fmt"
	"testing"

	"sluice/dataflow"
	"sluice/dataflow/batch"
	"sluice/dataflow/decimal"
)

var sampleSchema = &dataflow.Schema{Columns: []dataflow.Column{
	{Name: "i", Type: dataflow.IntType}, {Name: "j", Type: dataflow.IntType, Nullable: true},
	{Name: "f", Type: dataflow.FloatType}, {Name: "g", Type: dataflow.FloatType, Nullable: true},
	{Name: "d", Type: dataflow.DecimalType(12, 2)}, {Name: "s", Type: dataflow.StringType, Nullable: true},
	{Name: "ts", Type: dataflow.TimestampType}, {Name: "u", Type: dataflow.DurationType},
	{Name: "b", Type: dataflow.BoolType, Nullable: true}, {Name: "raw", Type: dataflow.BytesType},
}}

// sampleBatch makes n rows; in the nullable columns every seventh is NULL.
func sampleBatch(n int) *batch.Batch {
	tab := batch.New(sampleSchema)
	tab.Len = n
	for i := range tab.Cols {
		v := &tab.Cols[i]
		v.Reset(v.Type, n)
		if sampleSchema.Columns[i].Nullable {
			v.Valid = make(batch.Bitmap, batch.Words(n))
		}
		x := uint64(88172645463325252)
		for row := range n {
			x ^= x << 13
			x ^= x >> 7
			x ^= x << 17
			if v.Valid != nil {
				v.Valid.SetTo(row, row%7 != 3)
			}
			switch r := int64(x % 1000); v.Type.Kind {
			case dataflow.Bool:
				v.Bits.SetTo(row, r&1 == 0)
			case dataflow.Float:
				v.Floats[row] = float64(r) / 8
			case dataflow.Decimal:
				v.Decimals[row] = decimal.FromInt64(r)
			case dataflow.String, dataflow.Bytes:
				v.Data = fmt.Appendf(v.Data, "v%d", r)
				v.Offsets[row+1] = int32(len(v.Data))
			case dataflow.Timestamp:
				v.Ints[row] = 978332100000000 + r*60e6
			default:
				v.Ints[row] = r + 1
			}
		}
	}
	return tab
}

// TestNothingIsAllocated: after the first batches, no kernel allocates, whether all rows are computed
// or some.
func TestNothingIsAllocated(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	tab := sampleBatch(batch.TargetRows)
	sel := make([]int32, 0, tab.Len)
	for i := 1; i < tab.Len; i += 5 {
		sel = append(sel, int32(i))
	}
	texts := []string{
		"i + j * 2 - i / 3 % 7", "f * g + 1.5e0 / (f + 1)", "d * 2 + d / 3", "-i", "i > 60 AND j < 500", "i > j OR f <= g",
		"NOT (b AND i > 3)", "b", "b IS NULL", "i IS DISTINCT FROM j", "i IN (1, 2, 3)", "s IN ('v1', 'v22')", "i IN (j, 4)",
		"s LIKE 'v%1_'", "s = 'v12'", "s || 'x'", "concat(s, i, d, ts, f, u, b)", "upper(s)", "substring(s, 2, 1)",
		"replace(s, 'v', 'w')", "trim(s, 'v')", "split_part(s, '1', 2)", "regexp_like(s, 'v[0-9]+')", "length(s)",
		"CASE WHEN i > 500 THEN s WHEN b THEN 'b' ELSE 'c' END", "CASE i % 3 WHEN 0 THEN i WHEN 1 THEN j END",
		"coalesce(j, i)", "coalesce(s, 'none')", "nullif(i, j)", "greatest(i, j, 3)", "least(s, 'v5')",
		"CAST(i AS string)", "CAST(i AS decimal(20,2))", "CAST(CAST(i AS string) AS int)", "CAST(f AS int)", "CAST(d AS float)",
		"date_trunc('hour', ts)", "date_trunc('month', ts)", "extract(year FROM ts)", "extract(epoch FROM ts)", "ts - now() + u",
		"hash(s, i, d)", "abs(i)", "round(d, 1)", "sqrt(f)", "power(f, 2)", "ts BETWEEN '2001-01-01' AND '2001-02-01'",
		"i + 1 BETWEEN 5 AND j", "starts_with(s, 'v1')", "position('1' IN s)",
	}
	for _, text := range texts {
		p, errs := Compile(text, NewScope("t", sampleSchema))
		if errs != nil {
			t.Fatalf("%s: %v", text, errs)
		}
		for name, rows := range map[string][]int32{"all rows": nil, "some rows": sel} {
			var ctx Context
			dst := make([]int32, 0, tab.Len)
			once := func() {
				ctx.Reset()
				p.Eval(&ctx, tab, rows)
				if p.Type().Kind == dataflow.Bool {
					dst = p.Select(&ctx, tab, rows, dst)
				}
			}
			once()
			if n := testing.AllocsPerRun(5, once); n != 0 {
				t.Errorf("%s, %s: %v allocations a batch", text, name, n)
			}
			if len(ctx.Errors()) > 0 {
				t.Errorf("%s: %v", text, ctx.Errors()[0])
			}
		}
	}
}

func benchmarkProgram(b *testing.B, text string) {
	tab := sampleBatch(batch.TargetRows)
	p, errs := Compile(text, NewScope("t", sampleSchema))
	if errs != nil {
		b.Fatal(errs)
	}
	var ctx Context
	dst := make([]int32, 0, tab.Len)
	for b.Loop() {
		if p.Type().Kind == dataflow.Bool {
			dst = p.Select(&ctx, tab, nil, dst)
		} else {
			p.Eval(&ctx, tab, nil)
		}
	}
	perRow(b)
}

func perRow(b *testing.B) {
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/batch.TargetRows, "ns/row")
}

func BenchmarkFilter(b *testing.B) {
	for _, text := range []string{"i > 600", "i > 600 AND f < 50", "i > 600 AND j < 500", "i > j", "i BETWEEN 100 AND 200", "s = 'v12'",
		"s LIKE 'v1%'", "i IN (1, 5, 900)", "i % 10 = 3", "ts > '2001-01-01'", "i > 600 OR f < 10"} {
		b.Run(text, func(b *testing.B) { benchmarkProgram(b, text) })
	}
}

func BenchmarkMap(b *testing.B) {
	for _, text := range []string{"i * 2", "i + i", "i * i", "i + 1", "i / 7", "f * 2.5e0", "f + f", "i * 2 + 1", "i + j", "d * 2", "d + d", "s || 'x'",
		"CASE WHEN i > 500 THEN i ELSE 0 END", "date_trunc('hour', ts)", "extract(hour FROM ts)", "hash(i)", "i * 1.5", "f * 2 + g", "i * 2 + j", "i - j * 3"} {
		b.Run(text, func(b *testing.B) { benchmarkProgram(b, text) })
	}
}

// BenchmarkByHand has the loops that one would write, to compare with.
func BenchmarkByHand(b *testing.B) {
	tab := sampleBatch(batch.TargetRows)
	x, f := tab.Cols[0].Ints, tab.Cols[2].Floats
	rows := make([]int32, tab.Len)
	out, floats := make([]int64, tab.Len), make([]float64, tab.Len)
	loops := []struct {
		name string
		loop func()
	}{
		{"i > 600", func() {
			k := 0
			for i, v := range x {
				rows[k] = int32(i)
				if v > 600 {
					k++
				}
			}
		}},
		{"i > 600 AND f < 50", func() {
			k := 0
			for i, v := range x {
				rows[k] = int32(i)
				if v > 600 && f[i] < 50 {
					k++
				}
			}
		}},
		{"i * 2", func() {
			for i, v := range x {
				out[i] = v * 2
			}
		}},
		{"i + i", func() {
			for i, v := range x {
				out[i] = v + x[i]
			}
		}},
		{"i * 2 + 1", func() {
			for i, v := range x {
				out[i] = v*2 + 1
			}
		}},
		{"f * 2.5e0", func() {
			for i, v := range f {
				floats[i] = v * 2.5
			}
		}},
	}
	for _, l := range loops {
		b.Run(l.name, func(b *testing.B) {
			for b.Loop() {
				l.loop()
			}
			perRow(b)
		})
	}
}
