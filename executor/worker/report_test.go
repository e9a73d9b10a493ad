package worker

import (
	"testing"
	"time"

	"sluice/metaquery"
)

// reporting is an instance that reports nothing in particular.
type reporting struct{ Instance }

func (reporting) Report() metaquery.Report {
	return metaquery.Report{From: metaquery.TaskID{Task: "t", Gen: 1}}
}

// TestReportRate: of what nobody waits for there are at most 50 reports a second, of what somebody waits for 200, and
// that does not wait longer if the other has just been told.
func TestReportRate(t *testing.T) {
	for _, c := range []struct {
		name          string
		changed, more func(ms int) bool // whether there is something somebody waits for, or nobody
		want          int               // reports in a second
	}{
		{"nothing", never, never, 2},
		{"progress", never, always, 50},
		{"changes", always, never, 200},
		{"both", always, always, 200},
		{"changes now and then", func(ms int) bool { return ms%100 == 1 }, always, 50},
	} {
		out := &replies{}
		h := &host{w: &worker{control: out, cfg: Config{Log: func(text string) { t.Error(text) }}}, inst: reporting{}, inputs: map[string]*input{}}
		begin := time.Unix(1000, 0)
		h.said = begin
		told := 0
		waits := -1 // since when somebody waits
		for ms := range 1000 {
			now := begin.Add(time.Duration(ms+1) * time.Millisecond)
			h.ticked = now // ticks do not count
			if c.changed(ms) {
				h.Changed()
				if waits < 0 {
					waits = ms
				}
			}
			if c.more(ms) {
				h.Progressed()
			}
			if h.pause(now, -1, false) == 0 {
				h.say(now)
			}
			if len(out.sent) > told {
				told, waits = len(out.sent), -1
			}
			if waits >= 0 && ms-waits >= int(reportInterval/time.Millisecond) {
				t.Fatalf("%s: somebody waits for %d ms", c.name, ms-waits)
			}
		}
		if d := told - c.want; d < -3 || d > 3 {
			t.Errorf("%s: %d reports in a second, want about %d", c.name, told, c.want)
		}
	}
}

func never(int) bool  { return false }
func always(int) bool { return true }
