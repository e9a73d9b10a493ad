//go:build !race

package meaning

// checks is how many queries each test draws, if the flag -rapid.checks does not say.
const checks = "300"
