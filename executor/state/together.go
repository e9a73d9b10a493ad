package state

// Together is where the tasks of a query that runs on several processes keep what must outlive them. All
// processes share it. Package shared has one in a directory, and one in memory.
//
// A failure other than ErrSealed is of the moment, such as a full disk: nothing has happened, and the
// caller tries again.
type Together interface {
	// OpenSource gives the epoch log of a source to generation gen of its task. It seals what lower
	// generations have written first: what they append later is not seen by anybody, and their Append
	// gives ErrSealed if it can tell. The entries are those of Store.Epochs.
	OpenSource(source string, gen int64) (SourceLog, []Epoch, error)
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
	// Append is Store.AppendEpoch.
	Append(e Epoch) error
	// Trim forgets the entries before the last one at or below epoch.
	Trim(epoch int64) error
	Close() error
}

// SinkLog is the log of the commits of one sink.
type SinkLog interface {
	// Commit is Store.CommitSink.
	Commit(epoch int64, witness []byte) error
	Close() error
}

// Syncing is a log of which the death of the machine may take the last entries. All SourceLogs and SinkLogs of package
// shared are.
type Syncing interface {
	// Synced is the epoch up to which the log outlives the machine: math.MaxInt64 if all of it does, or if there is no
	// such promise and none will come.
	Synced() int64
	// Sync brings all of it to the disk, if that is promised. After a failure nothing can be appended any more.
	Sync() error
	// Failed tells why nothing can be appended any more, and Synced gets no further, until the log is opened again: the
	// disk has failed to sync, maybe in the background. It is nil as long as the log can be used.
	Failed() error
}

// RowLog is a SourceLog that also keeps rows, for sources that cannot be read again.
type RowLog interface {
	SourceLog
	// AppendRows keeps rows of the next epoch, at most 8 MiB of them at a time. They count once the entry
	// of their epoch has been appended; rows of another epoch than that of the entry are an AssertionError.
	AppendRows(epoch int64, rows []byte) error
	// Rows gives what was appended for an epoch whose entry is kept, in order; nothing if there were no
	// rows. f must not keep rows. An error of f ends Rows, which returns it.
	Rows(epoch int64, f func(rows []byte) error) error
}
