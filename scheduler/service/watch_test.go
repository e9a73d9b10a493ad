package service

import (
	"testing"

	"sluice/dataflow"
	"sluice/metaquery"
	"sluice/scheduler"
	"sluice/scheduler/api"
)

// TestMoved: a task that has been moved is no restart, and its event says from where.
func TestMoved(t *testing.T) {
	q := newQuery(&reign{s: New(Options{}), ctx: t.Context()}, "q1")
	q.watch.physical = &dataflow.Physical{Tasks: []*dataflow.Task{{Name: "f"}}}
	q.watch.running = true
	q.watch.seen = map[string]bool{}
	for i, launch := range []scheduler.TaskLaunch{{Worker: "w1"}, {Worker: "w2", Moved: "w1"}, {Worker: "w3"}} {
		launch.ID = metaquery.TaskID{Task: "f", Gen: int64(i + 1)}
		launch.Checkpoint = int64(10 * i)
		q.watch.launched(&launch)
	}
	want := []struct{ kind, text string }{
		{api.EventLaunched, "task f is launched on w1, generation 1"},
		{api.EventLaunched, "task f has moved from w1 to w2, generation 2, and goes on from checkpoint 10"},
		{api.EventFailover, "task f is launched again on w3, generation 3, from checkpoint 20"},
	}
	for i, e := range q.watch.events {
		if i >= len(want) || e.Type != want[i].kind || e.Text != want[i].text {
			t.Errorf("event %d is %s: %s", i, e.Type, e.Text)
		}
	}
	if len(q.watch.events) != len(want) || q.watch.restarts != 1 {
		t.Errorf("%d events, %d restarts", len(q.watch.events), q.watch.restarts)
	}
}
