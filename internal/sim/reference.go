package sim

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"

	"sluice/dataflow"
	"sluice/dataflow/batch"
	"sluice/executor"
	"sluice/executor/state"
	"sluice/metaquery"
	"sluice/operators"
	"sluice/operators/catalog"
)

// reference runs the logical graph in one task over the epochs of the epoch logs, and makes changes at
// their epochs. What it gives is what the cluster has to give.
type reference struct {
	world   *world
	task    *executor.Task
	sources []*logged
	sinks   map[string]*collector
	running map[string]operators.Operator
}

// logged is a source with its epoch log.
type logged struct {
	name    string
	in      *input
	schema  *dataflow.Schema
	entries []state.Epoch
	row     int
	latest  int64 // largest event time so far
	begun   bool
	last    operators.Mark
}

// collector is a sink of the reference.
type collector struct{ lines, epoch []line }

// Process implements operators.Operator.
func (c *collector) Process(_ int, b *batch.Batch) error {
	for _, text := range texts(b) {
		c.epoch = append(c.epoch, line{text: text})
	}
	return nil
}

// EndEpoch implements operators.Operator.
func (c *collector) EndEpoch(m operators.Mark) error {
	for _, l := range c.epoch {
		c.lines = append(c.lines, line{m.Epoch, l.text})
	}
	c.epoch = nil
	return nil
}

// expected gives the rows that each sink has to have.
func (w *world) expected() (map[string][]line, error) {
	r := &reference{world: w, sinks: map[string]*collector{}, running: map[string]operators.Operator{}}
	g := w.workload.logical
	var err error
	if r.task, err = executor.NewTask(g.Topological(), nil, g.Dir, r.build); err != nil {
		return nil, err
	}
	for _, c := range r.task.Sources() {
		r.sources = append(r.sources, &logged{
			name: c.Op.Name, in: w.inputs[c.Op.Name], schema: c.Op.Outputs[0].Schema, entries: w.disk.history[c.Op.Name],
			last: operators.Mark{Watermark: batch.MinWatermark},
		})
	}
	if err := r.run(); err != nil {
		return nil, err
	}
	lines := map[string][]line{}
	for name, c := range r.sinks {
		lines[name] = c.lines
	}
	return lines, nil
}

func (r *reference) build(c *operators.Context) (operators.Operator, error) {
	if c.Op.Type == "writer" {
		r.sinks[c.Op.Name] = &collector{}
		return r.sinks[c.Op.Name], nil
	}
	op, err := catalog.Build(c, catalog.Options{Limit: -1})
	r.running[c.Op.Name] = op
	return op, err
}

// run feeds all sources epoch by epoch: one that has not cut an epoch gives its mark without rows.
func (r *reference) run() error {
	numbers := map[int64]bool{}
	for _, s := range r.sources {
		for _, e := range s.entries {
			if e.Epoch > 0 {
				numbers[e.Epoch] = true
			}
		}
	}
	changes := r.changes()
	for _, epoch := range slices.Sorted(maps.Keys(numbers)) {
		for len(changes) > 0 && changes[0].Epoch <= epoch {
			if err := r.set(changes[0]); err != nil {
				return err
			}
			changes = changes[1:]
		}
		for i, s := range r.sources {
			if err := s.epoch(r.task, i, epoch); err != nil {
				return fmt.Errorf("source %s, epoch %d: %w", s.name, epoch, err)
			}
		}
	}
	return r.complete()
}

// changes are those of operators of the spec that were committed, in order.
func (r *reference) changes() []metaquery.Tuple {
	var list []metaquery.Tuple
	for _, name := range sorted(r.world.checks.changes) {
		list = append(list, r.world.checks.changes[name]...)
	}
	slices.SortStableFunc(list, func(a, b metaquery.Tuple) int {
		return cmp.Or(cmp.Compare(a.Epoch, b.Epoch), cmp.Compare(a.Seq, b.Seq))
	})
	return list
}

// set makes a change, which the record has for each replica of an operator.
func (r *reference) set(t metaquery.Tuple) error {
	name := t.Operator
	if op := r.world.query.Graph.Operator(name); op != nil && op.Origin != nil && r.running[name] == nil {
		name = op.Origin.Of
	}
	op, ok := r.running[name].(operators.Settable)
	if !ok {
		return fmt.Errorf("operator %s cannot be set", name)
	}
	return op.Set(t.Param, t.Value)
}

// epoch hands over the rows of an epoch and its mark.
func (s *logged) epoch(t *executor.Task, i int, epoch int64) error {
	if s.last.End {
		return nil
	}
	k := slices.IndexFunc(s.entries, func(e state.Epoch) bool { return e.Epoch == epoch })
	m := operators.Mark{Epoch: epoch, Prev: s.last.Epoch, Clock: s.last.Clock, Watermark: s.last.Watermark, Idle: s.last.Idle}
	if k < 0 {
		t.Begin(i, epoch, m.Clock)
		s.last = m
		return t.Mark(i, m)
	}
	e := s.entries[k]
	t.Begin(i, epoch, e.Clock)
	if s.row+int(e.Rows) > len(s.in.rows) {
		return errors.New("the log has more rows than the input")
	}
	if e.Rows > 0 {
		if err := t.Rows(i, 0, s.rows(int(e.Rows))); err != nil {
			return err
		}
	}
	m.Clock, m.Idle, m.End, m.Watermark = e.Clock, e.Idle, e.End, s.watermark()
	if e.End {
		m.Watermark = batch.MaxWatermark
	} else if e.Watermark != m.Watermark {
		return fmt.Errorf("the log has watermark %d, it is %d", e.Watermark, m.Watermark)
	}
	s.last = m
	return t.Mark(i, m)
}

// rows gives the next rows, each with the watermark that there was before it.
func (s *logged) rows(n int) *batch.Batch {
	b := batch.New(s.schema)
	b.Watermark = s.watermark()
	for range n {
		r := s.in.rows[s.row]
		b.RowWatermarks = append(b.RowWatermarks, s.watermark())
		appendRecord(b, r)
		if !s.begun || r.time > s.latest {
			s.latest, s.begun = r.time, true
		}
		s.row++
	}
	return b
}

func (s *logged) watermark() int64 {
	if !s.begun {
		return batch.MinWatermark
	}
	return s.latest - s.in.options.WatermarkDelay.Microseconds()
}

// complete checks that the logs have all of the input, unless the query was stopped.
func (r *reference) complete() error {
	for _, s := range r.sources {
		if r.world.plan.StopAt == 0 && (s.row != len(s.in.rows) || !s.last.End) {
			return fmt.Errorf("source %s: the log has %d rows (ended: %v), the input %d", s.name, s.row, s.last.End, len(s.in.rows))
		}
	}
	return nil
}
