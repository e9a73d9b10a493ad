package service

import "sluice/scheduler/api"

// reservation is what a query is to write that is about to run or to be edited, until its record says so.
type reservation struct {
	id      string
	outputs []Output
}

// reserve makes sure that a query may write what it is to write, and that there may be one more that runs if it does not. That
// holds until release.
func (r *reign) reserve(q *query, name string, outputs []Output) (release func(), err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.free(q, outputs); err != nil {
		return nil, err
	}
	if now := r.queries[name]; now == nil || api.Ended(now.state()) {
		if running := r.running(q); running >= r.s.o.MaxQueries {
			return nil, api.Errorf(api.TooMany, "%d queries run already", running)
		}
	}
	own := &reservation{q.id, outputs}
	r.reserved[own] = true
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.reserved, own)
	}, nil
}

// running is how many queries but one run, or are about to. r.mu is held.
func (r *reign) running(but *query) int {
	ids := map[string]bool{}
	for _, q := range r.queries {
		if !api.Ended(q.state()) {
			ids[q.id] = true
		}
	}
	for own := range r.reserved {
		ids[own.id] = true
	}
	delete(ids, but.id)
	return len(ids)
}
