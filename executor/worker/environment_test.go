package worker

import "testing"

func TestEnvironment(t *testing.T) {
	t.Setenv("MALLOC_TRIM_THRESHOLD_", "1")
	env := Environment()
	if env["MALLOC_TRIM_THRESHOLD_"] != "1" || env["MALLOC_MMAP_THRESHOLD_"] != "4194304" || len(env) != 2 {
		t.Errorf("%v", env)
	}
}
