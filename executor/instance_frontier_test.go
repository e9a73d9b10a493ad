package executor

import (
	"testing"

	"sluice/metaquery"
)

// TestAwaited: a frontier that completes something is told soon, one that has only come further is not.
func TestAwaited(t *testing.T) {
	plain := &Instance{cfg: InstanceConfig{Launch: metaquery.Launch{Every: 10}}}
	stopping := &Instance{cfg: plain.cfg, orders: metaquery.Orders{Stop: 99}}
	planned := &Instance{cfg: plain.cfg, plan: &metaquery.Plan{Epoch: 44}}
	for _, c := range []struct {
		i        *Instance
		from, to int64
		want     bool
	}{
		{plain, 0, 1, false}, {plain, 8, 9, false}, {plain, 9, 10, true}, {plain, 10, 11, false}, {plain, 11, 19, false},
		{plain, 11, 35, true}, {plain, 10, 20, true}, {plain, 11, metaquery.LastEpoch, true},
		{stopping, 11, 12, true}, {planned, 11, 12, true},
		{&Instance{}, 1, 100, false}, {&Instance{}, 1, metaquery.LastEpoch, true},
	} {
		if got := c.i.awaited(c.from, c.to); got != c.want {
			t.Errorf("every %d, from %d to %d: %t, want %t", c.i.cfg.Launch.Every, c.from, c.to, got, c.want)
		}
	}
}
