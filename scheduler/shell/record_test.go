package shell

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sluice/executor/state/shared"
	"sluice/metaquery"
	"sluice/scheduler"
)

func open(t *testing.T, m *shared.Memory, process string) (Store, shared.State) {
	t.Helper()
	p, err := m.Open(process, false)
	if err != nil {
		t.Fatal(err)
	}
	return Recorded(p), p
}

// TestRecord: what one core saves the next one gets, whatever processes ended between claiming a term and
// saving; who has been replaced saves no more.
func TestRecord(t *testing.T) {
	m := shared.NewMemory(nil)
	first, state := open(t, m, "first")
	r, err := first.Begin()
	if err != nil || r != nil {
		t.Fatalf("a new query has record %v, error %v", r, err)
	}
	saved := &scheduler.Record{
		Term: 1, Generations: map[string]int64{"a": 3}, Active: map[string]bool{"b": true}, Workers: map[string]scheduler.WorkerID{"a": "w"},
		Checkpoint: metaquery.LastEpoch, State: map[string]metaquery.Snapshot{"s": {Key: "s", Lo: 1, Hi: 2, Ref: "r", Meta: []byte{1, 0}}},
		Plan: &metaquery.Plan{Attempt: 2, Epoch: 9}, Changes: []metaquery.Tuple{{Operator: "o", Param: "p", Value: "\"<", Epoch: 4}},
		Stop: -1, Lost: []scheduler.Loss{{Task: "a", First: 1, Last: 2}},
	}
	for range 3 {
		if err := first.Save(saved); err != nil {
			t.Fatal(err)
		}
	}
	if finished, err := Finished(state); err != nil || finished {
		t.Errorf("finished %v, error %v", finished, err)
	}
	for range 3 { // they claim and end
		claims, _ := open(t, m, "claims")
		if _, err := claims.Begin(); err != nil {
			t.Fatal(err)
		}
	}
	last, state := open(t, m, "last")
	got, err := last.Begin()
	if err != nil {
		t.Fatal(err)
	}
	want := saved.Clone()
	want.Term = 4
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if err := first.Save(saved); !errors.Is(err, shared.ErrSuperseded) {
		t.Errorf("who has been replaced saves: %v", err)
	}
	got.Term, got.Finished = 5, true
	if err := last.Save(got); err != nil {
		t.Fatal(err)
	}
	if finished, err := Finished(state); err != nil || !finished {
		t.Errorf("finished %v, error %v", finished, err)
	}
}

// TestRecordClaimedOnly: terms that were claimed for a query that was never saved count too.
func TestRecordClaimedOnly(t *testing.T) {
	m := shared.NewMemory(nil)
	for _, process := range []string{"a", "b"} {
		s, _ := open(t, m, process)
		if _, err := s.Begin(); err != nil {
			t.Fatal(err)
		}
	}
	s, _ := open(t, m, "c")
	r, err := s.Begin()
	if err != nil || r == nil || r.Term != 2 {
		t.Fatalf("%v, error %v", r, err)
	}
	r.Term = 3
	if err := s.Save(r); err != nil {
		t.Fatal(err)
	}
}
