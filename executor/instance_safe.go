package executor

import (
	"fmt"
	"time"

	"sluice/executor/state"
	"sluice/internal/protocol"
	"sluice/metaquery"
)

// Until an epoch is logged, and the log of its source is on the disk where that is promised, the next generation of the
// source may cut others in its place, after the end of the process or of the machine. So nothing that follows from an
// epoch leaves the instance before, as rows, as a snapshot or through a sink. Rows wait in the retention of their channels.

// syncInterval is how often a log is brought to the disk for the sake of a sink, in microseconds; what else waits for
// it waits until the log does that by itself.
const syncInterval = 10_000

// safeWait is after how long an instance looks again how far its logs are.
const safeWait = 5 * time.Millisecond

// release lets go what has become safe.
func (i *Instance) release() {
	if len(i.feeds) == 0 {
		return
	}
	i.safe = i.safeUpTo()
	for _, c := range i.outs {
		c.sender.Limit(i.safe)
	}
	early := i.early
	i.early = nil
	for _, snap := range early {
		i.durable(snap)
	}
	for _, s := range i.sinks {
		if s.goal > s.target && s.goal < i.safe {
			s.target = s.goal
			i.fail(i.record(s))
		}
	}
}

// checkLogs ends the instance if one of its logs has been given up: nothing can be appended to it, and what waits for it
// would wait for ever. The next generation opens it again.
func (i *Instance) checkLogs() {
	check := func(what, name string, log any) {
		if l, ok := log.(state.Syncing); ok {
			if err := l.Failed(); err != nil {
				i.fail(storeError(fmt.Errorf("the log of %s %q: %w", what, name, err)))
			}
		}
	}
	for _, f := range i.feeds {
		check("source", f.ctx.Op.Name, f.logFile)
	}
	for _, s := range i.sinks {
		check("sink", s.node.ctx.Op.Name, s.log)
	}
}

// safeUpTo is the epoch up to which the epochs of its sources are there for good: LastEpoch if all are, or if it has none.
func (i *Instance) safeUpTo() int64 {
	safe := metaquery.LastEpoch
	for _, f := range i.feeds {
		if f.cut.Epoch > f.last {
			safe = min(safe, f.last) // it is being read, or could not be logged
		}
		if l := i.syncing(f.logFile); l != nil {
			safe = min(safe, l.Synced())
		}
	}
	return safe
}

// syncing is a log as one that may lose its end with the machine; nil if nothing is to wait for it.
func (i *Instance) syncing(log any) state.Syncing {
	if l, ok := log.(state.Syncing); ok && i.cfg.Off.On(protocol.Durable) {
		return l
	}
	return nil
}

// aim lets a sink's frontier go up to an epoch behind which next is the first one, once that is safe.
func (i *Instance) aim(s *instanceSink, next int64) {
	if s.goal = next - 1; next <= i.safeUpTo() {
		s.target = s.goal
	}
}

// follows is the epoch without which a snapshot would not be what it is: the one that shows that none lies in between.
func follows(snap metaquery.Snapshot) int64 {
	if snap.Hi == metaquery.LastEpoch {
		return snap.Lo
	}
	return snap.Hi + 1
}

// await is when Cut is to be called again if that would be after wait: not too late for what waits until it is safe.
func (i *Instance) await(wait time.Duration) time.Duration {
	if i.dead || i.safe == metaquery.LastEpoch {
		return wait
	}
	i.settle()
	if i.safe == metaquery.LastEpoch || wait >= 0 && wait < safeWait {
		return wait
	}
	return safeWait
}

// makeSafe brings the logs of the sources to the disk, so that a sink may make an epoch visible. It reports whether
// they are; if the sink need not do so now, that may be left for later.
func (i *Instance) makeSafe(epoch int64, now bool) (bool, error) {
	for _, f := range i.feeds {
		l := i.syncing(f.logFile)
		if l == nil || l.Synced() >= epoch {
			continue
		}
		if at := i.env.Now(); !now && at-f.synced < syncInterval && at >= f.synced {
			return false, nil
		}
		f.synced = i.env.Now()
		if err := l.Sync(); err != nil {
			return false, storeError(err)
		}
	}
	return true, nil
}
