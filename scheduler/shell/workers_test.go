package shell

import (
	"errors"
	"testing"
	"time"
)

// TestUnfit: of workers that cannot run the query, one after the other, the user is told at first, and now and then.
func TestUnfit(t *testing.T) {
	var u unfit
	err, now := errors.New("worker w cannot run the query: x"), time.Now()
	for i, want := range []string{
		"worker w cannot run the query: x; another one is started, and others go on", "", "", "",
		"worker w cannot run the query: x; neither could the 4 before it", "", "",
	} {
		if got := u.tell(err, now); got != want {
			t.Errorf("%d: %q, not %q", i, got, want)
		}
		now = now.Add(unfitPause / 4)
	}
}
