package persist

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"sluice/dataflow"
	"sluice/dataflow/batch"
	"sluice/operators"
)

// source is a source whose rows are in a log.
type source struct {
	ctx    *operators.Context
	inner  operators.Replayable
	log    operators.RowLog
	schema *dataflow.Schema // of the main output; nil if there is none

	number int64  // of the entry that is being given out, or that is to be written next
	row    int64  // rows of it that have been given out
	before []byte // where the inner source stood before that entry
	sought bool   // the inner source has not been brought there yet
	live   bool   // there is no entry more, and the inner source goes on
	entry  *entry // that is being given out; nil if it has not been read

	held    *operators.SourceRows // of the inner source, that are not in the log yet
	payload []byte                // their entry

	sel  []int32
	main batch.Batch
	bad  batch.Batch
	rows operators.SourceRows
}

var (
	_ operators.Trimmer  = (*source)(nil)
	_ operators.Settable = (*source)(nil)
)

// New makes a source that gives the rows of inner and can give them again, out of ctx.Log.
func New(ctx *operators.Context, inner operators.Replayable) operators.Replayable {
	s := &source{ctx: ctx, inner: inner, log: ctx.Log, number: 1, before: inner.Position()}
	if i := ctx.Op.OutputPort(""); i >= 0 {
		s.schema = ctx.Op.Outputs[i].Schema
	}
	return s
}

// Next implements operators.Source.
func (s *source) Next(ctx context.Context, max int) (*operators.SourceRows, error) {
	for !s.live {
		rows, err := s.again(max)
		if rows != nil || err != nil {
			return rows, err
		}
	}
	if s.held == nil {
		rows, err := s.inner.Next(ctx, max)
		if err != nil {
			return nil, err
		}
		if s.payload, err = encode(rows, s.inner.Position()); err != nil {
			return nil, err
		}
		s.held = rows
	}
	// Rows that could not be written are held, for who calls may try again.
	if err := s.log.AppendRows(s.number, s.payload); err != nil {
		return nil, fmt.Errorf("the log of the input's rows: %w", err)
	}
	rows := s.held
	s.before = s.inner.Position()
	s.number, s.row, s.held, s.payload = s.number+1, 0, nil, nil
	return rows, nil
}

// again gives rows out of the log. When it gives none the next entry is to be tried, or the source is live.
func (s *source) again(max int) (*operators.SourceRows, error) {
	if s.entry == nil {
		if err := s.load(); err != nil || s.live {
			return nil, err
		}
	}
	if s.row == s.entry.read {
		s.number, s.row, s.before, s.entry, s.sought = s.number+1, 0, s.entry.inner, nil, true
		return nil, nil
	}
	n := min(int64(max), s.entry.read-s.row)
	rows := s.part(s.row, s.row+n)
	s.row += n
	return rows, nil
}

// load reads the entry where the source stands. If there is none the inner source goes on.
func (s *source) load() error {
	err := s.log.Rows(s.number, func(payload []byte) error {
		var err error
		s.entry, err = decode(payload, s.schema)
		return err
	})
	if err != nil {
		return fmt.Errorf("the log of the input's rows, entry %d: %w", s.number, err)
	}
	if s.entry != nil {
		if s.row > s.entry.read {
			return errPosition
		}
		return nil
	}
	if s.row > 0 {
		return fmt.Errorf("the log of the input's rows ends before entry %d, of which %d rows have been read: it has been cut", s.number, s.row)
	}
	s.live = true
	if s.sought {
		return s.inner.Seek(s.before)
	}
	return nil
}

// part gives the rows from one number to another of the entry: those of the main output come first, then bad
// ones, then those that were skipped.
func (s *source) part(from, to int64) *operators.SourceRows {
	main, bad := rowsOf(s.entry.main), rowsOf(s.entry.errors)
	s.rows = operators.SourceRows{Read: int(to - from)}
	s.rows.Batch = s.slice(&s.main, s.entry.main, from, min(to, main))
	s.rows.Errors = s.slice(&s.bad, s.entry.errors, max(from, main)-main, min(to, main+bad)-main)
	s.ctx.Counters.Dead.Add(rowsOf(s.rows.Errors))
	s.ctx.Counters.Skipped.Add(max(0, to-max(from, main+bad)))
	return &s.rows
}

// slice makes dst a copy of rows of b; nil if there are none.
func (s *source) slice(dst, b *batch.Batch, from, to int64) *batch.Batch {
	if from >= to {
		return nil
	}
	if from == 0 && to == rowsOf(b) {
		return b
	}
	s.sel = s.sel[:0]
	for i := from; i < to; i++ {
		s.sel = append(s.sel, int32(i))
	}
	view := *b
	view.Sel = s.sel
	dst.CopyFrom(&view)
	return dst
}

// Replays implements operators.Replayable.
func (s *source) Replays() bool { return true }

// Position implements operators.Replayable.
func (s *source) Position() []byte {
	dst := binary.AppendUvarint(nil, uint64(s.number))
	dst = binary.AppendUvarint(dst, uint64(s.row))
	return append(dst, s.before...)
}

var errPosition = errors.New("the position that the state has of the input is damaged, or of another version")

func parsePosition(text []byte) (number, row int64, inner []byte, err error) {
	n, used := binary.Uvarint(text)
	if used <= 0 || int64(n) < 1 {
		return 0, 0, nil, errPosition
	}
	r, more := binary.Uvarint(text[used:])
	if more <= 0 || int64(r) < 0 {
		return 0, 0, nil, errPosition
	}
	return int64(n), int64(r), bytes.Clone(text[used+more:]), nil
}

// Seek implements operators.Replayable.
func (s *source) Seek(position []byte) error {
	number, row, before, err := parsePosition(position)
	if err != nil {
		return err
	}
	s.number, s.row, s.before, s.sought, s.live, s.entry = number, row, before, true, false, nil
	return nil
}

// Trim implements operators.Trimmer.
func (s *source) Trim(position []byte) error {
	number, _, _, err := parsePosition(position)
	if err != nil {
		return err
	}
	return s.log.Trim(number)
}

// Epochs implements operators.Source.
func (s *source) Epochs() operators.EpochOptions { return s.inner.Epochs() }

// Stop implements operators.Source. What is in the log has been read, and is given out first.
func (s *source) Stop() { s.inner.Stop() }

// Close implements operators.Source. It closes the log too, if that can be.
func (s *source) Close() error {
	err := s.inner.Close()
	if log, ok := s.log.(io.Closer); ok {
		err = errors.Join(err, log.Close())
	}
	return err
}

// Set implements operators.Settable.
func (s *source) Set(param, value string) error {
	if inner, ok := s.inner.(operators.Settable); ok {
		return inner.Set(param, value)
	}
	return operators.NotSettable(s.ctx.Op, param)
}
