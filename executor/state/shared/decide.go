package shared

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"sluice/executor/state"
	"sluice/executor/state/internal/format"
)

// keptDecisions is how many attempts are known.
const keptDecisions = 1000

const decisionKind = "decision"

// Texts of decisions.
const (
	textCommit = "commit\n"
	textCancel = "cancel\n"
)

// Decide is that of state.Together. An attempt below the last 1,000 is ErrForgotten.
func (s *Store) Decide(attempt int64, commit bool) (bool, error) {
	committed, known, err := s.Decided(attempt)
	if known || err != nil {
		return committed, err
	}
	return s.decideFirst(attempt, commit)
}

// decideFirst records a decision unless another process was faster.
func (s *Store) decideFirst(attempt int64, commit bool) (bool, error) {
	text := textCancel
	if commit {
		text = textCommit
	}
	err := s.disk.putSealed(s.decisionPath(attempt), decisionKind, []byte(text), true)
	if errors.Is(err, fs.ErrExist) {
		committed, _, err := s.Decided(attempt)
		return committed, err
	}
	if err != nil {
		return false, wrap(err)
	}
	// What cannot be removed now the next decision removes.
	_ = s.forgetDecisions()
	return commit, nil
}

func (s *Store) decisionPath(attempt int64) string {
	return s.disk.path(decisionsDir, number(attempt))
}

// Decided is that of state.Together. An attempt below the last 1,000 is ErrForgotten.
func (s *Store) Decided(attempt int64) (committed, known bool, err error) {
	switch {
	case s.closed.Load():
		return false, false, state.ErrClosed
	case attempt < 0:
		return false, false, assertion("attempt %d", attempt)
	}
	path := s.decisionPath(attempt)
	text, err := format.ReadSealed(path, decisionKind)
	if errors.Is(err, fs.ErrNotExist) {
		return false, false, s.checkForgotten(attempt)
	}
	if err == nil && string(text) != textCommit && string(text) != textCancel {
		err = fmt.Errorf("is no decision: %q", text[:min(len(text), 40)])
	}
	if err != nil {
		return false, false, damaged(path, err)
	}
	return string(text) == textCommit, true, nil
}

// attempts lists those that are decided, in order.
func (s *Store) attempts() ([]int64, error) {
	names, err := s.disk.names(decisionsDir)
	var list []int64
	for _, name := range names {
		if n, ok := parseNumber(name); ok {
			list = append(list, n)
		}
	}
	slices.Sort(list)
	return list, wrap(err)
}

func (s *Store) checkForgotten(attempt int64) error {
	list, err := s.attempts()
	if err == nil && len(list) >= keptDecisions && attempt < list[len(list)-keptDecisions] {
		err = fmt.Errorf("%w: attempt %d", ErrForgotten, attempt)
	}
	return err
}

func (s *Store) forgetDecisions() error {
	list, err := s.attempts()
	for len(list) > keptDecisions {
		err = errors.Join(err, remove(s.decisionPath(list[0])))
		list = list[1:]
	}
	return err
}
