package scheduler

import (
	"fmt"
	"reflect"

	"sluice/dataflow"
	"sluice/internal/protocol"
	"sluice/metaquery"
)

// report takes what a task says.
func (c *Core) report(r *TaskReport) {
	t := c.byName[r.From.Task]
	if t != nil && r.Term > c.rec.Term {
		c.prove()
		return
	}
	if t == nil || r.From.Gen <= 0 || r.From.Gen > c.gen(t) {
		return
	}
	c.collect(t, &r.Report)
	if !c.workers[r.Worker].up() {
		return
	}
	c.hear(r.Worker, "")
	if !c.isCurrent(t, r.From.Gen, r.Worker) || t.heard && r.Seq < t.report.Seq {
		return
	}
	c.dirty = c.dirty || r.CaughtUp != t.report.CaughtUp // idles
	t.heard, t.report, t.seen = true, r.Report, c.now
	t.caughtUp = t.caughtUp || r.CaughtUp
	if r.Term == c.rec.Term && r.Obeyed >= t.due {
		t.due, t.dueSince = t.orders.Seq, c.now
	}
	if r.Waits != "" {
		c.alert(fmt.Sprintf("task %s on worker %s waits: %s", t.Name, t.worker, r.Waits))
	}
	switch {
	case r.Failure != nil:
		c.finish(Outcome{Error: r.Failure.Error, Input: r.Failure.Input})
	case r.Retry != "":
		c.retry(t)
	case r.Trimmed:
		c.alert(fmt.Sprintf("task %s on worker %s fell behind checkpoint %d, before which its producers keep nothing; it is launched again from there", t.Name, t.worker, c.rec.Checkpoint))
		c.fail(t, false)
	case r.Epoch == metaquery.LastEpoch && !c.cfg.Off.On(protocol.EndStay):
		c.do(Action{End: &TaskEnd{Worker: t.worker, ID: r.From}})
	}
}

// sendOrders gives orders to the tasks for which something has changed.
func (c *Core) sendOrders() {
	if !c.dirty {
		return
	}
	c.dirty = false
	for _, t := range c.tasks {
		if !t.live {
			continue
		}
		o := c.ordersFor(t)
		o.Seq = t.orders.Seq
		if reflect.DeepEqual(o, t.orders) {
			continue
		}
		if t.report.Term == c.rec.Term && t.report.Obeyed >= o.Seq {
			t.due, t.dueSince = o.Seq+1, c.now
		}
		o.Seq++
		t.orders, t.issued = o, c.now
		for p, gen := range o.Fences {
			if t.fences[p].gen != gen {
				t.fences[p] = fence{gen: gen, seq: o.Seq}
			}
		}
		c.send(t)
	}
}

func (c *Core) send(t *task) {
	t.sent = c.now
	c.do(Action{Orders: &TaskOrders{Worker: t.worker, Orders: t.orders}})
}

// repeat sends orders again that may have been lost.
func (c *Core) repeat() {
	if !c.cfg.Off.On(protocol.Restate) {
		return
	}
	for _, t := range c.tasks {
		obeyed := t.heard && t.report.Term == c.rec.Term && t.report.Obeyed >= t.orders.Seq
		if !t.live || t.orders.Seq == 0 || obeyed {
			continue
		}
		if c.now-t.issued >= patience*c.cfg.Liveness {
			c.alert(fmt.Sprintf("task %s, generation %d, on worker %s does not obey its orders, though the worker is alive", t.Name, c.gen(t), t.worker))
		}
		if c.now-t.sent >= resend {
			c.send(t)
		}
	}
}

// ordersFor is all that a task is to know now, but for the number of it.
func (c *Core) ordersFor(t *task) metaquery.Orders {
	o := metaquery.Orders{
		To: metaquery.TaskID{Task: t.Name, Gen: c.gen(t)}, Term: c.rec.Term, Complete: c.rec.Checkpoint,
		Now: c.tuplesAtOnce(t), Plan: c.planFor(t),
	}
	for _, p := range t.producers {
		if gen := c.gen(p); gen > 1 {
			if o.Fences == nil {
				o.Fences = make(map[string]int64)
			}
			o.Fences[p.Name] = gen
		}
	}
	for _, change := range c.rec.Changes {
		if t.operators[change.Operator] && c.atItsEpoch(t, change) {
			o.Changes = append(o.Changes, change)
		}
	}
	if t.sources {
		o.Stop = c.rec.Stop
	}
	return o
}

// atItsEpoch tells whether a task is to apply a change at its epoch, not from the beginning.
func (c *Core) atItsEpoch(t *task, change metaquery.Tuple) bool {
	if c.cfg.Off.On(protocol.ControlLog) {
		return change.Epoch > t.from
	}
	return !containsTuple(t.base, change)
}

func containsTuple(list []metaquery.Tuple, t metaquery.Tuple) bool {
	for _, o := range list {
		if o.Operator == t.Operator && o.Param == t.Param && o.Value == t.Value {
			return true
		}
	}
	return false
}

// baseOf are the parameters that affect rows with which a task begins behind the checkpoint. Later
// orders of the instance repeat them as they were: a value of now would undo a change.
func (c *Core) baseOf(t *task) []metaquery.Tuple {
	var base []metaquery.Tuple
	for _, p := range c.rec.Params {
		if t.operators[p.Operator] && affectsRows(p.Param) {
			base = append(base, p)
		}
	}
	for _, change := range c.rec.Changes {
		now := change.Epoch <= c.rec.Checkpoint || !c.cfg.Off.On(protocol.ControlLog)
		if now && t.operators[change.Operator] {
			change.Epoch = 0
			base = setTuple(base, change)
		}
	}
	return base
}

// tuplesAtOnce are where a task's channels go, what it began with, and what was set since that does not
// affect rows.
func (c *Core) tuplesAtOnce(t *task) []metaquery.Tuple {
	var list []metaquery.Tuple
	for _, ch := range t.out {
		if u := c.byName[ch.ToTask.Name]; c.collecting && !u.live && c.active(u) {
			continue // it may run where the channel goes now
		}
		a := c.addressOf(ch)
		list = append(list, metaquery.Tuple{Operator: ch.From.Name, Param: metaquery.TargetAddr, Value: a.value, Seq: a.seq})
	}
	list = append(list, t.base...)
	for _, p := range c.rec.Params {
		if t.operators[p.Operator] && !affectsRows(p.Param) {
			list = append(list, p)
		}
	}
	return list
}

// addressOf is where a channel goes: to the worker of its consumer, if that has been launched and wants rows of it.
func (c *Core) addressOf(ch *dataflow.Channel) address {
	value := ""
	if u := c.byName[ch.ToTask.Name]; u.live && !c.idles(ch) {
		value = c.workers[u.worker].addr
	}
	a, ok := c.addrs[ch.Stream]
	if !ok || a.value != value {
		a = address{value: value, seq: c.nextSeq()}
		c.addrs[ch.Stream] = a
	}
	return a
}
