package worker

import "os"

// allocator keeps the C library from giving memory back to the kernel, and asking for it anew, for each message of
// libzmq: a full frame is above the size from which it does so. Other C libraries ignore it.
var allocator = map[string]string{"MALLOC_MMAP_THRESHOLD_": "4194304", "MALLOC_TRIM_THRESHOLD_": "33554432"}

// Environment is what must be in the environment of a worker process when it starts, wherever that is. What the
// environment of this process says of it, a user has set.
func Environment() map[string]string {
	env := map[string]string{}
	for name, value := range allocator {
		if set, ok := os.LookupEnv(name); ok {
			value = set
		}
		env[name] = value
	}
	return env
}
