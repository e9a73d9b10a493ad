package metaquery

import (
	"errors"
	"fmt"
	"slices"
	"unicode/utf8"
)

// What the checks hold: names are there and not too long, and numbers that count something are not
// negative. Whoever decodes a message can rely on these, and on nothing else.

func count(set ...bool) int {
	n := 0
	for _, s := range set {
		if s {
			n++
		}
	}
	return n
}

func (m *ToWorker) check() error {
	if count(m.Deploy != nil, m.Launch != nil, m.End != nil, m.Orders != nil, m.Here, m.Exit) != 1 {
		return errNotOne
	}
	switch {
	case m.Deploy != nil:
		return m.Deploy.check()
	case m.Launch != nil:
		return m.Launch.check()
	case m.End != nil:
		return m.End.check()
	case m.Orders != nil:
		return m.Orders.check()
	}
	return nil
}

func (m *ToScheduler) check() error {
	if count(m.Hello != nil, m.Alive != nil, m.Report != nil) != 1 {
		return errNotOne
	}
	switch {
	case m.Hello != nil:
		return checkName("worker", m.Hello.Worker)
	case m.Alive != nil:
		return m.Alive.check()
	}
	return m.Report.check()
}

// checkName refuses what JSON would change, too.
func checkName(what, name string) error {
	switch {
	case name == "":
		return fmt.Errorf("%s: no name", what)
	case len(name) > maxName:
		return fmt.Errorf("%s: a name of %d bytes; the most is %d", what, len(name), maxName)
	case !utf8.ValidString(name):
		return fmt.Errorf("%s: the name %q is not UTF-8", what, name)
	}
	return nil
}

func checkNumbers(what string, numbers ...int64) error {
	for _, n := range numbers {
		if n < 0 {
			return fmt.Errorf("%s: negative number %d", what, n)
		}
	}
	return nil
}

func (d *Deploy) check() error {
	for _, text := range slices.Concat([]string{d.File, d.Dir, d.Graph, d.State, d.Fsync, d.Transport, d.Spill}, d.Sets) {
		if !utf8.ValidString(text) {
			return fmt.Errorf("deploy: %q is not UTF-8; rename it", text)
		}
	}
	if d.Partitions < 1 || d.Nodes < 1 {
		return errors.New("deploy: partitions and nodes must be positive")
	}
	for operator, n := range d.Replicas {
		if err := checkName("deploy", operator); err != nil {
			return err
		}
		if n < 1 {
			return fmt.Errorf("deploy: %d replicas of %q; they must be positive", n, operator)
		}
	}
	return nil
}

func (t *TaskID) check() error {
	return errors.Join(checkName("task", t.Task), checkNumbers("task "+t.Task, t.Gen))
}

func (l *Launch) check() error {
	err := errors.Join(l.ID.check(), checkNumbers("launch", l.Checkpoint, l.Flight, l.Interval), l.Orders.check())
	if l.Every < 1 {
		err = errors.Join(err, errors.New("launch: the time between checkpoints must be positive"))
	}
	for key, s := range l.State {
		err = errors.Join(err, checkName("state", key), s.check())
	}
	return err
}

func (s *Snapshot) check() error {
	if s.Lo > s.Hi {
		return fmt.Errorf("snapshot %s: from %d to %d", s.Key, s.Lo, s.Hi)
	}
	return errors.Join(checkName("snapshot", s.Key), checkNumbers("snapshot", s.Lo))
}

func (o *Orders) check() error {
	err := errors.Join(o.To.check(), checkNumbers("orders", o.Seq, o.Term, o.Complete))
	if o.Stop < -1 {
		err = errors.Join(err, fmt.Errorf("orders: stop at %d", o.Stop))
	}
	for task, gen := range o.Fences {
		err = errors.Join(err, checkName("fence", task), checkNumbers("fence", gen))
	}
	err = errors.Join(err, checkTuples(o.Now), checkTuples(o.Changes))
	if o.Plan != nil {
		err = errors.Join(err, checkNumbers("plan", o.Plan.Attempt, o.Plan.Epoch), checkTuples(o.Plan.Tuples))
	}
	return err
}

func checkTuples(tuples []Tuple) error {
	for i := range tuples {
		t := &tuples[i]
		if err := errors.Join(checkName("operator", t.Operator), checkName("parameter", t.Param), checkNumbers("tuple", t.Epoch, t.Seq)); err != nil {
			return err
		}
		if !utf8.ValidString(t.Value) || !utf8.ValidString(t.Query) {
			return fmt.Errorf("the value of %s.%s is not UTF-8", t.Operator, t.Param)
		}
	}
	return nil
}

func (a *Alive) check() error {
	err := errors.Join(checkName("worker", a.Worker), checkName("address", a.Addr))
	for i := range a.Tasks {
		err = errors.Join(err, a.Tasks[i].check())
	}
	return err
}

func (r *Report) check() error {
	err := errors.Join(r.From.check(), checkNumbers("report", r.Seq, r.Term, r.Obeyed, r.Epoch, r.Begun, r.Cut))
	for i := range r.Snapshots {
		err = errors.Join(err, r.Snapshots[i].check())
	}
	for sink, epoch := range r.Frontiers {
		err = errors.Join(err, checkName("sink", sink), checkNumbers("frontier", epoch))
	}
	if r.Vote != nil {
		err = errors.Join(err, checkNumbers("vote", r.Vote.Attempt))
	}
	for i := range r.Operators {
		err = errors.Join(err, checkName("operator", r.Operators[i].Name))
	}
	for _, p := range r.Passed {
		err = errors.Join(err, checkName("operator", p.Operator), checkNumbers("passed", p.Lo, p.Hi))
	}
	return err
}
