package shared

import (
	"errors"
	"fmt"

	"sluice/executor/state"
)

var (
	// ErrSuperseded says that another coordinator has claimed a term, or has saved the record meanwhile.
	ErrSuperseded = errors.New("state: superseded by another coordinator")
	// ErrForgotten says that a decision is asked for that is older than the last 1,000.
	ErrForgotten = errors.New("state: the decision is too old to be known")
)

func assertion(format string, args ...any) error {
	return &state.AssertionError{What: fmt.Sprintf(format, args...)}
}

func wrap(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("state: %w", err)
}

// damaged says what is wrong in path.
func damaged(path string, what error) error {
	return fmt.Errorf("%w: %s: %w; this is no trace of a killed process: restore the state directory from a copy, or remove it to begin again", state.ErrDamaged, path, what)
}
