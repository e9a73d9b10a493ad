//go:build invariants

package executor

// invariants turns the checks on of what passes between operators.
const invariants = true
