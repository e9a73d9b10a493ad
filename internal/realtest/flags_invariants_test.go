//go:build invariants

package realtest

func init() { buildFlags = append(buildFlags, "-tags", "invariants") }
