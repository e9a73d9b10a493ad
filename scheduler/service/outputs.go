package service

import (
	"slices"
	"strings"

	"sluice/scheduler/api"
)

// Output is what a sink writes.
type Output struct {
	Operator string `json:"operator"`
	Place    string `json:"place"` // one for each file or folder, however it is named
}

// free makes sure that nothing that a query is to write is written by another one that runs, or that is stopped and will go
// on. r.mu is held.
//
// What other programs write, or queries of other schedulers, the sinks find themselves.
func (r *reign) free(q *query, outputs []Output) error {
	var others []*query
	for _, other := range r.queries {
		if other != q && (!api.Ended(other.state()) || other.state() == api.Stopped) {
			others = append(others, other)
		}
	}
	for own := range r.reserved {
		if own.id == q.id {
			continue
		}
		for _, o := range outputs {
			if slices.ContainsFunc(own.outputs, func(w Output) bool { return w.Place == o.Place }) {
				return api.Errorf(api.OutputTaken, "operator %q would write %s, which another query (%s) is about to write; choose another path, or end that query first",
					o.Operator, o.Place, own.id)
			}
		}
	}
	slices.SortFunc(others, func(a, b *query) int { return strings.Compare(a.id, b.id) })
	for _, other := range others {
		rec := other.record()
		written := rec.Outputs
		if rec.Edit != nil {
			written = slices.Concat(written, rec.Edit.Outputs)
		}
		for _, o := range outputs {
			i := slices.IndexFunc(written, func(w Output) bool { return w.Place == o.Place })
			if i >= 0 {
				return api.Errorf(api.OutputTaken, "operator %q would write %s, which operator %q of query %q writes, which is %s; choose another path, or end that query first",
					o.Operator, o.Place, written[i].Operator, rec.Name, other.state())
			}
		}
	}
	return nil
}
