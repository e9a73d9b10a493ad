package dataflow

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// The JSON form of a physical graph. Fields are only ever added.
type (
	physicalJSON struct {
		Tasks    []taskJSON    `json:"tasks"`
		Channels []channelJSON `json:"channels"`
	}
	taskJSON struct {
		Name      string          `json:"name"`
		Operators []string        `json:"operators"`
		Placement []placementJSON `json:"placement"`
		Apart     []string        `json:"apart"` // tasks that must run on other nodes
		Standby   bool            `json:"standby,omitempty"`
		Resources *resourcesJSON  `json:"resources,omitempty"` // of all of its operators
	}
	placementJSON struct {
		Group  string `json:"group"`
		Label  string `json:"label"`
		Spread bool   `json:"spread,omitempty"`
	}
	channelJSON struct {
		Stream string   `json:"stream"`
		From   string   `json:"from"` // task
		To     string   `json:"to"`   // task
		Inputs []string `json:"inputs"`
	}
)

// JSON gives tasks and channels as JSON, indented:
//
//	{
//	  "tasks": [
//	    {"name": "late.1", "operators": ["late.1"], "placement": [{"group": "hot-standby#1", "label": "p1"}], "apart": ["late.2"]}
//	  ],
//	  "channels": [
//	    {"stream": "late.multicast.1", "from": "source", "to": "late.1", "inputs": ["late.1"]}
//	  ]
//	}
//
// The operators themselves are those of Graph.JSON.
func (p *Physical) JSON() ([]byte, error) {
	j := physicalJSON{Tasks: []taskJSON{}, Channels: []channelJSON{}}
	apart := p.apart()
	for _, t := range p.Tasks {
		task := taskJSON{Name: t.Name, Operators: t.operatorNames(), Placement: []placementJSON{}, Apart: []string{}, Standby: t.Standby, Resources: t.Resources.json()}
		for _, pl := range t.Placement {
			task.Placement = append(task.Placement, placementJSON(pl))
		}
		task.Apart = append(task.Apart, apart[t]...)
		j.Tasks = append(j.Tasks, task)
	}
	for _, ch := range p.Channels {
		c := channelJSON{Stream: ch.Stream, From: ch.FromTask.Name, To: ch.ToTask.Name}
		for _, to := range ch.To {
			c.Inputs = append(c.Inputs, to.Op.Name)
		}
		j.Channels = append(j.Channels, c)
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(j); err != nil {
		return nil, fmt.Errorf("dataflow: tasks as JSON: %w", err)
	}
	return b.Bytes(), nil
}
