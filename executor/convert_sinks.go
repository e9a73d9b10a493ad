package executor

import (
	"errors"

	"sluice/dataflow"
	"sluice/operators"
)

// RecoverSinks brings the sinks of a query, nothing of which runs, to what they have committed, as their next
// launch does: so it is found whether they can go on. It returns the last epoch that any of them has made visible. gen
// gives for each sink the generation as which its log is opened.
func RecoverSinks(p *dataflow.Physical, store Store, gen func(sink string) int64, build Builder) (visible int64, err error) {
	for _, op := range p.Graph.Topological() {
		if !op.Desc.Sink() {
			continue
		}
		n := newNode(op, p.Graph.Dir)
		if n.op, err = build(&n.ctx); err != nil {
			return 0, n.fail(err)
		}
		epoch, err := recoverSink(n, store, gen(op.Name))
		if err = errors.Join(n.fail(err), closeNode(n)); err != nil {
			return 0, err
		}
		visible = max(visible, epoch)
	}
	return visible, nil
}

func recoverSink(n *node, store Store, gen int64) (visible int64, err error) {
	c, ok := n.op.(operators.Committer)
	if !ok {
		return 0, nil
	}
	log, epoch, witness, err := store.OpenSink(n.ctx.Op.Name, gen)
	if err != nil {
		return 0, err
	}
	visible, err = c.Recover(epoch, witness)
	return max(epoch, visible), errors.Join(err, log.Close())
}
