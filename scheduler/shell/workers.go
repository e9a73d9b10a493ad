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

// TellAgain is after how long users are told again of workers that cannot run a query, if it goes on so.
const TellAgain = 10 * time.Minute

// failed are the workers in a row that could not run tasks, before any could.
type failed struct {
	n           int
	since, told time.Time
}

// failedStart takes a worker that was not able to run tasks. If none has ever been, the query is given up in the end.
func (s *shell) failedStart(why string) {
	if s.ever {
		return
	}
	f, now := &s.failed, time.Now()
	if f.n++; f.n == 1 {
		f.since = now
	}
	took := now.Sub(f.since)
	switch {
	case f.n < mostQuick:
	case s.o.StartLimit == 0:
		s.failure = fmt.Errorf("no worker process can run: %d of them have ended at once, the last with %q", f.n, why)
	case took >= s.o.StartLimit:
		s.failure = fmt.Errorf("no worker process can run: %d of them have failed within %v, the last with %q", f.n, took.Round(100*time.Millisecond), why)
	case f.told.IsZero() || now.Sub(f.told) >= TellAgain:
		f.told = now
		s.o.Alert(fmt.Sprintf("no worker process can run so far: %d of them have failed, the last with %q. Others are started after growing pauses; if none can run within %v of the first, the query fails",
			f.n, why, s.o.StartLimit))
	}
}
