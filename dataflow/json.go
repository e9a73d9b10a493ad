package dataflow

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// The JSON form of a graph. Fields are only ever added.
type (
	graphJSON struct {
		Name      string         `json:"name"`
		Operators []operatorJSON `json:"operators"`
		Streams   []streamJSON   `json:"streams"`
	}
	operatorJSON struct {
		Name    string            `json:"name"`
		Type    string            `json:"type"`
		Params  map[string]string `json:"params"`
		Inputs  []string          `json:"inputs"`  // streams
		Outputs []string          `json:"outputs"` // streams

		Resources *resourcesJSON `json:"resources,omitempty"`

		// What rewriting has added.
		Annotations map[string]string `json:"annotations,omitempty"`
		Placement   []placementJSON   `json:"placement,omitempty"`
		Standby     bool              `json:"standby,omitempty"`
		Origin      *originJSON       `json:"origin,omitempty"`
	}
	resourcesJSON struct {
		CPUs       float64           `json:"cpus,omitempty"`
		Mem        int64             `json:"mem,omitempty"`  // bytes
		Disk       int64             `json:"disk,omitempty"` // bytes
		GPUs       int               `json:"gpus,omitempty"`
		Ports      int               `json:"ports,omitempty"`
		Attributes map[string]string `json:"attributes,omitempty"`
	}
	originJSON struct {
		Of        string   `json:"of"`
		Lineage   []string `json:"lineage,omitempty"`
		Rule      string   `json:"rule,omitempty"`
		Step      int      `json:"step,omitempty"`
		Replica   int      `json:"replica,omitempty"`
		Replicas  int      `json:"replicas,omitempty"`
		Stage     int      `json:"stage,omitempty"`
		KeyGroups string   `json:"keygroups,omitempty"` // "0-359"; left out for all of them
	}
	streamJSON struct {
		Name      string       `json:"name"`
		Producer  string       `json:"producer"`
		Port      string       `json:"port,omitempty"`
		Consumers []string     `json:"consumers"`
		Columns   []columnJSON `json:"columns"` // null where they are not known
	}
	columnJSON struct {
		Name      string `json:"name"`
		Type      string `json:"type"`
		Nullable  bool   `json:"nullable"`
		EventTime bool   `json:"eventtime,omitempty"`
	}
)

// JSON gives the resolved graph as JSON, indented, with operators and streams in the order of the
// spec:
//
//	{
//	  "name": "late-flights",
//	  "operators": [
//	    {"name": "source", "type": "reader", "params": {"path": "flights.csv"}, "inputs": [], "outputs": ["flights"]}
//	  ],
//	  "streams": [
//	    {"name": "flights", "producer": "source", "consumers": ["late"],
//	     "columns": [{"name": "date", "type": "timestamp", "nullable": true, "eventtime": true}]}
//	  ]
//	}
//
// An operator that needs "resources" has them, memory and disk in bytes. One that rewriting made, placed or changed also has its "origin" (what it does the work of, and the
// rule and step that made it), "placement", "standby" and "annotations". Parameters are those that were written. A stream that is not an operator's main output has its "port".
func (g *Graph) JSON() ([]byte, error) {
	j := graphJSON{Name: g.Name, Operators: []operatorJSON{}, Streams: []streamJSON{}}
	for _, op := range g.Operators {
		o := operatorJSON{Name: op.Name, Type: op.Type, Params: map[string]string{}, Inputs: []string{}, Outputs: []string{}}
		for _, p := range op.Params {
			o.Params[p.Name] = p.Value
		}
		for _, in := range op.Inputs {
			o.Inputs = append(o.Inputs, in.Stream)
		}
		for i := range op.Outputs {
			o.Outputs = append(o.Outputs, op.Outputs[i].Stream)
			j.Streams = append(j.Streams, streamOf(op, &op.Outputs[i]))
		}
		o.Resources = op.Resources.json()
		o.rewritten(op)
		j.Operators = append(j.Operators, o)
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(j); err != nil {
		return nil, fmt.Errorf("dataflow: graph as JSON: %w", err)
	}
	return b.Bytes(), nil
}

// json is nil if nothing is needed.
func (r Resources) json() *resourcesJSON {
	if r.IsZero() {
		return nil
	}
	j := &resourcesJSON{CPUs: r.CPUs, Mem: r.Mem, Disk: r.Disk, GPUs: r.GPUs, Ports: r.Ports}
	for _, a := range r.Attributes {
		if j.Attributes == nil {
			j.Attributes = make(map[string]string)
		}
		j.Attributes[a.Name] = a.Value
	}
	return j
}

// rewritten adds what rewriting has added to the operator.
func (o *operatorJSON) rewritten(op *Operator) {
	if len(op.Annotations) > 0 {
		o.Annotations = make(map[string]string, len(op.Annotations))
	}
	for _, a := range op.Annotations {
		o.Annotations[a.Name] = a.Value
	}
	for _, p := range op.Placement {
		o.Placement = append(o.Placement, placementJSON(p))
	}
	o.Standby = op.Standby
	if from := op.Origin; from != nil {
		o.Origin = &originJSON{from.Of, from.Lineage, from.Rule, from.Step, from.Replica, from.Replicas, from.Stage, ""}
		if from.Groups != (GroupRange{}) {
			o.Origin.KeyGroups = from.Groups.String()
		}
	}
}

func streamOf(op *Operator, out *Output) streamJSON {
	s := streamJSON{Name: out.Stream, Producer: op.Name, Port: out.Port, Consumers: []string{}}
	for _, c := range out.Consumers {
		s.Consumers = append(s.Consumers, c.Op.Name)
	}
	if out.Schema == nil {
		return s
	}
	s.Columns = []columnJSON{}
	for _, c := range out.Schema.Columns {
		s.Columns = append(s.Columns, columnJSON{c.Name, c.Type.String(), c.Nullable, c.EventTime})
	}
	return s
}
