package executor

import (
	"cmp"
	"fmt"
	"slices"

	"sluice/internal/protocol"
	"sluice/metaquery"
	"sluice/operators"
)

// decisionTimeout is after how long a task that has accepted a plan asks for the decision itself, and
// cancels the plan if there is none. Microseconds.
const decisionTimeout = 3_000_000

// Orders takes orders. Those that are not the latest do nothing.
func (i *Instance) Orders(o metaquery.Orders) {
	if i.dead || o.To != i.cfg.Launch.ID || o.Term < i.orders.Term || o.Term == i.orders.Term && o.Seq <= i.orders.Seq {
		return
	}
	i.fail(i.obey(o))
	i.settle()
}

// firstOrders obeys those of the launch: all parameters are set before the first row.
func (i *Instance) firstOrders(o metaquery.Orders) error {
	for _, t := range o.Now {
		if n := i.named(t.Operator); n != nil && !atOnce(t.Param) {
			if err := i.set(n, t); err != nil {
				return err
			}
		}
	}
	if !i.cfg.Off.On(protocol.ControlLog) {
		for _, t := range o.Changes {
			if n := i.named(t.Operator); n != nil {
				if err := i.set(n, t); err != nil {
					return err
				}
			}
		}
	}
	return i.obey(o)
}

func (i *Instance) obey(o metaquery.Orders) error {
	i.orders = o
	i.changed()
	for _, c := range i.ins {
		c.receiver.Fence(max(o.Fences[c.from], metaquery.FirstGeneration))
	}
	if err := i.trimTo(o.Complete); err != nil {
		return err
	}
	for _, t := range o.Now {
		if err := i.setNow(t); err != nil {
			return err
		}
	}
	for _, n := range i.byNode {
		n.settings = slices.DeleteFunc(slices.Concat(o.Changes, i.learnt), func(t metaquery.Tuple) bool {
			return t.Operator != n.ctx.Op.Name || t.Epoch <= max(n.epoch, n.now)
		})
		inOrder(n.settings)
	}
	return i.consider(o.Plan)
}

// inOrder brings changes into the order in which they take effect. Of those of one epoch the last one that was decided
// holds, whether it was in the orders or was found in the store.
func inOrder(changes []metaquery.Tuple) {
	slices.SortStableFunc(changes, func(a, b metaquery.Tuple) int {
		return cmp.Or(cmp.Compare(a.Epoch, b.Epoch), cmp.Compare(a.Seq, b.Seq))
	})
}

// atOnce reports whether a parameter affects no rows, so that it takes effect at once.
func atOnce(param string) bool {
	return param == metaquery.TargetAddr || param == metaquery.Active || param == metaquery.Rate
}

func (i *Instance) named(operator string) *instanceNode {
	for _, n := range i.byNode {
		if n.ctx.Op.Name == operator {
			return n
		}
	}
	return nil
}

// trimTo forgets what is not needed once checkpoint c is complete.
func (i *Instance) trimTo(c int64) error {
	if c <= i.complete {
		return nil
	}
	i.complete = c
	i.snapshots = slices.DeleteFunc(i.snapshots, func(s metaquery.Snapshot) bool { return s.Hi < c })
	i.passed = slices.DeleteFunc(i.passed, func(p metaquery.Passed) bool { return p.Hi < c })
	for _, in := range i.ins {
		in.copies.trim(c)
	}
	for _, out := range i.outs {
		out.sender.Trim(c)
	}
	for _, f := range i.feeds {
		if err := f.trim(c); err != nil {
			return err
		}
	}
	return nil
}

// setNow sets a parameter that takes effect at once.
func (i *Instance) setNow(t metaquery.Tuple) error {
	key := parameter{t.Operator, t.Param}
	if seq, known := i.nowSeq[key]; !atOnce(t.Param) || known && t.Seq <= seq {
		return nil
	}
	i.nowSeq[key] = t.Seq
	if t.Param == metaquery.TargetAddr {
		i.retarget(t)
		return nil
	}
	for _, f := range i.feeds { // of which there are nodes too, without an operator
		if f.ctx.Op.Name != t.Operator {
			continue
		}
		s, ok := f.src.(operators.Settable)
		if !ok {
			return nil
		}
		err := s.Set(t.Param, t.Value)
		f.opts = f.src.Epochs()
		return setError(t, err)
	}
	if n := i.named(t.Operator); n != nil {
		return i.set(n, t)
	}
	return nil
}

// retarget connects an output channel to another process.
func (i *Instance) retarget(t metaquery.Tuple) {
	for _, c := range i.outs {
		if c.writer != t.Operator {
			continue
		}
		c.addr, c.full = t.Value, false
		c.sender.Disconnect()
		i.env.Dial(c.name, c.addr)
	}
}

// set gives a parameter of a running operator a new value.
func (i *Instance) set(n *instanceNode, t metaquery.Tuple) error {
	s, ok := n.op.(operators.Settable)
	if !ok {
		if atOnce(t.Param) {
			return nil
		}
		return n.fail(fmt.Errorf("parameter %q cannot be set while the query runs", t.Param))
	}
	return n.fail(setError(t, s.Set(t.Param, t.Value)))
}

func setError(t metaquery.Tuple, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("parameter %q cannot become %q: %w", t.Param, t.Value, err)
}

// apply lets changes take effect that hold from the epoch on.
func (i *Instance) apply(n *instanceNode, epoch int64) error {
	for len(n.settings) > 0 && n.settings[0].Epoch <= epoch {
		t := n.settings[0]
		n.settings = n.settings[1:]
		if !i.cfg.Off.On(protocol.ControlLog) && t.Epoch <= i.cfg.Launch.Checkpoint {
			continue
		}
		if err := i.set(n, t); err != nil {
			return err
		}
	}
	return nil
}

// concerns reports whether a plan changes the node.
func (i *Instance) concerns(n *node, p *metaquery.Plan) bool {
	return slices.ContainsFunc(p.Tuples, func(t metaquery.Tuple) bool { return t.Operator == n.ctx.Op.Name })
}

// consider takes the plan that is under way, or that there is none: then the one before has been
// decided, and the changes say how.
func (i *Instance) consider(p *metaquery.Plan) error {
	if i.plan != nil && (p == nil || p.Attempt != i.plan.Attempt) {
		i.plan = nil
		if err := i.resume(); err != nil {
			return err
		}
	}
	if p == nil || i.vote != nil && p.Attempt <= i.vote.Attempt {
		return nil
	}
	i.vote = &metaquery.Vote{Attempt: p.Attempt, Late: i.late(p)}
	if !i.vote.Late {
		i.plan, i.planned = p, i.env.Now()
	}
	i.changed()
	return nil
}

// late reports whether a node has begun the plan's epoch already, or a source has cut it: a source's log
// tells what no other task can, that an earlier instance of some task may have been past the epoch.
func (i *Instance) late(p *metaquery.Plan) bool {
	for _, f := range i.feeds {
		if f.highest() >= p.Epoch {
			return true
		}
	}
	for _, n := range i.task.nodes {
		if i.concerns(n, p) && max(n.epoch, n.now) >= p.Epoch {
			return true
		}
	}
	return false
}

// resume goes on with what has waited for a decision.
func (i *Instance) resume() error {
	for _, n := range i.task.nodes {
		if n.op == nil || n.race {
			continue
		}
		if err := n.advance(); err != nil {
			return err
		}
	}
	return nil
}

// askDecision looks for the decision of a plan that has waited long, and cancels it if there is none.
func (i *Instance) askDecision(now int64) {
	p := i.plan
	if p == nil || now-i.planned < decisionTimeout || i.dead {
		return
	}
	i.planned = now
	committed, err := i.cfg.Store.Decide(p.Attempt, false)
	if err != nil {
		return // with a later tick
	}
	i.plan = nil
	if committed {
		i.learn(p)
	}
	i.fail(i.resume())
}

// learn adds the changes of a committed plan that the orders do not have yet.
func (i *Instance) learn(p *metaquery.Plan) {
	i.learnt = append(i.learnt, p.Tuples...)
	for _, t := range p.Tuples {
		if n := i.named(t.Operator); n != nil && t.Epoch > max(n.epoch, n.now) {
			n.settings = append(n.settings, t)
			inOrder(n.settings)
		}
	}
}
