package main

import (
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

// fsyncModes are the values of --fsync.
var fsyncModes = map[string]state.FsyncMode{
	"": state.FsyncGrouped, "never": state.FsyncNever, "grouped": state.FsyncGrouped, "always": state.FsyncAlways,
}

func (c *runCommand) checkFsync() error {
	if _, ok := fsyncModes[c.Fsync]; !ok {
		return usageErrorf("--fsync must be never, grouped or always; it is %q", c.Fsync)
	}
	if (c.Fsync != "" || c.AllowDrop) && c.State == "" {
		return usageErrorf("--fsync and --allow-drop are for queries with --state DIR")
	}
	return nil
}

// checkDurable refuses outputs that cannot be written by one process after another.
func checkDurable(p *plan) error {
	if diags := undurable(p); len(diags) > 0 {
		return &exitError{exitUsage, diags[0].String()}
	}
	return nil
}

// undurable reports outputs that cannot be written by one process after another.
func undurable(p *plan) dataflow.Diagnostics {
	var diags dataflow.Diagnostics
	for _, op := range p.final.Operators {
		if op.Type != file.Writer.Name {
			continue
		}
		if err := file.CheckDurable(op, p.final.Dir); err != nil {
			diags = append(diags, dataflow.Diagnostic{Pos: op.Pos, Operator: op.Name, Message: err.Error()})
		}
	}
	return diags
}
