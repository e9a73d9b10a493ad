package dataflow

import (
	"fmt"
	"slices"
	"strings"
)

// Physical is a graph divided into tasks: what a scheduler needs to know.
type Physical struct {
	Graph    *Graph
	Tasks    []*Task    // each after those whose channels it reads
	Channels []*Channel // by producer, then by consumer
}

// Task is the unit of scheduling: operators that are connected, have one placement and run fused.
type Task struct {
	Name      string      // that of its first operator; unique
	Operators []*Operator // each after those whose streams it reads
	Placement []Placement // of each of the operators
	Standby   bool        // started only when another replica fails
	Resources Resources   // of all of its operators
}

// Channel is a stream between two tasks.
type Channel struct {
	Stream   string // name of the stream that the producer gives
	From     *Operator
	Output   int // index in From.Outputs
	FromTask *Task
	ToTask   *Task
	To       []Consumer // all in ToTask
}

// The operators that carry a stream from one task to another. BuildTasks inserts them; no spec and no
// rule names them.
const (
	NetWriter = "netwriter" // one input, one output: the channel
	NetReader = "netreader" // one input: the channel; one output
)

// TaskOptions say how BuildTasks divides a graph.
type TaskOptions struct {
	// Network inserts a netwriter and a netreader into every channel; their descriptors are in
	// Catalog, which is needed for nothing else. Channels are then the streams between these two.
	Network bool
	Catalog Catalog
}

// BuildTasks divides a resolved graph, which it does not change, into tasks. Operators that are
// connected and have equal placements are fused, but for this: what would need a machine that has two
// values of an attribute is not, and the tasks never form a cycle, so that a stream that leaves a task and
// comes back by another one cuts it in two.
func BuildTasks(g *Graph, o TaskOptions) (*Physical, error) {
	p := &Physical{Graph: g}
	if o.Network {
		p.Graph = g.Clone()
	}
	order := p.Graph.Topological()
	of := p.fuse(order)
	p.connect(of)
	if !o.Network {
		return p, nil
	}
	if err := p.network(o.Catalog); err != nil {
		return nil, err
	}
	return p, nil
}

// placementKey is equal for operators that may be fused.
func placementKey(op *Operator) string {
	var b strings.Builder
	for _, p := range op.Placement {
		b.WriteString(p.String())
	}
	if op.Standby {
		b.WriteString(" standby")
	}
	return b.String()
}

// fuse makes the tasks. An operator's level is the number of changes of placement on the way to it, at
// most; only operators of one level are fused, so a task is never both before and after another. An operator that
// cannot join what it reads from, since attributes contradict each other or are very many, begins a level too: no
// stream is between two tasks of one level.
func (p *Physical) fuse(order []*Operator) map[*Operator]*Task {
	level := make(map[*Operator]int, len(order))
	key := make(map[*Operator]string, len(order))
	group := make(map[*Operator]*Operator, len(order)) // union-find
	needs := make(map[*Operator]Resources, len(order)) // of a group, by its root
	find := func(op *Operator) *Operator {
		for group[op] != op {
			group[op] = group[group[op]]
			op = group[op]
		}
		return op
	}
	for _, op := range order {
		key[op], group[op], needs[op] = placementKey(op), op, op.Resources
		for _, in := range op.Inputs {
			above := level[in.From]
			if key[in.From] != key[op] {
				above++
			}
			level[op] = max(level[op], above)
		}
		beside := func(yield func(*Operator) bool) { // the groups that it may join
			for _, in := range op.Inputs {
				if key[in.From] == key[op] && level[in.From] == level[op] && !yield(find(in.From)) {
					return
				}
			}
		}
		all, agree := Resources{Attributes: op.Resources.Attributes}, true
		for root := range beside {
			all, agree = all.Together(Resources{Attributes: needs[root].Attributes})
			if !agree || len(all.Attributes) > MaxAttributes {
				agree = false
				break
			}
		}
		if !agree {
			level[op]++
			continue
		}
		for root := range beside {
			if own := find(op); own != root {
				needs[root], _ = needs[root].Together(needs[own])
				group[own] = root
			}
		}
	}
	of := make(map[*Operator]*Task, len(order))
	byGroup := make(map[*Operator]*Task)
	for _, op := range order {
		t := byGroup[find(op)]
		if t == nil {
			t = &Task{Name: op.Name, Placement: op.Placement, Standby: op.Standby, Resources: needs[find(op)]}
			byGroup[find(op)] = t
			p.Tasks = append(p.Tasks, t)
		}
		t.Operators = append(t.Operators, op)
		of[op] = t
	}
	// By level the order is topological for tasks as well; of one level they stay as they come.
	slices.SortStableFunc(p.Tasks, func(a, b *Task) int { return level[a.Operators[0]] - level[b.Operators[0]] })
	return of
}

// connect finds the channels.
func (p *Physical) connect(of map[*Operator]*Task) {
	for _, t := range p.Tasks {
		for _, op := range t.Operators {
			for i := range op.Outputs {
				p.channels(of, t, op, i)
			}
		}
	}
}

func (p *Physical) channels(of map[*Operator]*Task, t *Task, op *Operator, output int) {
	made := make(map[*Task]*Channel)
	for _, c := range op.Outputs[output].Consumers {
		to := of[c.Op]
		if to == t {
			continue
		}
		ch := made[to]
		if ch == nil {
			ch = &Channel{Stream: op.Outputs[output].Stream, From: op, Output: output, FromTask: t, ToTask: to}
			made[to] = ch
			p.Channels = append(p.Channels, ch)
		}
		ch.To = append(ch.To, c)
	}
}

// network puts a netwriter and a netreader into each channel.
func (p *Physical) network(cat Catalog) error {
	names := networkNames{operators: make(map[string]bool), streams: make(map[string]bool), channels: make(map[string]int)}
	for _, op := range p.Graph.Operators {
		names.operators[op.Name] = true
		for i := range op.Outputs {
			names.streams[op.Outputs[i].Stream] = true
		}
	}
	for _, ch := range p.Channels {
		names.channels[ch.Stream]++
	}
	first := make(map[*Task][]*Operator)
	for _, ch := range p.Channels {
		w, r := ch.insert(&names)
		ch.FromTask.Operators = append(ch.FromTask.Operators, w)
		first[ch.ToTask] = append(first[ch.ToTask], r)
	}
	p.Graph.Operators = nil
	for _, t := range p.Tasks {
		t.Operators = append(first[t], t.Operators...)
		p.Graph.Operators = append(p.Graph.Operators, t.Operators...)
	}
	if diags := Resolve(p.Graph, cat); diags.HasErrors() {
		return fmt.Errorf("dataflow: the graph with its network operators: %w", diags)
	}
	return nil
}

// networkNames are the names that are taken, and the number of channels of each stream.
type networkNames struct {
	operators, streams map[string]bool
	channels           map[string]int
}

// insert makes the two operators of a channel, which becomes the stream between them.
func (ch *Channel) insert(names *networkNames) (writer, reader *Operator) {
	suffix := ch.Stream
	if names.channels[ch.Stream] > 1 {
		suffix += "." + ch.ToTask.Name
	}
	carry := func(typ string, task *Task, input string) *Operator {
		op := &Operator{
			Name: unused(names.operators, typ+"."+suffix), Type: typ, Pos: ch.From.Pos, Placement: task.Placement, Standby: task.Standby,
			Inputs: []Input{{Stream: input, Pos: ch.From.Pos}},
		}
		op.Outputs = []Output{{Stream: unused(names.streams, op.Name), Pos: ch.From.Pos}}
		return op
	}
	writer = carry(NetWriter, ch.FromTask, ch.Stream)
	reader = carry(NetReader, ch.ToTask, writer.Outputs[0].Stream)
	for _, c := range ch.To {
		in := &c.Op.Inputs[c.Input]
		in.As = in.Scope()
		in.Stream = reader.Outputs[0].Stream
	}
	ch.Stream, ch.From, ch.Output = writer.Outputs[0].Stream, writer, 0
	ch.To = []Consumer{{Op: reader, Input: 0}}
	return writer, reader
}

// unused takes a name, with a number if it is taken already.
func unused(taken map[string]bool, name string) string {
	unique := name
	for i := 2; taken[unique]; i++ {
		unique = fmt.Sprintf("%s-%d", name, i)
	}
	taken[unique] = true
	return unique
}

// Apart reports whether two tasks must not run on one node.
func (t *Task) Apart(u *Task) bool {
	for _, p := range t.Placement {
		for _, q := range u.Placement {
			if p.Group == q.Group && p.Label != q.Label && !(p.Spread && q.Spread) {
				return true
			}
		}
	}
	return false
}

// Task returns the task of that name, or nil.
func (p *Physical) Task(name string) *Task {
	for _, t := range p.Tasks {
		if t.Name == name {
			return t
		}
	}
	return nil
}

// Text lists tasks and channels, one a line:
//
//	task source: source, late.multicast
//	task late.1: late.1 @{hot-standby#1:p1}, apart from late.2, needs 2 cpus, 512MB of mem
//	channel source -> late.1: late.multicast.1
func (p *Physical) Text() string {
	var b strings.Builder
	apart := p.apart()
	for _, t := range p.Tasks {
		fmt.Fprintf(&b, "task %s: %s", t.Name, strings.Join(t.operatorNames(), ", "))
		for _, pl := range t.Placement {
			b.WriteString(" " + pl.String())
		}
		if t.Standby {
			b.WriteString(" standby")
		}
		if others := apart[t]; len(others) > 0 {
			b.WriteString(", apart from " + strings.Join(others, ", "))
		}
		if !t.Resources.IsZero() {
			b.WriteString(", needs " + t.Resources.String())
		}
		b.WriteByte('\n')
	}
	for _, ch := range p.Channels {
		fmt.Fprintf(&b, "channel %s -> %s: %s\n", ch.FromTask.Name, ch.ToTask.Name, ch.Stream)
	}
	return b.String()
}

func (t *Task) operatorNames() []string {
	names := make([]string, len(t.Operators))
	for i, op := range t.Operators {
		names[i] = op.Name
	}
	return names
}

// apart finds for each task the names of those that it must not share a node with, in order.
func (p *Physical) apart() map[*Task][]string {
	byGroup := make(map[string][]*Task)
	for _, t := range p.Tasks {
		for _, pl := range t.Placement {
			byGroup[pl.Group] = append(byGroup[pl.Group], t)
		}
	}
	apart := make(map[*Task][]string)
	for _, t := range p.Tasks {
		seen := map[*Task]bool{t: true}
		for _, pl := range t.Placement {
			for _, u := range byGroup[pl.Group] {
				if !seen[u] && t.Apart(u) {
					apart[t] = append(apart[t], u.Name)
				}
				seen[u] = true
			}
		}
	}
	return apart
}
