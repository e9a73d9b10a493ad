package executor

import (
	"context"
	"errors"
	"slices"
	"time"

	"sluice/executor/state"
	"sluice/internal/protocol"
	"sluice/metaquery"
	"sluice/operators"
)

// instanceFeed is a source of an instance.
type instanceFeed struct {
	*feed
	logFile   state.SourceLog
	last      int64                    // epoch that was cut last
	counts    metaquery.OperatorReport // at the end of that
	crossings []int64                  // boundaries that have been crossed since the last complete checkpoint
	pending   *operators.Mark          // of an epoch that has been read and not logged yet
	notLogged error                    // why it could not be
	places    []place                  // where a source that keeps its rows stood behind epochs since the last complete checkpoint
	stoppedAt int64                    // the last epoch before a stop; 0: goes on
	synced    int64                    // when its log was brought to the disk for a sink, microseconds since 1970
	pause     int64                    // until when no epoch is cut if the clock is behind their numbers, microseconds since 1970
}

// place is where a source stands behind an epoch.
type place struct {
	epoch    int64
	position []byte
}

// logRetry is after how long an epoch that could not be logged is tried again.
const logRetry = 20 * time.Millisecond

// openSources opens the task's sources and their logs.
func (i *Instance) openSources() error {
	for k, c := range i.task.Sources() {
		if err := i.openSource(k, c); err != nil {
			return &OperatorError{Op: c.Op, Err: err}
		}
	}
	return nil
}

func (i *Instance) openSource(k int, c *operators.Context) error {
	log, entries, err := i.cfg.Store.OpenSource(c.Op.Name, i.cfg.Launch.ID.Gen)
	if err != nil {
		return storeError(err)
	}
	src, err := i.cfg.OpenSource(c)
	if err != nil {
		return errors.Join(err, log.Close())
	}
	f := &instanceFeed{feed: newFeed(src, c, k, time.UnixMicro(i.env.Now())), logFile: log, last: i.cfg.Launch.Checkpoint}
	i.feeds = append(i.feeds, f)
	return f.openLog(entries, func(e state.Epoch) error { return storeError(log.Append(e)) }, i.cfg.Launch.Checkpoint)
}

// Cut cuts one epoch of one of the task's sources, if there is one that may. It tells how long it may be
// until the next call: not at all if it is 0; negative if only another call can change anything. Reading
// ends when ctx is done.
func (i *Instance) Cut(ctx context.Context) time.Duration {
	if i.dead {
		return -1
	}
	wait := time.Duration(-1)
	var first *instanceFeed
	for _, f := range i.feeds {
		if f.pending != nil {
			return i.logAgain(f)
		}
		switch w := i.mayCut(f); {
		case w == 0 && (first == nil || f.last < first.last):
			first = f
		case w > 0 && (wait < 0 || w < wait):
			wait = w
		}
	}
	if first == nil {
		return i.await(wait)
	}
	i.fail(i.cut(ctx, first))
	i.settle()
	return 0
}

func (i *Instance) logAgain(f *instanceFeed) time.Duration {
	i.fail(i.logEpoch(f))
	i.settle()
	if f.pending != nil {
		return logRetry
	}
	return 0
}

// unlogged reports whether what has been emitted is of an epoch that is not logged: it must not be sent.
func (i *Instance) unlogged() bool {
	for _, f := range i.feeds {
		if f.pending != nil && i.cfg.Off.On(protocol.LogFirst) {
			return true
		}
	}
	return false
}

// mayCut tells after what time the source may cut an epoch; negative: that depends on other things.
func (i *Instance) mayCut(f *instanceFeed) time.Duration {
	stop := i.orders.Stop
	switch {
	case f.ended && !f.log.replays(), f.stoppedAt > 0 && f.stoppedAt >= stop:
		return -1
	case f.log.replays():
		return 0
	case i.holds(f):
		return -1
	case stop < 0, stop > f.last:
		return 0
	case i.braked(f) && !i.needsBoundary(f):
		return -1
	}
	due := min((f.last+1)*i.cfg.Launch.Interval, f.pause)
	return time.Duration(max(0, due-i.env.Now())) * time.Microsecond
}

// holds reports whether the source's next epoch waits for the decision of a plan.
func (i *Instance) holds(f *instanceFeed) bool {
	return i.plan != nil && i.cfg.Off.On(protocol.Hold) && i.nextNumber(f, i.braked(f)) >= i.plan.Epoch
}

// highest is the highest epoch that has been cut of the source, by whatever instance.
func (f *instanceFeed) highest() int64 {
	high := f.last
	if n := len(f.log.replay); n > 0 {
		high = max(high, f.log.replay[n-1].Epoch)
	}
	if f.pending != nil {
		high = max(high, f.pending.Epoch)
	}
	return high
}

// braked reports whether the source may cut no epoch with rows.
func (i *Instance) braked(f *instanceFeed) bool {
	if !i.cfg.Off.On(protocol.Brake) {
		return i.retainsTooMuch()
	}
	return int64(len(f.crossings)) >= i.cfg.Launch.Flight || i.pressure()
}

// needsBoundary reports whether an epoch without rows is to be cut, so that there is a boundary up to
// which what is retained can be forgotten: here, or further down if that is where the pressure comes from.
func (i *Instance) needsBoundary(f *instanceFeed) bool {
	return i.cfg.Off.On(protocol.Brake) && i.cfg.Launch.Every > 0 && len(f.crossings) == 0 && i.pressure()
}

// nextNumber is the number of the source's next epoch.
func (i *Instance) nextNumber(f *instanceFeed, empty bool) int64 {
	next := f.last + 1
	if interval := i.cfg.Launch.Interval; interval > 0 {
		next = max(next, i.env.Now()/interval)
	}
	if every := i.cfg.Launch.Every; empty {
		next = max(next, (f.last/every+1)*every+1)
	}
	return max(next, i.orders.Stop)
}

// cut cuts the source's next epoch.
func (i *Instance) cut(ctx context.Context, f *instanceFeed) error {
	if f.log.replays() {
		return i.cutAgain(f)
	}
	stops := i.orders.Stop > f.last
	empty := stops || i.orders.Stop == 0 && i.braked(f)
	m := operators.Mark{Epoch: i.nextNumber(f, empty && !stops), Prev: f.last, Clock: i.env.Now(), Stop: stops}
	if i.plan != nil && i.cfg.Off.On(protocol.Hold) && m.Epoch >= i.plan.Epoch {
		return nil // the clock has gone on since mayCut asked
	}
	// By a clock that has been set back the numbers go on at half their pace, until it has caught up with them.
	f.pause = m.Clock + 2*i.cfg.Launch.Interval*(m.Epoch-m.Prev)
	f.cut = state.Epoch{Source: f.ctx.Op.Name, Epoch: m.Epoch, Prev: m.Prev}
	most := f.opts.Rows
	if empty {
		f.opts.Rows = 0
	}
	ctx, cancel := i.reading(ctx, f)
	defer cancel()
	m, err := f.readEpoch(ctx, i.task, m, func() bool { return i.orders.Stop < 0 })
	f.opts.Rows = most
	if err != nil {
		return err
	}
	f.pending = &m
	if !i.cfg.Off.On(protocol.LogFirst) {
		return i.markEpoch(f)
	}
	return i.logEpoch(f)
}

// reading bounds the time in which an epoch is read.
func (i *Instance) reading(ctx context.Context, f *instanceFeed) (context.Context, context.CancelFunc) {
	interval := f.opts.Interval
	if i.cfg.Launch.Interval > 0 {
		interval = time.Duration(i.cfg.Launch.Interval) * time.Microsecond
	}
	if interval <= 0 {
		return ctx, func() {}
	}
	interval /= time.Duration(len(i.feeds))
	if t, ok := i.env.(Timer); ok {
		return t.WithTimeout(ctx, interval)
	}
	return context.WithTimeout(ctx, interval)
}

// cutAgain cuts an epoch as the log has it.
func (i *Instance) cutAgain(f *instanceFeed) error {
	e := f.log.replay[0]
	f.cut = state.Epoch{Source: e.Source, Epoch: e.Epoch, Prev: e.Prev}
	m, err := f.replay(i.task, operators.Mark{Epoch: e.Epoch, Prev: e.Prev})
	if err != nil {
		return err
	}
	f.pending = &m
	return i.markEpoch(f)
}

// logEpoch logs the epoch that has been read and then sends its mark.
func (i *Instance) logEpoch(f *instanceFeed) error {
	m := *f.pending
	if !m.End || i.cfg.Off.On(protocol.EndLog) {
		err := f.log.append(f.feed, m)
		if (err == nil) != (f.notLogged == nil) {
			i.changed()
		}
		f.notLogged = err
		if passes(err) {
			return nil // tried again
		} else if err != nil {
			return err
		}
	}
	if m.Epoch == f.last { // sent already
		f.pending = nil
		return nil
	}
	return i.markEpoch(f)
}

// waits says why a source does not go on although it might, if that is so.
func (i *Instance) waits() string {
	for _, f := range i.feeds {
		if f.notLogged != nil {
			return "an epoch cannot be logged: " + f.notLogged.Error()
		}
	}
	return ""
}

// markEpoch sends the mark of the epoch that has been read.
func (i *Instance) markEpoch(f *instanceFeed) error {
	m := *f.pending
	if i.cfg.Off.On(protocol.LogFirst) {
		f.pending = nil
	}
	if every := i.cfg.Launch.Every; every > 0 && m.Epoch > f.last && i.crossed(f.last, m.Epoch) {
		// The checkpoint of a query without state may be complete before its boundary is crossed.
		if at := (m.Epoch - 1) / every * every; at > i.complete {
			f.crossings = append(f.crossings, at)
		}
	}
	i.passSource(f, m)
	f.last = max(f.last, m.Epoch)
	if m.Stop {
		f.stoppedAt = m.Epoch
	}
	if m.Stop || m.End {
		i.changed()
	}
	if t, ok := f.src.(operators.Trimmer); ok {
		f.places = append(f.places, place{m.Epoch, slices.Clone(t.Position())})
	}
	return i.task.Mark(f.index, m)
}

// trim forgets what is not needed once checkpoint c is complete.
func (f *instanceFeed) trim(c int64) error {
	for len(f.crossings) > 0 && f.crossings[0] <= c {
		f.crossings = f.crossings[1:]
	}
	if err := f.logFile.Trim(c); errors.Is(err, state.ErrSealed) {
		return err
	}
	// What could not be trimmed will be with the next checkpoint.
	k := 0
	for k < len(f.places) && f.places[k].epoch <= c {
		k++
	}
	if k > 0 {
		_ = f.src.(operators.Trimmer).Trim(f.places[k-1].position)
		f.places = f.places[k:]
	}
	return nil
}
