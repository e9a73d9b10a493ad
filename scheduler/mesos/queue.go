package mesos

import "sync"

// queue is a queue without a bound of its own: what is in it is bounded by the number of workers and of what a
// master says. Any goroutine puts, one takes.
type queue[T any] struct {
	ready chan struct{} // has an element when there may be something to take

	mu    sync.Mutex
	items []T
}

func newQueue[T any]() *queue[T] { return &queue[T]{ready: make(chan struct{}, 1)} }

func (q *queue[T]) put(items ...T) {
	if len(items) == 0 {
		return
	}
	q.mu.Lock()
	q.items = append(q.items, items...)
	q.mu.Unlock()
	select {
	case q.ready <- struct{}{}:
	default:
	}
}

// takeAll takes everything there is, in order.
func (q *queue[T]) takeAll() []T {
	q.mu.Lock()
	defer q.mu.Unlock()
	items := q.items
	q.items = nil
	return items
}
