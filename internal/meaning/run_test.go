package meaning

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"time"

	"sluice/dataflow"
	"sluice/dataflow/batch"
	"sluice/executor"
	"sluice/operators"
	"sluice/operators/catalog"
)

// input is the rows of a source, in order: all of its rows as one batch of its type, with those that are
// bad marked.
type input struct {
	rows *batch.Batch
	bad  []bool // by row; nil: none
}

// cuts say how sources cut their rows.
type cuts struct {
	batches []int // rows of the first batch, of the second, ..., and again from the start
	epoch   int   // rows of an epoch; 0: what the spec says
}

// source is a running source in memory.
type source struct {
	in     *input
	cuts   cuts
	opts   operators.EpochOptions
	row    int
	next   int // in cuts.batches
	schema *dataflow.Schema
	rows   operators.SourceRows
}

func openSource(ctx *operators.Context, in *input, c cuts) (operators.Source, error) {
	s := &source{in: in, cuts: c, schema: in.rows.Schema}
	delay, err := dataflow.ParseDuration(ctx.Op.Value("watermark-delay"))
	if err != nil {
		return nil, err
	}
	s.opts = operators.EpochOptions{Rows: c.epoch, WatermarkDelay: time.Duration(delay) * time.Microsecond}
	if c.epoch == 0 {
		if s.opts.Rows, err = strconv.Atoi(ctx.Op.Value("epoch-rows")); err != nil {
			return nil, err
		}
	}
	return s, nil
}

func (s *source) Epochs() operators.EpochOptions { return s.opts }
func (s *source) Stop()                          {}
func (s *source) Close() error                   { return nil }

func (s *source) Next(_ context.Context, most int) (*operators.SourceRows, error) {
	n := min(most, s.in.rows.Len-s.row, s.cuts.batches[s.next])
	if s.row == s.in.rows.Len {
		return nil, io.EOF
	}
	s.next = (s.next + 1) % len(s.cuts.batches)
	s.rows = operators.SourceRows{Batch: batch.New(s.schema), Errors: batch.New(operators.ErrorsSchema), Read: n}
	for i := s.row; i < s.row+n; i++ {
		if s.in.bad != nil && s.in.bad[i] {
			for c, text := range []string{string(operators.AppendRow(nil, s.in.rows, i)), fmt.Sprint("row ", i+1), "drawn so"} {
				s.rows.Errors.Cols[c].AppendBytes([]byte(text))
			}
			s.rows.Errors.Len++
			continue
		}
		for c := range s.rows.Batch.Cols {
			s.rows.Batch.Cols[c].Append(&s.in.rows.Cols[c], i)
		}
		s.rows.Batch.Len++
	}
	s.row += n
	if s.next%2 == 0 { // both ways to give rows
		s.rows.Release = spoil
	}
	return &s.rows, nil
}

// spoil makes sure that nobody still reads a batch that has been given back.
func spoil(b *batch.Batch) {
	for c := range b.Cols {
		v := &b.Cols[c]
		for i := range v.Ints {
			v.Ints[i] ^= 0x5a5a5a5a
		}
		for i := range v.Floats {
			v.Floats[i] = -v.Floats[i] - 7
		}
		for i := range v.Data {
			v.Data[i] ^= 1
		}
		for i := range v.Bits {
			v.Bits[i] = ^v.Bits[i]
		}
		for i := range v.Decimals {
			v.Decimals[i].Lo ^= 5
		}
	}
}

// writer is a running writer in memory.
type writer struct {
	table *table
	seen  func(rows int)
}

func (w *writer) Process(_ int, b *batch.Batch) error {
	w.table.take(b)
	if w.seen != nil {
		w.seen(b.Rows())
	}
	return nil
}

func (w *writer) EndEpoch(operators.Mark) error { return nil }

// results are what the writers of a query got, by name.
type results map[string]*table

// way is a way to run a graph.
type way struct {
	cuts  cuts
	tasks bool // each on a goroutine of its own
	// wrap, if not nil, may put another operator around a running one.
	wrap func(*operators.Context, operators.Operator) operators.Operator
	// seen, if not nil, is told how many rows a writer has got.
	seen func(rows int)
}

// clock is one that goes on by a second with each epoch of a single source; the epochs of several may begin
// in any order, so there it stands still.
func clock(sources int) func() time.Time {
	now := int64(1_000_000_000)
	return func() time.Time {
		if sources == 1 {
			now++
		}
		return time.Unix(now, 0)
	}
}

// run runs the graph on the inputs of its sources, by name.
func run(g *dataflow.Graph, inputs map[string]*input, w way) (results, error) {
	var tasks [][]*dataflow.Operator
	if w.tasks {
		p, err := dataflow.BuildTasks(g, dataflow.TaskOptions{Network: true, Catalog: catalog.Operators})
		if err != nil {
			return nil, err
		}
		g = p.Graph
		for _, t := range p.Tasks {
			tasks = append(tasks, t.Operators)
		}
	}
	got := results{}
	_, err := executor.Run(context.Background(), g, executor.Options{
		Tasks: tasks,
		Now:   clock(len(inputs)),
		OpenSource: func(c *operators.Context) (operators.Source, error) {
			return openSource(c, inputs[c.Op.Name], w.cuts)
		},
		Build: func(c *operators.Context) (operators.Operator, error) {
			if c.Op.Type == "writer" {
				t := &table{}
				for _, col := range c.Op.Inputs[0].Schema.Columns {
					t.columns = append(t.columns, col.Name)
				}
				got[c.Op.Name] = t
				return &writer{t, w.seen}, nil
			}
			op, err := catalog.Build(c, catalog.Options{Limit: -1})
			if err == nil && w.wrap != nil {
				op = w.wrap(c, op)
			}
			return op, err
		},
	})
	return got, err
}
