package service

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"sluice/scheduler/api"
)

// A query whose record cannot be read has failed, and keeps no other from running: nothing but its id is known of it. Its
// record and its state stay as they are, since somebody may put them right; it is read again when it is to be resumed.
//
// Other values that cannot be read: the record of a core is for the moment (query.run): the query waits, says why, and is tried
// again, as with a state directory that cannot be read. A history is left out. What a cluster keeps (the framework of Mesos), and
// what the store keeps of its leaders, cannot be done without: a scheduler that led without knowing which workers of before may
// still run could have rows written twice. Then none leads, and api.Health says so.

// damagedQuery is a query that has failed since its record cannot be read.
func (r *reign) damagedQuery(id string, err error) *query {
	q := newQuery(r, id)
	q.damaged = fmt.Errorf("what is stored of it cannot be read: %w; put %s of the store back as it was and resume the query, or remove it", err, queryPath(id))
	name, _, _ := splitID(id)
	q.rec = record{
		Name: name, Submission: &api.Submission{}, State: api.Failed, Error: q.damaged.Error(), Dir: filepath.Join(r.s.o.StateRoot, id),
	}
	return q
}

// splitID takes an id apart; of one that is of no query the name is all of it.
func splitID(id string) (name string, term, number int64) {
	parts := strings.Split(id, ".")
	if n := len(parts); n > 2 {
		term, err := strconv.ParseInt(parts[n-2], 10, 64)
		number, err2 := strconv.ParseInt(parts[n-1], 10, 64)
		if err == nil && err2 == nil {
			return strings.Join(parts[:n-2], "."), term, number
		}
	}
	return id, 0, 0
}

// newer tells whether an id was given after another one.
func newer(a, b string) bool {
	_, term, number := splitID(a)
	_, otherTerm, otherNumber := splitID(b)
	return cmp.Or(cmp.Compare(term, otherTerm), cmp.Compare(number, otherNumber)) > 0
}

// check says why a record cannot be that of the query with this id.
func (r *record) check(id string) error {
	name, _, _ := splitID(id)
	stored := append(slices.Clone(api.States), api.Running)
	switch {
	case r.Submission == nil:
		return errors.New("it has no submission")
	case r.Name != name || !possibleName.MatchString(name):
		return fmt.Errorf("it is called %q", r.Name)
	case !slices.Contains(stored, r.State) || r.State == api.Starting:
		return fmt.Errorf("its state is %q", r.State)
	case filepath.Base(r.Dir) != id || !filepath.IsAbs(r.Dir):
		return fmt.Errorf("its state directory is %q", r.Dir)
	}
	return nil
}

// repaired reads a damaged query again, and goes on with it if it can be read now.
func (s *Service) repaired(q *query) (*query, error) {
	name := q.record().Name
	release, err := q.r.claim(q, name)
	if err != nil {
		return nil, err
	}
	defer release()
	next, err := q.r.read(q.id)
	switch {
	case err != nil:
		return nil, api.Errorf(api.Unavailable, "query %q cannot be read: %v", name, err)
	case next == nil:
		return nil, api.Errorf(api.Unavailable, "of query %q nothing is stored any more; cancel it", name)
	case next.damaged != nil:
		return nil, api.Errorf(api.QueryEnded, "query %q: %v", name, next.damaged)
	}
	if err := next.readHistory(); err != nil {
		return nil, api.Errorf(api.Unavailable, "query %q cannot be read: %v", name, err)
	}
	if !api.Ended(next.state()) {
		outputs := next.rec.Outputs
		if next.rec.Edit != nil {
			outputs = slices.Concat(outputs, next.rec.Edit.Outputs)
		}
		release, err := q.r.reserve(next, name, outputs)
		if err != nil {
			return nil, err
		}
		defer release()
	}
	q.r.mu.Lock()
	q.r.queries[name] = next
	q.r.mu.Unlock()
	q.r.takeOver(next)
	return next, nil
}
