package operators

import "sync/atomic"

// Counters count what became of an operator's rows. They may be read at any time from any goroutine.
type Counters struct {
	In      atomic.Int64 // rows taken
	Out     atomic.Int64 // rows emitted on the main output; of a sink, rows written
	Skipped atomic.Int64 // bad rows passed over, with on-error=skip
	Dead    atomic.Int64 // bad rows sent to the output "errors"
	Lost    atomic.Int64 // rows that a source has read and cannot read again after a restart
	Gaps    atomic.Int64 // inputs that were gone, cut or read ahead of when they were to be read on, so that rows may be missing
	Resent  atomic.Int64 // files that a sink has published again, since they were lost on their way
	Late    atomic.Int64 // rows that came too late for a window; once per window
}
