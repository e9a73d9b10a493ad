package file

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"runtime"
	"strconv"
	"sync/atomic"
	"time"

	"sluice/dataflow"
	"sluice/dataflow/batch"
	"sluice/operators"
	"sluice/operators/persist"
)

// source is a running reader.
type source struct {
	ctx    *operators.Context
	opts   DecodeOptions
	format string
	files  []string // in the order in which they are read
	at     int      // files that are done with; none with follow
	follow bool
	policy string // on-error
	epochs operators.EpochOptions
	rate   *limiter

	pipes bool           // some inputs cannot be read again
	pipe  pipeState      // of the one that is being read, as a position or a decoder has had it
	kept  *persist.Input // the input, through a log; nil if there is none

	unsynced error // why the log could not be brought to the disk; final

	stopped atomic.Bool
	stop    chan struct{} // closed by Stop

	in    *input  // that is being read; nil between two
	dec   Decoder // of in
	begun bool    // a chunk of in has come
	from  place   // in the file, while there is no chunk
	skip  int64   // rows of in to pass over, bad ones too: they were read before the position
	chunk *Chunk
	start place // of chunk
	row   int   // rows of chunk that have been given out
	bad   int   // likewise of chunk.Bad
	sel   []int32
	part  batch.Batch // a part of a chunk
	spare spares
	taken func(*batch.Batch) // spare.add, once it is needed
	dead  *batch.Batch
	rows  operators.SourceRows
	log   positions
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
		s.files = []string{resolvePath(ctx.Dir, op.Value("path"))}
	} else if s.files, err = inputPaths(ctx.Dir, op.Value("path")); err != nil {
		return nil, &operators.InputError{Err: err}
	}
	s.rate = newLimiter()
	if err := s.Set("rate", op.Value("rate")); err != nil {
		return nil, err
	}
	s.log.list(s)
	if err := s.setEpochs(op); err != nil {
		return nil, err
	}
	return s.keep()
}

// keep gives the source a log, if it is to have one.
func (s *source) keep() (operators.Source, error) {
	log := s.ctx.Log
	switch {
	case log == nil || s.ctx.Op.Value("persist") != "true":
		return s, nil
	case !s.pipes:
		return s, log.Close()
	case len(s.files) > 1:
		return nil, &operators.InputError{Err: fmt.Errorf("persist can keep one input only, and %q names %d, some of which cannot be read again", s.ctx.Op.Value("path"), len(s.files))}
	}
	s.kept = persist.NewInput(log, func() (persist.Origin, error) { return openPipe(s.files[0], s.stop) })
	return keptSource{s}, nil
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
	s.pipes = !s.follow && isLive(s.files)
	s.opts.Live = s.follow || s.pipes
	return nil
}

// Epochs implements operators.Source. An epoch has no interval while nothing holds the source up.
func (s *source) Epochs() operators.EpochOptions {
	o := s.epochs
	if !s.opts.Live && s.rate.perSecond() == 0 {
		o.Interval = 0
	}
	return o
}

// Set implements operators.Settable.
func (s *source) Set(param, value string) error {
	if param != "rate" {
		return operators.NotSettable(s.ctx.Op, param)
	}
	rate, err := parseRate(value)
	if err == nil {
		s.rate.set(rate)
	}
	return err
}

// Stop implements operators.Source.
func (s *source) Stop() {
	if s.stopped.CompareAndSwap(false, true) {
		close(s.stop)
	}
}

// Close implements operators.Source.
func (s *source) Close() error {
	s.Stop() // a reader that waits for more
	err := s.closeInput()
	if s.kept != nil {
		err = errors.Join(err, s.kept.Close())
	}
	return err
}

func (s *source) closeInput() error {
	var errs []error
	if s.dec != nil {
		errs = append(errs, s.dec.Close())
	}
	if s.in != nil {
		errs = append(errs, s.in.Close())
	}
	s.dec, s.in, s.chunk, s.begun = nil, nil, nil, false
	return errors.Join(errs...)
}

// Next implements operators.Source.
func (s *source) Next(ctx context.Context, max int) (*operators.SourceRows, error) {
	if s.unsynced != nil {
		return nil, s.unsynced
	}
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
	s.from = s.here()
	s.chunk = nil // it is valid until Next
	chunk, err := s.dec.Next(ctx)
	switch {
	case err == nil:
		s.setChunk(chunk)
		return nil
	case errors.Is(err, io.EOF):
		return s.endInput()
	case errors.Is(err, operators.ErrStopped):
		s.leave()
		return operators.ErrStopped
	case errors.Is(err, persist.ErrPart):
		return s.nextPart()
	case errors.Is(err, persist.ErrKeep):
		return s.failed(err)
	case errors.Is(err, ctx.Err()) && ctx.Err() != nil:
		return err
	default:
		return fmt.Errorf("%s: %w", s.opts.Name, err)
	}
}

// setChunk takes a chunk, and passes over the rows of it that have been read before.
func (s *source) setChunk(c *Chunk) {
	if !isText(s.format) && !s.begun {
		s.skip -= c.Line - 1 // the decoder has passed over these
	}
	s.begun = true
	s.chunk, s.start = c, place{offset: c.Offset, line: c.Line, file: identity{size: c.End}}
	s.row, s.bad = c.advance(0, 0, int(min(s.skip, math.MaxInt32)), false)
	s.skip -= int64(s.row + s.bad)
}

// endInput goes on to the next file.
func (s *source) endInput() error {
	if isText(s.format) && s.skip > 0 {
		return changed(s.opts.Name, fmt.Sprintf("it ends %d rows before the place up to which it was read", s.skip))
	}
	if !s.follow {
		s.at++
	}
	s.from, s.skip, s.pipe = place{}, 0, pipeState{}
	return s.closeInput()
}

// open opens the next input.
func (s *source) open() error {
	if s.stopped.Load() {
		return operators.ErrStopped
	}
	if s.at >= len(s.files) {
		return io.EOF
	}
	path := s.files[s.at]
	in, err := s.openFile(path)
	if err != nil {
		return err
	}
	o := s.opts
	o.Name, o.Offset, o.Line, o.Skip = path, s.from.offset, s.from.line, s.from.rows
	if o.Resume, err = s.resume(in); err != nil {
		return errors.Join(err, in.Close())
	}
	dec, err := newDecoder(in, s.format, o)
	if err != nil {
		return errors.Join(fmt.Errorf("%s: %w", path, err), in.Close())
	}
	s.opts.Name, s.in, s.dec, s.skip = path, in, dec, s.from.rows
	s.log.last = identity{}
	return nil
}

func (s *source) openFile(path string) (*input, error) {
	if s.follow {
		return openFollowed(path, s.followed(path), s.stop), nil
	}
	if s.kept != nil {
		in, err := s.openKept()
		if errors.Is(err, persist.ErrPart) {
			err = anotherPipe(path)
		}
		return in, err
	}
	in, err := openInput(path, s.format, s.stop)
	if err != nil && s.pipe.head != nil && compression(path) != "" {
		err = &operators.InputError{Err: fmt.Errorf("%w; it goes on in the middle of what is packed, which cannot be unpacked: start anew with another state directory, or set persist to \"true\", which keeps what is read", err)}
	}
	return in, err
}

// isText reports whether the rows of a format are lines of text.
func isText(format string) bool { return format == "csv" || format == "ndjson" }

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
	row, bad := s.chunk.advance(s.row, s.bad, max, s.policy == "fail")
	if row == s.row && bad == s.bad {
		return nil, s.badRow(&s.chunk.Bad[bad])
	}
	return s.give(row, bad), nil
}

// advance moves a place in the chunk, behind so many of its rows and bad rows, on by n rows of either
// kind, or as many as there are. With stop it goes no further than the first bad row.
func (c *Chunk) advance(row, bad, n int, stop bool) (int, int) {
	for n > 0 {
		switch {
		case bad < len(c.Bad) && c.Bad[bad].Before <= row:
			if stop {
				return row, bad
			}
			bad++
			n--
		case row < c.Batch.Len:
			end := c.Batch.Len
			if bad < len(c.Bad) {
				end = c.Bad[bad].Before
			}
			step := min(end-row, n)
			row += step
			n -= step
		default:
			return row, bad
		}
	}
	return row, bad
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
		s.giveWhole(c)
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

// giveWhole hands out all rows of a chunk, for good if it can do without them.
func (s *source) giveWhole(c *Chunk) {
	if c.detach == nil {
		s.rows.Batch = c.Batch
		return
	}
	if s.taken == nil {
		s.taken = s.spare.add
	}
	s.rows.Batch, s.rows.Release = c.detach(s.spare.take()), s.taken
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
