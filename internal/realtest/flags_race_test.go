//go:build race

package realtest

func init() { buildFlags = append(buildFlags, "-race") }
