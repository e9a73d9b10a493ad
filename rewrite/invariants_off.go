//go:build !invariants

package rewrite

// invariants turns the check on that a graph after each step is what resolving all of it would give.
const invariants = false
