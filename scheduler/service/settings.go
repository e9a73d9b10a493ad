package service

import (
	"cmp"
	"slices"

	"sluice/metaquery"
	"sluice/scheduler"
	"sluice/scheduler/api"
)

// settingsOf are the parameters that have been set while a query runs, with their last values.
func settingsOf(r *scheduler.Record) []api.Setting {
	var list []api.Setting
	for _, tuples := range [][]metaquery.Tuple{r.Params, r.Changes} {
		for _, u := range tuples {
			if u.Param == metaquery.TargetAddr {
				continue // by the scheduler itself
			}
			s := api.Setting{Operator: u.Operator, Param: u.Param, Value: u.Value}
			i := slices.IndexFunc(list, func(o api.Setting) bool { return o.Operator == s.Operator && o.Param == s.Param })
			if i < 0 {
				list = append(list, s)
			} else {
				list[i] = s
			}
		}
	}
	slices.SortFunc(list, func(a, b api.Setting) int {
		return cmp.Or(cmp.Compare(a.Operator, b.Operator), cmp.Compare(a.Param, b.Param))
	})
	return list
}
