package executor

import "sync"

// meeting is where the sources of a durable query that is told to stop agree on the last epoch: the
// largest that any of them has cut. The others cut empty ones until then.
type meeting struct {
	mu      sync.Mutex
	changed sync.Cond
	missing int // groups of sources that have neither come nor ended
	last    int64
	closed  bool
}

func newMeeting(groups int) *meeting {
	m := &meeting{missing: groups}
	m.changed.L = &m.mu
	return m
}

// come waits for all others and returns the last epoch. ok is false if the query has been aborted.
func (m *meeting) come(epoch int64) (last int64, ok bool) {
	m.leave(epoch)
	m.mu.Lock()
	defer m.mu.Unlock()
	for m.missing > 0 && !m.closed {
		m.changed.Wait()
	}
	return m.last, !m.closed
}

// close ends all waiting.
func (m *meeting) close() {
	m.mu.Lock()
	m.closed = true
	m.mu.Unlock()
	m.changed.Broadcast()
}

// leave says that a group of sources has no epoch after this one.
func (m *meeting) leave(epoch int64) {
	m.mu.Lock()
	m.missing--
	m.last = max(m.last, epoch)
	m.mu.Unlock()
	m.changed.Broadcast()
}
