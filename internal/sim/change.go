package sim

import (
	"sluice/metaquery"
	"sluice/scheduler"
)

// change is a parameter that the user sets while the query runs.
type change struct {
	at       int64             // when, in microseconds after the beginning
	tuples   []metaquery.Tuple // one for each replica of the operator
	asked    bool              // this scheduler has been told
	answered bool
	epoch    int64 // from which it holds
}

// requests sends what the user wants, as long as there is no answer. A request that got lost with a
// scheduler may have been obeyed; setting a parameter again is right.
func (s *shell) requests() {
	w := s.world
	if s.ended || w.shell != s {
		return
	}
	for i := range w.changes {
		c := &w.changes[i]
		if w.now >= beginning+c.at && !c.asked && !c.answered {
			c.asked = true
			w.tracef("set %v", c.tuples)
			s.event(scheduler.Event{Set: &scheduler.SetRequest{ID: int64(i + 1), Tuples: c.tuples}})
		}
		if !c.answered {
			break // one after the other
		}
	}
	if p := &w.plan; p.StopAt > 0 && w.now >= beginning+p.StopAt && !s.stopped && !w.checks.stopping {
		w.tracef("stop, at the end of what has been read: %v", p.StopEnds)
		s.stopped = true
		w.counts["stops"]++
		s.event(scheduler.Event{Stop: &scheduler.StopRequest{End: p.StopEnds}})
	}
	w.after(100*millisecond, s.requests)
}

// answered takes the answer of a request. One that has failed is made again.
func (s *shell) answered(a scheduler.Answer) {
	w := s.world
	c := &w.changes[a.ID-1]
	w.tracef("answer: %+v", a)
	if a.Error != "" {
		c.asked = false
		return
	}
	c.answered, c.epoch = true, a.Epoch
	w.progress()
}
