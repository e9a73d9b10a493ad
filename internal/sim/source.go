package sim

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"strings"

	"sluice/dataflow"
	"sluice/dataflow/batch"
	"sluice/operators"
)

// record is a row of the input.
type record struct {
	at    int64 // when it is there to be read, in microseconds after the beginning
	time  int64 // its event time
	key   string
	value int64
	large bool
}

// large is what makes a row so large that no other one is sent with it.
var large = []byte(strings.Repeat("large ", 12<<10))

// input is what a source reads.
type input struct {
	rows    []record
	endless bool // it ends only when it is told to stop
	options operators.EpochOptions
}

// drawInput draws n rows that come within a span of time.
func (w *world) drawInput(n int, span int64) *input {
	in := &input{}
	at, now := int64(0), int64(beginning)
	for i := range n {
		if w.chance(0.4) {
			at += w.between(0, 2*span/int64(n))
		}
		now += w.between(0, 3) * second
		r := record{at: at, time: now, key: string(rune('a' + w.rand.IntN(5))), value: int64(i%50)*100 + w.between(0, 9)}
		if w.chance(0.3) {
			r.time -= w.between(0, 20) * second
		}
		r.large = w.plan.Wide && w.chance(0.4)
		in.rows = append(in.rows, r)
	}
	return in
}

// source reads an input; it implements operators.Replayable.
type source struct {
	host    *host
	in      *input
	schema  *dataflow.Schema
	row     int
	stopped bool
	out     operators.SourceRows
}

func (w *world) openSource(h *host, c *operators.Context) (operators.Source, error) {
	return &source{host: h, in: w.inputs[c.Op.Name], schema: c.Op.Outputs[c.Op.OutputPort("")].Schema}, nil
}

// patience is how long a cut may read: until a source has nothing more to give for now.
type patience struct{ cancel context.CancelFunc }

type patienceKey struct{}

// newPatience makes the context of a cut.
func newPatience() (context.Context, *patience) {
	p := &patience{}
	ctx, cancel := context.WithCancel(context.WithValue(context.Background(), patienceKey{}, p))
	p.cancel = cancel
	return ctx, p
}

// Next implements operators.Source.
func (s *source) Next(ctx context.Context, most int) (*operators.SourceRows, error) {
	w := s.host.worker.world
	there := 0 // rows that are there
	for s.row+there < len(s.in.rows) && beginning+s.in.rows[s.row+there].at <= w.now {
		there++
	}
	p, fresh := ctx.Value(patienceKey{}).(*patience)
	if !fresh { // what has been read before is read again
		there = len(s.in.rows) - s.row
	}
	if there == 0 {
		return nil, s.nothing(p)
	}
	n := min(there, most, 1+w.rand.IntN(4))
	if fresh && w.chance(0.3) {
		p.cancel()
	}
	b := batch.New(s.schema)
	for _, r := range s.in.rows[s.row : s.row+n] {
		appendRecord(b, r)
	}
	s.row += n
	s.out = operators.SourceRows{Batch: b, Read: n}
	return &s.out, nil
}

// nothing tells why there are no rows.
func (s *source) nothing(p *patience) error {
	switch {
	case s.row == len(s.in.rows) && !s.in.endless:
		return io.EOF
	case s.stopped:
		return operators.ErrStopped
	case p == nil:
		return errors.New("sim: an endless input has no such row")
	}
	p.cancel()
	return context.Canceled
}

func appendRecord(b *batch.Batch, r record) {
	for i := range b.Cols {
		v := &b.Cols[i]
		switch b.Schema.Columns[i].Name {
		case "ts":
			v.Append(&batch.Vector{Type: v.Type, Len: 1, Ints: []int64{r.time}}, 0)
		case "k":
			v.AppendBytes([]byte(r.key))
		case "p":
			if r.large {
				v.AppendBytes(large)
			} else {
				v.AppendBytes(nil)
			}
		default:
			v.Append(&batch.Vector{Type: v.Type, Len: 1, Ints: []int64{r.value}}, 0)
		}
	}
	b.Len++
}

// Epochs implements operators.Source.
func (s *source) Epochs() operators.EpochOptions { return s.in.options }

// Stop implements operators.Source.
func (s *source) Stop() { s.stopped = true }

// Close implements operators.Source.
func (s *source) Close() error { return nil }

// Replays implements operators.Replayable.
func (s *source) Replays() bool { return true }

// Position implements operators.Replayable.
func (s *source) Position() []byte { return binary.AppendUvarint(nil, uint64(s.row)) }

// Seek implements operators.Replayable.
func (s *source) Seek(position []byte) error {
	row, n := binary.Uvarint(position)
	if n != len(position) || row > uint64(len(s.in.rows)) {
		return errors.New("sim: a damaged position")
	}
	s.row = int(row)
	return nil
}
