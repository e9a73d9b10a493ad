//go:build race

package expr

// raceEnabled: under the race detector sync.Pool, which regexp uses, forgets what it holds now and then.
const raceEnabled = true
