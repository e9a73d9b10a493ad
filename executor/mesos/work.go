package mesos

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// Work is what a task tells the executor to do: the task's data.
type Work struct {
	// Worker is the name of the worker, which the task has too.
	Worker string `json:"worker"`
	// Control is where the scheduler listens.
	Control string `json:"control"`
	// Ports are those of the agent that the worker may use.
	Ports []uint64 `json:"ports,omitempty"`
	// Silence is after how long without a word of the scheduler the worker ends, and Margin is how long it may
	// take for that; in nanoseconds.
	Silence time.Duration `json:"silence"`
	Margin  time.Duration `json:"margin"`
}

// maxWork bounds the data of a task, in bytes.
const maxWork = 1 << 20

// decodeWork reads the data of a task.
func decodeWork(data []byte) (Work, error) {
	var w Work
	if len(data) > maxWork {
		return w, fmt.Errorf("mesos: the data of the task have %d bytes, %d are possible", len(data), maxWork)
	}
	if err := json.Unmarshal(data, &w); err != nil {
		return w, fmt.Errorf("mesos: the data of the task do not say what to do: %w", err)
	}
	if w.Worker == "" || w.Control == "" || w.Silence <= 0 || w.Margin <= 0 {
		return w, errors.New("mesos: the data of the task must name a worker, where the scheduler listens and for how long it may be silent")
	}
	return w, nil
}
