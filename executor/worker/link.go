package worker

import (
	"fmt"
	"slices"

	"sluice/executor/transport"
)

// output is a connection of an output channel of an instance. Each Dial makes another one, so that what
// comes back late from where the channel went before can be told.
type output struct {
	h       *host
	channel string
	conn    transport.Conn // nil if there is none
}

// Dial implements executor.Env.
func (h *host) Dial(channel, addr string) {
	if old := h.outputs[channel]; old != nil {
		old.close()
		delete(h.outputs, channel)
	}
	if addr == "" {
		return
	}
	out := &output{h: h, channel: channel}
	h.outputs[channel] = out
	if addr == h.w.addr {
		out.conn = localOutput{out}
		out.Connected()
		return
	}
	conn, err := h.w.data.Dial(addr, h.w.realm+channel, h.id.Gen, out)
	if err != nil {
		h.w.cfg.Log(fmt.Sprintf("task %q: channel %q cannot be connected to %q: %v", h.id.Task, channel, addr, err))
		return
	}
	out.conn = conn
}

func (o *output) close() {
	if o.conn != nil {
		o.conn.Close()
	}
}

// Connected implements transport.DialHandler.
func (o *output) Connected() { o.h.box.put(item{output: o}) }

// Message implements transport.DialHandler.
func (o *output) Message(msg []byte) {
	if len(msg) > 0 {
		o.h.box.put(item{output: o, msg: msg})
	}
}

// Drained implements transport.Drainer.
func (o *output) Drained() { o.h.box.put(item{output: o, drained: true}) }

// Send implements executor.Env. What is sent while there is no connection is lost, as it would be on one
// that breaks.
func (h *host) Send(channel string, msg []byte) bool {
	out := h.outputs[channel]
	if out == nil || out.conn == nil {
		return true
	}
	return out.conn.Send(msg) != transport.ErrFull
}

// maxReplies is how many replies of a channel wait at most. Each of them is repeated or superseded, so the
// oldest can go.
const maxReplies = 256

// input is where replies of an input channel go.
type input struct {
	back    transport.Conn
	waiting [][]byte // not taken yet
}

// from notes on which connection the producer was heard last. What waits for another one is of no use.
func (in *input) from(back transport.Conn) {
	if in.back != back {
		in.back, in.waiting = back, nil
	}
}

// Reply implements executor.Env.
func (h *host) Reply(channel string, msg []byte) {
	in := h.inputs[channel]
	if in == nil {
		return // nobody has been heard
	}
	if len(in.waiting) == maxReplies {
		in.waiting = slices.Delete(in.waiting, 0, 1)
	}
	in.waiting = append(in.waiting, msg)
	in.send()
}

func (in *input) send() {
	for len(in.waiting) > 0 && in.back.Send(in.waiting[0]) != transport.ErrFull {
		in.waiting = in.waiting[1:]
	}
}

// retry sends the replies that were not taken, and reports whether some still wait.
func (h *host) retry() (waiting bool) {
	for _, in := range h.inputs {
		in.send()
		waiting = waiting || len(in.waiting) > 0
	}
	return waiting
}

// localOutput is the producer's side of a channel within this process, localInput the consumer's. Both keep
// the same messages, which neither changes.
type (
	localOutput struct{ *output }
	localInput  struct{ *output }
)

// Send implements transport.Conn.
func (l localOutput) Send(msg []byte) error {
	l.h.w.incoming(l.channel, l.h.id.Gen, msg, localInput(l))
	return nil
}

// Close implements transport.Conn.
func (l localOutput) Close() error { return nil }

// Send implements transport.Conn.
func (l localInput) Send(msg []byte) error {
	l.output.Message(msg)
	return nil
}

// Close implements transport.Conn.
func (l localInput) Close() error { return nil }
