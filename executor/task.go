package executor

import (
	"errors"
	"slices"

	"sluice/dataflow"
	"sluice/dataflow/batch"
	"sluice/operators"
)

// Task is a connected group of fused operators. It is used by one goroutine.
type Task struct {
	nodes   []*node // in topological order
	sources []*node // those without inputs, in the same order
	inlets  []inlet // inputs that come from other tasks, in the same order
}

// inlet is an input of a node that comes from another task.
type inlet struct {
	node *node
	port int
}

// Builder makes the running operator for a node that is not a source.
type Builder func(ctx *operators.Context) (operators.Operator, error)

// NewTask makes the task that runs the given operators of a resolved graph, which come in topological
// order. Those without inputs become the task's sources; inputs from other operators become its inlets,
// but for those from operators in absent, which are not running. dir is the folder against which
// relative paths are taken. If it fails, what has been built is closed again.
func NewTask(ops []*dataflow.Operator, absent map[*dataflow.Operator]bool, dir string, build Builder) (*Task, error) {
	t := &Task{}
	byOp := map[*dataflow.Operator]*node{}
	for _, op := range ops {
		n := newNode(op, dir)
		for i, in := range op.Inputs {
			switch from := byOp[in.From]; {
			case from != nil:
				e := from.out[in.Output]
				e.to = append(e.to, target{n, i})
			case absent[in.From]:
				n.in[i].absent = true
			default:
				t.inlets = append(t.inlets, inlet{n, i})
			}
		}
		byOp[op] = n
		t.nodes = append(t.nodes, n)
		if len(op.Inputs) == 0 {
			t.sources = append(t.sources, n)
			continue
		}
		var err error
		if n.op, err = build(&n.ctx); err != nil {
			t.nodes = t.nodes[:len(t.nodes)-1]
			return nil, errors.Join(n.fail(err), t.Close(false))
		}
		if _, n.race = n.op.(operators.Race); !n.race && n.hasAbsent() {
			return nil, errors.Join(n.fail(errStandbyInput), t.Close(false))
		}
	}
	return t, nil
}

// errStandbyInput is a graph that cannot be run: only a selector can do without a standby.
var errStandbyInput = errors.New("assertion failed: the operator reads from a standby, which is not running")

// Sources returns the contexts of the task's sources.
func (t *Task) Sources() []*operators.Context {
	ctxs := make([]*operators.Context, len(t.sources))
	for i, n := range t.sources {
		ctxs[i] = &n.ctx
	}
	return ctxs
}

// Begin begins an epoch of a source, with its clock in microseconds since 1970, which never goes back.
func (t *Task) Begin(source int, epoch, clock int64) {
	n := t.sources[source]
	n.now = epoch
	n.tick(clock)
}

// Rows hands the task rows of the current epoch on output port of a source. b stays the caller's.
func (t *Task) Rows(source, output int, b *batch.Batch) error {
	return t.sourceRows(source, output, b, nil)
}

// sourceRows is Rows for rows that go back to owner, if there is one, when the task no longer needs them. b itself is
// the caller's.
func (t *Task) sourceRows(source, output int, b *batch.Batch, owner releaser) error {
	n := t.sources[source]
	n.hold(b, owner)
	defer n.letGo()
	return n.out[output].Emit(b)
}

// Mark ends an epoch of a source.
func (t *Task) Mark(source int, m operators.Mark) error {
	n := t.sources[source]
	n.over = n.over || m.End
	return n.forward(m)
}

// inletRows hands the task rows from another task. b goes back to owner when the task no longer needs it.
func (t *Task) inletRows(i int, b *batch.Batch, at stamp, owner releaser) error {
	in := t.inlets[i]
	return in.node.rows(in.port, b, at, owner)
}

// inletMark ends an epoch of an inlet.
func (t *Task) inletMark(i int, m operators.Mark) error {
	in := t.inlets[i]
	return in.node.mark(in.port, m)
}

// ended is the last epoch that an operator of the task has ended.
func (t *Task) ended(op *dataflow.Operator) int64 {
	k := slices.IndexFunc(t.nodes, func(n *node) bool { return n.ctx.Op == op })
	return t.nodes[k].epoch
}

// inletSkip makes an inlet of a race go on behind an epoch that the race has ended, be it in the middle of one.
func (t *Task) inletSkip(i int, epoch int64) {
	n := t.inlets[i].node
	n.epoch = max(n.epoch, epoch)
	if n.now <= n.epoch {
		n.now = 0
	}
}

// Close releases what the operators hold. commit tells them that the query has run to its end; if one
// cannot commit, those after it are told not to.
func (t *Task) Close(commit bool) error {
	var errs []error
	for _, n := range t.nodes {
		if c, ok := n.op.(operators.Closer); ok {
			if err := c.Close(commit && len(errs) == 0); err != nil {
				errs = append(errs, n.fail(err))
			}
		}
	}
	return errors.Join(errs...)
}

// OperatorError is a failure of one operator while the query runs.
type OperatorError struct {
	Op  *dataflow.Operator
	Err error
}

func (e *OperatorError) Error() string {
	return dataflow.Diagnostic{Pos: e.Op.Pos, Operator: e.Op.Name, Message: e.Err.Error()}.String()
}

func (e *OperatorError) Unwrap() error { return e.Err }
