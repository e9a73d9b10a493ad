package api

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// ringSize is how many events are kept.
const ringSize = 4096

// Ring keeps the last events.
type Ring struct {
	mu    sync.Mutex
	list  []Event // the oldest first
	term  int64
	next  int64
	added chan struct{} // closed with the next event
}

// NewRing makes a Ring without events.
func NewRing() *Ring { return &Ring{added: make(chan struct{})} }

// Begin makes the following events those of a term, which grows.
func (r *Ring) Begin(term int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.term, r.next = term, 0
}

// Restore adds events of earlier terms that somebody has kept.
func (r *Ring) Restore(list []Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	known := map[string]bool{}
	for _, e := range r.list {
		known[e.ID] = true
	}
	for _, e := range list {
		if !known[e.ID] {
			r.list = append(r.list, e)
		}
	}
	slices.SortStableFunc(r.list, func(a, b Event) int {
		t, n, _ := parseID(a.ID)
		u, m, _ := parseID(b.ID)
		return cmp.Or(cmp.Compare(t, u), cmp.Compare(n, m))
	})
	r.list = slices.Clone(r.list[max(0, len(r.list)-ringSize):])
}

// Add adds an event and returns it with its id and time.
func (r *Ring) Add(e Event) Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.next++
	e.ID, e.Time = fmt.Sprintf("%d-%d", r.term, r.next), time.Now().UTC()
	if len(r.list) == ringSize {
		r.list = append(r.list[:0:0], r.list[ringSize/8:]...)
	}
	r.list = append(r.list, e)
	close(r.added)
	r.added = make(chan struct{})
	return e
}

// After gives the events after an id, all that are kept if it is "" or 0, and a channel that is closed when there are more.
// Missed says that some behind the id may not be there any more, as after a change of the leader.
func (r *Ring) After(id string) (list []Event, more <-chan struct{}, missed bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	term, n, _ := parseID(id)
	for i, e := range r.list {
		t, m, _ := parseID(e.ID)
		if t > term || t == term && m > n {
			list = append(list, r.list[i:]...)
			break
		}
	}
	if len(list) > 0 && term > 0 {
		t, m, _ := parseID(list[0].ID)
		missed = t != term || m != n+1
	}
	return list, r.added, missed
}

// Last is the id of the last event.
func (r *Ring) Last() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return fmt.Sprintf("%d-%d", r.term, r.next)
}

// check refuses what is no id of an event that there has been. "" and 0 are before all of them.
func (r *Ring) check(id string) *Error {
	term, n, ok := parseID(id)
	if !ok {
		return Errorf(BadRequest, "%q is no id of an event, such as 3-17, nor 0 for the oldest that is kept", id)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if term > r.term || term == r.term && n > r.next {
		return Errorf(BadRequest, "there has been no event %s; the last one is %d-%d", id, r.term, r.next)
	}
	return nil
}

// parseID takes an id apart. "" and 0 are before all others.
func parseID(id string) (term, n int64, ok bool) {
	if id == "" || id == "0" {
		return 0, 0, true
	}
	a, b, _ := strings.Cut(id, "-")
	t, err := strconv.ParseUint(a, 10, 63)
	m, err2 := strconv.ParseUint(b, 10, 63)
	return int64(t), int64(m), err == nil && err2 == nil
}
