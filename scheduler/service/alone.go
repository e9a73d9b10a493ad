package service

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"sluice/scheduler/shell"
)

// How long an attempt waits for the workers of before to end, and how often it looks. It is longer than workers take that can be
// reached. Then the user is told, and the next attempt waits for them.
const (
	aloneTime = 8 * time.Second
	aloneLook = 50 * time.Millisecond
)

// errWorkersLeft is why nothing is done yet to what a query has left: the sinks of workers that may still run could write there.
var errWorkersLeft = errors.New("workers of the query have not ended yet")

// alone waits until nothing of the query runs. ending is the cluster of an earlier shell whose workers are being ended, and that
// nobody listens to; nil if there is none. Where a worker cannot be reached that takes as long as it may run on by itself.
func (q *query) alone(a *attempt, ending shell.Cluster) error {
	if a.saved == nil {
		return nil // no task has ever been launched
	}
	var alerts <-chan string
	var ended <-chan shell.Ended
	if ending != nil {
		alerts, ended = ending.Alerts(), ending.Ended()
	}
	late := time.NewTimer(aloneTime)
	defer late.Stop()
	look := time.NewTicker(aloneLook)
	defer look.Stop()
	for {
		left := a.place.left()
		if len(left) == 0 {
			return nil
		}
		select {
		case <-look.C:
		case text := <-alerts:
			q.watch.alert(text)
		case <-ended:
		case <-q.ctx.Done():
			return q.ctx.Err()
		case <-late.C:
			return fmt.Errorf("%w: it waits for %s; if they cannot be reached it waits until they have ended by themselves, unless they are ended where they run or the query is cancelled",
				errWorkersLeft, strings.Join(left, ", "))
		}
	}
}
