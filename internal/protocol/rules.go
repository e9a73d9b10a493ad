// Package protocol names the rules that keep every row once, so that the simulation can switch each of
// them off and show that it then fails. docs/protocol.md says what they are. The product always has all
// of them on: the zero Off switches nothing off.
package protocol

// Rule is one rule of the protocol.
type Rule uint

// The rules that can be switched off, with what happens without them. That a task never waits for credit is
// not among them: a channel's end takes all rows that it is given, and nothing in a task could wait.
const (
	Prev       Rule = iota // frames name the epoch before theirs; without: a lost epoch goes unnoticed
	Brake                  // sources brake by checkpoint intervals; without: blocked before a boundary
	Trimmed                // a producer says what it has trimmed; without: a consumer waits, or misses rows
	EndLog                 // the end of input is logged; without: the end comes elsewhere after a restart
	EndAny                 // END answers any resume-from; without: a consumer restored behind it waits
	Cross                  // boundaries are crossed; without: epochs must hit them
	Flush                  // a sink's group ends at boundaries; without: checkpoints wait for the sink
	Chain                  // publication is a chain; without: a zombie sink publishes beside its successor
	Restate                // reports are repeated; without: a lost one stops the query
	EndStay                // a finished task stays; without: its consumers have nobody to ask
	Fence                  // fence, then launch; without: a zombie's rows are taken beside its successor's
	Seal                   // a new source seals the old log; without: a zombie cuts other epochs
	ControlLog             // changes are replayed at their epochs; without: a replay uses the current value
	Hold                   // who has accepted waits at the epoch for the decision; without: only some apply it
	AllVote                // all concerned must have accepted; without: some are past the epoch
	Attempt                // tuples name their attempt; without: an old answer counts for a new plan
	Dedup                  // rows at or below the position are dropped; without: a replay doubles rows
	LogFirst               // an epoch is logged before it is sent; without: a restart cuts it elsewhere
	Ranges                 // a snapshot counts for all boundaries that it crosses
	Term                   // who saves the record must have the highest term; without: two schedulers overwrite each other
	Durable                // what follows from an epoch waits for its log to be on the disk; without: a power loss splices two versions
	Rules                  // how many there are
)

// Off is a set of rules that are switched off.
type Off uint64

// With is the set with one rule more.
func (o Off) With(r Rule) Off { return o | 1<<r }

// On reports whether the rule holds.
func (o Off) On(r Rule) bool { return o&(1<<r) == 0 }
