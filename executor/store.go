package executor

import "sluice/executor/state"

// Store is where the tasks of a query that runs on several processes keep what must outlive them.
// Package executor/state/shared has one in a directory.
type Store = state.Together

// SourceLog is the epoch log of one source.
type SourceLog = state.SourceLog

// SinkLog is the log of the commits of one sink.
type SinkLog = state.SinkLog
