package route

import (
	"fmt"
	"strconv"
	"sync/atomic"

	"sluice/dataflow"
	"sluice/dataflow/batch"
	"sluice/operators"
)

const activeParam = "active"

// Failover describes the operator type "failover".
var Failover = &dataflow.Descriptor{
	Name: "failover",
	Doc:  "Sends each row to the output that is active; the others belong to standbys.",
	Params: []dataflow.ParamDesc{
		{Name: activeParam, Type: dataflow.IntParam, Default: "1", Min: 1, Settable: true, Doc: "Number of the active output, from 1; a new value holds from the next epoch on. On several processes it is for the scheduler to say which output is connected, and a new value changes nothing."},
	},
	MinInputs: 1, MaxInputs: 1, ManyOutputs: true,
	Added: true, Stateless: true, Deterministic: true, Passthrough: true,
	Check: func(c *dataflow.Check) []*dataflow.Schema {
		if _, err := numberWithin(c.Op.Value(activeParam), 1, len(c.Op.Outputs)); err != nil {
			c.ParamErrorf(activeParam, 0, "", "active must be the number of an output, %s", err)
		}
		return sameForAll(c)
	},
}

// Selector describes the operator type "stream-selector".
var Selector = &dataflow.Descriptor{
	Name: "stream-selector",
	Doc:  "Takes each row from whichever input brings it first; its inputs are copies of one stream, or some of them are of standbys and bring nothing.",
	Params: []dataflow.ParamDesc{
		{Name: activeParam, Type: dataflow.IntParam, Default: "0", Settable: true, Doc: "Number, from 1, of the only input that rows are taken from, on several processes with checkpoints: while all above it runs and has caught up the others are warm spares, which work and send nothing. They are connected when a failure above it is noticed, by default after 1 s. 0: whichever is first, which sends the stream from each copy and goes on at once. Rows are the same whatever it is."},
	},
	MinInputs: 1, MaxInputs: -1, Output: true,
	Added: true, Stateless: true, Deterministic: true, Passthrough: true, Races: true,
	Check: func(c *dataflow.Check) []*dataflow.Schema {
		if _, err := numberWithin(c.Op.Value(activeParam), 0, len(c.Op.Inputs)); err != nil {
			c.ParamErrorf(activeParam, 0, "", "active must be 0 or the number of an input, %s", err)
		}
		return checkCopies(c)
	},
}

// numberWithin reads a number from least to most.
func numberWithin(text string, least, most int) (int, error) {
	n, err := strconv.Atoi(text)
	if err != nil || n < least || n > most {
		return 0, fmt.Errorf("%d to %d; it is %q", least, most, text)
	}
	return n, nil
}

// activeValue is the number that value sets; an empty one is the default.
func activeValue(op *dataflow.Operator, param, value string, least, most int) (int, error) {
	if param != activeParam {
		return 0, operators.NotSettable(op, param)
	}
	if value == "" {
		value = op.Desc.Param(activeParam).Default
	}
	n, err := numberWithin(value, least, most)
	if err != nil {
		return 0, fmt.Errorf("active must be a number, %w", err)
	}
	return n, nil
}

// failover sends the rows of each epoch to the output that is active when the epoch begins.
type failover struct {
	ctx   *operators.Context
	next  atomic.Int32 // the active output, from 0, for the epochs that have not begun
	now   int32        // that of the current epoch
	begun bool         // the epoch has had rows
}

// NewFailover makes a running failover node of a query whose tasks are all in one process.
func NewFailover(ctx *operators.Context) (operators.Operator, error) {
	n, err := numberWithin(ctx.Op.Value(activeParam), 1, len(ctx.Outputs))
	if err != nil {
		return nil, fmt.Errorf("active must be the number of an output, %w", err)
	}
	f := &failover{ctx: ctx}
	f.next.Store(int32(n - 1))
	return f, nil
}

// Process implements operators.Operator.
func (f *failover) Process(_ int, b *batch.Batch) error {
	if !f.begun {
		f.now, f.begun = f.next.Load(), true
	}
	return f.ctx.Outputs[f.now].Emit(b)
}

// EndEpoch implements operators.Operator.
func (f *failover) EndEpoch(operators.Mark) error {
	f.begun = false
	return nil
}

// Set implements operators.Settable.
func (f *failover) Set(param, value string) error {
	n, err := activeValue(f.ctx.Op, param, value, 1, len(f.ctx.Outputs))
	if err == nil {
		f.next.Store(int32(n - 1))
	}
	return err
}

// spread is a failover node of a query on several processes: every output has the rows, which wait
// where the output's channel has no address. So a standby that is launched gets the rows since the last
// checkpoint too.
type spread struct {
	pass
	ctx *operators.Context
}

// NewSpread makes a running failover node of a query on several processes. Which of its outputs is active
// is for the addresses of their channels to say: setting active changes nothing.
func NewSpread(ctx *operators.Context) (operators.Operator, error) {
	return &spread{pass: pass{to: ctx.Outputs}, ctx: ctx}, nil
}

// Set implements operators.Settable.
func (s *spread) Set(param, value string) error {
	_, err := activeValue(s.ctx.Op, param, value, 1, len(s.ctx.Outputs))
	return err
}

// selector is a pass whose inputs race.
type selector struct {
	pass
	ctx    *operators.Context
	active atomic.Int32 // 0: none
}

var _ operators.Preferring = (*selector)(nil)

// NewSelector makes a running stream selector.
func NewSelector(ctx *operators.Context) (operators.Operator, error) {
	n, err := numberWithin(ctx.Op.Value(activeParam), 0, len(ctx.Op.Inputs))
	if err != nil {
		return nil, fmt.Errorf("active must be 0 or the number of an input, %w", err)
	}
	s := &selector{pass: pass{to: ctx.Outputs}, ctx: ctx}
	s.active.Store(int32(n))
	return s, nil
}

// Race implements operators.Race.
func (*selector) Race() {}

// Preferred implements operators.Preferring.
func (s *selector) Preferred() int { return int(s.active.Load()) - 1 }

// Set implements operators.Settable.
func (s *selector) Set(param, value string) error {
	n, err := activeValue(s.ctx.Op, param, value, 0, len(s.ctx.Op.Inputs))
	if err == nil {
		s.active.Store(int32(n))
	}
	return err
}
