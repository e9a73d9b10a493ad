package main

import (
	"context"
	"fmt"
	"io"
	"math"
	"runtime"
	"syscall"
	"time"

	"sluice/dataflow"
	"sluice/dataflow/batch"
	"sluice/executor"
	"sluice/operators"
	"sluice/operators/catalog"
)

// engineJob is one operator on batches in memory, and hand-written loops that do the same.
type engineJob struct {
	name  string
	op    dataflow.Operator // without its inputs and outputs
	timed bool              // ts is the event time
	loops []loop
	aim   float64 // share of the first loop's speed
}

// loop is a hand-written loop over the columns of the batches. It emits what the operator emits.
type loop struct {
	name string
	run  func(rows []*batch.Batch, emit func(*batch.Batch))
}

var engineJobs = []engineJob{
	{
		name:  "memory filter",
		op:    operator("filter", "condition", "delay > 60 AND value < 50"),
		loops: []loop{{"go loop", filterLoop}, {"go loop, branches", filterBranches}},
		aim:   0.6,
	},
	{
		name:  "memory map float",
		op:    operator("map", "select", "value * 2 + weight AS x"),
		loops: []loop{{"go loop", mapFloatLoop}},
		aim:   0.6,
	},
	{
		name:  "memory map int",
		op:    operator("map", "select", "delay * 2 + key AS x"),
		loops: []loop{{"go loop, overflow wraps", mapIntLoop}, {"go loop, overflow found", mapIntChecked}},
		aim:   0.6,
	},
	{
		name: "memory window",
		op: operator("aggregate", "window", "tumbling(1m)", "group-by", "key",
			"select", "window_start, key, count(*) AS n, sum(value) AS total, max(value) AS top"),
		timed: true,
		loops: []loop{{"go loop, open addressing", windowTable}, {"go loop, map", windowMap}},
		aim:   0.5,
	},
}

// operator makes an operator of a type with parameters, given as names and values in turn.
func operator(typ string, params ...string) dataflow.Operator {
	op := dataflow.Operator{Name: "work", Type: typ}
	for i := 0; i < len(params); i += 2 {
		op.Params = append(op.Params, dataflow.Param{Name: params[i], Value: params[i+1]})
	}
	return op
}

// The columns of the rows in memory.
const (
	keyColumn = iota
	delayColumn
	valueColumn
	weightColumn
	timeColumn
)

func memorySchema(timed bool) dataflow.Schema {
	return dataflow.Schema{Columns: []dataflow.Column{
		keyColumn:    {Name: "key", Type: dataflow.IntType},
		delayColumn:  {Name: "delay", Type: dataflow.IntType},
		valueColumn:  {Name: "value", Type: dataflow.FloatType},
		weightColumn: {Name: "weight", Type: dataflow.FloatType},
		timeColumn:   {Name: "ts", Type: dataflow.TimestampType, EventTime: timed},
	}}
}

// memoryRows makes the rows as batches of the usual size.
func memoryRows(rows int) []*batch.Batch {
	schema := memorySchema(false)
	var batches []*batch.Batch
	for at := 0; at < rows; {
		n := min(batch.TargetRows, rows-at)
		b := batch.New(&schema)
		b.Len = n
		for c := range b.Cols {
			b.Cols[c].Reset(schema.Columns[c].Type, n)
		}
		for i := range n {
			r := rowAt(at + i)
			b.Cols[keyColumn].Ints[i] = r.key
			b.Cols[delayColumn].Ints[i] = r.delay
			b.Cols[valueColumn].Floats[i] = r.value
			b.Cols[weightColumn].Floats[i] = float64(r.delay) / 64
			b.Cols[timeColumn].Ints[i] = r.time * 1e6
		}
		batches = append(batches, b)
		at += n
	}
	return batches
}

// memorySource is a source operator that gives batches that are there already.
type memorySource struct {
	batches []*batch.Batch
	next    int
	schema  *dataflow.Schema
	rows    operators.SourceRows
}

// Next implements operators.Source. Every batch fits into an epoch, a whole number of times.
func (s *memorySource) Next(context.Context, int) (*operators.SourceRows, error) {
	if s.next == len(s.batches) {
		return nil, io.EOF
	}
	b := s.batches[s.next]
	s.next++
	b.Schema = s.schema
	s.rows = operators.SourceRows{Batch: b, Read: b.Len, Release: func(*batch.Batch) {}}
	return &s.rows, nil
}

// Epochs implements operators.Source, with what a reader has by default.
func (s *memorySource) Epochs() operators.EpochOptions {
	return operators.EpochOptions{Rows: 8 * batch.TargetRows, WatermarkDelay: maxJitter * time.Second}
}

// Stop implements operators.Source.
func (s *memorySource) Stop() {}

// Close implements operators.Source.
func (s *memorySource) Close() error { return nil }

// memorySink is a sink operator that hands each batch to a function.
type memorySink struct{ emit func(*batch.Batch) }

// Process implements operators.Operator.
func (s *memorySink) Process(_ int, b *batch.Batch) error {
	s.emit(b)
	return nil
}

// EndEpoch implements operators.Operator.
func (s *memorySink) EndEpoch(operators.Mark) error { return nil }

// memoryCatalog is the catalog of all operators and the two that stand for input and output here.
type memoryCatalog struct{ dataflow.Catalog }

var memoryOperators = map[string]*dataflow.Descriptor{
	"memory": {
		Name: "memory", Output: true,
		Check: func(c *dataflow.Check) []*dataflow.Schema { return operators.OutputSchemas(c.Op, c.Declared[0]) },
	},
	"discard": {
		Name: "discard", MinInputs: 1, MaxInputs: 1,
		Check: func(*dataflow.Check) []*dataflow.Schema { return nil },
	},
}

// Lookup implements dataflow.Catalog.
func (m memoryCatalog) Lookup(typ string) *dataflow.Descriptor {
	if d := memoryOperators[typ]; d != nil {
		return d
	}
	return m.Catalog.Lookup(typ)
}

// memoryGraph is the graph memory -> op -> discard.
func memoryGraph(op dataflow.Operator, schema dataflow.Schema) (*dataflow.Graph, error) {
	source := dataflow.Operator{Name: "source", Type: "memory", Outputs: []dataflow.Output{{Stream: "rows", Type: "Row"}}}
	op.Inputs = []dataflow.Input{{Stream: "rows"}}
	op.Outputs = []dataflow.Output{{Stream: "results"}}
	sink := dataflow.Operator{Name: "sink", Type: "discard", Inputs: []dataflow.Input{{Stream: "results"}}}
	g := &dataflow.Graph{
		Name:      "memory",
		Types:     []*dataflow.NamedType{{Name: "Row", Schema: schema}},
		Operators: []*dataflow.Operator{&source, &op, &sink},
	}
	if diags := dataflow.Resolve(g, memoryCatalog{catalog.Operators}); diags.HasErrors() {
		return nil, fmt.Errorf("%v", diags)
	}
	return g, nil
}

// builder makes the operators of a memoryGraph.
func builder(emit func(*batch.Batch)) executor.Builder {
	return func(c *operators.Context) (operators.Operator, error) {
		if c.Op.Type == "discard" {
			return &memorySink{emit}, nil
		}
		return catalog.Build(c, catalog.Options{Limit: -1})
	}
}

// engine runs the job as a query, with the executor that runs every query.
func (j *engineJob) engine(rows []*batch.Batch, emit func(*batch.Batch)) error {
	g, err := memoryGraph(j.op, memorySchema(j.timed))
	if err != nil {
		return err
	}
	_, err = executor.Run(context.Background(), g, executor.Options{
		Build: builder(emit),
		OpenSource: func(c *operators.Context) (operators.Source, error) {
			return &memorySource{batches: rows, schema: c.Op.Outputs[0].Schema}, nil
		},
	})
	return err
}

// measureEngine runs the jobs in memory.
func measureEngine(o *options, progress io.Writer) (results []result, figures []figure, err error) {
	var rows []*batch.Batch
	for i := range engineJobs {
		j := &engineJobs[i]
		if !o.only.MatchString(j.name) {
			continue
		}
		if rows == nil {
			rows = memoryRows(o.rows)
		}
		rs, f, err := j.measure(o, rows)
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %w", j.name, err)
		}
		fmt.Fprintf(progress, "%s: done\n", j.name)
		results, figures = append(results, rs...), append(figures, f...)
	}
	return results, figures, nil
}

// engineRepeats is how many times more often the jobs in memory run than others, because they are short.
const engineRepeats = 5

// measure runs a job's peers in turn. Before that, one run of each is checked against the first.
func (j *engineJob) measure(o *options, rows []*batch.Batch) (results []result, figures []figure, err error) {
	peers := []loop{{"sluice", func(rows []*batch.Batch, emit func(*batch.Batch)) { err = j.engine(rows, emit) }}}
	peers = append(peers, j.loops...)
	var want digest
	for i, p := range peers {
		results = append(results, result{job: j.name, peer: p.name, rows: o.rows})
		var got digest
		p.run(rows, func(b *batch.Batch) { digestBatch(&got, b) })
		switch {
		case err != nil:
			return nil, nil, err
		case i == 0:
			want = got
		case got != want:
			return nil, nil, fmt.Errorf("%w: %s gives %d rows with digest %016x, sluice %d with %016x", errWrong, p.name, got.rows, got.sum, want.rows, want.sum)
		}
	}
	var allocs float64
	for range engineRepeats * o.repeats {
		for i, p := range peers {
			u, mallocs := timeLoop(p.run, rows)
			if err != nil {
				return nil, nil, err
			}
			results[i].add(u)
			if i == 0 {
				allocs = float64(mallocs) / float64(o.rows)
			}
		}
	}
	return results, j.figures(results, allocs), nil
}

// figures are the job's share of the hand-written speed and its allocations.
func (j *engineJob) figures(results []result, allocs float64) []figure {
	share := results[1].best.wall.Seconds() / results[0].best.wall.Seconds()
	return []figure{
		{j.name + ": share of the speed of the " + results[1].peer, fmt.Sprintf("%.0f %%", 100*share), fmt.Sprintf("at least %.0f %%", 100*j.aim)},
		{j.name + ": allocations per row", fmt.Sprintf("%.5f", allocs), "0"},
	}
}

// timeLoop runs f once over the rows, throwing away what it emits, and counts its allocations.
func timeLoop(f func([]*batch.Batch, func(*batch.Batch)), rows []*batch.Batch) (usage, uint64) {
	runtime.GC()
	emitted := 0
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	cpu, begin := cpuTime(), time.Now()
	f(rows, func(b *batch.Batch) { emitted += b.Rows() })
	u := usage{wall: time.Since(begin), cpu: cpuTime() - cpu}
	runtime.ReadMemStats(&after)
	return u, after.Mallocs - before.Mallocs
}

// cpuTime is what this process has used so far, user and system.
func cpuTime() time.Duration {
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		return 0
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

// digestBatch adds the rows of b, which have numbers only, to d, whatever their order.
func digestBatch(d *digest, b *batch.Batch) {
	for i := range b.Rows() {
		row := i
		if b.Sel != nil {
			row = int(b.Sel[i])
		}
		h := uint64(len(b.Cols))
		for c := range b.Cols {
			v := &b.Cols[c]
			word := uint64(0)
			switch {
			case v.IsNull(row):
			case v.Type.Kind == dataflow.Float:
				word = math.Float64bits(v.Floats[row])
			default:
				word = uint64(v.Ints[row])
			}
			h = mix(h ^ word)
		}
		d.sum += h
		d.rows++
	}
}
