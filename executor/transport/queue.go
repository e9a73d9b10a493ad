package transport

import "sync"

// overhead is what a waiting message counts besides its bytes, so that empty ones are bounded too.
const overhead = 64

// defaultQueue is how many bytes may wait on a connection, unless Options say otherwise.
const defaultQueue = 8 << 20

// queue holds what waits to be sent on one connection. It is bounded in bytes: those of messages that wait,
// and of those that have been taken but not released. It takes one message of any size when it is empty.
type queue struct {
	mu     sync.Mutex
	msgs   [][]byte
	bytes  int
	limit  int
	full   bool // ErrFull has been returned and the owner has not yet been told that there is room
	closed bool
	// wake has a token when messages came to the empty queue. Only the connection's goroutine reads it.
	wake chan struct{}
}

func (q *queue) init(limit int) {
	if limit <= 0 {
		limit = defaultQueue
	}
	q.limit = limit
	q.wake = make(chan struct{}, 1)
}

// push adds a message; first says that none waited before.
func (q *queue) push(msg []byte) (first bool, err error) {
	if len(msg) > MaxMessage {
		return false, ErrTooLarge
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return false, ErrClosed
	}
	n := len(msg) + overhead
	if q.bytes > 0 && q.bytes+n > q.limit {
		q.full = true
		return false, ErrFull
	}
	q.bytes += n
	q.msgs = append(q.msgs, msg)
	if len(q.msgs) > 1 {
		return false, nil
	}
	signal(q.wake)
	return true, nil
}

// take returns all messages that wait. spent, what the call before returned, goes back to the queue.
func (q *queue) take(spent [][]byte) [][]byte {
	clear(spent)
	q.mu.Lock()
	defer q.mu.Unlock()
	msgs := q.msgs
	q.msgs = spent[:0]
	return msgs
}

// release gives back the room of taken messages: n bytes in count messages. It reports whether a sender that
// was refused should be told that there is room now.
func (q *queue) release(n, count int) (drained bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.bytes -= n + count*overhead
	if !q.full || q.bytes > q.limit/2 {
		return false
	}
	q.full = false
	return !q.closed
}

// close drops what waits and refuses what comes.
func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.msgs = nil
}

// signal puts a token into a channel of capacity one, unless one is there.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
