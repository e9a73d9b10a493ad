package channel

import (
	"errors"
	"math"

	"sluice/dataflow/batch"
	"sluice/operators"
)

// Position is a place in a channel: behind row Row-1 of Epoch. Row counts from 0 in each epoch; MarkRow is
// behind the epoch's mark.
type Position struct {
	Epoch int64
	Row   int64
}

// MarkRow is the Row of a Position behind the mark of its epoch.
const MarkRow int64 = math.MaxInt64

// After is the place behind the whole epoch.
func After(epoch int64) Position { return Position{epoch, MarkRow} }

// Less reports whether p is before q.
func (p Position) Less(q Position) bool {
	return p.Epoch < q.Epoch || p.Epoch == q.Epoch && p.Row < q.Row
}

// Delivery is what a Receiver gives the task, each row and each mark once and in order.
type Delivery struct {
	Epoch, Prev int64
	Clock       int64 // of the epoch, microseconds since 1970
	// Row is the index in the epoch of the first row of Rows; for a mark, how many rows the epoch has.
	Row int64
	// Rows is nil for a mark. It belongs to whoever gets the Delivery, until it calls Release. It is to be
	// read only: its memory is the message's, which the producer may still keep.
	Rows *batch.Batch
	Mark operators.Mark // if Rows is nil
	// Sum is the checksum of the epoch's rows, for a mark. Two channels that carry copies of one stream have
	// the same for the same epoch, however the rows were cut into frames.
	Sum uint64
	// Cost is what the delivery takes of the credit, in bytes. It comes back by Receiver.Release.
	Cost int64
}

// DefaultWindow is the credit of a channel unless the configuration says otherwise, in bytes.
const DefaultWindow = 4 << 20

var (
	// ErrDamaged says that a message is not what its sender made: cut off, changed, or made up. The owner
	// drops it; what is missing then is asked for again.
	ErrDamaged = errors.New("channel: damaged message")
	// ErrSchema says that the producer sends rows of other columns than the consumer takes.
	ErrSchema = errors.New("channel: rows of another schema")
	// ErrDiffers says that the producer's rows of an epoch are not those that it, or an instance before it,
	// has sent already. The query cannot go on: an operator's output depends on more than its input.
	ErrDiffers = errors.New("channel: the rows of an epoch differ from those sent before")
	// ErrOrder says that the producing task handed over rows or marks out of order.
	ErrOrder = errors.New("channel: out of order")
	// ErrTooLarge says that one row is larger than a message may be.
	ErrTooLarge = errors.New("channel: row too large")
	// ErrSpill says that retained rows could not be read back from the disk.
	ErrSpill = errors.New("channel: retained rows are lost")
)
