package service

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync/atomic"

	"sluice/dataflow"
	"sluice/scheduler"
	"sluice/scheduler/local"
	"sluice/scheduler/shell"
	"sluice/scheduler/store"
)

// Local says how queries run on worker processes of this machine. They end with this process, whatever ends it.
type Local struct {
	Usual, Most int // workers of a query
	// Dir is a folder for sockets and files of no lasting use. Its path must be short.
	Dir string
	// Command is the command of a worker, which is to connect to control.
	Command func(id scheduler.WorkerID, control string) *exec.Cmd
}

// Open is an OpenClusters.
func (l Local) Open(context.Context, store.Store) (Clusters, error) {
	return &localClusters{o: l}, nil
}

type localClusters struct {
	o      Local
	places atomic.Int64
}

// Place implements Clusters.
func (l *localClusters) Place(_ context.Context, p PlaceOptions) (*Place, error) {
	// The lock is free once all workers of an earlier process have ended, which held it too.
	held, err := local.Lock(filepath.Join(p.State, "workers"))
	if err != nil {
		return nil, fmt.Errorf("workers of an earlier scheduler have not ended yet: %w", err)
	}
	dir := filepath.Join(l.o.Dir, strconv.FormatInt(l.places.Add(1), 10))
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, errors.Join(err, held.Close())
	}
	var cluster *local.Cluster
	return &Place{
		Listen: "ipc://" + filepath.Join(dir, "control"), Spill: dir, Fresh: true,
		Cluster: func(control string) (shell.Cluster, error) {
			tag := strconv.FormatUint(uint64(rand.Uint32()), 36)
			cluster = local.NewCluster(tag, held, func(id scheduler.WorkerID) *exec.Cmd { return l.o.Command(id, control) })
			return cluster, nil
		},
		Close: func() {
			if cluster != nil {
				cluster.Close(0)
			}
			_ = errors.Join(held.Close(), os.RemoveAll(dir)) // what is left goes with the folder of the process
		},
	}, nil
}

// Check implements Clusters: all workers have what this machine has.
func (l *localClusters) Check(dataflow.Resources) error { return nil }

// Retain implements Clusters: no worker outlives its scheduler.
func (l *localClusters) Retain([]string) {}

// About implements Clusters.
func (l *localClusters) About() string { return fmt.Sprintf("local:%d", l.o.Usual) }

// Workers implements Clusters.
func (l *localClusters) Workers() (usual, most int) { return l.o.Usual, l.o.Most }

// Outlive implements Clusters.
func (l *localClusters) Outlive() bool { return false }

// Lost implements Clusters.
func (l *localClusters) Lost() <-chan struct{} { return nil }

// Close implements Clusters: each place has been closed.
func (l *localClusters) Close() {}
