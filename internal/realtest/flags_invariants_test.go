//go:build invariants

package realtest

// buildFlags are those with which the program is built: with the checks that these tests have as well.
var buildFlags = []string{"-tags", "invariants"}
