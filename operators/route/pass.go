package route

import (
	"strconv"

	"sluice/dataflow"
	"sluice/dataflow/batch"
	"sluice/operators"
)

// Multicast describes the operator type "multicast".
var Multicast = &dataflow.Descriptor{
	Name:      "multicast",
	Doc:       "Sends each row to all outputs.",
	MinInputs: 1, MaxInputs: 1, ManyOutputs: true,
	Added: true, Stateless: true, Deterministic: true, Passthrough: true,
	Check: sameForAll,
}

// Failover describes the operator type "failover".
var Failover = &dataflow.Descriptor{
	Name: "failover",
	Doc:  "Sends each row to the output that is active; the others belong to standbys.",
	Params: []dataflow.ParamDesc{
		{Name: "active", Type: dataflow.IntParam, Default: "1", Min: 1, Settable: true, Doc: "Number of the active output, from 1."},
	},
	MinInputs: 1, MaxInputs: 1, ManyOutputs: true,
	Added: true, Stateless: true, Deterministic: true, Passthrough: true,
	Check: func(c *dataflow.Check) []*dataflow.Schema {
		if n, err := strconv.Atoi(c.Op.Value("active")); err == nil && n > len(c.Op.Outputs) {
			c.ParamErrorf("active", 0, "", "active must be the number of an output, 1 to %d", len(c.Op.Outputs))
		}
		return sameForAll(c)
	},
}

// Merge describes the operator type "merge".
var Merge = &dataflow.Descriptor{
	Name:      "merge",
	Doc:       "Joins the streams of partitions into one. Within an epoch the rows come input by input, so the rows of a key, which are all in one partition, keep their order.",
	MinInputs: 1, MaxInputs: -1, Output: true,
	Added: true, Stateless: true, Deterministic: true, Passthrough: true,
	Check: checkCopies,
}

// Selector describes the operator type "stream-selector".
var Selector = &dataflow.Descriptor{
	Name:      "stream-selector",
	Doc:       "Takes each row from whichever input brings it first; its inputs are copies of one stream, or some of them are of standbys and bring nothing.",
	MinInputs: 1, MaxInputs: -1, Output: true,
	Added: true, Stateless: true, Deterministic: true, Passthrough: true, Races: true,
	Check: checkCopies,
}

// NetWriter and NetReader describe the two ends of an edge between tasks.
var (
	NetWriter = &dataflow.Descriptor{
		Name: "netwriter", Doc: "The end of an edge that leaves its task.",
		MinInputs: 1, MaxInputs: 1, Output: true, Added: true, Stateless: true, Deterministic: true, Check: checkCopies,
	}
	NetReader = &dataflow.Descriptor{
		Name: "netreader", Doc: "The end of an edge that comes into its task.",
		MinInputs: 1, MaxInputs: 1, Output: true, Added: true, Stateless: true, Deterministic: true, Check: checkCopies,
	}
)

func checkCopies(c *dataflow.Check) []*dataflow.Schema {
	return operators.OutputSchemas(c.Op, operators.CommonSchema(c))
}

// pass passes rows on to some of its outputs as they are.
type pass struct {
	to []operators.Output
}

// Process implements operators.Operator.
func (p *pass) Process(_ int, b *batch.Batch) error {
	for _, o := range p.to {
		if err := o.Emit(b); err != nil {
			return err
		}
	}
	return nil
}

// EndEpoch implements operators.Operator.
func (p *pass) EndEpoch(operators.Mark) error { return nil }

// NewPass makes a running multicast, merge, netwriter or netreader.
func NewPass(ctx *operators.Context) (operators.Operator, error) {
	return &pass{to: ctx.Outputs}, nil
}

// NewFailover makes a running failover node.
func NewFailover(ctx *operators.Context) (operators.Operator, error) {
	n, err := strconv.Atoi(ctx.Op.Value("active"))
	if err != nil {
		return nil, err
	}
	return &pass{to: ctx.Outputs[n-1 : n]}, nil
}

// selector is a pass whose inputs race.
type selector struct{ pass }

// Race implements operators.Race.
func (*selector) Race() {}

// NewSelector makes a running stream selector.
func NewSelector(ctx *operators.Context) (operators.Operator, error) {
	return &selector{pass{to: ctx.Outputs}}, nil
}
