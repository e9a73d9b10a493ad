package worker

import (
	"testing"
	"time"
)

// TestClockSetBack: time goes on, and is the computer's again once that has caught up.
func TestClockSetBack(t *testing.T) {
	const hour = int64(time.Hour)
	c := newClock()
	for _, step := range []struct {
		wall    int64
		elapsed time.Duration
		want    int64
	}{
		{100 * hour, 0, 100 * hour},
		{101 * hour, time.Hour, 101 * hour},
		{99 * hour, 0, 101 * hour},
		{100 * hour, time.Hour, 101*hour + hour/2},
		{102 * hour, 2 * time.Hour, 102*hour + hour/2},
		{103 * hour, time.Hour, 103 * hour},
		{110 * hour, 0, 110 * hour},
	} {
		if got := c.advance(step.wall, step.elapsed); got != step.want/1000 {
			t.Fatalf("the clock says %d at %d; want %d", got, step.wall/1000, step.want/1000)
		}
	}
}
