package scheduler_test

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"sluice/dataflow"
	"sluice/metaquery"
	"sluice/scheduler"
)

// print writes actions, an action a line. Of records and orders it writes what differs from the last.
func (s *script) print(actions []scheduler.Action) {
	for _, a := range actions {
		s.b.WriteString("  ")
		switch {
		case a.Save != nil:
			fmt.Fprintf(&s.b, "save%s\n", recordText(s.saved, a.Save))
			s.saved = a.Save
		case a.Start != nil:
			fmt.Fprintf(&s.b, "start %s\n", capacitiesText(a.Start))
		case a.Kill != "":
			fmt.Fprintf(&s.b, "kill %s\n", a.Kill)
		case a.Launch != nil:
			l := a.Launch
			s.home[l.ID], s.last[l.ID] = l.Worker, metaquery.Report{}
			fmt.Fprintf(&s.b, "launch %s on %s from %d%s%s\n", idText(l.ID), l.Worker, l.Checkpoint, stateText(l.State), s.ordersText(l.Orders))
		case a.End != nil:
			fmt.Fprintf(&s.b, "end %s on %s\n", idText(a.End.ID), a.End.Worker)
		case a.Orders != nil:
			fmt.Fprintf(&s.b, "orders %s%s\n", idText(a.Orders.To), s.ordersText(a.Orders.Orders))
		case a.Decide != nil:
			fmt.Fprintf(&s.b, "decide %d %s\n", a.Decide.Attempt, map[bool]string{true: "commit", false: "cancel"}[a.Decide.Commit])
		case a.Answer != nil:
			fmt.Fprintf(&s.b, "answer %d: epoch %d %s\n", a.Answer.ID, a.Answer.Epoch, a.Answer.Error)
		case a.Trim != nil:
			fmt.Fprintf(&s.b, "trim %d %v\n", a.Trim.Epoch, a.Trim.Refs)
		case a.Alert != "":
			fmt.Fprintf(&s.b, "alert: %s\n", a.Alert)
		case a.Done != nil:
			fmt.Fprintf(&s.b, "done %+v\n", *a.Done)
		}
	}
}

// capacitiesText is how many there are, and what they are if any is more than nothing.
func capacitiesText(list []dataflow.Resources) string {
	texts, nothing := make([]string, len(list)), true
	for i, r := range list {
		texts[i] = r.String()
		nothing = nothing && r.IsZero()
	}
	if nothing {
		return strconv.Itoa(len(list))
	}
	return fmt.Sprintf("%d: %s", len(list), strings.Join(texts, "; "))
}

func idText(id metaquery.TaskID) string { return id.Task + "/" + strconv.FormatInt(id.Gen, 10) }

func stateText(state map[string]metaquery.Snapshot) string {
	var b strings.Builder
	for _, key := range slices.Sorted(maps.Keys(state)) {
		fmt.Fprintf(&b, ", state %s=%s", key, state[key].Ref)
	}
	return b.String()
}

func recordText(old, new *scheduler.Record) string {
	var b strings.Builder
	if old.Term != new.Term {
		fmt.Fprintf(&b, " term=%d", new.Term)
	}
	for _, t := range slices.Sorted(maps.Keys(new.Generations)) {
		if old.Generations[t] != new.Generations[t] {
			fmt.Fprintf(&b, " %s/%d", t, new.Generations[t])
		}
	}
	for _, t := range slices.Sorted(maps.Keys(new.Active)) {
		if was, ok := old.Active[t]; !ok || was != new.Active[t] {
			fmt.Fprintf(&b, " %s:active=%v", t, new.Active[t])
		}
	}
	for _, t := range slices.Sorted(maps.Keys(new.Workers)) {
		if old.Workers[t] != new.Workers[t] {
			fmt.Fprintf(&b, " %s@%s", t, new.Workers[t])
		}
	}
	if old.Checkpoint != new.Checkpoint {
		fmt.Fprintf(&b, " checkpoint=%d%s", new.Checkpoint, stateText(new.State))
	}
	if new.Finished {
		b.WriteString(" finished")
	}
	if old.Stop != new.Stop {
		fmt.Fprintf(&b, " stop=%d", new.Stop)
	}
	if p := new.Plan; p != nil && (old.Plan == nil || old.Plan.Attempt != p.Attempt) {
		fmt.Fprintf(&b, " plan=%d@%d", p.Attempt, p.Epoch)
	}
	if new.Plan == nil && old.Plan != nil {
		b.WriteString(" plan=none")
	}
	if a, b2 := tuplesText(old.Changes), tuplesText(new.Changes); a != b2 {
		fmt.Fprintf(&b, " changes=[%s]", b2)
	}
	if a, b2 := tuplesText(old.Params), tuplesText(new.Params); a != b2 {
		fmt.Fprintf(&b, " params=[%s]", b2)
	}
	for _, l := range new.Lost {
		if !slices.Contains(old.Lost, l) {
			fmt.Fprintf(&b, " lost=%s:%d-%d", l.Task, l.First, l.Last)
		}
	}
	return b.String()
}

// tupleText writes the sequence number of a tuple as TERM.NUMBER.
func tupleText(t metaquery.Tuple) string {
	at := ""
	if t.Epoch != 0 {
		at = fmt.Sprintf("@%d", t.Epoch)
	}
	return fmt.Sprintf("%s.%s=%s%s#%d.%d", t.Operator, t.Param, t.Value, at, t.Seq>>32, t.Seq&(1<<32-1))
}

func tuplesText(list []metaquery.Tuple) string {
	var texts []string
	for _, t := range list {
		texts = append(texts, tupleText(t))
	}
	return strings.Join(texts, " ")
}

// ordersText writes what differs from the last orders of the task.
func (s *script) ordersText(o metaquery.Orders) string {
	old, known := s.orders[o.To]
	s.orders[o.To] = o
	var b strings.Builder
	fmt.Fprintf(&b, " #%d.%d", o.Term, o.Seq)
	if known && old.Seq == o.Seq && old.Term == o.Term {
		return b.String() + " again"
	}
	if o.Complete != old.Complete {
		fmt.Fprintf(&b, " complete=%d", o.Complete)
	}
	for _, p := range slices.Sorted(maps.Keys(o.Fences)) {
		if old.Fences[p] != o.Fences[p] {
			fmt.Fprintf(&b, " fence=%s/%d", p, o.Fences[p])
		}
	}
	for _, t := range o.Now {
		if !slices.Contains(old.Now, t) {
			b.WriteString(" " + tupleText(t))
		}
	}
	if x, y := tuplesText(old.Changes), tuplesText(o.Changes); x != y {
		fmt.Fprintf(&b, " changes=[%s]", y)
	}
	switch {
	case o.Plan != nil && (old.Plan == nil || old.Plan.Attempt != o.Plan.Attempt):
		fmt.Fprintf(&b, " plan=%d@%d[%s]", o.Plan.Attempt, o.Plan.Epoch, tuplesText(o.Plan.Tuples))
	case o.Plan == nil && old.Plan != nil:
		b.WriteString(" plan=none")
	}
	if o.Stop != old.Stop {
		fmt.Fprintf(&b, " stop=%d", o.Stop)
	}
	return b.String()
}
