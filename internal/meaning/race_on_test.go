//go:build race

package meaning

// checks is how many queries each test draws: fewer where the race detector slows them down.
const checks = "100"
