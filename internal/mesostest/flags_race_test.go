//go:build race

package mesostest

func init() { buildFlags = append(buildFlags, "-race") }
