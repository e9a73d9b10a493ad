package executor

import (
	"context"
	"time"

	"sluice/dataflow"
	"sluice/executor/channel"
	"sluice/internal/protocol"
	"sluice/metaquery"
	"sluice/operators"
)

// Env is what an Instance needs of its surroundings. All methods return at once and are called from
// within a call of the Instance.
type Env interface {
	// Dial connects an output channel to the process at addr, instead of where it was connected before;
	// "" only disconnects it. Once there is a connection, and again after each break that is noticed,
	// Instance.Connected is called.
	Dial(channel, addr string)
	// Send sends a message on an output channel to its consumer. It returns false if the message was
	// not taken since too much waits already; Instance.Flush is then called a little later.
	Send(channel string, msg []byte) bool
	// Reply sends a message on an input channel to its producer, over the connection on which the
	// producer was heard last.
	Reply(channel string, msg []byte)
	// Background calls work elsewhere, then done, with its error, as any other call of the Instance.
	Background(work func() error, done func(error))
	// Now is the time in microseconds since 1970.
	Now() int64
	// Changed says that Report has something new that others wait for.
	Changed()
	// Progressed says that Report has something new that nobody waits for: it may be told a little later.
	Progressed()
}

// Timer is an Env whose time is not that of this machine.
type Timer interface {
	// WithTimeout is context.WithTimeout.
	WithTimeout(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc)
}

// InstanceConfig is what an Instance is made of.
type InstanceConfig struct {
	Query  *dataflow.Physical // with network operators
	Task   *dataflow.Task     // one of its tasks
	Launch metaquery.Launch
	Store  Store
	Env    Env
	// Build makes the operators that have inputs, OpenSource the sources.
	Build      Builder
	OpenSource func(ctx *operators.Context) (operators.Source, error)
	Limits     Limits
	// Retention is what the output channels of all instances of a process share for what they retain. nil: the
	// instance has one of its own, within its limits.
	Retention *channel.Retention
	Off       protocol.Off // rules that are switched off, in simulations
}

// Limits bound what an instance keeps. The zero value has all defaults.
type Limits struct {
	// Window is the credit of a channel: bytes that may be on the way or waiting. Default 4 MiB.
	Window int64
	// Frame is what a message of rows stays below unless a single row is larger. Default 1 MiB.
	Frame int
	// Message is what a message of rows, hence a row, may have at most: what the transport carries. Default
	// channel.MaxFrame, which is more than enough for a row that can be computed on.
	Message int
	// Memory is how many bytes all output channels of a process may retain in memory; what is more goes to
	// SpillDir. Default 128 MiB.
	Memory int64
	// SpillDir is a folder for files that are of no use after the process ends; "" keeps all in memory.
	SpillDir string
	// Retained is how many bytes all output channels may retain before sources brake. Default 4 GiB.
	Retained int64
	// Backlog is how many bytes may wait to be sent to consumers that are connected before sources
	// brake. Default 16 MiB.
	Backlog int64
}

// NewRetention makes what the channels of a process share for what they retain.
func (l Limits) NewRetention() *channel.Retention {
	l.setDefaults()
	return channel.NewRetention(l.Memory, l.SpillDir)
}
