package api

import "context"

// Backend is what the API is for. Its errors are *Error, or faults in the program.
type Backend interface {
	Submit(ctx context.Context, s *Submission) (*Query, error)
	// Replace makes a query an edited one, which goes on with its state. The Edit of the answer may be pending. State
	// that fits no operator any more is an error unless allowDrop is set.
	Replace(ctx context.Context, name string, s *Submission, o ReplaceOptions) (*Query, error)
	// Stop ends a query at a checkpoint, and Resume goes on with one that was stopped or has failed.
	Stop(ctx context.Context, name string) (*Query, error)
	Resume(ctx context.Context, name string) (*Query, error)
	// Queries gives all queries, by name, with all that is known of them.
	Queries(ctx context.Context) ([]Query, error)
	Query(ctx context.Context, name string) (*Query, error)
	// Submission is what was submitted of a query, with all defaults.
	Submission(ctx context.Context, name string) (*Submission, error)
	// Cancel ends a query at once, and forgets one that has ended.
	Cancel(ctx context.Context, name string) (*Query, error)
	// Drain makes the inputs of a query count as ended.
	Drain(ctx context.Context, name string) (*Query, error)
	Set(ctx context.Context, name string, s Setting) (*SetResult, error)
	Events() *Ring
	Health(ctx context.Context) Health
	// Lead returns a channel that is closed when this scheduler leads no longer, nil if it does not lead.
	Lead() <-chan struct{}
	// Leader gives the address of the leader's API, "" if none is known.
	Leader(ctx context.Context) string
}
