package executor

import "sluice/dataflow"

// Shape is what has to be known of a query that has left state in several processes, so that another graph can go on
// with it. It can be kept as JSON, for a release to come that makes another graph of the same spec.
type Shape struct {
	Operators []ShapeOperator `json:"operators"`
}

// ShapeOperator is an operator of a Shape, other than those that carry a stream from one task to another.
type ShapeOperator struct {
	Name string `json:"name"`
	Task string `json:"task"`
	// What its state is the state of; see stateOrigin.
	Of       string `json:"of"`
	Key      string `json:"key"` // that of its state, which copies share
	Stage    int    `json:"stage,omitempty"`
	First    int    `json:"first,omitempty"` // key groups
	End      int    `json:"end,omitempty"`
	Keyed    bool   `json:"keyed,omitempty"`
	Replicas int    `json:"replicas,omitempty"`

	Source   bool     `json:"source,omitempty"`
	Sink     bool     `json:"sink,omitempty"`
	Stateful bool     `json:"stateful,omitempty"` // its state is in checkpoints, if there are any
	Feeders  []string `json:"feeders,omitempty"`
}

// ShapeOf is the shape of a query.
func ShapeOf(p *dataflow.Physical) Shape {
	task := map[*dataflow.Operator]string{}
	for _, t := range p.Tasks {
		for _, op := range t.Operators {
			task[op] = t.Name
		}
	}
	keys := dataflow.StateKeys(p.Graph)
	var s Shape
	for _, op := range p.Graph.Operators {
		if op.Type == dataflow.NetReader || op.Type == dataflow.NetWriter {
			continue
		}
		o := originOf(op, keys[op])
		s.Operators = append(s.Operators, ShapeOperator{
			Name: op.Name, Task: task[op], Of: o.Of, Key: o.Key, Stage: o.Stage, First: o.Groups.First, End: o.Groups.End,
			Keyed: o.Keyed, Replicas: o.Replicas, Source: op.Desc.Source(), Sink: op.Desc.Sink(),
			Stateful: inCheckpoint(op) && !op.Properties().Stateless, Feeders: feeders(op),
		})
	}
	return s
}

// Of is the operator of the spec that an operator stands for, the operator itself if it is not known.
func (s Shape) Of(operator string) string {
	for _, op := range s.Operators {
		if op.Name == operator {
			return op.Of
		}
	}
	return operator
}

// Unmovable is UnmovableOf for a query of which there is state of every operator.
func (s Shape) Unmovable() map[string]int {
	replicas := map[string]int{}
	for _, op := range s.Operators {
		if op.Stateful && !op.Keyed {
			replicas[op.Of] = max(replicas[op.Of], op.Replicas, 1)
		}
	}
	return replicas
}

func (o *ShapeOperator) origin() stateOrigin {
	return stateOrigin{
		Of: o.Of, Key: o.Key, Stage: o.Stage, Groups: dataflow.GroupRange{First: o.First, End: o.End}, Keyed: o.Keyed, Replicas: o.Replicas,
	}
}
