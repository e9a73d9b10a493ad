package window

import (
	"fmt"
	"math"
	"math/big"
	"slices"

	"pgregory.net/rapid"

	"sluice/dataflow"
	"sluice/dataflow/batch"
	"sluice/dataflow/decimal"
)

// collector is a sink that keeps everything.
type collector struct {
	keys, calls int
	timed       bool
	result      modelResult
	seqs        *batch.Vector // of the rows of the current input
}

func (c *collector) results(b *batch.Batch, bad []fault) error {
	for i := range b.Len {
		var o modelOut
		for k := range c.keys {
			o.key = append(o.key, valueAt(&b.Cols[k], i))
		}
		for k := range c.calls {
			o.values = append(o.values, valueAt(&b.Cols[c.keys+k], i))
		}
		if c.timed {
			o.start, o.end = b.Cols[c.keys+c.calls].Ints[i], b.Cols[c.keys+c.calls+1].Ints[i]
			if t := b.Cols[c.keys+c.calls+2].Ints[i]; t != o.end-1 {
				return fmt.Errorf("window_time is %d where window_end is %d", t, o.end)
			}
		}
		o.watermark = b.RowWatermark(i)
		o.bad = slices.ContainsFunc(bad, func(f fault) bool { return int(f.row) == i })
		c.result.out = append(c.result.out, o)
	}
	return nil
}

func (c *collector) lateRows(rows []int32) error {
	for _, r := range rows {
		c.result.lost = append(c.result.lost, c.seqs.Ints[r])
	}
	return nil
}

func (c *collector) lateCopies(cols []batch.Vector, watermarks []int64) error {
	if len(watermarks) != cols[0].Len {
		return fmt.Errorf("%d late rows with %d watermarks", cols[0].Len, len(watermarks))
	}
	c.result.lost = append(c.result.lost, cols[0].Ints[:cols[0].Len]...)
	return nil
}

func (c *collector) countLate(n int64) { c.result.late += n }

// valueAt is a value in the form of the model.
func valueAt(v *batch.Vector, i int) any {
	if v.IsNull(i) {
		return nil
	}
	switch v.Type.Kind {
	case dataflow.Bool:
		return v.Bits.Get(i)
	case dataflow.Float:
		return v.Floats[i]
	case dataflow.Decimal:
		return bigOf(v.Decimals[i])
	case dataflow.String, dataflow.Bytes:
		return string(v.Bytes(i))
	}
	return v.Ints[i]
}

func bigOf(n decimal.Num) *big.Int {
	b := new(big.Int).Lsh(big.NewInt(n.Hi), 64)
	return b.Add(b, new(big.Int).SetUint64(n.Lo))
}

func numOf(b *big.Int) decimal.Num {
	low := new(big.Int).And(b, new(big.Int).SetUint64(math.MaxUint64))
	return decimal.Num{Lo: low.Uint64(), Hi: new(big.Int).Rsh(b, 64).Int64()}
}

// vectorOf makes a vector of values in the form of the model.
func vectorOf(t dataflow.Type, values []any) *batch.Vector {
	v := &batch.Vector{}
	v.Reset(t, 0)
	one := &batch.Vector{}
	for _, x := range values {
		one.Reset(t, 1)
		switch x := x.(type) {
		case nil:
			v.AppendNull()
			continue
		case bool:
			one.Bits.SetTo(0, x)
		case float64:
			one.Floats[0] = x
		case *big.Int:
			one.Decimals[0] = numOf(x)
		case string:
			one.Data = append(one.Data, x...)
			one.Offsets[1] = int32(len(x))
		case int64:
			one.Ints[0] = x
		}
		v.Append(one, 0)
	}
	return v
}

// step is something that happens to an operator: rows or, if advance, the end of an epoch.
type step struct {
	rows    []modelRow
	scalar  bool // the first row's watermark is to serve for all
	gaps    bool // rows that do not count stand between the others
	advance bool
	mark    int64
}

// query is a query on evaluated rows, for the core and the model.
type query struct {
	text  string
	keys  []dataflow.Type
	calls []call
	model modelQuery
}

func (q *query) config(sink sink, spec Spec) config {
	return config{spec: spec, keys: q.keys, calls: q.calls, inter: interSchema(q.keys, q.calls, spec.Timed()), lateness: q.model.lateness,
		payload: []dataflow.Type{dataflow.IntType}, sink: sink}
}

// run drives a core through steps.
func (q *query) run(steps []step) (modelResult, error) {
	spec, err := Parse(q.text)
	if err != nil {
		return modelResult{}, err
	}
	c := &collector{keys: len(q.keys), calls: len(q.calls), timed: spec.Timed()}
	core := newCore(q.config(c, spec))
	seq := int64(0)
	for _, s := range steps {
		if s.advance {
			if err := core.advance(s.mark); err != nil {
				return c.result, err
			}
			continue
		}
		in := q.input(s, &seq)
		c.seqs = in.payload[0]
		if err := core.add(in); err != nil {
			return c.result, err
		}
		mangle(in)
	}
	err = core.end()
	return c.result, err
}

// input makes what a core is given of rows. If s.gaps, every other row does not count.
func (q *query) input(s step, seq *int64) *input {
	rows := s.rows
	in := &input{}
	if s.gaps {
		rows = nil
		for _, r := range s.rows {
			if len(rows)%3 != 1 {
				rows = append(rows, s.rows[len(s.rows)-1])
			}
			in.sel = append(in.sel, int32(len(rows)))
			rows = append(rows, r)
		}
		if in.sel == nil {
			in.sel = []int32{}
		}
	}
	in.n, in.seq = len(rows), *seq
	*seq += int64(in.n)
	column := func(t dataflow.Type, get func(r *modelRow) any) *batch.Vector {
		values := make([]any, len(rows))
		for i := range rows {
			values[i] = get(&rows[i])
		}
		return vectorOf(t, values)
	}
	for k, t := range q.keys {
		in.keys = append(in.keys, column(t, func(r *modelRow) any { return r.key[k] }))
	}
	for k, c := range q.calls {
		var arg *batch.Vector
		if c.fn != countStar {
			arg = column(c.arg, func(r *modelRow) any { return r.args[k] })
		}
		var mask batch.Bitmap
		if c.filter {
			mask = make(batch.Bitmap, batch.Words(len(rows)))
			for i := range rows {
				mask.SetTo(i, rows[i].pass[k])
			}
		}
		in.args, in.masks = append(in.args, arg), append(in.masks, mask)
	}
	in.payload = []*batch.Vector{column(dataflow.IntType, func(r *modelRow) any { return r.seq })}
	in.times = []int64{}
	for _, r := range rows {
		in.times = append(in.times, r.time)
		if !s.scalar {
			in.watermarks = append(in.watermarks, r.watermark)
		}
	}
	if s.scalar && len(s.rows) > 0 {
		in.watermark = s.rows[0].watermark
	}
	return in
}

// mangle destroys what a core was lent, to find out whether it kept any of it.
func mangle(in *input) {
	vectors := slices.Concat(in.keys, in.args, in.payload)
	for _, v := range vectors {
		if v == nil {
			continue
		}
		for i := range v.Ints {
			v.Ints[i] = -77
		}
		for i := range v.Floats {
			v.Floats[i] = -77
		}
		for i := range v.Decimals {
			v.Decimals[i] = decimal.Num{Lo: 77}
		}
		for i := range v.Data {
			v.Data[i] = '#'
		}
		clear(v.Bits)
		clear(v.Valid)
	}
	for _, m := range in.masks {
		clear(m)
	}
	for i := range in.times {
		in.times[i] = -77
	}
	for i := range in.watermarks {
		in.watermarks[i] = 1 << 40
	}
}

// drawQuery draws a query.
func drawQuery(t *rapid.T) *query {
	q := &query{}
	m := &q.model
	switch m.kind = rapid.SampledFrom([]string{"", "tumbling", "hopping", "hopping", "session", "session", "rows"}).Draw(t, "kind"); m.kind {
	case "tumbling":
		m.size = rapid.Int64Range(1, 12).Draw(t, "size")
		m.hop = m.size
		q.text = fmt.Sprintf("tumbling(%dus)", m.size)
	case "hopping":
		m.size = rapid.Int64Range(1, 14).Draw(t, "size")
		m.hop = rapid.Int64Range(1, m.size).Draw(t, "hop")
		q.text = fmt.Sprintf("hopping(%dus, %dus)", m.size, m.hop)
	case "session":
		m.size = rapid.Int64Range(1, 8).Draw(t, "gap")
		q.text = fmt.Sprintf("session(%dus)", m.size)
	case "rows":
		m.size = rapid.Int64Range(1, 6).Draw(t, "size")
		m.hop = rapid.Int64Range(1, m.size).Draw(t, "hop")
		q.text = fmt.Sprintf("rows(%d, %d)", m.size, m.hop)
	}
	if m.kind != "" && m.kind != "rows" {
		m.lateness = max(0, rapid.Int64Range(-10, 15).Draw(t, "lateness"))
	}
	q.keys = rapid.SampledFrom([][]dataflow.Type{
		{}, {dataflow.IntType}, {dataflow.IntType}, {dataflow.StringType}, {dataflow.FloatType}, {dataflow.DecimalType(38, 2)},
		{dataflow.BoolType, dataflow.StringType}, {dataflow.IntType, dataflow.TimestampType},
	}).Draw(t, "keys")
	m.keyed = len(q.keys) > 0
	for range rapid.IntRange(1, 4).Draw(t, "calls") {
		q.drawCall(t)
	}
	return q
}

var callNames = []string{"count(*)", "count", "sum", "avg", "min", "max", "stddev", "var", "first", "last"}

func (q *query) drawCall(t *rapid.T) {
	fn := rapid.IntRange(0, len(callNames)-1).Draw(t, "function")
	c := call{fn: function(fn), text: callNames[fn], filter: rapid.Bool().Draw(t, "filter")}
	m := modelCall{fn: callNames[fn]}
	decimalArg := dataflow.DecimalType(38, 2)
	types := []dataflow.Type{dataflow.IntType, dataflow.FloatType, decimalArg}
	switch c.fn {
	case sum, avg:
		types = append(types, dataflow.DurationType)
	case count, minimum, maximum, first, last:
		types = append(types, dataflow.StringType, dataflow.BytesType, dataflow.BoolType, dataflow.TimestampType, dataflow.DurationType)
	}
	c.arg = rapid.SampledFrom(types).Draw(t, "argument")
	c.result = c.arg
	switch c.fn {
	case countStar:
		c.arg, c.result = dataflow.Type{}, dataflow.IntType
	case count:
		c.result = dataflow.IntType
	case stddevSamp, varSamp:
		c.arg, c.result = dataflow.FloatType, dataflow.FloatType
	case avg:
		switch c.arg.Kind {
		case dataflow.Int:
			c.result = dataflow.FloatType
		case dataflow.Decimal:
			c.result = dataflow.DecimalType(38, 6)
			m.scale = 6
		case dataflow.Duration:
			m.duration = true
		}
	}
	if c.arg.Kind == dataflow.Decimal {
		m.argScale = 2
	}
	switch c.fn {
	case count, sum, avg, minimum, maximum:
		c.distinct = rapid.Bool().Draw(t, "distinct")
		m.distinct = c.distinct
	}
	q.calls = append(q.calls, c)
	q.model.calls = append(q.model.calls, m)
}

// drawValue draws one of few values of a type, or NULL. Sums of the floats are exact.
func drawValue(t *rapid.T, typ dataflow.Type, key bool) any {
	n := rapid.IntRange(-4, 4).Draw(t, "value")
	if n == -4 {
		return nil
	}
	switch typ.Kind {
	case dataflow.Bool:
		return n > 0
	case dataflow.Float:
		if n == 3 && key {
			return math.NaN()
		}
		if n == 0 {
			return math.Copysign(0, float64(rapid.IntRange(-1, 0).Draw(t, "sign")))
		}
		return float64(n) / 4
	case dataflow.Decimal:
		if n == 4 {
			return new(big.Int).Exp(big.NewInt(10), big.NewInt(37), nil)
		}
		return big.NewInt(int64(n) * 7)
	case dataflow.String, dataflow.Bytes:
		return []string{"", "a", "ab", "b", "\x00", "ä", "aa", "long text that is not short", "B"}[n+4]
	case dataflow.Int:
		if n == 4 && !key {
			return int64(math.MaxInt64 / 2)
		}
	}
	return int64(n)
}

// drawRows draws a stream of one or two sources, and for each row the least watermark of the sources
// after it.
func (q *query) drawRows(t *rapid.T) (rows []modelRow, marks []int64) {
	sources := rapid.IntRange(1, 2).Draw(t, "sources")
	delay := rapid.Int64Range(0, 12).Draw(t, "delay")
	spread := rapid.Int64Range(0, 20).Draw(t, "spread")
	var now, seen [2]int64
	seen = [2]int64{modelMin, modelMin}
	now = [2]int64{-40, -40}
	n := rapid.IntRange(0, 50).Draw(t, "rows")
	for i := range n {
		s := rapid.IntRange(0, sources-1).Draw(t, "source")
		now[s] += rapid.Int64Range(0, 5).Draw(t, "step")
		r := modelRow{seq: int64(i), watermark: seen[s]}
		r.time = now[s] - rapid.Int64Range(0, spread).Draw(t, "back")
		if w := r.time - delay; w > seen[s] {
			seen[s] = w
		}
		for _, k := range q.keys {
			r.key = append(r.key, drawValue(t, k, true))
		}
		for _, c := range q.calls {
			var arg any
			if c.fn != countStar {
				arg = drawValue(t, c.arg, false)
			}
			r.args = append(r.args, arg)
			r.pass = append(r.pass, !c.filter || rapid.IntRange(0, 3).Draw(t, "pass") > 0)
		}
		rows = append(rows, r)
		marks = append(marks, slices.Min(seen[:sources]))
	}
	return rows, marks
}

// drawSteps cuts rows into batches and epochs.
func (q *query) drawSteps(t *rapid.T, rows []modelRow, marks []int64) []step {
	var steps []step
	for at := 0; at < len(rows); {
		to := min(len(rows), at+rapid.IntRange(1, 9).Draw(t, "batch"))
		s := step{rows: rows[at:to], gaps: rapid.Bool().Draw(t, "gaps")}
		sorted := slices.IsSortedFunc(s.rows, func(a, b modelRow) int { return int(a.time - b.time) })
		same := !slices.ContainsFunc(s.rows, func(r modelRow) bool { return r.watermark != s.rows[0].watermark })
		if same || sorted && q.model.kind != "rows" && q.oneSource(s.rows) {
			s.scalar = rapid.Bool().Draw(t, "scalar")
		}
		steps = append(steps, s)
		if rapid.IntRange(0, 2).Draw(t, "epoch") == 0 {
			steps = append(steps, step{advance: true, mark: marks[to-1]})
		}
		at = to
	}
	return steps
}

// oneSource reports whether the rows can be from one source: then their watermarks never fall.
func (q *query) oneSource(rows []modelRow) bool {
	for i, r := range rows[1:] {
		if r.watermark < rows[i].watermark || r.watermark > max(rows[0].watermark, rows[i].time) {
			return false
		}
	}
	return true
}
