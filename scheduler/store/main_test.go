package store_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"sluice/scheduler/store"
	"sluice/scheduler/store/storetest"
)

func TestMain(m *testing.M) {
	storetest.Child(open)
	os.Exit(m.Run())
}

// open opens "dir:PATH".
func open(name string) (store.Store, error) {
	kind, rest, _ := strings.Cut(name, ":")
	switch kind {
	case "dir":
		return store.OpenDir(rest)
	}
	return nil, fmt.Errorf("no store %q", name)
}

func TestDir(t *testing.T) {
	storetest.Run(t, func(t *testing.T) string { return "dir:" + t.TempDir() }, open)
}
