package service

import (
	"reflect"
	"testing"

	"sluice/metaquery"
	"sluice/scheduler"
	"sluice/scheduler/api"
)

// TestSettingsOf: of each parameter the value counts that was committed last, and what schedulers set for themselves is none.
func TestSettingsOf(t *testing.T) {
	tuple := func(operator, param, value string) metaquery.Tuple {
		return metaquery.Tuple{Operator: operator, Param: param, Value: value}
	}
	r := &scheduler.Record{
		Params:  []metaquery.Tuple{tuple("src", "rate", "5"), tuple("f.1", "condition", "a > 1"), tuple("w", metaquery.TargetAddr, "x")},
		Changes: []metaquery.Tuple{tuple("f.1", "condition", "a > 2"), tuple("f.1", "condition", "a > 3"), tuple("a", "p", "")},
	}
	want := []api.Setting{{Operator: "a", Param: "p"}, {Operator: "f.1", Param: "condition", Value: "a > 3"}, {Operator: "src", Param: "rate", Value: "5"}}
	if got := settingsOf(r); !reflect.DeepEqual(got, want) {
		t.Errorf("%+v\nwant %+v", got, want)
	}
}

// TestSettingsShown: what is set is shown, also by the next scheduler.
func TestSettingsShown(t *testing.T) {
	root := t.TempDir()
	first := newBench(t, root, nil)
	first.leads()
	first.submit(named(t, "q"))
	first.state("q", api.Running)
	set := api.Setting{Operator: "f", Param: "condition", Value: "a > 70"}
	first.until("it is set", func() bool {
		_, err := first.Set(t.Context(), "q", set)
		return err == nil
	})
	shown := func(b *bench) {
		t.Helper()
		b.until("what is set is shown", func() bool {
			q, err := b.Query(t.Context(), "q")
			return err == nil && reflect.DeepEqual(q.Settings, []api.Setting{set}) && q.Present == 2
		})
	}
	shown(first)
	first.leave()
	<-first.over
	b := newBench(t, root, nil)
	b.leads()
	shown(b)
}
