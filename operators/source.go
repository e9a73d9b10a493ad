package operators

import (
	"context"
	"errors"
	"time"

	"sluice/dataflow/batch"
)

// ErrStopped is returned by a Source that was told to stop before its input ended.
var ErrStopped = errors.New("operators: source stopped")

// Source is a running source operator: it brings rows from outside, and whoever runs it cuts them into
// epochs. One goroutine calls it, except for Stop.
type Source interface {
	// Next returns at most max rows, waiting until there are some or ctx is done; then it returns ctx's
	// error, and nothing is lost. io.EOF means that the input has ended, ErrStopped that the source has
	// been stopped and has given all that it had read.
	Next(ctx context.Context, max int) (*SourceRows, error)
	// Epochs says how the source's rows are to be cut into epochs. It may say something else after a
	// parameter has been set (Settable).
	Epochs() EpochOptions
	// Stop ends the input where it stands. It may be called from any goroutine, and again.
	Stop()
	// Close releases what the source holds.
	Close() error
}

// SourceRows is a run of rows of a source. It is valid until the next call of Next.
type SourceRows struct {
	Batch  *batch.Batch // rows for the main output, without watermarks; may be nil
	Errors *batch.Batch // rows for the output "errors"; may be nil
	// Read counts the rows taken from the input, bad ones included.
	Read int
	// Release, if not nil, says that Batch, with all its memory, is the taker's until he calls Release with it, once.
	// He may do so on any goroutine, also after the next call of Next, and need not when the query has ended.
	Release func(*batch.Batch)
}

// EpochOptions say how a source's rows are cut into epochs and what its watermark is.
type EpochOptions struct {
	// Rows is the most rows that an epoch may have.
	Rows int
	// Interval ends an epoch that has not been filled; zero for a bounded source, which always fills it.
	Interval time.Duration
	// WatermarkDelay is how far the watermark stays behind the largest event time.
	WatermarkDelay time.Duration
	// IdleTimeout is how long a source may have no rows before it says that it is idle; zero: never.
	IdleTimeout time.Duration
}

// ErrDone is returned by a sink that wants no more rows: it has as many as it was asked for, or nobody
// reads what it writes. It ends the sink's part of the query without being a failure.
var ErrDone = errors.New("operators: sink is done")

// InputError is an input that is missing or cannot be what the spec says. The query has not begun.
type InputError struct{ Err error }

func (e *InputError) Error() string { return e.Err.Error() }
func (e *InputError) Unwrap() error { return e.Err }
