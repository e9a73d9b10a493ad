package executor

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"sluice/dataflow"
	"sluice/dataflow/batch"
	"sluice/executor/channel"
	"sluice/operators"
)

// inChannel is an input channel.
type inChannel struct {
	name     string
	from     string // producing task
	inlet    int
	receiver *channel.Receiver
	copies   *copySums // nil if the channel carries no copy of a stream
	skipped  int64     // up to which epoch another copy has brought what this one does not
}

// copySums are the checksums of the epochs of a stream of which there are copies.
type copySums struct {
	op   *dataflow.Operator // where the copies meet
	sums map[int64]uint64
}

// maxCopySums bounds them. A copy that is further behind is not compared.
const maxCopySums = 1 << 16

// compare compares an epoch of a copy with what others have brought. What lies behind the checkpoint, or behind
// what the channel has been made to skip, is only
// an end that is said once more, without the rows of its epoch.
func (i *Instance) compare(c *inChannel, d channel.Delivery) error {
	if d.Epoch <= max(i.cfg.Launch.Checkpoint, c.skipped) {
		return nil
	}
	return c.copies.compare(d)
}

// compare compares an epoch of one copy with what another one has brought.
func (s *copySums) compare(d channel.Delivery) error {
	if s == nil {
		return nil
	}
	sum, known := s.sums[d.Epoch]
	switch {
	case !known && len(s.sums) < maxCopySums:
		s.sums[d.Epoch] = d.Sum
	case known && sum != d.Sum:
		return &OperatorError{Op: s.op, Err: fmt.Errorf("the copies differ: their rows of epoch %d have different checksums; an operator above is not deterministic", d.Epoch)}
	}
	return nil
}

// trim forgets what is not compared any more once checkpoint c is complete.
func (s *copySums) trim(c int64) {
	if s != nil {
		maps.DeleteFunc(s.sums, func(epoch int64, _ uint64) bool { return epoch <= c })
	}
}

// outChannel is an output channel; it takes what an edge carries.
type outChannel struct {
	name   string
	writer string             // the netwriter
	from   *dataflow.Operator // whose rows it gets
	addr   string
	sender *channel.Sender
	full   bool // the transport takes nothing now
}

func (c *outChannel) rows(b *batch.Batch, at stamp) error {
	return c.blame(c.sender.Rows(at.epoch, at.prev, at.clock, b))
}

func (c *outChannel) mark(m operators.Mark) error { return c.blame(c.sender.Mark(m)) }

// blame names the operator that made a row which is too large, rather than the netwriter, which nobody has written.
func (c *outChannel) blame(err error) error {
	if !errors.Is(err, channel.ErrTooLarge) {
		return err
	}
	return &OperatorError{Op: c.from, Err: err}
}

// join makes the ends of the task's channels.
func (i *Instance) join() error {
	from := map[string]*dataflow.Task{}
	for _, c := range i.cfg.Query.Channels {
		from[c.Stream] = c.FromTask
	}
	start := channel.After(i.cfg.Launch.Checkpoint)
	copies := map[*dataflow.Operator]*copySums{}
	for k, in := range i.task.inlets {
		name := in.node.ctx.Op.Inputs[in.port].Stream
		producer := from[name]
		if producer == nil {
			return in.node.fail(errors.New("assertion failed: the input comes from another task and is no channel"))
		}
		in.node.lends = in.node.ctx.Op.Type == dataflow.NetReader && len(in.node.out[0].to) == 1
		meets := in.meets(copies)
		i.byNode[in.node].copies = meets != nil
		i.ins = append(i.ins, &inChannel{name: name, from: producer.Name, inlet: k, copies: meets, receiver: channel.NewReceiver(channel.ReceiverConfig{
			Channel: name, Schema: in.node.ctx.Op.Inputs[in.port].Schema, From: start, Window: i.cfg.Limits.Window, Off: i.cfg.Off,
		})})
	}
	retention := i.cfg.Retention
	if retention == nil {
		retention = i.cfg.Limits.NewRetention()
	}
	for _, n := range i.task.nodes {
		if n.ctx.Op.Type != dataflow.NetWriter {
			continue
		}
		out := &outChannel{name: n.ctx.Op.Outputs[0].Stream, writer: n.ctx.Op.Name, from: n.ctx.Op.Inputs[0].From}
		out.sender = channel.NewSender(channel.SenderConfig{
			Channel: out.name, Generation: i.cfg.Launch.ID.Gen, Schema: n.ctx.Op.Outputs[0].Schema, Start: start,
			Frame: i.cfg.Limits.Frame, Message: i.cfg.Limits.Message, Store: retention, Off: i.cfg.Off,
		})
		n.out[0].remote = append(n.out[0].remote, out)
		i.outs = append(i.outs, out)
	}
	return nil
}

// meets finds where the inlet's stream meets copies of it, nil if it is no copy.
func (in *inlet) meets(all map[*dataflow.Operator]*copySums) *copySums {
	for _, c := range in.node.ctx.Op.Outputs[0].Consumers {
		if !c.Op.Desc.Races {
			continue
		}
		if all[c.Op] == nil {
			all[c.Op] = &copySums{op: c.Op, sums: map[int64]uint64{}}
		}
		return all[c.Op]
	}
	return nil
}

// Hears reports whether messages of a generation of the producer of an input channel are taken.
func (i *Instance) Hears(name string, generation int64) bool {
	c := i.in(name)
	return c != nil && c.receiver.Hears(generation)
}

// Receive takes a message of the producer of an input channel.
func (i *Instance) Receive(name string, generation int64, msg []byte) {
	c := i.in(name)
	if c == nil || i.dead {
		return
	}
	// A damaged message does no harm: what is missing will be asked for again.
	if err := c.receiver.Receive(generation, msg); err != nil && !errors.Is(err, channel.ErrDamaged) {
		i.fail(err)
	}
	for !i.dead {
		d, ok := c.receiver.Deliver()
		if !ok {
			break
		}
		i.fail(i.take(c, d))
	}
	if epoch, ok := c.receiver.Trimmed(); ok && !i.dead && epoch > 0 {
		i.producerTrimmed(c, epoch)
	}
	i.settle()
}

// producerTrimmed is told that a producer no longer has what is wanted, but only what comes behind an epoch. That
// is all that is wanted of a copy, such as a standby that has just been started, if another one has brought the rest.
// Without checkpoints a copy that begins later may have lost its state, and is none.
func (i *Instance) producerTrimmed(c *inChannel, epoch int64) {
	if c.copies != nil && !i.cfg.Launch.NoSnapshots && epoch <= i.task.ended(c.copies.op) {
		i.task.inletSkip(c.inlet, epoch)
		c.receiver.Skip(epoch)
		c.skipped = max(c.skipped, epoch)
		return
	}
	i.trimmed, i.dead = true, true
	i.changed()
}

// take hands the task a delivery.
func (i *Instance) take(c *inChannel, d channel.Delivery) error {
	if d.Rows != nil {
		return i.task.inletRows(c.inlet, d.Rows, stamp{d.Epoch, d.Prev, d.Clock}, &delivered{c.receiver, d})
	}
	c.receiver.Release(d)
	if err := i.compare(c, d); err != nil {
		return err
	}
	return i.task.inletMark(c.inlet, d.Mark)
}

// delivered gives rows back to the receiver from which they came.
type delivered struct {
	receiver *channel.Receiver
	delivery channel.Delivery
}

func (d *delivered) put(*batch.Batch) { d.receiver.Release(d.delivery) }

func (d *delivered) scarce() {}

// Message takes a message of the consumer of an output channel.
func (i *Instance) Message(name string, msg []byte) {
	c := i.out(name)
	if c == nil || i.dead {
		return
	}
	_ = c.sender.Message(msg) // one that is damaged does no harm
	i.settle()
}

// Connected says that an output channel has a new connection.
func (i *Instance) Connected(name string) {
	if c := i.out(name); c != nil && !i.dead {
		c.full = false
		c.sender.Connected()
		i.settle()
	}
}

// Flush says that an output channel takes messages again.
func (i *Instance) Flush(name string) {
	if c := i.out(name); c != nil && !i.dead {
		c.full = false
		i.settle()
	}
}

func (i *Instance) in(name string) *inChannel {
	k := slices.IndexFunc(i.ins, func(c *inChannel) bool { return c.name == name })
	if k < 0 {
		return nil
	}
	return i.ins[k]
}

func (i *Instance) out(name string) *outChannel {
	k := slices.IndexFunc(i.outs, func(c *outChannel) bool { return c.name == name })
	if k < 0 {
		return nil
	}
	return i.outs[k]
}

func (i *Instance) reply(c *inChannel) {
	for {
		msg, ok := c.receiver.Next()
		if !ok {
			return
		}
		i.env.Reply(c.name, msg)
	}
}

func (i *Instance) flush(c *outChannel) {
	for !c.full && c.addr != "" {
		msg, ok := c.sender.Next()
		if !ok {
			return
		}
		if !i.env.Send(c.name, msg) {
			c.sender.Unsend()
			c.full = true
		}
	}
}

// press tells producers whether sources are to brake.
func (i *Instance) press() {
	on := i.pressure()
	if on == i.pressed {
		return
	}
	i.pressed = on
	for _, c := range i.ins {
		c.receiver.SetPressure(on)
	}
}

// pressure reports whether more waits here or below than should.
func (i *Instance) pressure() bool {
	unsent := int64(0)
	for _, c := range i.outs {
		if c.sender.Pressure() {
			return true
		}
		if c.sender.IsConnected() {
			unsent += c.sender.Unsent()
		}
	}
	return unsent > i.cfg.Limits.Backlog || i.retainsTooMuch()
}

func (i *Instance) retainsTooMuch() bool {
	kept := int64(0)
	for _, c := range i.outs {
		kept += c.sender.Retained()
	}
	return kept > i.cfg.Limits.Retained
}
