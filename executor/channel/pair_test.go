package channel

import (
	"errors"

	"sluice/dataflow"
	"sluice/internal/protocol"
)

// pair is two ends with nothing bad between them.
type pair struct {
	s   *Sender
	r   *Receiver
	now int64
}

func newPair(schema *dataflow.Schema, from Position, off protocol.Off) *pair {
	return &pair{s: sender(schema, 1, from, off), r: receiver(schema, from, off)}
}

func sender(schema *dataflow.Schema, gen int64, start Position, off protocol.Off) *Sender {
	return NewSender(SenderConfig{Channel: "c", Generation: gen, Schema: schema, Start: start, Store: NewRetention(1<<30, ""), Off: off})
}

func receiver(schema *dataflow.Schema, from Position, off protocol.Off) *Receiver {
	return NewReceiver(ReceiverConfig{Channel: "c", Schema: schema, From: from, Off: off})
}

// talk brings all messages across until neither end has one. Its errors are those of either end.
func (p *pair) talk() error {
	var errs []error
	for {
		down, ok := p.s.Next()
		if ok {
			errs = append(errs, p.r.Receive(p.s.cfg.Generation, down))
		}
		up, back := p.r.Next()
		if back {
			errs = append(errs, p.s.Message(up))
		}
		if !ok && !back {
			return errors.Join(errs...)
		}
	}
}
