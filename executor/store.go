package executor

import "sluice/executor/state"

// Store is where the tasks of a query that runs on several processes keep what must outlive them. All
// processes share it. Package executor/state/shared has one in a directory.
//
// A failure other than ErrSealed is of the moment, such as a full disk: nothing has happened, and the
// caller tries again.
type Store interface {
	// OpenSource gives the epoch log of a source to generation gen of its task. It seals what lower
	// generations have written first: what they append later is not seen by anybody, and their Append
	// gives ErrSealed if it can tell. The entries are those of state.Store.Epochs.
	OpenSource(source string, gen int64) (SourceLog, []state.Epoch, error)
	// OpenSink gives the commits of a sink to generation gen of its task, sealed in the same way, with the
	// last one; 0 and nil if there is none.
	OpenSink(sink string, gen int64) (log SinkLog, epoch int64, witness []byte, err error)
	// WriteSnapshot stores the pieces of an operator's state and returns a name for them. They are
	// whole when it returns, or not there at all. It may be called by any goroutine.
	WriteSnapshot(key string, gen, lo, hi int64, fingerprint string, write func(keep func(group int, piece []byte) error) error) (ref string, err error)
	// ReadSnapshot gives the pieces of a snapshot in the order in which they were written.
	ReadSnapshot(ref string, f func(group int, piece []byte) error) (fingerprint string, err error)
	// Decide records whether the plan of an attempt is committed or cancelled, and returns what has been
	// recorded first, by whomever. The last 1,000 attempts are known.
	Decide(attempt int64, commit bool) (committed bool, err error)
	// Decided returns the decision, if there is one.
	Decided(attempt int64) (committed, known bool, err error)
}

// SourceLog is the epoch log of one source.
type SourceLog interface {
	// Append is state.Store.AppendEpoch.
	Append(e state.Epoch) error
	// Trim forgets the entries before the last one at or below epoch.
	Trim(epoch int64) error
	Close() error
}

// SinkLog is the log of the commits of one sink.
type SinkLog interface {
	// Commit is state.Store.CommitSink.
	Commit(epoch int64, witness []byte) error
	Close() error
}
