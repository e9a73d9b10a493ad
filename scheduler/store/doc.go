// Package store keeps what a scheduler must not forget, for one machine in a directory and for a cluster in
// ZooKeeper, and says who leads.
package store
