// Package operators is what the operators of a dataflow do: their contract, the registry of their
// descriptors and the operators that belong to no larger family. See doc.go.
package operators

import (
	"sluice/dataflow"
	"sluice/dataflow/batch"
)

// Operator is a running operator. All its methods are called by one goroutine, one at a time.
//
// For each epoch the caller hands it the epoch's rows input by input in declared order, and then calls
// EndEpoch. What it emits must be a function of its state and these rows alone: not of how the rows
// were cut into batches, of arrival times, map iteration order or the wall clock (Context.Clock is the
// epoch's logged clock).
type Operator interface {
	// Process takes rows of input in. b belongs to the caller and is valid until Process returns. The
	// error ends the query; it names the operator's own trouble, and the caller adds its name.
	Process(in int, b *batch.Batch) error
	// EndEpoch is called when all inputs have ended the epoch.
	EndEpoch(m Mark) error
}

// Mark says that an epoch is over.
type Mark struct {
	Epoch int64
	Prev  int64 // the epoch before it; numbers may skip
	// Watermark is the least watermark over all inputs that are neither idle nor ended;
	// batch.MaxWatermark when all have ended.
	Watermark int64
	Clock     int64 // the epoch's clock, microseconds since 1970 UTC
	Idle      bool  // no input has had anything to say for a while; Watermark is to be left out of a least
	End       bool  // there will be no further epoch
	Stop      bool  // the process ends after this epoch; another one may go on with the next
}

// Output takes what an operator emits on one of its outputs.
type Output interface {
	// Emit passes b on. b belongs to the operator that emits, and is free for reuse when Emit returns.
	// An error must be returned to the caller as it is.
	Emit(b *batch.Batch) error
}

// Context is what a running operator knows of its surroundings.
type Context struct {
	Op *dataflow.Operator
	// Outputs are where the operator's outputs go, in the order of Op.Outputs.
	Outputs []Output
	// Clock points at the clock of the epoch that is being worked on.
	Clock *int64
	// Epoch points at the number of the epoch that is being worked on.
	Epoch *int64
	// Counters collects what happened to rows.
	Counters *Counters
	// Dir is the folder against which relative paths are taken.
	Dir string
	// Log is where a source keeps an input that it cannot read again; nil if there is no such place. The source
	// closes it.
	Log InputLog
}

// Port returns the output of the named port ("" is the main one), or nil if the spec does not use it.
func (c *Context) Port(name string) Output {
	if i := c.Op.OutputPort(name); i >= 0 {
		return c.Outputs[i]
	}
	return nil
}

// Closer is an Operator that holds something to be released. Close is called once, whatever became of
// the query; commit tells whether it ran to its end, so that what was written may become visible.
type Closer interface {
	Close(commit bool) error
}

// Race marks an Operator whose inputs are copies of one stream. It gets each row of an epoch once, from
// whichever input brings it first, and does not wait for the others to end the epoch.
type Race interface {
	Race()
}

// Preferring is a Race that would rather have its rows from one of its inputs.
type Preferring interface {
	Race
	// Preferred is the input, from 0, from which rows are to come as long as all above it runs; -1: any. It
	// affects no row, since all inputs bring the same. It may be called by any goroutine.
	Preferred() int
}
