package shell

import (
	"fmt"
	"slices"
	"time"

	"sluice/dataflow"
	"sluice/scheduler"
)

// allUp tells whether all workers that an earlier scheduler has started, and that may still be heard, can run tasks.
func (s *shell) allUp() bool {
	return !slices.ContainsFunc(s.cluster.Running(), func(id scheduler.WorkerID) bool {
		p := s.peers[id]
		return p == nil || !p.up
	})
}

// expected are the workers that are to come up to the next core: those that are up, of which it is told, and those that
// are being started.
func (s *shell) expected() []dataflow.Resources {
	list := slices.Clone(s.starting)
	for id, p := range s.peers {
		if p.up {
			list = append(list, s.cluster.Capacity(id))
		}
	}
	return list
}

// unfitPause is after how long the user is told again of workers that cannot run the query.
const unfitPause = 10 * time.Minute

// unfit are workers in a row that could not run the query, since one could.
type unfit struct {
	n    int
	told time.Time
}

// tell is what the user is to be told of another one, "" for nothing: the first, and now and then that it goes on.
func (u *unfit) tell(err error, now time.Time) string {
	u.n++
	switch {
	case u.n == 1:
		u.told = now
		return fmt.Sprintf("%v; another one is started, and others go on", err)
	case now.Sub(u.told) < unfitPause:
		return ""
	}
	u.told = now
	return fmt.Sprintf("%v; neither could the %d before it", err, u.n-1)
}
