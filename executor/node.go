package executor

import (
	"errors"
	"fmt"
	"slices"

	"sluice/dataflow"
	"sluice/dataflow/batch"
	"sluice/operators"
)

// node is an operator in its task.
type node struct {
	ctx  operators.Context
	op   operators.Operator // nil for a source, whose rows come from outside
	in   []inPort
	cur  int // the input whose turn it is in the current epoch; always below len(in)
	out  []*edge
	copy pool // for rows that came before their turn
	race bool // inputs are copies of one stream: see race.go

	clock     int64 // of the epoch that is being worked on, microseconds since 1970
	watermark int64 // the largest that has been passed on
	epoch     int64 // the last that ended
	done      bool  // a sink that wants no more rows

	durable   *durable // nil for a query without state
	committed int64    // of a durable sink, the last epoch that is visible
	over      bool     // the last epoch has ended

	raced raceState
	flow  *flow // is told how far the node is; nil for none
	leaf  bool  // no consumer
}

// inPort is one input of a node.
type inPort struct {
	queue     []item // what came before its turn, in order
	watermark int64
	idle      bool
	ended     bool
	absent    bool // of a standby that is not running
	raced     racePort
}

// item is a waiting message: rows, or a mark if rows is nil.
type item struct {
	rows  *batch.Batch
	clock int64
	owner *pool // to which rows go back
	mark  operators.Mark
}

// edge is an output of a node.
type edge struct {
	from   *node
	main   bool
	to     []target // in the same task
	remote []sender // in others
}

type target struct {
	node *node
	port int
}

// sender takes what an edge carries to another task.
type sender interface {
	rows(b *batch.Batch, clock int64) error
	mark(m operators.Mark) error
}

func newNode(op *dataflow.Operator, dir string) *node {
	n := &node{in: make([]inPort, len(op.Inputs)), watermark: batch.MinWatermark}
	n.ctx = operators.Context{Op: op, Clock: &n.clock, Counters: &operators.Counters{}, Dir: dir}
	for i := range n.in {
		n.in[i].watermark = batch.MinWatermark
	}
	for i := range op.Outputs {
		e := &edge{from: n, main: op.Outputs[i].Port == ""}
		n.out = append(n.out, e)
		n.ctx.Outputs = append(n.ctx.Outputs, e)
	}
	return n
}

func (n *node) hasAbsent() bool {
	return slices.ContainsFunc(n.in, func(p inPort) bool { return p.absent })
}

// tick moves the node's clock, which never goes back.
func (n *node) tick(clock int64) { n.clock = max(n.clock, clock) }

// fail names the operator in which err arose; errors that come back from further down stay as they are.
func (n *node) fail(err error) error {
	var known *OperatorError
	if err == nil || errors.As(err, &known) {
		return err
	}
	return &OperatorError{Op: n.ctx.Op, Err: err}
}

// Emit implements operators.Output.
func (e *edge) Emit(b *batch.Batch) error {
	if invariants {
		if err := b.Validate(); err != nil {
			return e.from.fail(fmt.Errorf("assertion failed: emitted batch: %w", err))
		}
	}
	if e.main {
		e.from.ctx.Counters.Out.Add(int64(b.Rows()))
	}
	for _, to := range e.to {
		if err := to.node.rows(to.port, b, e.from.clock, nil); err != nil {
			return err
		}
	}
	for _, to := range e.remote {
		if err := to.rows(b, e.from.clock); err != nil {
			return err
		}
	}
	return nil
}

// forward passes a mark on all outputs.
func (n *node) forward(m operators.Mark) error {
	n.watermark, n.epoch = m.Watermark, m.Epoch
	for _, e := range n.out {
		for _, to := range e.to {
			if err := to.node.mark(to.port, m); err != nil {
				return err
			}
		}
		for _, to := range e.remote {
			if err := to.mark(m); err != nil {
				return err
			}
		}
	}
	n.flow.ended(n, m)
	return nil
}

// rows takes rows on an input: works on them if it is the input's turn, keeps them otherwise. If owner
// is nil, b belongs to the caller and is copied to be kept; else it goes back to owner once it is done
// with.
func (n *node) rows(port int, b *batch.Batch, clock int64, owner *pool) error {
	if n.race {
		n.tick(clock)
		err := n.raceRows(port, b)
		owner.put(b)
		return err
	}
	p := &n.in[port]
	if port == n.cur && len(p.queue) == 0 {
		n.tick(clock)
		err := n.process(port, b)
		owner.put(b)
		return err
	}
	if owner == nil {
		c := n.copy.get()
		c.CopyFrom(b)
		b, owner = c, &n.copy
	}
	p.queue = append(p.queue, item{rows: b, clock: clock, owner: owner})
	return nil
}

func (n *node) process(port int, b *batch.Batch) error {
	if n.done || n.epoch < n.committed {
		return nil
	}
	n.ctx.Counters.In.Add(int64(b.Rows()))
	err := n.op.Process(port, b)
	if errors.Is(err, operators.ErrDone) {
		n.stop()
		return nil
	}
	return n.fail(err)
}

// stop is for a sink that wants no more rows.
func (n *node) stop() {
	n.done = true
	n.flow.sinkDone()
}

// mark takes the end of an epoch on an input, and goes on with what has waited for it.
func (n *node) mark(port int, m operators.Mark) error {
	if n.race {
		return n.raceMark(port, m)
	}
	p := &n.in[port]
	if port != n.cur || len(p.queue) > 0 {
		p.queue = append(p.queue, item{mark: m})
		return nil
	}
	if err := n.markCurrent(m); err != nil {
		return err
	}
	return n.drain()
}

// markCurrent ends the epoch on the current input and, if it was the last one, the node's epoch.
func (n *node) markCurrent(m operators.Mark) error {
	p := &n.in[n.cur]
	p.watermark = max(p.watermark, m.Watermark)
	p.idle, p.ended = m.Idle, m.End
	n.tick(m.Clock)
	for n.cur++; n.cur < len(n.in) && n.in[n.cur].ended; n.cur++ {
	}
	if n.cur < len(n.in) {
		return nil
	}
	n.cur = 0
	err := n.finishEpoch(n.combine(m))
	for ; n.cur < len(n.in)-1 && n.in[n.cur].ended; n.cur++ {
	}
	return err
}

// drain works on what has queued up until an input whose turn it is has nothing waiting.
func (n *node) drain() error {
	for len(n.in[n.cur].queue) > 0 {
		p := &n.in[n.cur]
		it := p.queue[0]
		p.queue[0] = item{}
		if p.queue = p.queue[1:]; len(p.queue) == 0 {
			p.queue = nil
		}
		var err error
		if it.rows != nil {
			n.tick(it.clock)
			err = n.process(n.cur, it.rows)
			it.owner.put(it.rows)
		} else {
			err = n.markCurrent(it.mark)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// combine makes the node's mark out of those of its inputs. Its watermark is the least over the inputs
// that are neither idle nor ended.
func (n *node) combine(last operators.Mark) operators.Mark {
	m := operators.Mark{Epoch: last.Epoch, Prev: n.epoch, Clock: n.clock, Watermark: batch.MaxWatermark, Idle: true, End: true, Stop: last.Stop}
	for i := range n.in {
		p := &n.in[i]
		if p.ended {
			continue
		}
		m.End = false
		if !p.idle {
			m.Idle = false
			m.Watermark = min(m.Watermark, p.watermark)
		}
	}
	switch {
	case m.End:
		m.Idle = false
	case m.Idle:
		m.Watermark = n.watermark
	default:
		m.Watermark = max(m.Watermark, n.watermark)
	}
	return m
}

// finishEpoch ends the operator's epoch and passes the mark on.
func (n *node) finishEpoch(m operators.Mark) error {
	if !n.over && !n.done && m.Epoch > n.committed {
		err := n.op.EndEpoch(m)
		if errors.Is(err, operators.ErrDone) {
			n.stop()
		} else if err != nil {
			return n.fail(err)
		}
	}
	if n.durable != nil && !n.over {
		if err := n.durable.epochEnded(n, m); err != nil {
			return err
		}
	}
	n.over = m.End
	return n.forward(m)
}
