package worker

import "time"

// clock tells an instance the time. When the computer's clock is set back it goes on at half its pace until that has
// caught up: an instance repeats what has not been answered by it, and cuts epochs.
type clock struct {
	asked time.Time // when it was asked last
	now   int64     // what it said then, nanoseconds since 1970
}

func newClock() clock { return clock{asked: time.Now()} }

// micros is the time, in microseconds since 1970.
func (c *clock) micros() int64 {
	t := time.Now()
	elapsed := t.Sub(c.asked)
	c.asked = t
	return c.advance(t.UnixNano(), elapsed)
}

// advance lets time pass, at whose end the computer's clock is at wall.
func (c *clock) advance(wall int64, elapsed time.Duration) int64 {
	c.now = max(wall, c.now+int64(elapsed)/2)
	return c.now / int64(time.Microsecond)
}
