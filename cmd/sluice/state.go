package main

import (
	"bytes"

	"sluice/dataflow"
	"sluice/executor/state"
	"sluice/operators/connect/file"
)

// epochInterval is the usual time of an epoch, in microseconds, by which checkpoint intervals are
// counted.
const epochInterval = 10_000

// usualCheckpoint is the time between two checkpoints.
const usualCheckpoint = "1s"

// checkpointEpochs turns --checkpoint into a number of epochs; 0 is off.
func checkpointEpochs(interval string) (int64, error) {
	switch interval {
	case "":
		interval = usualCheckpoint
	case "off":
		return 0, nil
	}
	us, err := dataflow.ParseDuration(interval)
	if err != nil || us <= 0 {
		return 0, usageErrorf("--checkpoint must be a duration such as 1s, or off; it is %q", interval)
	}
	return max(1, us/epochInterval), nil
}

// openState opens the state of the plan's query. It must be new, or of the very same query.
func openState(dir string, p *plan) (*state.Store, error) {
	if err := checkDurable(p); err != nil {
		return nil, err
	}
	store, err := state.Open(dir, state.Options{})
	if err != nil {
		return nil, usageErrorf("%v", err)
	}
	text := []byte(p.final.Statements(dataflow.TermOptions{Params: true}))
	was := store.Spec()
	if was == nil {
		err = store.SetSpec(text)
	} else if !bytes.Equal(was, text) {
		err = usageErrorf("the state in %q is of another query: the spec, --set or -p have changed since; go on with what it was, or choose another folder", dir)
	}
	if err != nil {
		store.Close()
		return nil, err
	}
	return store, nil
}

// checkDurable refuses outputs that cannot be written by one process after another.
func checkDurable(p *plan) error {
	for _, op := range p.final.Operators {
		if op.Type != file.Writer.Name {
			continue
		}
		if err := file.CheckDurable(op, p.final.Dir); err != nil {
			return &exitError{exitUsage, dataflow.Diagnostic{Pos: op.Pos, Operator: op.Name, Message: err.Error()}.String()}
		}
	}
	return nil
}
