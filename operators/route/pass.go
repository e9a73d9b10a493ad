package route

import (
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

// Merge describes the operator type "merge".
var Merge = &dataflow.Descriptor{
	Name:      "merge",
	Doc:       "Joins the streams of partitions into one. Within an epoch the rows come input by input, so the rows of a key, which are all in one partition, keep their order.",
	MinInputs: 1, MaxInputs: -1, Output: true,
	Added: true, Stateless: true, Deterministic: true, Passthrough: true,
	Check: checkCopies,
}

// NetWriter and NetReader describe the two ends of an edge between tasks.
var (
	NetWriter = &dataflow.Descriptor{
		Name: "netwriter", Doc: "The end of an edge that leaves its task.",
		Params: []dataflow.ParamDesc{
			{Name: "target-addr", Type: dataflow.TextParam, Settable: true, Doc: "Where the rows go: the address of the process that has the other end. While it is empty they wait. It is set by what runs the query."},
		},
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
