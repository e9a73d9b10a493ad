package scheduler

import (
	"cmp"
	"fmt"
	"slices"

	"sluice/dataflow"
)

// Capacities are what the workers of a query must have for its tasks that need resources, one for each worker: as
// many as are wanted, and more if attributes of the tasks contradict each other so that fewer do not do.
func Capacities(q *dataflow.Physical, workers int) []dataflow.Resources {
	return layOut(q.Tasks, max(workers, 1)).capacities()
}

// CheckWorkers says why a query cannot have most workers or fewer, nil if it can.
func CheckWorkers(q *dataflow.Physical, workers, most int) error {
	if n := len(Capacities(q, workers)); n > most {
		return fmt.Errorf("the tasks of the query need attributes that contradict each other, on %d machines; a query has at most %d workers: change <resources>", n, most)
	}
	return nil
}

// layout says which tasks that need resources have their place together on one worker, standbys too. It follows from
// the tasks alone, so that every term finds the same.
type layout struct {
	places []place
	home   map[*dataflow.Task]int // index of the place of a task that needs resources
}

// place is what one worker must have, and for which tasks.
type place struct {
	capacity dataflow.Resources
	tasks    []*dataflow.Task
}

func (l *layout) capacities() []dataflow.Resources {
	list := make([]dataflow.Resources, len(l.places))
	for i := range l.places {
		list[i] = l.places[i].capacity
	}
	return list
}

// layOut lays tasks over workers: tasks whose attributes contradict each other never together, then those together
// that must be apart as rarely as possible, then those that should be spread, then so that all workers have about
// the same. If that takes more workers than are wanted, or brings together what must be apart, it tries again with
// more in one place.
func layOut(tasks []*dataflow.Task, workers int) *layout {
	var best *layout
	for _, w := range []way{{}, {tight: true}, {gather: true}, {tight: true, gather: true}} {
		l := layOutBy(tasks, workers, w)
		if best == nil || cmp.Or(cmp.Compare(len(l.places), len(best.places)), cmp.Compare(l.broken(), best.broken())) < 0 {
			best = l
		}
		if len(best.places) == workers && best.broken() == 0 {
			break
		}
	}
	return best
}

// way is how a layout is tried.
type way struct {
	tight  bool // attributes go where others are, so that places without any stay for those that contradict them
	gather bool // tasks of one label go where others of it are, so that places stay for those of the other labels
}

// broken counts the pairs of tasks that must be apart and are not.
func (l *layout) broken() int {
	n := 0
	for i := range l.places {
		for j, t := range l.places[i].tasks {
			for _, u := range l.places[i].tasks[:j] {
				if t.Apart(u) {
					n++
				}
			}
		}
	}
	return n
}

func layOutBy(tasks []*dataflow.Task, workers int, w way) *layout {
	l := &layout{places: make([]place, workers), home: make(map[*dataflow.Task]int)}
	var needy []*dataflow.Task
	var total dataflow.Amounts
	for _, t := range tasks {
		if !t.Resources.IsZero() {
			needy = append(needy, t)
			total = addAmounts(total, t.Resources.Amounts())
		}
	}
	// The large ones first, of which it is hard to make equal parts.
	slices.SortStableFunc(needy, func(a, b *dataflow.Task) int {
		return cmp.Or(compareBool(a.Standby, b.Standby), cmp.Compare(share(b.Resources.Amounts(), total), share(a.Resources.Amounts(), total)))
	})
	for _, t := range needy {
		i := l.choose(t, total, w)
		if i < 0 {
			i = len(l.places)
			l.places = append(l.places, place{})
		}
		p := &l.places[i]
		p.capacity, _ = p.capacity.Together(t.Resources)
		p.tasks = append(p.tasks, t)
		l.home[t] = i
	}
	return l
}

// fit is how badly a task fits a place: the less the better.
type fit struct {
	apart   int
	strange int // twice the attributes that nothing there needs yet, and once that nothing there needs any
	alone   int // others of its labels are in other places only
	spread  int
	share   float64
	load    int
}

func (f fit) compare(o fit) int {
	return cmp.Or(cmp.Compare(f.apart, o.apart), cmp.Compare(f.strange, o.strange), cmp.Compare(f.alone, o.alone),
		cmp.Compare(f.spread, o.spread), cmp.Compare(f.share, o.share), cmp.Compare(f.load, o.load))
}

// choose finds the best place for a task, -1 if it takes another one: since none agrees with its attributes, or none
// of those that do is without a task that it must be apart from, while others are.
func (l *layout) choose(t *dataflow.Task, total dataflow.Amounts, w way) int {
	best, least, without := -1, fit{}, false
	for i := range l.places {
		p := &l.places[i]
		f := p.fit(t, total)
		if !w.tight {
			f.strange = 0
		}
		if !w.gather {
			f.alone = 0
		}
		switch {
		case !p.capacity.Agree(t.Resources):
			without = without || f.apart == 0
		case best < 0 || f.compare(least) < 0:
			best, least = i, f
		}
	}
	if best >= 0 && least.apart > 0 && without {
		return -1
	}
	return best
}

func (p *place) fit(t *dataflow.Task, total dataflow.Amounts) fit {
	f := fit{share: share(addAmounts(p.capacity.Amounts(), t.Resources.Amounts()), total), load: len(p.tasks)}
	for _, a := range t.Resources.Attributes {
		if !slices.Contains(p.capacity.Attributes, a) {
			f.strange += 2
		}
	}
	if f.strange > 0 && len(p.capacity.Attributes) == 0 {
		f.strange++
	}
	if !slices.ContainsFunc(p.tasks, func(u *dataflow.Task) bool { return sameLabel(t, u) }) {
		f.alone++
	}
	for _, u := range p.tasks {
		if t.Apart(u) {
			f.apart++
		}
		if spread(t, u) {
			f.spread++
		}
	}
	return f
}

// sameLabel tells whether two tasks have a placement in common that others must be apart from.
func sameLabel(t, u *dataflow.Task) bool {
	return slices.ContainsFunc(t.Placement, func(p dataflow.Placement) bool { return !p.Spread && slices.Contains(u.Placement, p) })
}

func addAmounts(a, b dataflow.Amounts) dataflow.Amounts {
	sum, _ := amountsOf(a).Together(amountsOf(b))
	return sum.Amounts()
}

func amountsOf(a dataflow.Amounts) dataflow.Resources {
	return dataflow.Resources{CPUs: a.CPUs, Mem: a.Mem, Disk: a.Disk, GPUs: a.GPUs, Ports: a.Ports}
}

// share is the largest part that amounts are of a total.
func share(a, total dataflow.Amounts) float64 {
	most := 0.0
	for _, of := range [][2]float64{
		{a.CPUs, total.CPUs}, {float64(a.Mem), float64(total.Mem)}, {float64(a.Disk), float64(total.Disk)},
		{float64(a.GPUs), float64(total.GPUs)}, {float64(a.Ports), float64(total.Ports)},
	} {
		if of[1] > 0 {
			most = max(most, of[0]/of[1])
		}
	}
	return most
}

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

// spread tells whether two tasks should be spread over workers.
func spread(t, u *dataflow.Task) bool {
	for _, p := range t.Placement {
		for _, q := range u.Placement {
			if p.Group == q.Group && p.Label != q.Label && p.Spread && q.Spread {
				return true
			}
		}
	}
	return false
}
