package file

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strconv"
	"sync/atomic"
	"time"

	"sluice/dataflow"
	"sluice/dataflow/batch"
	"sluice/operators"
)

// source is a running reader.
type source struct {
	ctx    *operators.Context
	opts   DecodeOptions
	format string
	paths  []string // still to be opened, in order
	follow bool
	policy string // on-error
	epochs operators.EpochOptions
	rate   limiter

	stopped atomic.Bool
	stop    chan struct{} // closed by Stop

	in    *input  // that is being read; nil between two
	dec   Decoder // of in
	chunk *Chunk
	row   int // rows of chunk that have been given out
	bad   int // likewise of chunk.Bad
	sel   []int32
	part  batch.Batch // a part of a chunk
	dead  *batch.Batch
	rows  operators.SourceRows
}

// OpenReader makes a running reader. A missing input is an operators.InputError.
func OpenReader(ctx *operators.Context) (operators.Source, error) {
	op := ctx.Op
	s := &source{ctx: ctx, stop: make(chan struct{}), follow: op.Value("follow") == "true", policy: op.Value(operators.OnError.Name)}
	var err error
	if s.format, err = formatOf(op); err != nil {
		return nil, err
	}
	s.opts = DecodeOptions{
		Header: op.Value("header") == "true", Null: op.Value("null"), TimestampFormat: op.Value("timestamp-format"),
		Schema: op.Outputs[op.OutputPort("")].Schema, Workers: runtime.GOMAXPROCS(0),
	}
	if s.opts.Delimiter, err = delimiterOf(op); err != nil {
		return nil, err
	}
	if s.follow {
		s.paths = []string{resolvePath(ctx.Dir, op.Value("path"))}
	} else if s.paths, err = inputPaths(ctx.Dir, op.Value("path")); err != nil {
		return nil, &operators.InputError{Err: err}
	}
	if v := op.Value("rate"); v != "" {
		if s.rate.perSecond, err = strconv.ParseFloat(v, 64); err != nil {
			return nil, fmt.Errorf("rate: %w", err)
		}
	}
	return s, s.setEpochs(op)
}

func (s *source) setEpochs(op *dataflow.Operator) error {
	rows, err := strconv.Atoi(op.Value("epoch-rows"))
	if err != nil {
		return fmt.Errorf("epoch-rows: %w", err)
	}
	s.epochs.Rows = rows
	for _, d := range []struct {
		param string
		to    *time.Duration
	}{{"epoch-interval", &s.epochs.Interval}, {"watermark-delay", &s.epochs.WatermarkDelay}, {"idle-timeout", &s.epochs.IdleTimeout}} {
		us, err := dataflow.ParseDuration(op.Value(d.param))
		if err != nil {
			return fmt.Errorf("%s: %w", d.param, err)
		}
		*d.to = time.Duration(us) * time.Microsecond
	}
	s.opts.Live = s.follow || isLive(s.paths)
	if !s.opts.Live && s.rate.perSecond == 0 {
		s.epochs.Interval = 0
	}
	return nil
}

// Epochs implements operators.Source.
func (s *source) Epochs() operators.EpochOptions { return s.epochs }

// Stop implements operators.Source.
func (s *source) Stop() {
	if s.stopped.CompareAndSwap(false, true) {
		close(s.stop)
	}
}

// Close implements operators.Source.
func (s *source) Close() error { return s.closeInput() }

func (s *source) closeInput() error {
	var errs []error
	if s.dec != nil {
		errs = append(errs, s.dec.Close())
	}
	if s.in != nil {
		errs = append(errs, s.in.Close())
	}
	s.dec, s.in, s.chunk = nil, nil, nil
	return errors.Join(errs...)
}

// Next implements operators.Source.
func (s *source) Next(ctx context.Context, max int) (*operators.SourceRows, error) {
	max, err := s.rate.wait(ctx, s.stop, max)
	if err != nil {
		return nil, err
	}
	for s.chunk == nil || s.row == s.chunk.Batch.Len && s.bad == len(s.chunk.Bad) {
		if err := s.nextChunk(ctx); err != nil {
			return nil, err
		}
	}
	r, err := s.take(max)
	if err == nil {
		s.rate.took(r.Read)
	}
	return r, err
}

// nextChunk gets the next chunk, from the next input where one has ended.
func (s *source) nextChunk(ctx context.Context) error {
	if s.dec == nil {
		if err := s.open(); err != nil {
			return err
		}
	}
	if s.in.whole && s.stopped.Load() {
		return operators.ErrStopped
	}
	chunk, err := s.dec.Next(ctx)
	switch {
	case err == nil:
		s.chunk, s.row, s.bad = chunk, 0, 0
		return nil
	case errors.Is(err, io.EOF):
		return s.closeInput()
	case errors.Is(err, operators.ErrStopped):
		return operators.ErrStopped
	case errors.Is(err, ctx.Err()) && ctx.Err() != nil:
		return err
	default:
		return fmt.Errorf("%s: %w", s.opts.Name, err)
	}
}

// open opens the next input.
func (s *source) open() error {
	if s.stopped.Load() {
		return operators.ErrStopped
	}
	if len(s.paths) == 0 {
		return io.EOF
	}
	path := s.paths[0]
	if !s.follow {
		s.paths = s.paths[1:]
	}
	in, err := openInput(path, s.format, s.follow, s.stop)
	if err != nil {
		return err
	}
	o := s.opts
	o.Name = path
	dec, err := newDecoder(in, s.format, o)
	if err != nil {
		return errors.Join(fmt.Errorf("%s: %w", path, err), in.Close())
	}
	s.opts.Name, s.in, s.dec = path, in, dec
	return nil
}

func newDecoder(in *input, format string, o DecodeOptions) (Decoder, error) {
	switch format {
	case "ndjson":
		return newNDJSONDecoder(in.r, o)
	case "arrow":
		return newArrowDecoder(in.r, o)
	case "parquet":
		return newParquetDecoder(in.file, o)
	}
	return newCSVDecoder(in.r, o)
}

// take gives out the next rows of the chunk: max of them at most, bad ones counted too.
func (s *source) take(max int) (*operators.SourceRows, error) {
	c := s.chunk
	row, bad := s.row, s.bad
	for read := 0; read < max; read++ {
		switch {
		case bad < len(c.Bad) && c.Bad[bad].Before <= row:
			if s.policy == "fail" {
				if row == s.row {
					return nil, s.badRow(&c.Bad[bad])
				}
				return s.give(row, bad), nil
			}
			bad++
		case row < c.Batch.Len:
			end := c.Batch.Len
			if bad < len(c.Bad) {
				end = c.Bad[bad].Before
			}
			n := min(end-row, max-read)
			row += n
			read += n - 1
		default:
			return s.give(row, bad), nil
		}
	}
	return s.give(row, bad), nil
}

func (s *source) badRow(b *BadRow) error {
	hint := ""
	if s.ctx.Op.OutputPort(operators.ErrorsPort.Name) < 0 {
		hint = `; set on-error to skip or dead-letter to go on without such rows`
	}
	return fmt.Errorf("%s: %s; the row is %q%s", s.place(b), b.Reason, shorten(b.Raw), hint)
}

func (s *source) place(b *BadRow) string { return fmt.Sprintf("%s:%d", s.opts.Name, b.Line) }

// shorten keeps a message readable that quotes a long row.
func shorten(raw []byte) []byte {
	const most = 200
	if len(raw) > most {
		return append(append([]byte(nil), raw[:most]...), "..."...)
	}
	return raw
}

// give hands out the chunk up to row and bad row given.
func (s *source) give(row, bad int) *operators.SourceRows {
	c := s.chunk
	s.rows = operators.SourceRows{Read: row - s.row + bad - s.bad}
	switch {
	case row == s.row:
	case s.row == 0 && row == c.Batch.Len:
		s.rows.Batch = c.Batch
	default:
		s.sel = s.sel[:0]
		for i := s.row; i < row; i++ {
			s.sel = append(s.sel, int32(i))
		}
		view := *c.Batch
		view.Sel = s.sel
		s.part.CopyFrom(&view)
		s.rows.Batch = &s.part
	}
	if bad > s.bad {
		s.countBad(c.Bad[s.bad:bad])
	}
	s.row, s.bad = row, bad
	return &s.rows
}

func (s *source) countBad(bad []BadRow) {
	if s.policy == "skip" {
		s.ctx.Counters.Skipped.Add(int64(len(bad)))
		return
	}
	s.ctx.Counters.Dead.Add(int64(len(bad)))
	if s.dead == nil {
		s.dead = batch.New(operators.ErrorsSchema)
	}
	s.dead.Reset()
	for i := range bad {
		s.dead.Cols[0].AppendBytes(bytes.ToValidUTF8(bad[i].Raw, []byte("\uFFFD")))
		s.dead.Cols[1].AppendBytes([]byte(s.place(&bad[i])))
		s.dead.Cols[2].AppendBytes([]byte(bad[i].Reason))
	}
	s.dead.Len = len(bad)
	s.rows.Errors = s.dead
}
