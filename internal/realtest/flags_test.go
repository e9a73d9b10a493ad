//go:build !invariants

package realtest

// buildFlags are those with which the program is built.
var buildFlags []string
