package file

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"sync/atomic"
	"time"

	"sluice/operators"
)

// limiter keeps a source to a number of rows a second. One goroutine uses it, and any may set the rate.
type limiter struct {
	rate    atomic.Uint64 // bits of a float64; 0: no limit
	changed chan struct{} // has an element after a change
	credit  float64       // rows that may be read now
	last    time.Time
}

// burst bounds how many rows may come at once after a pause: those of this time, or one.
const burst = 10 * time.Millisecond

func newLimiter() *limiter { return &limiter{changed: make(chan struct{}, 1)} }

// parseRate reads a rate; "" is 0, no limit.
func parseRate(text string) (float64, error) {
	if text == "" {
		return 0, nil
	}
	r, err := strconv.ParseFloat(text, 64)
	if err != nil || !(r >= 0) || math.IsInf(r, 0) {
		return 0, fmt.Errorf("rate must be a number of rows a second, 0 for no limit; it is %q", text)
	}
	return r, nil
}

func (l *limiter) perSecond() float64 { return math.Float64frombits(l.rate.Load()) }

// set changes the rate; who waits, waits as long as the new one asks for.
func (l *limiter) set(perSecond float64) {
	l.rate.Store(math.Float64bits(perSecond))
	select {
	case l.changed <- struct{}{}:
	default: // it has been told of the change before
	}
}

// wait waits until a row may be read, and returns how many may, at most most.
func (l *limiter) wait(ctx context.Context, stop <-chan struct{}, most int) (int, error) {
	for {
		rate := l.perSecond()
		if rate == 0 {
			return most, nil
		}
		now := time.Now()
		if l.last.IsZero() {
			l.credit = 1
		} else {
			l.credit = min(l.credit+now.Sub(l.last).Seconds()*rate, max(1, burst.Seconds()*rate))
		}
		l.last = now
		if l.credit >= 1 {
			return min(most, int(l.credit)), nil
		}
		pause := (1 - l.credit) / rate * float64(time.Second)
		timer := time.NewTimer(time.Duration(min(pause, float64(time.Hour)))) // a very small rate overflows
		select {
		case <-timer.C:
		case <-l.changed:
			timer.Stop()
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
	if l.perSecond() > 0 {
		l.credit -= float64(rows)
	}
}
