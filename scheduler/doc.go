// Package scheduler decides where the tasks of a query run and what they are told.
package scheduler
