package scheduler

import (
	"maps"
	"slices"

	"sluice/dataflow"
	"sluice/metaquery"
)

// task is a task of the query with what the scheduler knows of its instance.
type task struct {
	*dataflow.Task
	out                  []*dataflow.Channel
	producers, consumers []*task
	operators            map[string]bool
	keys                 map[string]bool // of its state
	sinks                []string
	sources              bool
	stateful             bool    // has state that is lost without checkpoints
	copies               []*task // other tasks that have a state key of it
	side                 *side   // nil if no standby belongs to it
	home                 int     // index of its slot if it needs resources, else -1

	// worker is where the instance runs, where it is to be launched, or where a standby would be; "" if
	// that is not known.
	worker  WorkerID
	waiting int64    // since when it has no worker
	moved   WorkerID // where it was, until it is launched elsewhere

	// Of instances that asked for another one: how many there were, how far the furthest got, and until
	// when the next one has to wait.
	tries            int
	tried, notBefore int64

	instance
}

// instance is what there is to know of the last instance of a task.
type instance struct {
	live     bool // launched, and not known to have failed
	failed   bool // so that a standby is to take its place
	launched int64
	seen     int64 // when the worker last said that it runs
	ended    int64 // when it was told to end, 0: not
	// from is the checkpoint that it was launched from, and base are the parameters that it was launched
	// with and that affect rows. An instance that an earlier term has launched has from = -1 and no base.
	from int64
	base []metaquery.Tuple
	refs []string // of the snapshots that it begins with

	orders metaquery.Orders // the last that were sent
	issued int64            // when for the first time
	sent   int64            // when for the last time
	fences map[string]fence

	// due are the first orders that it is not known to have obeyed, or were, and dueSince is since when.
	due, dueSince int64

	heard    bool
	caughtUp bool             // it has been where its producers are
	report   metaquery.Report // the last one
}

// fence is when a consumer was first told of a generation of a producer.
type fence struct {
	gen int64
	seq int64 // of the orders; 0: it began with them
}

// side are the tasks that are above one input of a selector and above no other one. All sides of a
// selector do the same work: one is active, the others are standbys. A side that is not whole gives nothing.
type side struct {
	selector string
	tasks    []*task
	standby  bool // in the graph; Record.Active may say otherwise
}

// topology is what follows from the graph alone.
type topology struct {
	tasks    []*task // in the order of the query
	byName   map[string]*task
	sides    []*side
	required []string           // state keys that a checkpoint needs, sorted
	states   map[string][]*task // that keep state, by state key
	sinks    []string           // sorted
}

func newTopology(q *dataflow.Physical, checkpoints bool) *topology {
	g := &topology{byName: make(map[string]*task), states: make(map[string][]*task)}
	keys := dataflow.StateKeys(q.Graph)
	required := make(map[string]bool)
	holders := make(map[string][]*task)
	for _, dt := range q.Tasks {
		t := &task{Task: dt, operators: make(map[string]bool), keys: make(map[string]bool)}
		for _, op := range dt.Operators {
			t.operators[op.Name] = true
			if op.Type == dataflow.NetReader || op.Type == dataflow.NetWriter {
				continue
			}
			t.keys[keys[op]] = true
			t.add(op)
			if hasState(op) {
				g.states[keys[op]] = append(g.states[keys[op]], t)
			}
			if hasState(op) && checkpoints || merges(op) {
				required[keys[op]] = true
			}
		}
		for key := range t.keys {
			holders[key] = append(holders[key], t)
		}
		g.sinks = append(g.sinks, t.sinks...)
		g.tasks = append(g.tasks, t)
		g.byName[t.Name] = t
	}
	g.required = slices.Sorted(maps.Keys(required))
	slices.Sort(g.sinks)
	g.channels(q)
	for _, t := range g.tasks {
		t.copies = g.sharing(t, holders)
	}
	g.findSides(q.Graph)
	return g
}

// add notes what an operator makes of its task.
func (t *task) add(op *dataflow.Operator) {
	if op.Desc.Source() {
		t.sources = true
	}
	if op.Desc.Sink() {
		t.sinks = append(t.sinks, op.Name)
	}
	t.stateful = t.stateful || hasState(op)
}

// hasState tells whether an operator's rows depend on those of earlier epochs. What sources and sinks
// keep is in their logs, not in checkpoints.
func hasState(op *dataflow.Operator) bool {
	return !op.Desc.Source() && !op.Desc.Sink() && !op.Properties().Stateless
}

// merges tells whether an operator waits for several inputs, and so has to know how far each one is.
func merges(op *dataflow.Operator) bool { return len(op.Inputs) > 1 && !op.Desc.Races }

func (g *topology) channels(q *dataflow.Physical) {
	for _, ch := range q.Channels {
		from, to := g.byName[ch.FromTask.Name], g.byName[ch.ToTask.Name]
		from.out = append(from.out, ch)
		if !slices.Contains(from.consumers, to) {
			from.consumers = append(from.consumers, to)
			to.producers = append(to.producers, from)
		}
	}
}

// sharing are the other tasks that have a state key of t, in the order of the query.
func (g *topology) sharing(t *task, holders map[string][]*task) []*task {
	found := make(map[*task]bool)
	for key := range t.keys {
		for _, u := range holders[key] {
			found[u] = u != t
		}
	}
	var list []*task
	for _, u := range g.tasks {
		if found[u] {
			list = append(list, u)
		}
	}
	return list
}

// findSides finds the selectors some inputs of which come from standbys, and the tasks of each input.
func (g *topology) findSides(q *dataflow.Graph) {
	for _, op := range q.Topological() {
		if !op.Desc.Races {
			continue
		}
		sides := g.sidesOf(op)
		primary := slices.ContainsFunc(sides, func(s *side) bool { return !s.standby })
		standby := slices.ContainsFunc(sides, func(s *side) bool { return s.standby })
		if !primary || !standby {
			continue
		}
		for _, s := range sides {
			for _, t := range s.tasks {
				t.side = s
			}
		}
		g.sides = append(g.sides, sides...)
	}
}

// sidesOf are the sides of a selector, nil if they are not all of one kind: an input has both standbys and
// others above it, or such as belong to another selector.
func (g *topology) sidesOf(selector *dataflow.Operator) []*side {
	above := make([]map[string]bool, len(selector.Inputs))
	inputs := make(map[string]int) // how many an operator is above
	for i := range selector.Inputs {
		above[i] = make(map[string]bool)
		ancestors(selector.Inputs[i].From, above[i])
		for name := range above[i] {
			inputs[name]++
		}
	}
	var sides []*side
	for i := range above {
		s := &side{selector: selector.Name}
		standbys := 0
		for _, t := range g.tasks {
			if !t.only(func(name string) bool { return above[i][name] && inputs[name] == 1 }) {
				continue
			}
			if t.side != nil {
				return nil
			}
			s.tasks = append(s.tasks, t)
			if t.Standby {
				standbys++
			}
		}
		if len(s.tasks) == 0 || standbys > 0 && standbys < len(s.tasks) {
			return nil
		}
		s.standby = standbys > 0
		sides = append(sides, s)
	}
	return sides
}

// ancestors adds an operator and all that it reads from, directly or not.
func ancestors(op *dataflow.Operator, to map[string]bool) {
	if to[op.Name] {
		return
	}
	to[op.Name] = true
	for i := range op.Inputs {
		ancestors(op.Inputs[i].From, to)
	}
}

// only tells whether all of the task's operators are such.
func (t *task) only(such func(name string) bool) bool {
	for name := range t.operators {
		if !such(name) {
			return false
		}
	}
	return true
}

// replaces tells whether one side can do the work of another one.
func (s *side) replaces(other *side) bool { return s != other && s.selector == other.selector }

// downstream are the tasks that read what t gives, directly or not, in the order of the query.
func (g *topology) downstream(t *task) []*task {
	found := make(map[*task]bool)
	var visit func(*task)
	visit = func(t *task) {
		for _, u := range t.consumers {
			if !found[u] {
				found[u] = true
				visit(u)
			}
		}
	}
	visit(t)
	var list []*task
	for _, u := range g.tasks {
		if found[u] {
			list = append(list, u)
		}
	}
	return list
}
