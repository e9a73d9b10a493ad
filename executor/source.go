package executor

import (
	"context"
	"errors"
	"io"
	"time"

	"sluice/dataflow/batch"
	"sluice/executor/state"
	"sluice/operators"
)

// feeder is what a feed feeds: a Task, or what carries to it.
type feeder interface {
	Begin(source int, epoch, clock int64)
	sourceRows(source, output int, b *batch.Batch, owner releaser) error
	Mark(source int, m operators.Mark) error
}

// feed cuts the rows of one source into epochs.
type feed struct {
	src       operators.Source
	ctx       *operators.Context
	index     int // of the source in its task
	opts      operators.EpochOptions
	main      int // index of the main output, -1 if the spec does not use it
	errors    int // likewise of the output "errors"
	eventTime int // column, -1 if there is none
	marker    watermarker
	view      batch.Batch // the source's batch with watermarks
	leases    sourceLeases
	clock     int64 // of the current epoch, microseconds since 1970
	lastRows  int64 // clock of the last epoch that had rows
	reported  int64 // watermark, for Query.report
	ended     bool
	stopped   bool // it has no more rows for this process

	log *feedLog    // nil for a query without state
	cut state.Epoch // the epoch that is being cut
}

func newFeed(src operators.Source, ctx *operators.Context, index int, now time.Time) *feed {
	f := &feed{src: src, ctx: ctx, index: index, opts: src.Epochs(), lastRows: now.UnixMicro(), reported: batch.MinWatermark, eventTime: -1}
	f.main, f.errors = ctx.Op.OutputPort(""), ctx.Op.OutputPort(operators.ErrorsPort.Name)
	if f.main >= 0 {
		f.eventTime = ctx.Op.Outputs[f.main].Schema.EventTime()
	}
	f.marker = watermarker{delay: f.opts.WatermarkDelay.Microseconds(), watermark: batch.MinWatermark}
	return f
}

// epoch hands on the source's rows of one epoch and then its mark. It reads until the epoch is full,
// the input has ended, ctx is done, or done says that nobody wants more. An epoch that the log has is
// cut again as it was.
func (f *feed) epoch(ctx context.Context, to feeder, m operators.Mark, done func() bool) error {
	f.cut = state.Epoch{Source: f.ctx.Op.Name, Epoch: m.Epoch, Prev: m.Prev}
	var err error
	if f.log.replays() {
		m, err = f.replay(to, m)
	} else if m, err = f.readEpoch(ctx, to, m, done); err == nil {
		err = f.log.append(f, m)
	}
	if err != nil {
		return err
	}
	return to.Mark(f.index, m)
}

// readEpoch reads the rows of a new epoch. Its mark is to be sent when it has been logged.
func (f *feed) readEpoch(ctx context.Context, to feeder, m operators.Mark, done func() bool) (operators.Mark, error) {
	f.clock = m.Clock
	to.Begin(f.index, m.Epoch, m.Clock)
	f.ended = f.ended || done()
	for f.cut.Rows < int64(f.opts.Rows) && !f.over() && (f.cut.Rows == 0 || ctx.Err() == nil) {
		rows, err := f.src.Next(ctx, f.opts.Rows-int(f.cut.Rows))
		if err != nil {
			if !f.inputOver(ctx, err) {
				return m, &OperatorError{Op: f.ctx.Op, Err: err}
			}
			break
		}
		if err := f.rows(to, rows); err != nil {
			return m, err
		}
		f.ended = f.ended || done()
	}
	m.Watermark, m.End = f.marker.watermark, f.ended
	if f.ended {
		m.Watermark = batch.MaxWatermark
	}
	m.Idle = !f.over() && f.opts.IdleTimeout > 0 && m.Clock-f.lastRows >= f.opts.IdleTimeout.Microseconds()
	return m, nil
}

// inputOver reports whether err of Next only says that there is nothing more, for now or for good.
func (f *feed) inputOver(ctx context.Context, err error) bool {
	switch {
	case errors.Is(err, io.EOF):
		f.ended = true
	case errors.Is(err, operators.ErrStopped):
		f.stop()
	case f.log != nil && passes(err):
		// The source holds what it has read and could not keep. The epoch ends here, and the next one tries again.
	case ctx.Err() != nil && errors.Is(err, ctx.Err()):
		if cause := context.Cause(ctx); errors.Is(cause, errGraceOver) || errors.Is(cause, errAborted) {
			f.stop()
		}
	default:
		return false
	}
	return true
}

// stop is for an input that has been told to stop: its end, unless another process is to go on.
func (f *feed) stop() {
	if f.log == nil {
		f.ended = true
	}
	f.stopped = true
}

// over reports whether the source has no more rows, in this process at least.
func (f *feed) over() bool { return f.ended || f.stopped }

func (f *feed) rows(to feeder, rows *operators.SourceRows) error {
	f.ctx.Counters.In.Add(int64(rows.Read))
	f.cut.Rows += int64(rows.Read)
	if rows.Read > 0 {
		f.lastRows = f.clock
	}
	if b := rows.Errors; b != nil && b.Len > 0 && f.errors >= 0 {
		f.view = *b
		f.view.Watermark, f.view.RowWatermarks = f.marker.watermark, nil
		if err := to.sourceRows(f.index, f.errors, &f.view, nil); err != nil {
			return err
		}
	}
	if rows.Batch == nil {
		return nil
	}
	f.view = *rows.Batch
	var owner releaser
	if l := f.lease(rows); l != nil {
		owner = l
		f.marker.rows, l.watermarks = l.watermarks, f.marker.rows
		f.marker.stamp(&f.view, f.eventTime)
		f.marker.rows, l.watermarks = l.watermarks, f.marker.rows
	} else {
		f.marker.stamp(&f.view, f.eventTime)
	}
	if f.main < 0 || f.view.Len == 0 {
		release(owner, &f.view)
		return nil
	}
	return to.sourceRows(f.index, f.main, &f.view, owner)
}

// watermarker computes what rows carry: the largest event time before the row less a delay.
type watermarker struct {
	delay     int64 // microseconds
	watermark int64 // after the last row
	latest    int64 // largest event time so far; meaningless before the first row
	begun     bool
	rows      []int64 // memory for RowWatermarks
}

// stamp sets the watermarks of b, which has no selection, and moves on. Rows in order share one: a
// later watermark could not make any of them late, since each is at least as late as all before it.
func (w *watermarker) stamp(b *batch.Batch, eventTime int) {
	b.Watermark, b.RowWatermarks = w.watermark, nil
	if eventTime < 0 || b.Len == 0 {
		return
	}
	times := b.Cols[eventTime].Ints[:b.Len]
	latest := times[0]
	if w.begun {
		latest = w.latest
	}
	inOrder, low, high := true, times[0], times[0]
	for _, t := range times {
		inOrder = inOrder && t >= high
		low, high = min(low, t), max(high, t)
	}
	bounds := batch.Bounds{Low: low, High: high, Watermark: w.watermark}
	if !inOrder || low < latest {
		w.stampRows(b, times)
		bounds.Watermark = b.RowWatermarks[b.Len-1]
	}
	b.SetBounds(eventTime, bounds)
	w.latest, w.begun = max(latest, high), true
	w.watermark = w.behind(w.latest)
}

func (w *watermarker) stampRows(b *batch.Batch, times []int64) {
	if cap(w.rows) < len(times) {
		w.rows = make([]int64, len(times)+len(times)/4)
	}
	w.rows = w.rows[:len(times)]
	mark, latest, begun := w.watermark, w.latest, w.begun
	for i, t := range times {
		w.rows[i] = mark
		if !begun || t > latest {
			latest, begun = t, true
			mark = w.behind(t)
		}
	}
	b.RowWatermarks = w.rows
}

// behind is t less the delay, not below the least watermark.
func (w *watermarker) behind(t int64) int64 {
	if t < batch.MinWatermark+w.delay {
		return batch.MinWatermark
	}
	return t - w.delay
}
