// Package mesos runs the workers of queries on a cluster of Apache Mesos: it is a framework that speaks the v1
// scheduler API. See doc of Framework and Core.
package mesos
