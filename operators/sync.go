package operators

// Syncer is a Committer whose rows can be made to outlive the machine, and not its processes only.
type Syncer interface {
	Committer
	// SyncCommits is called before Recover, if at all. Commit then returns ok only once the disk has the
	// rows. Before the sink makes rows visible that Recover would not undo, it calls ahead, which brings to
	// the disk what says of which epochs they are; an error of ahead ends Commit.
	SyncCommits(ahead func() error)
}

// Counting is a Committer that knows how many rows it has made visible, also in processes before.
type Counting interface {
	Committer
	// Written is the number of rows that were visible when Recover returned, and those since.
	Written() int64
}
