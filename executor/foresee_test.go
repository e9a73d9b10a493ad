package executor_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sluice/executor"
)

// TestForesee: what an edit makes of the state is known without it.
func TestForesee(t *testing.T) {
	dir := editDir(t, 100)
	usual := editPlan(t, dir, usualSpec(), 1, nil)
	total := executor.ShapeOf(usual).Unmovable()
	if d := cmp.Diff(map[string]int{"total": 1}, total); d != "" {
		t.Error(d)
	}
	for name, c := range map[string]struct {
		spec  string
		parts int
		want  executor.Change
	}{
		"the same":   {usualSpec(), 1, executor.Change{Kept: []string{"perMinute", "total", "visits"}}},
		"condition":  {fmt.Sprintf(editSpec, "v >= 5", "perMinute", minutesList), 1, executor.Change{Kept: []string{"perMinute", "total", "visits"}}},
		"partitions": {usualSpec(), 2, executor.Change{Kept: []string{"perMinute.1", "perMinute.2", "total", "visits.1", "visits.2"}}},
		"renamed": {fmt.Sprintf(editSpec, "v >= 0", "minutely", minutesList), 1, executor.Change{
			Kept: []string{"total", "visits"}, New: []string{"minutely"}, Dropped: []executor.Dropped{{Operator: "perMinute", Why: "the operator is gone"}},
		}},
	} {
		got, err := executor.Foresee(usual, editPlan(t, dir, c.spec, c.parts, total), buildFromCatalog)
		if d := cmp.Diff(c.want, got); d != "" || err != nil {
			t.Errorf("%s: error %v\n%s", name, err, d)
		}
	}
}
