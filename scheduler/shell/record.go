package shell

import (
	"encoding/json"
	"errors"
	"fmt"

	"sluice/executor/state/shared"
	"sluice/scheduler"
)

// Recorded is a Store that keeps the record in the state that the tasks of the query share.
func Recorded(s shared.State) Store { return &recorded{State: s} }

type recorded struct {
	shared.State
	version int64
}

// mostClaims is how many terms above the last one are tried: as many processes as have claimed one and
// ended before they saved a record of it.
const mostClaims = 1000

// Begin implements Store. It claims the term that the core will take.
func (r *recorded) Begin() (*scheduler.Record, error) {
	text, _, err := r.Load()
	if err != nil {
		return nil, err
	}
	var record *scheduler.Record
	term := int64(0)
	if text != nil {
		record = &scheduler.Record{}
		if err := json.Unmarshal(text, record); err != nil {
			return nil, fmt.Errorf("scheduler: the record that was saved: %w", err)
		}
		term = record.Term
	}
	claimed := term + 1
	for err = r.Claim(claimed); errors.Is(err, shared.ErrSuperseded) && claimed < term+mostClaims; err = r.Claim(claimed) {
		claimed++
	}
	if err != nil {
		return nil, err
	}
	if record == nil && claimed > 1 {
		record = &scheduler.Record{}
	}
	if record != nil {
		record.Term = claimed - 1
	}
	_, r.version, err = r.Load()
	return record, err
}

// Save implements Store.
func (r *recorded) Save(record *scheduler.Record) error {
	text, err := json.Marshal(record)
	if err != nil {
		return err
	}
	r.version, err = r.State.Save(text, r.version)
	return err
}

// Finished reports whether the state is of a query that has run to its end.
func Finished(s shared.State) (bool, error) {
	text, _, err := s.Load()
	if err != nil || text == nil {
		return false, err
	}
	var record scheduler.Record
	if err := json.Unmarshal(text, &record); err != nil {
		return false, fmt.Errorf("scheduler: the record that was saved: %w", err)
	}
	return record.Finished, nil
}
