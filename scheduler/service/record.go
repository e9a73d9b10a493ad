package service

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"sluice/executor"
	"sluice/executor/state/shared"
	"sluice/metaquery"
	"sluice/scheduler"
	"sluice/scheduler/api"
	"sluice/scheduler/store"
)

// queriesPath is where queries are in the store, by id; below each is the record of its core.
const queriesPath = "queries"

func queryPath(id string) string { return queriesPath + "/" + id }

// corePath is where the n-th record of a core is: each edit makes another one.
func corePath(id string, n int64) string {
	path := queriesPath + "/" + id + "/core"
	if n > 0 {
		path += strconv.FormatInt(n, 10)
	}
	return path
}

// record is what is stored of a query.
type record struct {
	Name       string          `json:"name"`
	Submission *api.Submission `json:"submission"` // with all defaults
	Graph      string          `json:"graph"`      // fingerprint of what runs
	State      string          `json:"state"`      // Running until it is another one
	Error      string          `json:"error,omitempty"`
	Submitted  time.Time       `json:"submitted"`
	Ended      time.Time       `json:"ended,omitzero"`
	Dir        string          `json:"dir"` // shared state directory

	Outputs  []Output        `json:"outputs,omitempty"`  // of what runs
	Shape    *executor.Shape `json:"shape,omitempty"`    // of what runs
	Replicas map[string]int  `json:"replicas,omitempty"` // of operators that have another number than the submission says
	Core     int64           `json:"core,omitempty"`     // which record of a core counts
	Edit     *edited         `json:"edit,omitempty"`     // an edit that is under way
	Revision int64           `json:"revision,omitempty"` // how many edits were done
	LastEdit *api.Edit       `json:"lastEdit,omitempty"` // how the last one went
}

// coreStore keeps the record of a query's core in the store of the leader, who alone can write there. What
// concerns the tasks is in the shared state directory.
type coreStore struct {
	*shared.Store
	ctx     context.Context // of the leader
	store   store.Store
	path    string
	version int64
	counts  func(checkpoint int64) operatorCounts // of the query there
	found   operatorCounts                        // those of the record that was loaded
}

// savedCore is the record of a core with the counts of operators at its checkpoint: who takes over goes on from there.
type savedCore struct {
	*scheduler.Record
	Counts operatorCounts `json:"counts,omitempty"`
}

// operatorCounts are counts by the names of operators.
type operatorCounts map[string]metaquery.OperatorReport

// load reads the record; nil if there is none.
func (c *coreStore) load() (*scheduler.Record, error) {
	text, version, err := c.store.Get(c.ctx, c.path)
	if errors.Is(err, store.ErrNotFound) {
		c.version = 0
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	c.version = version
	saved := savedCore{Record: &scheduler.Record{}}
	if err := json.Unmarshal(text, &saved); err != nil {
		return nil, fmt.Errorf("the record that was saved: %w", err)
	}
	c.found = saved.Counts
	return saved.Record, nil
}

// Begin implements shell.Store.
func (c *coreStore) Begin() (*scheduler.Record, error) { return c.load() }

// Save implements shell.Store.
func (c *coreStore) Save(r *scheduler.Record) error {
	text, err := json.Marshal(savedCore{r, c.counts(r.Checkpoint)})
	if err != nil {
		return err
	}
	version, err := c.store.Put(c.ctx, c.path, text, c.version)
	if err == nil {
		c.version = version
	}
	return err
}
