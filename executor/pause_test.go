package executor_test

import (
	"context"
	"io"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"sluice/dataflow/batch"
	"sluice/executor"
	"sluice/executor/state"
	"sluice/operators"
	"sluice/operators/catalog"
)

const millionSpec = `<dataflow name="million">
  <type name="Row"><column name="k" type="int"/><column name="v" type="int"/></type>
  <operator name="in" type="reader"><output name="rows" type="Row"/></operator>
  <operator name="sums" type="aggregate"><input name="rows"/><param name="group-by" value="k"/><param name="select" value="k, count(*) AS n, sum(v) AS s"/><output name="groups"/></operator>
  <operator name="out" type="writer"><input name="groups"/><param name="path" value="out.csv"/></operator>
</dataflow>`

// manyKeys is a source of rows with many keys. It knows how long the query takes between two calls, at most,
// once all keys are there.
type manyKeys struct {
	keys, at, most int64
	rows           *batch.Batch
	out            operators.SourceRows
	left           time.Time // when Next returned last
	pause          time.Duration
}

const manyRows = 8192 // an epoch

func (s *manyKeys) Next(context.Context, int) (*operators.SourceRows, error) {
	if s.at > s.keys+manyRows {
		s.pause = max(s.pause, time.Since(s.left))
	}
	if s.at >= s.most {
		return nil, io.EOF
	}
	s.rows.Len = manyRows
	for c := range s.rows.Cols {
		s.rows.Cols[c].Reset(s.rows.Schema.Columns[c].Type, manyRows)
		for i := range int64(manyRows) {
			s.rows.Cols[c].Ints[i] = (s.at + i) * 7919 % s.keys
		}
	}
	s.at += manyRows
	s.out = operators.SourceRows{Batch: s.rows, Read: manyRows}
	s.left = time.Now()
	return &s.out, nil
}

func (s *manyKeys) Epochs() operators.EpochOptions { return operators.EpochOptions{Rows: manyRows} }
func (s *manyKeys) Stop()                          {}
func (s *manyKeys) Close() error                   { return nil }
func (s *manyKeys) Replays() bool                  { return true }
func (s *manyKeys) Position() []byte               { return nil }
func (s *manyKeys) Seek([]byte) error              { return nil }

// unfrozen hides that an operator can be copied at once.
type unfrozen struct{ operators.Stateful }

// BenchmarkPause is the longest time for which a query with a million groups does not ask for rows, with a
// checkpoint every 20 epochs of 8192 rows each: without checkpoints, with copies that are written in the background,
// and with pieces that are made at the boundary. It is the median over the runs.
func BenchmarkPause(b *testing.B) {
	for _, c := range []struct {
		name     string
		every    int64
		unfrozen bool
	}{{"checkpoints=none", 0, false}, {"checkpoints=background", 20, false}, {"checkpoints=at-once", 20, true}} {
		b.Run(c.name, func(b *testing.B) {
			var pauses []time.Duration
			for b.Loop() {
				pauses = append(pauses, pauseOf(b, c.every, c.unfrozen))
			}
			slices.Sort(pauses)
			b.ReportMetric(float64(pauses[len(pauses)/2].Microseconds())/1000, "pause-ms")
		})
	}
}

func pauseOf(b *testing.B, every int64, hidden bool) time.Duration {
	dir := b.TempDir()
	store, err := state.Open(filepath.Join(dir, "state"), state.Options{Fsync: state.FsyncGrouped})
	if err != nil {
		b.Fatal(err)
	}
	defer store.Close()
	p := editPlan(b, dir, millionSpec, 1, nil)
	src := &manyKeys{keys: 1_000_000, most: 3_000_000}
	o := executor.Options{State: store, CheckpointEpochs: every}
	o.Build = func(c *operators.Context) (operators.Operator, error) {
		op, err := catalog.Build(c, catalog.Options{Limit: -1})
		if s, ok := op.(operators.Stateful); ok && hidden {
			return unfrozen{s}, err
		}
		return op, err
	}
	o.OpenSource = func(c *operators.Context) (operators.Source, error) {
		src.rows = batch.New(c.Op.Outputs[0].Schema)
		return src, nil
	}
	if _, err := executor.Run(context.Background(), p.Graph, o); err != nil {
		b.Fatal(err)
	}
	return src.pause
}
