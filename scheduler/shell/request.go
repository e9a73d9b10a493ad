package shell

import (
	"errors"

	"sluice/metaquery"
	"sluice/scheduler"
)

// Request is what is asked of a query that runs: to set a parameter, or else how it is.
type Request struct {
	// Set names an operator as users do; nil asks for the status.
	Set *metaquery.Tuple
	// Answer takes the one answer; it must have room for it.
	Answer chan<- Response
}

// Response is the answer to a Request.
type Response struct {
	Epoch  int64 // at which the value takes effect; 0: at once
	Status *Status
	// Err says why nothing has been done. It is ErrEnded, ErrUnsaved, or says what is wrong with the request.
	Err error
}

// Status is how a query is, and where its workers run.
type Status struct {
	scheduler.Status
	About map[scheduler.WorkerID]string
}

// What the errors of a Response are, for errors.Is.
var (
	ErrEnded   = errors.New("the query has ended")
	ErrUnsaved = errors.New("the scheduler cannot save anything at the moment; try again")
)

// request takes a request of a user.
func (s *shell) request(r Request) {
	switch {
	case s.core == nil:
		r.Answer <- Response{Err: ErrUnsaved}
	case r.Set == nil:
		r.Answer <- Response{Status: s.status()}
	case !s.redo.IsZero():
		r.Answer <- Response{Err: ErrUnsaved}
	default:
		tuples, err := scheduler.Expand(s.o.Config.Query, *r.Set, s.o.Catalog)
		if err != nil {
			r.Answer <- Response{Err: err}
			return
		}
		s.lastAsk++
		s.asked[s.lastAsk] = r.Answer
		s.handle(scheduler.Event{Set: &scheduler.SetRequest{ID: s.lastAsk, Tuples: tuples}})
	}
}

// decided answers a request that the core has decided about.
func (s *shell) decided(a *scheduler.Answer) {
	r := Response{Epoch: a.Epoch}
	if a.Error != "" {
		r.Err = errors.New(a.Error)
	}
	s.answer(a.ID, r)
}

func (s *shell) answer(id int64, r Response) {
	if to, ok := s.asked[id]; ok {
		delete(s.asked, id)
		to <- r
	}
}

func (s *shell) answerAll(err error) {
	for id := range s.asked {
		s.answer(id, Response{Err: err})
	}
}

func (s *shell) status() *Status {
	st := &Status{Status: s.core.Status(), About: map[scheduler.WorkerID]string{}}
	for _, w := range st.Workers {
		st.About[w.ID] = s.cluster.About(w.ID)
	}
	return st
}
