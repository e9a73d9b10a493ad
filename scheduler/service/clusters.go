package service

import (
	"context"
	"fmt"
	"time"

	"sluice/dataflow"
	"sluice/scheduler/shell"
	"sluice/scheduler/store"
)

// Clusters gives each query its workers, for as long as one scheduler leads.
type Clusters interface {
	// Place makes room for the workers of a query. id is never used for another query.
	Place(ctx context.Context, p PlaceOptions) (*Place, error)
	// Check says why no worker could ever run a task that needs resources, nil if one may.
	Check(task dataflow.Resources) error
	// Retain ends the workers of all queries but these, that an earlier leader has started.
	Retain(ids []string)
	// About describes the cluster, for status.
	About() string
	// Workers is how many workers a query has that does not say, and how many it may have.
	Workers() (usual, most int)
	// Outlive tells whether workers can run on without this process.
	Outlive() bool
	// Lost is closed when the cluster is of no use any more: another scheduler has it.
	Lost() <-chan struct{}
	// Close ends what is here. Workers that can run on without this process do so.
	Close()
}

// OpenClusters connects to the cluster once this process leads. The store is the leader's.
type OpenClusters func(ctx context.Context, s store.Store) (Clusters, error)

// PlaceOptions say for which query a Place is.
type PlaceOptions struct {
	ID    string
	State string // its shared state directory
}

// Place is where the workers of a query run.
type Place struct {
	Listen string // where the scheduler is to listen for them
	Spill  string // for their files of no lasting use; "" if they have places of their own
	// Gather is how long workers may take to start one after the other; 0 is the usual time.
	Gather time.Duration
	// StartLimit is for how long workers may fail before any has been able to run tasks (shell.Options).
	StartLimit time.Duration
	// Fresh says that no worker of an earlier scheduler is left.
	Fresh bool
	// Cluster gives the workers, which connect to control.
	Cluster func(control string) (shell.Cluster, error)
	// Left describes the workers of the query that have not ended for certain, also those that are being ended or cannot be
	// reached; nil if Cluster.Close waits for all of them, and none is there before.
	Left func() []string
	// Close gives up the place. Workers that cannot run on without this process have then ended.
	Close func()
}

func (p *Place) left() []string {
	if p.Left == nil {
		return nil
	}
	return p.Left()
}

// checkTasks says which task of a query no worker could ever run.
func checkTasks(c Clusters, tasks []*dataflow.Task) error {
	for _, t := range tasks {
		if err := c.Check(t.Resources); err != nil {
			return fmt.Errorf("task %s cannot run on this cluster: %w", t.Name, err)
		}
	}
	return nil
}
