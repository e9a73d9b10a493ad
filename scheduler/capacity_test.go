package scheduler_test

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"sluice/dataflow"
	"sluice/scheduler"
)

// taskOf makes a task of "mem=1GB cpus=2 attributes=rack=r1 @g:p1 @h:p.1* standby".
func taskOf(t testing.TB, text string) *dataflow.Task {
	task := &dataflow.Task{}
	var needs []string
	for _, w := range strings.Fields(text) {
		switch place, ok := strings.CutPrefix(w, "@"); {
		case ok:
			group, label, _ := strings.Cut(place, ":")
			label, spread := strings.CutSuffix(label, "*")
			task.Placement = append(task.Placement, dataflow.Placement{Group: group, Label: label, Spread: spread})
		case w == "standby":
			task.Standby = true
		default:
			needs = append(needs, w)
		}
	}
	task.Resources = (&script{t: t}).capacity(needs)
	return task
}

func TestCapacities(t *testing.T) {
	for _, c := range []struct {
		workers int
		tasks   string // separated by ";"
		want    string
	}{
		{2, "; ", "2"},
		{3, "mem=1MB; mem=2MB; mem=3MB; mem=4MB; mem=5MB; mem=6MB", "3: 7MB of mem; 7MB of mem; 7MB of mem"},
		// One has much memory, the others many cores.
		{2, "mem=4GB; cpus=1; cpus=1; mem=1GB cpus=1", "2: 1 cpus, 5GB of mem; 2 cpus"},
		{3, "mem=4GB; cpus=1; cpus=1; mem=1GB cpus=1", "3: 4GB of mem; 2 cpus, 1GB of mem; 1 cpus"},
		// Apart comes before the amounts, and standbys have their place.
		{2, "mem=3GB @g:p1; mem=1GB @g:p2 standby; mem=1GB @g:p1", "2: 4GB of mem; 1GB of mem"},
		{1, "mem=3GB @g:p1; mem=1GB @g:p2", "1: 4GB of mem"},
		// So does what should be spread.
		{3, "mem=9GB; mem=1GB @g:p.1*; mem=1GB @g:p.2*; mem=1GB @g:p.3*", "3: 10GB of mem; 1GB of mem; 1GB of mem"},
		// More workers than are wanted, but no more than it takes.
		{1, "attributes=rack=r1; attributes=rack=r2; attributes=rack=r1; cpus=1", "2: 1 cpus, attribute rack=r1; attribute rack=r2"},
		{2, "attributes=rack=r1; attributes=disk=ssd; attributes=rack=r2,disk=hdd", "2: attribute disk=ssd, attribute rack=r1; attribute disk=hdd, attribute rack=r2"},
		{1, "@g:p1 attributes=rack=r1; @g:p2 attributes=rack=r1; attributes=rack=r2", "2: attribute rack=r1; attribute rack=r2"},
		// Two copies on one rack, and something on another one: there is a place for the second copy, if only it had not
		// the other rack.
		{2, "@g:p1 attributes=rack=r1; attributes=rack=r2; @g:p2 attributes=rack=r1", "3: attribute rack=r1; attribute rack=r2; attribute rack=r1"},
	} {
		q := &dataflow.Physical{}
		for text := range strings.SplitSeq(c.tasks, ";") {
			q.Tasks = append(q.Tasks, taskOf(t, text))
		}
		if got := capacitiesText(scheduler.Capacities(q, c.workers)); got != c.want {
			t.Errorf("%d workers for %s:\n%s, not\n%s", c.workers, c.tasks, got, c.want)
		}
	}
}

// TestCheckWorkers: what would take more machines than a query may have is refused.
func TestCheckWorkers(t *testing.T) {
	q := &dataflow.Physical{}
	for i := range 5 {
		q.Tasks = append(q.Tasks, taskOf(t, fmt.Sprintf("attributes=rack=r%d", i)))
	}
	if err := scheduler.CheckWorkers(q, 2, 5); err != nil {
		t.Error(err)
	}
	if err := scheduler.CheckWorkers(q, 2, 4); err == nil || !strings.Contains(err.Error(), "on 5 machines; a query has at most 4 workers") {
		t.Errorf("error %v", err)
	}
}

// TestCapacitiesRandom: there are as many workers as are wanted, or more, and all together they have what the tasks
// need; each can be had; and the same tasks give the same.
func TestCapacitiesRandom(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		q := &dataflow.Physical{}
		var want, got int64
		racks := map[string]bool{}
		for i := range rapid.IntRange(0, 12).Draw(t, "tasks") {
			task := &dataflow.Task{Name: fmt.Sprint(i), Standby: rapid.Bool().Draw(t, "standby")}
			task.Resources.Mem = rapid.Int64Range(0, 3).Draw(t, "mem")
			if rack := rapid.SampledFrom([]string{"", "", "r1", "r2", "r3"}).Draw(t, "rack"); rack != "" {
				task.Resources.Attributes = []dataflow.Attribute{{Name: "rack", Value: rack}}
				racks[rack] = true
			}
			want += task.Resources.Mem
			q.Tasks = append(q.Tasks, task)
		}
		workers := rapid.IntRange(1, 5).Draw(t, "workers")
		all := scheduler.Capacities(q, workers)
		for _, c := range all {
			got += c.Mem
			if len(c.Attributes) > 1 {
				t.Fatalf("no machine has %v", c)
			}
		}
		if got != want || len(all) != max(workers, len(racks)) {
			t.Fatalf("%d workers, %d racks, %d bytes: %v", workers, len(racks), want, all)
		}
		if again := capacitiesText(scheduler.Capacities(q, workers)); again != capacitiesText(all) {
			t.Fatalf("%v, and then %s", all, again)
		}
	})
}
