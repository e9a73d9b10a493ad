package operators

import (
	"errors"
	"math"
)

// The contracts of operators that survive the end of their process. Who runs them keeps what they give
// in a state directory, and hands it back to those of the next process.

// Stateful is an Operator that keeps something from one epoch to the next.
type Stateful interface {
	Operator
	// Snapshot gives the operator's whole state as it is between two epochs, as pieces that belong to one
	// key group each (0 to dataflow.KeyGroups-1), or to none (WholeState). A key group may have several
	// pieces, and an operator without state none. keep must not keep piece, which is free for reuse when
	// it returns.
	Snapshot(keep func(group int, piece []byte) error) error
	// Restore adds a piece that a snapshot of such an operator gave, in the order in which it did, before
	// the first Process. An operator that is one of several partitions is given the pieces of its own
	// key groups only, those of WholeState, and it may be pieces of several operators; all are of one
	// epoch. A piece that is damaged, or of an operator with other parameters, is an error. After an
	// error the operator is of no use. Restore does not keep piece.
	Restore(group int, piece []byte) error
	// Fingerprint names everything that the state depends on, a "name: value" a line. Operators with equal
	// fingerprints can be given each other's pieces; all others refuse them.
	Fingerprint() string
}

// Freezer is a Stateful whose state can be copied in much less time than it takes to write it.
type Freezer interface {
	Stateful
	// Freeze copies the operator's state as it is between two epochs, so that the operator can go on
	// while the copy is being written.
	Freeze() (Frozen, error)
}

// Frozen is a copy of the state of an operator.
type Frozen interface {
	// Write gives the pieces that Snapshot would have given when the copy was made. It may be called
	// once, by any goroutine, whatever the operator does meanwhile.
	Write(keep func(group int, piece []byte) error) error
}

// Pending is a Committer whose commits count only once somebody else has confirmed them: that rows have been
// given away does not say that they have arrived. Package operators/pending keeps track of such commits.
//
// Who runs it has a choice. Whoever calls Confirm between Recover and the first Process, and from time to
// time after that, takes for done only what it confirms: a checkpoint is complete when the frontiers of all sinks have
// reached it. For whoever never calls it Commit with now set waits until everything is confirmed.
type Pending interface {
	Committer
	// Confirm looks, without waiting, which commits have been confirmed, and sends again what has been lost.
	// frontier is the epoch up to which everything is confirmed; Everything if nothing of this sink needs to
	// be. It never goes back, but after a Recover it may be lower than before. A witness that is not nil takes the place of the one of the last commit and is to be recorded
	// with that one's epoch.
	Confirm() (frontier int64, witness []byte, err error)
}

// Everything is the frontier of a sink all of whose commits count at once.
const Everything int64 = math.MaxInt64

// ErrFenced is returned by a sink whose output another process has gone on with: what it writes now counts
// for nothing, and it must not try again.
var ErrFenced = errors.New("operators: fenced: another process has gone on with this output")

// WholeState is the group of a piece of state that belongs to no key group.
const WholeState = -1

// Replayable is a Source that can read the same rows again in another process.
type Replayable interface {
	Source
	// Replays reports whether the input can be read again. It cannot if it comes from a pipe, say: then
	// Seek leaves out what can be told to have been read, and Next goes on with whatever the input brings.
	Replays() bool
	// Position returns where the source stands, behind all rows that Next has returned.
	Position() []byte
	// Seek makes Next go on from a position. It is called before the first Next. An error says that the
	// position is damaged, that another source gave it, or that the input has changed since.
	//
	// Seek may be called several times; the last call counts. Whoever reads rows again that have been read
	// up to a later position calls Seek with that one first: inputs that turned up meanwhile keep the
	// place that they had then.
	Seek(position []byte) error
}

// InputLog keeps the bytes of an input that cannot be read again, so that they can be. It is a stream that grows
// at its end and may be cut at its beginning, and offsets count its bytes from the very first one. It has parts,
// one for each input whose bytes came one after the other: there is one until another input goes on where the first
// one has been lost. It belongs to one source, and may be called by any goroutine.
type InputLog interface {
	// Begin cuts the log at an offset, behind which there is only the start of something that will not be
	// completed, and makes a part begin there that has the bytes of input id.
	Begin(id uint64, offset int64) error
	// Append adds p at the end, to the last part. When it returns the bytes are there for every later process, and
	// when it fails none of them is.
	Append(p []byte) error
	// Sync brings what has been added to the disk, if the log is to survive the death of the machine.
	Sync() error
	// ReadAt reads some bytes of one part; io.EOF at the end.
	ReadAt(p []byte, offset int64) (int, error)
	// Bounds are the offsets from which and up to which there are bytes.
	Bounds() (start, end int64)
	// Input is that of the last part; ok is false if nothing has been begun.
	Input() (id uint64, ok bool)
	// Begins reports whether a part begins at the offset.
	Begins(offset int64) bool
	// Trim forgets what stands before the offset, or some of it.
	Trim(offset int64) error
	// Close ends the use of the log.
	Close() error
}

// Trimmer is a Replayable that keeps its input, so that it can be read again.
type Trimmer interface {
	Replayable
	// Trim says that no position before this one will be sought any more: it is that of the last complete
	// checkpoint. It may be called by any goroutine.
	Trim(position []byte) error
}

// Undoer is a Committer that may have an output of which nothing can be undone, such as a pipe.
type Undoer interface {
	Committer
	// Undoes reports whether Recover undoes what has been written since the last commit. Otherwise those rows come
	// twice if another process goes on.
	Undoes() bool
}

// Committer is a sink whose rows become visible once, epoch by epoch, whatever processes die. Its rows
// are those of Process; epochs that have been committed are not given to it again. Without Recover it is
// an ordinary sink, and Commit is not called.
type Committer interface {
	Operator
	// Recover is called before the first Process with the last committed epoch and what Commit returned
	// for it, or with 0 and nil. What has been written since is undone. It returns the last epoch whose rows
	// are visible: a later one than the given one if the process ended between Commit and the
	// recording of it, and the rows cannot be undone. That epoch counts as committed.
	//
	// After the first Recover of a state, with 0 and nil, Commit(0, true) is called and recorded before the
	// first Process. So the sink can tell later what it has written from what was there before.
	Recover(epoch int64, witness []byte) (visible int64, err error)
	// Commit is called after EndEpoch, also if Process or EndEpoch returned ErrDone. It makes the rows of
	// all epochs up to this one visible, or, unless now is set, may leave that to a later call and return
	// ok = false. An epoch that adds no rows to those that are visible is committed at once. The witness is
	// all that Recover needs of it. It is recorded before the next call of Commit.
	Commit(epoch int64, now bool) (witness []byte, ok bool, err error)
}
