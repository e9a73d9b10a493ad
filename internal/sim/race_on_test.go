//go:build race

package sim

// usualSeeds is how many seeds TestSeeds runs.
const usualSeeds = 40
