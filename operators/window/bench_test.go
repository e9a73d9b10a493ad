package window

import (
	"math/rand/v2"
	"syscall"
	"testing"
	"time"

	"sluice/dataflow"
	"sluice/dataflow/batch"
)

// benchRows is in-order data: one row a millisecond, 10,000 keys.
type benchRows struct {
	keys, times, values []int64
}

const (
	benchSize = 1 << 20
	benchKeys = 10_000
)

func newBenchRows() benchRows {
	rng := rand.New(rand.NewPCG(1, 2))
	d := benchRows{make([]int64, benchSize), make([]int64, benchSize), make([]int64, benchSize)}
	for i := range d.keys {
		d.keys[i] = rng.Int64N(benchKeys)
		d.times[i] = int64(i) * 1000
		d.values[i] = rng.Int64N(1000)
	}
	return d
}

// benchWindow is the length of a window: 100,000 rows.
const benchWindow = 100_000_000

// blackHole is a sink that looks at the number of rows only.
type blackHole struct{ rows, lates int64 }

func (h *blackHole) results(b *batch.Batch, _ []fault) error  { h.rows += int64(b.Len); return nil }
func (h *blackHole) lateRows([]int32) error                   { return nil }
func (h *blackHole) lateCopies([]batch.Vector, []int64) error { return nil }
func (h *blackHole) countLate(n int64)                        { h.lates += n }

func interSchema(keys []dataflow.Type, calls []call, timed bool) *dataflow.Schema {
	s := &dataflow.Schema{}
	add := func(name string, t dataflow.Type) {
		s.Columns = append(s.Columns, dataflow.Column{Name: name, Type: t, Nullable: true})
	}
	for _, k := range keys {
		add("key", k)
	}
	for _, c := range calls {
		add(c.text, c.result)
	}
	if timed {
		add("window_start", dataflow.TimestampType)
		add("window_end", dataflow.TimestampType)
		add("window_time", dataflow.TimestampType)
	}
	return s
}

func benchConfig(window string, sink sink) config {
	spec, err := Parse(window)
	if err != nil {
		panic(err)
	}
	calls := []call{
		{fn: countStar, result: dataflow.IntType, text: "count(*)"},
		{fn: sum, arg: dataflow.IntType, result: dataflow.IntType, text: "sum(v)"},
		{fn: maximum, arg: dataflow.IntType, result: dataflow.IntType, text: "max(v)"},
	}
	keys := []dataflow.Type{dataflow.IntType}
	return config{spec: spec, keys: keys, calls: calls, inter: interSchema(keys, calls, spec.Timed()), sink: sink}
}

// feed runs the data through a core in batches of the usual size.
func feed(c core, d benchRows) error {
	key := batch.Vector{Type: dataflow.IntType}
	val := batch.Vector{Type: dataflow.IntType}
	in := input{keys: []*batch.Vector{&key}, args: []*batch.Vector{nil, &val, &val}, masks: make([]batch.Bitmap, 3)}
	for at := 0; at < len(d.keys); at += batch.TargetRows {
		to := min(at+batch.TargetRows, len(d.keys))
		key.Ints, val.Ints, in.times = d.keys[at:to], d.values[at:to], d.times[at:to]
		in.n = to - at
		key.Len, val.Len = in.n, in.n
		in.watermark, in.seq = noWatermark, int64(at)
		if at > 0 {
			in.watermark = d.times[at-1]
		}
		if err := c.add(&in); err != nil {
			return err
		}
		if at/batch.TargetRows%8 == 7 {
			if err := c.advance(d.times[to-1]); err != nil {
				return err
			}
		}
	}
	return c.end()
}

// processTime is the processor time used so far, which says more than the clock does on a machine
// that is shared.
func processTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func reportRows(b *testing.B, start time.Duration) {
	b.ReportMetric(float64(processTime()-start)/float64(b.N)/benchSize, "cpu-ns/row")
}

func benchmarkCore(b *testing.B, window string) {
	d := newBenchRows()
	b.ReportAllocs()
	start := processTime()
	for b.Loop() {
		if err := feed(newCore(benchConfig(window, &blackHole{})), d); err != nil {
			b.Fatal(err)
		}
	}
	reportRows(b, start)
}

func BenchmarkTumbling(b *testing.B) { benchmarkCore(b, "tumbling(100s)") }
func BenchmarkHopping(b *testing.B)  { benchmarkCore(b, "hopping(100s, 20s)") }
func BenchmarkSession(b *testing.B)  { benchmarkCore(b, "session(100s)") }
func BenchmarkRows(b *testing.B)     { benchmarkCore(b, "rows(100)") }
func BenchmarkRowsHop(b *testing.B)  { benchmarkCore(b, "rows(100, 20)") }
func BenchmarkWhole(b *testing.B)    { benchmarkCore(b, "") }

// BenchmarkHandMap is what one would write by hand, with a Go map.
func BenchmarkHandMap(b *testing.B) {
	d := newBenchRows()
	type group struct{ window, key int64 }
	type state struct{ count, sum, max int64 }
	b.ReportAllocs()
	start := processTime()
	for b.Loop() {
		m := make(map[group]*state)
		for i, k := range d.keys {
			g := group{d.times[i] / benchWindow, k}
			s := m[g]
			if s == nil {
				s = &state{max: d.values[i]}
				m[g] = s
			}
			s.count++
			s.sum += d.values[i]
			s.max = max(s.max, d.values[i])
		}
		benchResult = int64(len(m))
	}
	reportRows(b, start)
}

var benchResult int64

// BenchmarkHandMapValue is the same with the states inside the map.
func BenchmarkHandMapValue(b *testing.B) {
	d := newBenchRows()
	type group struct{ window, key int64 }
	type state struct{ count, sum, max int64 }
	b.ReportAllocs()
	start := processTime()
	for b.Loop() {
		m := make(map[group]state)
		for i, k := range d.keys {
			g := group{d.times[i] / benchWindow, k}
			s, ok := m[g]
			if !ok {
				s.max = d.values[i]
			}
			s.count++
			s.sum += d.values[i]
			s.max = max(s.max, d.values[i])
			m[g] = s
		}
		benchResult = int64(len(m))
	}
	reportRows(b, start)
}

// BenchmarkHandTable is the same with a hash table made for this very query: one window at a time, of
// fixed size, the states inside the entries, results copied out when the window changes.
func BenchmarkHandTable(b *testing.B) {
	d := newBenchRows()
	type entry struct{ used, key, count, sum, max int64 }
	table := make([]entry, 1<<15)
	var out []entry
	b.ReportAllocs()
	start := processTime()
	for b.Loop() {
		window := int64(0)
		out = out[:0]
		emit := func() {
			for i := range table {
				if table[i].used != 0 {
					out = append(out, table[i])
				}
			}
			clear(table)
		}
		for i, k := range d.keys {
			if w := d.times[i] / benchWindow; w != window {
				emit()
				window = w
			}
			p := uint64(k) * hashFactor >> 49
			for table[p].used != 0 && table[p].key != k {
				p = (p + 1) & (1<<15 - 1)
			}
			e := &table[p]
			v := d.values[i]
			if e.used == 0 {
				e.used, e.key, e.max = 1, k, v
			}
			e.count++
			e.sum += v
			e.max = max(e.max, v)
		}
		emit()
		benchResult = int64(len(out))
	}
	reportRows(b, start)
}
