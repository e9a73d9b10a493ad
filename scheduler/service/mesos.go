package service

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"sluice/dataflow"
	"sluice/scheduler/mesos"
	"sluice/scheduler/shell"
	"sluice/scheduler/store"
)

// Mesos says how queries run on a cluster of Apache Mesos. Workers go on without a scheduler for some time.
type Mesos struct {
	// Options are those of the framework, but for its Store and Detector.
	Options mesos.Options
	// Detect finds the leading master, if Options name none.
	Detect func() (Detector, error)
	// Need is what every worker takes, beside what its tasks need.
	Need mesos.Need
	// Executor is how agents start a worker that connects to control.
	Executor func(control string) mesos.ExecutorSpec
	// Listen is where the control streams listen: "tcp://10.0.0.1:*". Workers find them at Host, if it is not "".
	Listen, Host string
	// Usual and Most are workers of a query.
	Usual, Most int
}

// Detector is a mesos.Detector that ends.
type Detector interface {
	mesos.Detector
	Close()
}

// Open is an OpenClusters.
func (m Mesos) Open(_ context.Context, s store.Store) (Clusters, error) {
	o := m.Options
	o.Store = s
	c := &mesosClusters{o: m}
	if m.Detect != nil {
		d, err := m.Detect()
		if err != nil {
			return nil, err
		}
		c.detector, o.Detector = d, d
	}
	f, err := mesos.New(o)
	if err != nil {
		c.closeDetector()
		return nil, err
	}
	c.framework = f
	return c, nil
}

// gatherTime is for agents that fetch the program one slower than the other. Tasks stay where they begin, so that a
// query that does not wait would have them all on the first worker.
const gatherTime = 10 * time.Second

// startLimit is for how long workers may fail before any of a query has been able to run tasks. What is wrong on agents, such
// as a library that is missing, is mended by people.
const startLimit = time.Hour

type mesosClusters struct {
	o         Mesos
	framework *mesos.Framework
	detector  Detector // nil for none
}

// Place implements Clusters.
func (m *mesosClusters) Place(_ context.Context, p PlaceOptions) (*Place, error) {
	return &Place{
		Listen: m.o.Listen, Gather: gatherTime, StartLimit: startLimit,
		Cluster: func(control string) (shell.Cluster, error) {
			at, err := m.o.reached(control)
			if err != nil {
				return nil, err
			}
			return m.framework.Cluster(p.ID, m.o.Need, m.o.Executor(at))
		},
		Left:  func() []string { return left(m.framework.Workers(), p.ID) },
		Close: func() {},
	}, nil
}

// left describes the workers of a query.
func left(workers []mesos.WorkerInfo, query string) []string {
	var list []string
	for _, w := range workers {
		if w.Query != query {
			continue
		}
		text := fmt.Sprintf("worker %s on agent %s (%s)", w.ID, w.Hostname, w.Agent)
		if w.Lost {
			text += ", which cannot be reached"
		}
		list = append(list, text)
	}
	return list
}

// Check implements Clusters.
func (m *mesosClusters) Check(task dataflow.Resources) error {
	return m.framework.Check(m.o.Need, task)
}

// reached is the address at which workers find a control stream.
func (m *Mesos) reached(control string) (string, error) {
	if m.Host == "" {
		return control, nil
	}
	scheme, addr, _ := strings.Cut(control, "://")
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		return "", fmt.Errorf("scheduler: the control stream listens at %q, which has no port: %w", control, err)
	}
	return scheme + "://" + net.JoinHostPort(m.Host, port), nil
}

// Retain implements Clusters.
func (m *mesosClusters) Retain(ids []string) { m.framework.Retain(ids...) }

// About implements Clusters.
func (m *mesosClusters) About() string {
	id, up := m.framework.ID()
	state := "connected"
	if !up {
		state = "not connected"
	}
	masters := strings.Join(m.o.Options.Masters, ",")
	if masters == "" {
		masters = "found through ZooKeeper"
	}
	return fmt.Sprintf("mesos: framework %s, masters %s, %s", id, masters, state)
}

// Connected says why nothing can be launched at the moment; nil if it can.
func (m *mesosClusters) Connected() error {
	if _, up := m.framework.ID(); !up {
		return errors.New("not connected to a Mesos master: queries are taken, and wait; those that run go on")
	}
	return nil
}

// Workers implements Clusters.
func (m *mesosClusters) Workers() (usual, most int) { return m.o.Usual, m.o.Most }

// Outlive implements Clusters.
func (m *mesosClusters) Outlive() bool { return true }

// Lost implements Clusters.
func (m *mesosClusters) Lost() <-chan struct{} { return m.framework.Done() }

// Close implements Clusters.
func (m *mesosClusters) Close() {
	m.framework.Close()
	m.closeDetector()
}

func (m *mesosClusters) closeDetector() {
	if m.detector != nil {
		m.detector.Close()
	}
}
