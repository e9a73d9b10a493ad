package dataflow

import (
	"fmt"
	"slices"
	"strings"
)

// Change is the difference between the physical graph that runs and the one that is to run. It is what
// a migration plan is made of: launches for Come, meta-queries for Settings and the channels, state
// moves, kills for Go.
type Change struct {
	Stay []Stay
	Go   []*Task // of the old graph
	Come []*Task // of the new graph
	// Cut are the channels of the old graph that end, and Join those of the new one that begin. A
	// channel whose two tasks stay and that is in both is in neither.
	Cut, Join []*Channel
	Moves     []Move
	// Empty are operators of the new graph that begin with some or all of their state missing, because
	// nothing in the old graph has it: they are new to the query, or an operator and the stages of it
	// take each other's place.
	Empty []*Operator
}

// Stay is a task that runs on: it has the same operators with the same inner wiring.
type Stay struct {
	Old, New *Task
	Settings []Setting
}

// Setting is a parameter of an operator of a task that stays that is set while it runs.
type Setting struct {
	Operator, Param, Value string
}

// Move is state that an operator of the new graph needs and one of the old graph has: that of some key
// groups, or all of it if it is not kept by key. It is merged with what To has already.
type Move struct {
	From, To *Operator
	Groups   GroupRange
}

// standbyParam stands for Operator.Standby among settings.
const standbyParam = "standby"

// Compare finds what changes from one physical graph to the next. Neither is changed.
func Compare(old, new *Physical) *Change {
	c := &Change{}
	stays := c.tasks(old, new)
	c.channels(old, new, stays)
	c.moves(old, new, stays)
	return c
}

// tasks pairs the tasks that stay and returns the new task of each old one.
func (c *Change) tasks(old, new *Physical) map[*Task]*Task {
	bySignature := make(map[string]*Task, len(old.Tasks))
	for _, t := range old.Tasks {
		bySignature[t.signature()] = t
	}
	stays := make(map[*Task]*Task)
	for _, t := range new.Tasks {
		was := bySignature[t.signature()]
		if was == nil {
			c.Come = append(c.Come, t)
			continue
		}
		stays[was] = t
		c.Stay = append(c.Stay, Stay{Old: was, New: t, Settings: settings(was, t)})
	}
	for _, t := range old.Tasks {
		if stays[t] == nil {
			c.Go = append(c.Go, t)
		}
	}
	return stays
}

// signature is equal for tasks one of which can go on as the other: all of its operators with what they need,
// but for parameters that can be set, and for which streams of other tasks they read (of the same types) and who
// reads theirs.
func (t *Task) signature() string {
	var b strings.Builder
	own := make(map[*Operator]bool, len(t.Operators))
	for _, op := range t.Operators {
		own[op] = true
	}
	for _, op := range t.Operators {
		fmt.Fprintf(&b, "%q %q", op.Name, op.Type)
		for _, p := range op.Params {
			if !op.settable(p.Name) {
				fmt.Fprintf(&b, " %q=%q", p.Name, p.Value)
			}
		}
		for _, p := range op.Annotations {
			fmt.Fprintf(&b, " %q=%q", p.Name, p.Value)
		}
		columns := ""
		for i := range op.Inputs {
			in := &op.Inputs[i]
			if own[in.From] {
				fmt.Fprintf(&b, " %d<%q.%d", i, in.From.Name, in.Output)
			}
			if in.Schema != nil && in.Schema.String() != columns { // inputs of one type may be any number
				columns = in.Schema.String()
				b.WriteString(" " + columns)
			}
		}
		if !op.Resources.IsZero() {
			fmt.Fprintf(&b, " needs %q", op.Resources)
		}
		b.WriteByte('\n')
	}
	for _, p := range t.Placement {
		b.WriteString(p.String())
	}
	return b.String()
}

func (o *Operator) settable(param string) bool {
	if o.Desc == nil {
		return false
	}
	d := o.Desc.Param(param)
	return d != nil && d.Settable
}

// settings are the parameters that differ between a task and the one that it goes on as.
func settings(old, new *Task) []Setting {
	var list []Setting
	for i, op := range new.Operators {
		was := old.Operators[i]
		for _, d := range op.Desc.Params {
			if d.Settable && op.Value(d.Name) != was.Value(d.Name) {
				list = append(list, Setting{op.Name, d.Name, op.Value(d.Name)})
			}
		}
		if op.Standby != was.Standby {
			list = append(list, Setting{op.Name, standbyParam, fmt.Sprint(op.Standby)})
		}
	}
	return list
}

// channels finds those that end and those that begin.
func (c *Change) channels(old, new *Physical, stays map[*Task]*Task) {
	type end struct {
		stream   string
		from, to *Task // of the new graph
	}
	runs := make(map[end]bool)
	for _, ch := range new.Channels {
		runs[end{ch.Stream, ch.FromTask, ch.ToTask}] = true
	}
	kept := make(map[end]bool)
	for _, ch := range old.Channels {
		e := end{ch.Stream, stays[ch.FromTask], stays[ch.ToTask]}
		if e.from != nil && e.to != nil && runs[e] {
			kept[e] = true
			continue
		}
		c.Cut = append(c.Cut, ch)
	}
	for _, ch := range new.Channels {
		if !kept[end{ch.Stream, ch.FromTask, ch.ToTask}] {
			c.Join = append(c.Join, ch)
		}
	}
}

// logical names the operator of the spec, and the stage of it, whose state an operator has.
func (o *Operator) logical() string {
	if o.Origin == nil || len(o.Origin.Lineage) == 0 {
		return fmt.Sprintf("%s/0", o.Name)
	}
	return fmt.Sprintf("%s/%d", o.Origin.Lineage[0], o.Origin.Stage)
}

func (o *Operator) groups() GroupRange {
	if o.Origin == nil {
		return GroupRange{}
	}
	return o.Origin.Groups
}

// stateful tells whether the operator has state of an operator of the spec: nodes that rules add have
// none that moves.
func (o *Operator) stateful() bool {
	if o.Origin != nil && o.Origin.Rule != "" && len(o.Origin.Lineage) == 0 {
		return false
	}
	return o.Desc != nil && o.Type != NetWriter && o.Type != NetReader && !o.Properties().Stateless
}

// moves finds the state that operators of the new graph need beside what they have. Each key group
// comes from the first operator of the old graph that has it, so copies are filled from one source.
func (c *Change) moves(old, new *Physical, stays map[*Task]*Task) {
	holders := make(map[string][]*Operator)
	running := make(map[*Operator]*Operator) // by the new operator that an old one goes on as
	runs := make(map[*Operator]bool)         // old ones that go on
	for _, t := range old.Tasks {
		for i, op := range t.Operators {
			if op.stateful() {
				holders[op.logical()] = append(holders[op.logical()], op)
			}
			if to := stays[t]; to != nil {
				running[to.Operators[i]] = op
				runs[op] = true
			}
		}
	}
	for _, t := range new.Tasks {
		for _, op := range t.Operators {
			if op.stateful() && !op.groups().Empty() {
				c.fill(op, running[op], holders[op.logical()], runs)
			}
		}
	}
}

// fill finds where the state of op comes from; own is the operator that goes on as op, or nil, and
// stays tells which of the holders go on at all.
func (c *Change) fill(op, own *Operator, holders []*Operator, stays map[*Operator]bool) {
	if !op.Properties().Keyed {
		c.fillWhole(op, own, holders, stays)
		return
	}
	missing := []GroupRange{op.groups()}
	if own != nil {
		missing = subtract(missing, own.groups())
	}
	for _, h := range holders {
		for _, m := range slices.Clone(missing) {
			if part := m.Intersect(h.groups()); h != own && !part.Empty() {
				c.Moves = append(c.Moves, Move{From: h, To: op, Groups: part})
			}
		}
		missing = subtract(missing, h.groups())
	}
	if len(missing) > 0 {
		c.Empty = append(c.Empty, op)
	}
}

// fillWhole is fill for state that is not divided by key, so that what one operator has moves as a whole,
// to the one that has its first key group. An operator that goes on as op keeps what it has, and is given
// only what others leave behind.
func (c *Change) fillWhole(op, own *Operator, holders []*Operator, stays map[*Operator]bool) {
	missing := []GroupRange{op.groups()}
	if own != nil {
		missing = subtract(missing, own.groups())
	}
	for _, h := range holders {
		all := h.groups().limits()
		first := GroupRange{all.First, all.First + 1}
		if own != nil && stays[h] || !slices.ContainsFunc(missing, func(m GroupRange) bool { return !m.Intersect(first).Empty() }) {
			continue
		}
		c.Moves = append(c.Moves, Move{From: h, To: op})
		missing = subtract(missing, all)
	}
	if own == nil && len(missing) > 0 {
		c.Empty = append(c.Empty, op)
	}
}

// subtract takes a range out of others.
func subtract(from []GroupRange, r GroupRange) []GroupRange {
	r = r.limits()
	var left []GroupRange
	for _, f := range from {
		f = f.limits()
		if f.Intersect(r).Empty() {
			left = append(left, f)
			continue
		}
		if f.First < r.First {
			left = append(left, GroupRange{f.First, r.First})
		}
		if r.End < f.End {
			left = append(left, GroupRange{r.End, f.End})
		}
	}
	return left
}

// Text lists the change, one thing a line: tasks that stay (with what is set in them), come and go,
// channels that end and begin, operators without their state, and state that moves.
func (c *Change) Text() string {
	var b strings.Builder
	for _, s := range c.Stay {
		fmt.Fprintf(&b, "stay %s\n", s.New.Name)
		for _, set := range s.Settings {
			fmt.Fprintf(&b, "  set %s.%s = %q\n", set.Operator, set.Param, set.Value)
		}
	}
	for _, t := range c.Come {
		fmt.Fprintf(&b, "come %s: %s\n", t.Name, strings.Join(t.operatorNames(), ", "))
	}
	for _, t := range c.Go {
		fmt.Fprintf(&b, "go %s: %s\n", t.Name, strings.Join(t.operatorNames(), ", "))
	}
	for _, ch := range c.Cut {
		fmt.Fprintf(&b, "cut %s -> %s: %s\n", ch.FromTask.Name, ch.ToTask.Name, ch.Stream)
	}
	for _, ch := range c.Join {
		fmt.Fprintf(&b, "join %s -> %s: %s\n", ch.FromTask.Name, ch.ToTask.Name, ch.Stream)
	}
	for _, op := range c.Empty {
		fmt.Fprintf(&b, "empty %s\n", op.Name)
	}
	for _, m := range c.Moves {
		what := "all"
		if m.Groups != (GroupRange{}) {
			what = "key groups " + m.Groups.String()
		}
		fmt.Fprintf(&b, "move %s -> %s: %s\n", m.From.Name, m.To.Name, what)
	}
	return b.String()
}
