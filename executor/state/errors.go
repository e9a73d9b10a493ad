package state

import (
	"errors"
	"fmt"

	"sluice/executor/state/internal/format"
)

var (
	// ErrInUse says that another Store has the directory open.
	ErrInUse = format.ErrInUse
	// ErrClosed says that the Store has been closed.
	ErrClosed = errors.New("state: the store is closed")
	// ErrAborted says that the checkpoint has been given up.
	ErrAborted = errors.New("state: the checkpoint was aborted")
	// ErrDamaged says that the directory holds what no Store has written. The error names the file and
	// says what can be done.
	ErrDamaged = errors.New("state: damaged")
)

// AssertionError reports a call that no correct program makes, such as a commit out of order.
type AssertionError struct{ What string }

func (e *AssertionError) Error() string { return "state: assertion failed: " + e.What }

func assertion(format string, args ...any) error {
	return &AssertionError{fmt.Sprintf(format, args...)}
}

// damaged says what is wrong in path, and what the user can do.
func damaged(path string, advice string, what any) error {
	if err, ok := what.(error); ok {
		return fmt.Errorf("%w: %s: %w; %s", ErrDamaged, path, err, advice)
	}
	return fmt.Errorf("%w: %s: %v; %s", ErrDamaged, path, what, advice)
}

// ErrSealed says that a later generation of the task has taken the log over.
var ErrSealed = errors.New("state: sealed by a later generation")
