package window

import (
	"runtime"
	"testing"

	"sluice/dataflow"
	"sluice/dataflow/batch"
)

// countSum is count(*) and sum(v) per int key.
func countSum(window string) config {
	c := benchConfig(window, &blackHole{})
	c.calls = c.calls[:2]
	c.inter = interSchema(c.keys, c.calls, c.spec.Timed())
	return c
}

// fill makes a core hold one group for each of keys keys in each of windows windows of one second.
func fill(c core, keys, windows int) error {
	key, val := batch.Vector{Type: dataflow.IntType}, batch.Vector{Type: dataflow.IntType}
	key.Ints, val.Ints = make([]int64, batch.TargetRows), make([]int64, batch.TargetRows)
	in := input{n: batch.TargetRows, keys: []*batch.Vector{&key}, args: []*batch.Vector{nil, &val}, masks: make([]batch.Bitmap, 2),
		times: make([]int64, batch.TargetRows), watermark: noWatermark}
	for at := 0; at < keys*windows; {
		in.n = min(batch.TargetRows, keys*windows-at)
		key.Len, val.Len = in.n, in.n
		for i := range in.n {
			key.Ints[i], in.times[i] = int64(at%keys)*977, int64(at/keys)*second
			at++
		}
		if err := c.add(&in); err != nil {
			return err
		}
	}
	return nil
}

// TestBytesPerGroup holds the state to less than 100 bytes for each live group of count and sum.
func TestBytesPerGroup(t *testing.T) {
	for _, shape := range []struct {
		window        string
		keys, windows int
	}{{"tumbling(1s)", 1_000_000, 1}, {"tumbling(1s)", 10_000, 100}, {"tumbling(1s)", 1_100_000, 1}, {"", 1_000_000, 1}, {"hopping(10s, 1s)", 50_000, 20}} {
		before := heap()
		c := newCore(countSum(shape.window))
		if err := fill(c, shape.keys, shape.windows); err != nil {
			t.Fatal(err)
		}
		bytes := float64(heap()-before) / float64(shape.keys*shape.windows)
		runtime.KeepAlive(c)
		t.Logf("%s with %d keys in %d windows: %.1f bytes for each group", shape.window, shape.keys, shape.windows, bytes)
		if bytes >= 100 {
			t.Errorf("%s takes %.1f bytes for each group", shape.window, bytes)
		}
	}
}

// heap is how many bytes are in use.
func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// TestNothingIsAllocatedPerRow runs a stream that has been going on for a while.
func TestNothingIsAllocatedPerRow(t *testing.T) {
	for _, window := range []string{"tumbling(1ms)", "hopping(4ms, 1ms)", "session(2ms)", "rows(5)", "rows(6, 2)", ""} {
		c := newCore(countSum(window))
		now := int64(0)
		key, val := batch.Vector{Type: dataflow.IntType, Len: 4096}, batch.Vector{Type: dataflow.IntType, Len: 4096}
		key.Ints, val.Ints = make([]int64, 4096), make([]int64, 4096)
		in := input{n: 4096, keys: []*batch.Vector{&key}, args: []*batch.Vector{nil, &val}, masks: make([]batch.Bitmap, 2), times: make([]int64, 4096)}
		epoch := func() {
			in.watermark = now - 1
			for i := range in.times {
				key.Ints[i] = int64(i % 100)
				in.times[i] = now + int64(i)
			}
			now += 4096
			if err := c.add(&in); err != nil {
				t.Fatal(err)
			}
			if err := c.advance(now - 1); err != nil {
				t.Fatal(err)
			}
		}
		for range 50 {
			epoch()
		}
		if n := testing.AllocsPerRun(20, epoch); n > 40 {
			t.Errorf("window %q allocates %.0f times for 4096 rows", window, n)
		}
	}
}
