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
	now       int64 // the one that is being worked on; 0: none
	stopping  bool  // an input's mark of the current epoch says Stop
	done      bool  // a sink that wants no more rows

	keeper    keeper // nil for a query without state
	committed int64  // of a durable sink, the last epoch that is visible
	before    int64  // of a durable sink, rows that were visible when it began
	restored  int64  // rows that it had taken before its launch
	over      bool   // the last epoch has ended
	said      bool   // and all outputs know

	raced raceState
	held  held
	flow  *flow // is told how far the node is; nil for none
	leaf  bool  // no consumer
	lends bool  // passes its rows on as they are, to one input in its task, which may keep them
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
	at    stamp
	owner releaser // to which rows go back
	mark  operators.Mark
}

// stamp says of which epoch rows are.
type stamp struct {
	epoch int64
	prev  int64 // the epoch before it, of the same stream
	clock int64 // of the epoch, microseconds since 1970
}

func stampOf(m operators.Mark) stamp { return stamp{m.Epoch, m.Prev, m.Clock} }

// releaser takes back rows that are done with.
type releaser interface {
	put(b *batch.Batch)
}

func release(owner releaser, b *batch.Batch) {
	if owner != nil {
		owner.put(b)
	}
}

// keeper keeps what a node needs to go on in another process. It is called at the ends of epochs, when
// the node has worked on nothing of the next one.
type keeper interface {
	// mayBegin reports whether the node may begin an epoch now.
	mayBegin(n *node, epoch int64) bool
	// begins is called before the first row of an epoch. Everything up to the epoch before is done.
	begins(n *node, epoch int64) error
	// ended is called when the operator has ended the epoch, before the mark is passed on.
	ended(n *node, m operators.Mark) error
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
	rows(b *batch.Batch, at stamp) error
	mark(m operators.Mark) error
}

func newNode(op *dataflow.Operator, dir string) *node {
	n := &node{in: make([]inPort, len(op.Inputs)), watermark: batch.MinWatermark}
	n.ctx = operators.Context{Op: op, Clock: &n.clock, Epoch: &n.now, Counters: &operators.Counters{}, Dir: dir}
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
	at := stamp{e.from.now, e.from.epoch, e.from.clock}
	for _, to := range e.to {
		var owner releaser
		if l := e.from.share(b); l != nil {
			owner = l
		}
		if err := to.node.rows(to.port, b, at, owner); err != nil {
			return err
		}
	}
	for _, to := range e.remote {
		if err := to.rows(b, at); err != nil {
			return err
		}
	}
	return nil
}

// forward passes a mark on all outputs.
func (n *node) forward(m operators.Mark) error {
	n.watermark, n.epoch, n.now, n.said = m.Watermark, max(n.epoch, m.Epoch), 0, m.End
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
// is nil, b belongs to the caller and is copied to be kept; else what it holds goes back to owner once it is done
// with. b itself is the caller's if the owner is a loan.
func (n *node) rows(port int, b *batch.Batch, at stamp, owner releaser) error {
	if n.race {
		err := n.raceRows(port, b, at)
		release(owner, b)
		return err
	}
	turn, err := n.turn(port, at)
	if err != nil {
		return err
	}
	if turn {
		return n.process(port, b, owner)
	}
	if l, ok := owner.(*loan); ok {
		v := l.view(b)
		b, owner = &v.Batch, v
	} else if owner == nil {
		c := n.copy.get()
		c.CopyFrom(b)
		b, owner = c, &n.copy
	}
	p := &n.in[port]
	p.queue = append(p.queue, item{rows: b, at: at, owner: owner})
	return n.advance()
}

// turn reports whether what comes on an input now is what the node is to work on next. It begins an
// epoch of which nothing can come before.
func (n *node) turn(port int, at stamp) (bool, error) {
	if len(n.in[port].queue) > 0 {
		return false, nil
	}
	if n.now == 0 && port == n.firstLive() && (at.epoch == n.epoch+1 || len(n.in) == 1 && at.epoch > n.epoch) {
		if _, err := n.begin(at); err != nil {
			return false, err
		}
	}
	return n.now == at.epoch && n.now > 0 && n.cur == port, nil
}

// firstLive is the first input that has not ended, or the last one.
func (n *node) firstLive() int {
	i := 0
	for ; i < len(n.in)-1 && n.in[i].ended; i++ {
	}
	return i
}

// begin begins an epoch, unless it must wait.
func (n *node) begin(at stamp) (bool, error) {
	if n.keeper != nil {
		if !n.keeper.mayBegin(n, at.epoch) {
			return false, nil
		}
		if err := n.keeper.begins(n, at.epoch); err != nil {
			return false, n.fail(err)
		}
	}
	n.now, n.cur, n.stopping = at.epoch, n.firstLive(), false
	n.tick(at.clock)
	return true, nil
}

// process works on rows of the current epoch and input; then they go back to owner.
func (n *node) process(port int, b *batch.Batch, owner releaser) error {
	if n.lends {
		return n.lend(b, owner)
	}
	n.hold(b, owner)
	defer n.letGo()
	if n.now <= n.committed {
		return nil
	}
	if n.done {
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

// lend passes rows on with their owner. Where they have to wait, what they take of the credit of their channel waits
// too, so its producer does not send without end what an operator with several inputs cannot work on yet.
func (n *node) lend(b *batch.Batch, owner releaser) error {
	n.ctx.Counters.In.Add(int64(b.Rows()))
	n.ctx.Counters.Out.Add(int64(b.Rows()))
	to := n.out[0].to[0]
	return to.node.rows(to.port, b, stamp{n.now, n.epoch, n.clock}, owner)
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
	turn, err := n.turn(port, stampOf(m))
	if err != nil {
		return err
	}
	if turn {
		err = n.markCurrent(m)
	} else {
		p := &n.in[port]
		p.queue = append(p.queue, item{mark: m, at: stampOf(m)})
	}
	if err != nil {
		return err
	}
	return n.advance()
}

// markCurrent ends the epoch on the current input.
func (n *node) markCurrent(m operators.Mark) error {
	n.in[n.cur].take(m)
	n.stopping = n.stopping || m.Stop
	n.tick(m.Clock)
	return n.nextInput()
}

// take brings the port up to a mark.
func (p *inPort) take(m operators.Mark) {
	p.watermark = max(p.watermark, m.Watermark)
	p.idle, p.ended = m.Idle, m.End
}

// nextInput goes on with the next input of the epoch; behind the last one the node's epoch ends.
func (n *node) nextInput() error {
	if n.cur < len(n.in)-1 {
		n.cur++
		return nil
	}
	n.cur = 0
	return n.finishEpoch(n.combine())
}

// advance works on what has queued up, as far as it goes.
func (n *node) advance() error {
	for {
		if n.now == 0 {
			at, ok, err := n.next()
			if err != nil || !ok {
				return err
			}
			if ok, err = n.begin(at); err != nil || !ok {
				return err
			}
		}
		p := &n.in[n.cur]
		var err error
		switch {
		case len(p.queue) == 0 && !p.ended:
			return nil
		case len(p.queue) == 0 || p.queue[0].at.epoch > n.now:
			err = n.nextInput()
		default:
			err = n.work(p.pop())
		}
		if err != nil {
			return err
		}
	}
}

// work works on something of the current epoch and input.
func (n *node) work(it item) error {
	if it.rows == nil {
		return n.markCurrent(it.mark)
	}
	n.tick(it.at.clock)
	return n.process(n.cur, it.rows, it.owner)
}

// pop takes the first of what waits.
func (p *inPort) pop() item {
	it := p.queue[0]
	p.queue[0] = item{}
	if p.queue = p.queue[1:]; len(p.queue) == 0 {
		p.queue = nil
	}
	return it
}

// next finds the epoch that comes next: the least over what waits. It is known once all inputs have
// something, or one of them has the number that follows.
func (n *node) next() (at stamp, ok bool, err error) {
	missing := false
	for i := range n.in {
		p := &n.in[i]
		// The end of a stream is said again to whoever comes back behind it.
		for len(p.queue) > 0 && p.queue[0].at.epoch <= n.epoch {
			if err := n.takeOld(i, p.pop()); err != nil {
				return at, false, err
			}
		}
		switch {
		case len(p.queue) == 0:
			missing = missing || !p.ended
		case p.queue[0].at.epoch == n.epoch+1:
			return p.queue[0].at, true, nil
		case !ok || p.queue[0].at.epoch < at.epoch:
			at, ok = p.queue[0].at, true
		}
	}
	return at, ok && !missing, nil
}

// takeOld takes what belongs to an epoch that is over: only the end of a stream counts.
func (n *node) takeOld(port int, it item) error {
	if it.rows != nil || !it.mark.End {
		release(it.owner, it.rows)
		return nil
	}
	n.in[port].take(it.mark)
	for i := range n.in {
		if !n.in[i].ended {
			return nil
		}
	}
	return n.endAgain(it.mark)
}

// endAgain says once more that the stream has ended, for all has been done already.
func (n *node) endAgain(m operators.Mark) error {
	if n.said {
		return nil
	}
	m.Watermark = batch.MaxWatermark
	if n.keeper != nil {
		if err := n.keeper.ended(n, m); err != nil {
			return err
		}
	}
	n.over = true
	return n.forward(m)
}

// combine makes the node's mark out of those of its inputs. Its watermark is the least over the inputs
// that are neither idle nor ended.
func (n *node) combine() operators.Mark {
	m := operators.Mark{Epoch: n.now, Prev: n.epoch, Clock: n.clock, Watermark: batch.MaxWatermark, Idle: true, End: true, Stop: n.stopping}
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
	if n.keeper != nil && !n.over {
		if err := n.keeper.ended(n, m); err != nil {
			return err
		}
	}
	n.over = m.End
	return n.forward(m)
}
