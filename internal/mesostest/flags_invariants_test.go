//go:build invariants

package mesostest

func init() { buildFlags = append(buildFlags, "-tags", "invariants") }
