package main

import (
	"fmt"
	"io"
	"path/filepath"
	"runtime"
	"time"

	"sluice/dataflow/batch"
	"sluice/operators"
	"sluice/operators/catalog"
)

// The aims.
const (
	peakAim  = 200 // MB, of any run whatever its size
	groupAim = 100 // bytes per live group of count and sum
)

// liveGroups is how many groups are alive when their size is measured.
const liveGroups = 1_000_000

// programMemory tells the peaks of Sluice's runs, and of runs on more rows if that is asked for.
func programMemory(o *options, results []result, progress io.Writer) ([]figure, error) {
	var figures []figure
	aim := fmt.Sprintf("below %d MB", peakAim)
	for _, r := range results {
		if r.peer == "sluice" {
			figures = append(figures, figure{fmt.Sprintf("%s: peak at %d rows", r.job, r.rows), fmt.Sprintf("%.0f MB", float64(r.best.peak)/1e6), aim})
		}
	}
	if !o.large {
		return figures, nil
	}
	data, err := prepare(o, largeFactor*o.rows, progress)
	if err != nil {
		return nil, err
	}
	for i := range jobs {
		j := &jobs[i]
		if !o.only.MatchString(j.name) {
			continue
		}
		u, err := sluice(o, j.spec, j.input(data), filepath.Join(o.dir, "out.csv")).run()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", j.name, err)
		}
		figures = append(figures, figure{fmt.Sprintf("%s: peak at %d rows", j.name, data.Rows), fmt.Sprintf("%.0f MB", float64(u.peak)/1e6), aim})
	}
	return figures, nil
}

// engineMemory measures what Sluice allocates in this process: per row of each job, and per live group.
func engineMemory(o *options, d *dataset) ([]figure, error) {
	var figures []figure
	for i := range jobs {
		j := &jobs[i]
		if !o.only.MatchString(j.name) {
			continue
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		if err := runSpec(o, j, d); err != nil {
			return nil, fmt.Errorf("%s: %w", j.name, err)
		}
		runtime.ReadMemStats(&after)
		figures = append(figures, figure{j.name + ": allocations per row", fmt.Sprintf("%.5f", float64(after.Mallocs-before.Mallocs)/float64(d.Rows)), "0"})
	}
	if name := "bytes per live (key, window) of count and sum"; o.only.MatchString(name) {
		bytes, err := groupBytes()
		if err != nil {
			return nil, err
		}
		figures = append(figures, figure{name, fmt.Sprintf("%.0f", bytes), fmt.Sprintf("below %d", groupAim)})
	}
	return figures, nil
}

// groupBytes is what the heap holds for each of liveGroups groups of count and sum in one open window.
func groupBytes() (float64, error) {
	op := operator("aggregate", "window", "tumbling(1h)", "group-by", "key", "select", "window_start, key, count(*) AS n, sum(value) AS total")
	schema := memorySchema(true)
	g, err := memoryGraph(op, schema)
	if err != nil {
		return 0, err
	}
	b := memoryRows(batch.TargetRows)[0]
	b.Schema = &schema
	before := heap()
	clock := time.Now().UnixMicro()
	aggregate, err := catalog.Build(&operators.Context{
		Op: g.Operators[1], Outputs: []operators.Output{discard{}}, Clock: &clock, Counters: &operators.Counters{},
	}, catalog.Options{Limit: -1})
	if err != nil {
		return 0, err
	}
	groups := 0
	for epoch := int64(1); groups < liveGroups; epoch++ {
		for i := range b.Cols[keyColumn].Ints {
			b.Cols[keyColumn].Ints[i] = int64(groups + i)
			b.Cols[timeColumn].Ints[i] = startTime * 1e6
		}
		groups += b.Len
		if err := aggregate.Process(0, b); err != nil {
			return 0, err
		}
		if err := aggregate.EndEpoch(operators.Mark{Epoch: epoch, Prev: epoch - 1, Clock: clock, Watermark: startTime * 1e6}); err != nil {
			return 0, err
		}
	}
	size := float64(heap()-before) / float64(groups)
	runtime.KeepAlive(aggregate)
	runtime.KeepAlive(b)
	return size, nil
}

// discard is an output that nobody reads.
type discard struct{}

// Emit implements operators.Output.
func (discard) Emit(*batch.Batch) error { return nil }

// heap is the number of bytes that are alive.
func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
