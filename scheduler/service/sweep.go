package service

import (
	"os"
	"path/filepath"

	"sluice/executor/state/shared"
)

// sweep removes the state directories of submissions that were never stored, as when their scheduler was killed. Only those
// of earlier leaders are looked at, none of which can store anything any more, and only those are removed in which nothing was
// written: whatever else is below the state root is not for us to judge.
func (r *reign) sweep() {
	entries, err := os.ReadDir(r.s.o.StateRoot)
	if err != nil {
		return // there is none yet
	}
	stored, err := r.store.List(r.ctx, queriesPath)
	if err != nil {
		r.s.o.Log.Warn("what earlier schedulers have left cannot be looked for", "error", err)
		return
	}
	known := map[string]bool{}
	for _, id := range stored {
		known[id] = true
	}
	for _, e := range entries {
		_, term, _ := splitID(e.Name())
		if known[e.Name()] || !e.IsDir() || term == 0 || term >= r.term {
			continue
		}
		dir := filepath.Join(r.s.o.StateRoot, e.Name())
		if unused, err := shared.Unused(dir); err != nil || !unused {
			continue
		}
		removeState(r.s.o.Log, dir)
		r.s.o.Log.Info("the state directory of a submission that was never stored is removed", "dir", dir)
	}
}
