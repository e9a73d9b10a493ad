// Package mesos is the executor that agents of Apache Mesos start for a worker.
package mesos
