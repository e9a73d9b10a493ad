package operators

import "sync/atomic"

// Counters count what became of an operator's rows. They may be read at any time from any goroutine.
type Counters struct {
	In      atomic.Int64 // rows taken
	Out     atomic.Int64 // rows emitted on the main output
	Skipped atomic.Int64 // bad rows passed over, with on-error=skip
	Dead    atomic.Int64 // bad rows sent to the output "errors"
	Late    atomic.Int64 // rows that came too late for a window; once per window
}
