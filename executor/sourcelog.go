package executor

import (
	"context"
	"errors"
	"fmt"
	"io"

	"sluice/dataflow/batch"
	"sluice/executor/state"
	"sluice/operators"
)

// feedLog is what a durable query keeps of one source: its epoch log. A nil feedLog keeps nothing.
type feedLog struct {
	add    func(state.Epoch) error // to the log
	source operators.Replayable
	replay []state.Epoch // epochs that have to be cut again, in order
}

// openLog brings the feed to the end of epoch base, and finds what has to be cut again. entries are
// what the log has, add adds to it.
func (f *feed) openLog(entries []state.Epoch, add func(state.Epoch) error, base int64) error {
	src, ok := f.src.(operators.Replayable)
	if !ok {
		return errors.New("a query with state cannot have this source: it has no positions")
	}
	f.log = &feedLog{add: add, source: src}
	if len(entries) == 0 {
		// What the input is now is what epoch 1 begins with, in every process.
		return add(state.Epoch{Source: f.ctx.Op.Name, Watermark: batch.MinWatermark, Position: src.Position()})
	}
	start := entries[0]
	for _, e := range entries {
		if e.Epoch <= base {
			start = e
		} else {
			f.log.replay = append(f.log.replay, e)
		}
	}
	f.marker.watermark, f.marker.latest, f.marker.begun = start.Watermark, start.Latest, start.Begun
	f.ended = false
	f.log.wasOver(f, start)
	// The last position first: what the input was like then, it is to be like again.
	if err := src.Seek(entries[len(entries)-1].Position); err != nil {
		return err
	}
	if !src.Replays() {
		f.log.giveUp(f.ctx.Counters)
		return nil
	}
	return src.Seek(start.Position)
}

// wasOver is for a source that had ended before the checkpoint: it says so once more.
func (l *feedLog) wasOver(f *feed, start state.Epoch) {
	if start.End {
		l.replay = []state.Epoch{{Source: start.Source, Epoch: start.Epoch, Clock: start.Clock, Watermark: start.Watermark, End: true, Position: start.Position}}
	}
}

// giveUp is for an input that cannot be read again: its epochs are cut again without rows.
func (l *feedLog) giveUp(c *operators.Counters) {
	for i := range l.replay {
		c.Lost.Add(l.replay[i].Rows)
		l.replay[i].Rows = 0
	}
}

// replays reports whether the next epoch is in the log already.
func (l *feedLog) replays() bool { return l != nil && len(l.replay) > 0 }

// replay reads the rows of an epoch of the log.
func (f *feed) replay(to feeder, m operators.Mark) (operators.Mark, error) {
	e := f.log.replay[0]
	f.log.replay = f.log.replay[1:]
	if e.Epoch > m.Epoch {
		return m, &OperatorError{Op: f.ctx.Op, Err: fmt.Errorf("the epoch log goes on with epoch %d, not %d: it is damaged", e.Epoch, m.Epoch)}
	}
	f.clock = e.Clock
	to.Begin(f.index, m.Epoch, e.Clock)
	for f.cut.Rows < e.Rows {
		rows, err := f.src.Next(context.Background(), int(e.Rows-f.cut.Rows))
		if errors.Is(err, io.EOF) {
			err = fmt.Errorf("epoch %d had %d rows when it was read first, and now the input ends after %d of them: it has changed", e.Epoch, e.Rows, f.cut.Rows)
		}
		if errors.Is(err, operators.ErrStopped) {
			return m, err
		}
		if err != nil {
			return m, &OperatorError{Op: f.ctx.Op, Err: err}
		}
		if err := f.rows(to, rows); err != nil {
			return m, err
		}
	}
	f.marker.watermark, f.marker.latest, f.marker.begun = e.Watermark, e.Latest, e.Begun
	f.ended = e.End
	m.Clock, m.Watermark, m.Idle, m.End = e.Clock, e.Watermark, e.Idle, e.End
	if e.End {
		m.Watermark = batch.MaxWatermark
	}
	return m, nil
}

// append logs a new epoch, before its mark is sent.
func (l *feedLog) append(f *feed, m operators.Mark) error {
	if l == nil {
		return nil
	}
	return l.add(l.entry(f, m))
}

// entry is what the log says of a new epoch.
func (l *feedLog) entry(f *feed, m operators.Mark) state.Epoch {
	e := f.cut
	e.Clock, e.Watermark, e.Latest, e.Begun = m.Clock, f.marker.watermark, f.marker.latest, f.marker.begun
	e.Idle, e.End, e.Position = m.Idle, m.End, l.source.Position()
	return e
}
