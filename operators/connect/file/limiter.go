package file

import (
	"context"
	"time"

	"sluice/operators"
)

// limiter keeps a source to a number of rows a second. The zero value does not limit.
type limiter struct {
	perSecond float64
	credit    float64 // rows that may be read now
	last      time.Time
}

// burst bounds how many rows may come at once after a pause: those of this time, or one.
const burst = 10 * time.Millisecond

// wait waits until a row may be read, and returns how many may, at most most.
func (l *limiter) wait(ctx context.Context, stop <-chan struct{}, most int) (int, error) {
	if l.perSecond == 0 {
		return most, nil
	}
	for {
		now := time.Now()
		if l.last.IsZero() {
			l.credit = 1
		} else {
			l.credit = min(l.credit+now.Sub(l.last).Seconds()*l.perSecond, max(1, burst.Seconds()*l.perSecond))
		}
		l.last = now
		if l.credit >= 1 {
			return min(most, int(l.credit)), nil
		}
		timer := time.NewTimer(time.Duration((1 - l.credit) / l.perSecond * float64(time.Second)))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return 0, ctx.Err()
		case <-stop:
			timer.Stop()
			return 0, operators.ErrStopped
		}
	}
}

func (l *limiter) took(rows int) {
	if l.perSecond > 0 {
		l.credit -= float64(rows)
	}
}
