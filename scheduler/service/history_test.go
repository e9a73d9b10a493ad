package service

import (
	"encoding/json"
	"testing"

	"sluice/scheduler/api"
)

// TestHistoryOfAnotherVersion: a history is stored also where another one is there than is known; but not one of a query that
// has been resumed since.
func TestHistoryOfAnotherVersion(t *testing.T) {
	b := newBench(t, t.TempDir(), nil)
	b.leads()
	b.submit(named(t, "one"))
	b.state("one", api.Running)
	if _, err := b.Stop(t.Context(), "one"); err != nil {
		t.Fatal(err)
	}
	b.state("one", api.Stopped)
	q, err := b.find("one")
	if err != nil {
		t.Fatal(err)
	}
	<-q.over
	alerts := func() int {
		t.Helper()
		text, _, err := q.r.store.Get(t.Context(), historyPath(q.id))
		var h history
		if err == nil {
			err = json.Unmarshal(text, &h)
		}
		if err != nil {
			t.Fatal(err)
		}
		return len(h.Alerts)
	}
	text, version, err := q.r.store.Get(t.Context(), historyPath(q.id))
	if err == nil {
		_, err = q.r.store.Put(t.Context(), historyPath(q.id), text, version) // as a change of unknown fate
	}
	if err != nil {
		t.Fatal(err)
	}
	before := alerts()
	q.watch.alert("something")
	q.keep(t.Context())
	if got := alerts(); got != before+1 {
		t.Errorf("%d alerts are stored, want %d", got, before+1)
	}

	if _, err := b.Resume(t.Context(), "one"); err != nil {
		t.Fatal(err)
	}
	b.state("one", api.Running)
	q.watch.alert("something else")
	q.keep(t.Context())
	if got := alerts(); got != before+1 {
		t.Errorf("a query of before stores its history: %d alerts", got)
	}
}
