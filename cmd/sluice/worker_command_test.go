package main

import (
	"os"
	"slices"
	"testing"
)

// TestWorkerCommand: worker processes have this one's environment, and what each worker has.
func TestWorkerCommand(t *testing.T) {
	t.Setenv("MALLOC_TRIM_THRESHOLD_", "7")
	cmd := workerCommand("w1", "tcp://127.0.0.1:1", "/keys")
	if want := []string{os.Args[0], "executor", "--control", "tcp://127.0.0.1:1", "--id", "w1", "--keys", "/keys"}; !slices.Equal(cmd.Args, want) {
		t.Errorf("%q", cmd.Args)
	}
	env := cmd.Environ()
	for _, want := range []string{"MALLOC_MMAP_THRESHOLD_=4194304", "MALLOC_TRIM_THRESHOLD_=7", "PATH=" + os.Getenv("PATH")} {
		if !slices.Contains(env, want) {
			t.Errorf("no %s in %q", want, env)
		}
	}
}
