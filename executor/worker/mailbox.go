package worker

import "sync"

// mailbox is a queue without a bound of its own: what is in it is bounded by the credit of channels, and
// by how much a scheduler has to say. Any goroutine puts, one takes.
type mailbox[T any] struct {
	ready chan struct{} // has an element when there may be something to take

	mu    sync.Mutex
	items []T
}

func newMailbox[T any]() *mailbox[T] {
	return &mailbox[T]{ready: make(chan struct{}, 1)}
}

func (b *mailbox[T]) put(item T) {
	b.mu.Lock()
	b.items = append(b.items, item)
	b.mu.Unlock()
	select {
	case b.ready <- struct{}{}:
	default:
	}
}

// takeAll takes everything there is, in order. It uses the memory of old, which the caller gives up.
func (b *mailbox[T]) takeAll(old []T) []T {
	clear(old)
	b.mu.Lock()
	defer b.mu.Unlock()
	items := b.items
	b.items = old[:0]
	return items
}
