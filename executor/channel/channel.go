package channel

import (
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
	// Rows is nil for a mark. It belongs to whoever gets the Delivery, until it calls Release.
	Rows *batch.Batch
	Mark operators.Mark // if Rows is nil
	// Cost is what the delivery takes of the credit, in bytes. It comes back by Receiver.Release.
	Cost int64
}
