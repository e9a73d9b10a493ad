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
// Parameters are those that were written. A stream that is not an operator's main output has its "port".
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
