package executor

import (
	"sync"

	"sluice/dataflow/batch"
	"sluice/operators"
)

// pool keeps batches for reuse. A nil pool keeps none. It may be used by several goroutines.
type pool struct {
	mu   sync.Mutex
	free []*batch.Batch
}

// poolBatches bounds what a pool keeps.
const poolBatches = 64

func (p *pool) get() *batch.Batch {
	p.mu.Lock()
	defer p.mu.Unlock()
	if n := len(p.free); n > 0 {
		b := p.free[n-1]
		p.free = p.free[:n-1]
		return b
	}
	return &batch.Batch{}
}

func (p *pool) put(b *batch.Batch) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.free) < poolBatches {
		p.free = append(p.free, b)
	}
}

// message is what a task gets from outside: rows or, if rows is nil, a mark or the beginning of an
// epoch of a source.
type message struct {
	inlet  int // -1: of a source
	source int
	output int // of the source
	rows   *batch.Batch
	owner  releaser
	at     stamp // of rows, and of a begin
	begin  bool
	mark   operators.Mark
}

// mailbox is where a task gets its messages. Sending never waits: only sources brake.
type mailbox struct {
	mu     sync.Mutex
	filled sync.Cond
	queue  []message
	closed bool
}

func newMailbox() *mailbox {
	m := &mailbox{}
	m.filled.L = &m.mu
	return m
}

func (m *mailbox) post(msg message) {
	m.mu.Lock()
	if !m.closed {
		m.queue = append(m.queue, msg)
	}
	m.mu.Unlock()
	m.filled.Signal()
}

// takeAll waits for messages and exchanges them for buf, which it empties. It returns false once the
// mailbox has been closed.
func (m *mailbox) takeAll(buf []message) ([]message, bool) {
	clear(buf)
	m.mu.Lock()
	defer m.mu.Unlock()
	for len(m.queue) == 0 && !m.closed {
		m.filled.Wait()
	}
	taken := m.queue
	m.queue = buf[:0]
	return taken, !m.closed
}

// close ends the waiting for ever; what has not been taken is lost.
func (m *mailbox) close() {
	m.mu.Lock()
	m.closed, m.queue = true, nil
	m.mu.Unlock()
	m.filled.Broadcast()
}

// localChannel is an edge from one task of this process to another: it puts rows into the mailbox, a copy of them if
// nobody lends them.
type localChannel struct {
	from  *node
	to    *mailbox
	inlet int
	pool  pool
}

func (c *localChannel) rows(b *batch.Batch, at stamp) error {
	if l := c.from.share(b); l != nil {
		v := l.view(b)
		c.to.post(message{inlet: c.inlet, rows: &v.Batch, owner: v, at: at})
		return nil
	}
	own := c.pool.get()
	own.CopyFrom(b)
	c.to.post(message{inlet: c.inlet, rows: own, owner: &c.pool, at: at})
	return nil
}

func (c *localChannel) mark(m operators.Mark) error {
	c.to.post(message{inlet: c.inlet, mark: m})
	return nil
}

// sourceRelay is a feeder that runs beside the goroutine of its task.
type sourceRelay struct {
	to   *mailbox
	pool pool
}

func (r *sourceRelay) Begin(source int, epoch, clock int64) {
	r.to.post(message{inlet: -1, source: source, begin: true, at: stamp{epoch: epoch, clock: clock}})
}

func (r *sourceRelay) sourceRows(source, output int, b *batch.Batch, owner releaser) error {
	if owner != nil {
		v := newLoan(b, owner).view(b)
		r.to.post(message{inlet: -1, source: source, output: output, rows: &v.Batch, owner: v})
		return nil
	}
	own := r.pool.get()
	own.CopyFrom(b)
	r.to.post(message{inlet: -1, source: source, output: output, rows: own, owner: &r.pool})
	return nil
}

func (r *sourceRelay) Mark(source int, m operators.Mark) error {
	r.to.post(message{inlet: -1, source: source, mark: m})
	return nil
}

// deliver hands a message to the task.
func (t *Task) deliver(m message) error {
	switch {
	case m.inlet >= 0 && m.rows != nil:
		return t.inletRows(m.inlet, m.rows, m.at, m.owner)
	case m.inlet >= 0:
		return t.inletMark(m.inlet, m.mark)
	case m.rows != nil:
		return t.sourceRows(m.source, m.output, m.rows, m.owner)
	case m.begin:
		t.Begin(m.source, m.at.epoch, m.at.clock)
		return nil
	}
	return t.Mark(m.source, m.mark)
}
