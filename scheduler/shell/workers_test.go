package shell

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestFailedStarts: of workers that cannot run, one after the other, the user is told when there have been five, and now and
// then. The query is given up after the limit, at the next one.
func TestFailedStarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var alerts []string
		s := &shell{o: Options{StartLimit: time.Hour, Observer: Observer{Alert: func(text string) { alerts = append(alerts, text) }}}}
		for i := range 12 {
			s.failedStart(fmt.Sprintf("x%d", i))
			time.Sleep(5 * time.Minute)
		}
		if s.failure != nil || len(alerts) != 4 {
			t.Fatalf("failure %v, alerts %q", s.failure, alerts)
		}
		for i, want := range []string{`5 of them have failed, the last with "x4"`, `7 of them have failed, the last with "x6"`, `9 of them`, `11 of them`} {
			if !strings.Contains(alerts[i], want) || !strings.Contains(alerts[i], "within 1h0m0s of the first, the query fails") {
				t.Errorf("%q, not %q", alerts[i], want)
			}
		}
		s.failedStart("the end")
		if want := `no worker process can run: 13 of them have failed within 1h0m0s, the last with "the end"`; s.failure == nil || s.failure.Error() != want {
			t.Errorf("failure %v", s.failure)
		}
		// Once one has been able to, none is too many.
		s = &shell{ever: true}
		for range 10 {
			s.failedStart("x")
		}
		if s.failure != nil || s.failed.n > 0 {
			t.Errorf("failure %v", s.failure)
		}
		// Without a limit five are too many.
		s = &shell{}
		for range 4 {
			s.failedStart("x")
		}
		if s.failure != nil {
			t.Errorf("failure %v", s.failure)
		}
		s.failedStart("y")
		if want := `no worker process can run: 5 of them have ended at once, the last with "y"`; s.failure == nil || s.failure.Error() != want {
			t.Errorf("failure %v", s.failure)
		}
	})
}
