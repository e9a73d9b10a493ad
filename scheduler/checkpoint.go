package scheduler

import (
	"slices"

	"sluice/internal/protocol"
	"sluice/metaquery"
)

// mostSnapshots bounds those that are remembered of one state key.
const mostSnapshots = 256

// collect remembers what a report says of snapshots and sinks. It counts whatever generation it is of:
// state is a function of the epochs, and what a sink has committed is committed.
func (c *Core) collect(t *task, r *metaquery.Report) {
	for _, s := range r.Snapshots {
		if t.keys[s.Key] && s.Lo >= 0 && s.Lo <= s.Hi && s.Hi > c.rec.Checkpoint && sound(s.Lo) && sound(s.Hi) {
			c.remember(s)
		}
	}
	for _, sink := range t.sinks {
		if f, ok := r.Frontiers[sink]; ok && f > c.frontiers[sink] && sound(f) {
			c.frontiers[sink] = f
		}
	}
}

// sound tells whether a number can be that of an epoch.
func sound(epoch int64) bool { return epoch < farEpoch || epoch == metaquery.LastEpoch }

func (c *Core) remember(s metaquery.Snapshot) {
	list := c.snapshots[s.Key]
	same := func(o metaquery.Snapshot) bool { return o.Lo == s.Lo && o.Hi == s.Hi && o.Ref == s.Ref }
	if slices.ContainsFunc(list, same) {
		return
	}
	if len(list) >= mostSnapshots {
		list = list[1:]
	}
	c.snapshots[s.Key] = append(list, s)
}

// complete finds out whether a later checkpoint is complete.
func (c *Core) complete() {
	if c.rec.Finished {
		c.finish(Outcome{Finished: true})
		return
	}
	at := c.boundary()
	if at <= c.rec.Checkpoint {
		return
	}
	if at == metaquery.LastEpoch {
		c.completeLast()
		return
	}
	state := make(map[string]metaquery.Snapshot, len(c.required))
	for _, key := range c.required {
		state[key], _ = c.covering(key, at)
	}
	c.rec.Checkpoint, c.rec.State = at, state
	c.completed = c.now
	c.changed, c.dirty = true, true
	for key, list := range c.snapshots {
		c.snapshots[key] = slices.DeleteFunc(list, func(s metaquery.Snapshot) bool { return s.Hi <= at })
	}
	c.save()
	c.do(Action{Trim: &Trim{Epoch: at, Refs: c.refs()}})
}

// completeLast ends a query of which all is written. A plan under way, for which tasks may wait, comes to
// nothing first.
func (c *Core) completeLast() {
	if c.rec.Plan != nil {
		c.cancel("the query has ended", false)
		return
	}
	c.rec.Checkpoint, c.rec.Finished = metaquery.LastEpoch, true
	c.changed, c.dirty = true, true
	c.save()
	c.sendOrders()
	c.finish(Outcome{Finished: true})
}

// boundary is the latest checkpoint boundary up to which all is there, or one that is not above the last.
func (c *Core) boundary() int64 {
	written := int64(metaquery.LastEpoch)
	for _, sink := range c.sinks {
		written = min(written, c.frontiers[sink])
	}
	if !c.cfg.Checkpoints {
		written = min(written, c.reproduced())
	}
	if written <= c.rec.Checkpoint {
		return 0
	}
	if written == metaquery.LastEpoch && c.allCover(written) {
		return written
	}
	if cut := c.stopCut(); cut > 0 && cut <= written && c.allCover(cut) {
		return max(cut, c.regular(written))
	}
	return c.regular(written)
}

// reproduced is the epoch up to which all state is there, in an instance that runs: one that has been
// launched again without it has to be given all rows since the last checkpoint, and they are trimmed only
// after that. How far a state is its snapshots tell, though without checkpoints they hold nothing.
func (c *Core) reproduced() int64 {
	least := int64(metaquery.LastEpoch)
	for key, holders := range c.states {
		far := int64(0)
		for _, t := range holders {
			for _, s := range t.report.Snapshots {
				if t.live && s.Key == key && sound(s.Hi) {
					far = max(far, s.Hi)
				}
			}
		}
		least = min(least, far)
	}
	return least
}

// regular is the latest multiple of Every, not above most, that is covered. Each step back leaves at least
// one snapshot behind, so there are few.
func (c *Core) regular(most int64) int64 {
	at := c.floor(min(most, farEpoch))
	for again := true; again && at > c.rec.Checkpoint; {
		again = false
		for _, key := range c.required {
			if below := c.coveredBelow(key, at); below < at {
				at, again = below, true
			}
		}
	}
	return at
}

func (c *Core) floor(epoch int64) int64 { return epoch - epoch%c.cfg.Every }

// coveredBelow is the latest boundary, not above most, of which there is a snapshot of the key.
func (c *Core) coveredBelow(key string, most int64) int64 {
	best := int64(0)
	for _, s := range c.of(key) {
		if at := c.floor(min(s.Hi, most)); s.covers(at) {
			best = max(best, at)
		}
	}
	return best
}

func (c *Core) allCover(epoch int64) bool {
	return !slices.ContainsFunc(c.required, func(key string) bool {
		_, ok := c.covering(key, epoch)
		return !ok
	})
}

// covering finds a snapshot of a key at an epoch, the one that holds longest.
func (c *Core) covering(key string, epoch int64) (metaquery.Snapshot, bool) {
	var best metaquery.Snapshot
	found := false
	for _, s := range c.of(key) {
		if s.covers(epoch) && (!found || s.Hi > best.Hi) {
			best, found = s.Snapshot, true
		}
	}
	return best, found
}

// candidate is a snapshot that may be part of a checkpoint.
type candidate struct{ metaquery.Snapshot }

func (s candidate) covers(epoch int64) bool { return s.Lo <= epoch && epoch <= s.Hi }

// of are the snapshots of a key, that of the last checkpoint first.
func (c *Core) of(key string) []candidate {
	var list []candidate
	if s, ok := c.rec.State[key]; ok {
		list = append(list, candidate{s})
	}
	for _, s := range c.snapshots[key] {
		list = append(list, candidate{s})
	}
	if !c.cfg.Off.On(protocol.Ranges) {
		for i := range list { // each counts for the next boundary only
			next := list[i].Lo + c.cfg.Every - 1
			list[i].Hi = max(list[i].Lo, min(list[i].Hi, c.floor(next)))
		}
	}
	return list
}

// refs are all that are still of use: of the checkpoint, of later snapshots and of launches that have not
// been heard of.
func (c *Core) refs() []string {
	var list []string
	for _, s := range c.rec.State {
		list = append(list, s.Ref)
	}
	for _, of := range c.snapshots {
		for _, s := range of {
			list = append(list, s.Ref)
		}
	}
	for _, t := range c.tasks {
		if t.live && !t.heard {
			list = append(list, t.refs...)
		}
	}
	slices.Sort(list)
	list = slices.Compact(list)
	return slices.DeleteFunc(list, func(ref string) bool { return ref == "" })
}
