package scheduler_test

import (
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"sluice/dataflow"
	"sluice/metaquery"
	"sluice/operators/catalog"
	"sluice/scheduler"
)

// TestExpand: what a user's tuple means, or what is wrong with it. Each line of "set" is OPERATOR.PARAM=VALUE.
func TestExpand(t *testing.T) {
	var query *dataflow.Physical
	datadriven.RunTest(t, "testdata/expand", func(t *testing.T, d *datadriven.TestData) string {
		if d.Cmd == "query" {
			var list []string
			for _, a := range d.CmdArgs {
				list = append(list, a.String())
			}
			query = compileQuery(t, rewritesOf(list))
			return query.Text()
		}
		var b strings.Builder
		for _, line := range strings.Split(d.Input, "\n") {
			name, value, _ := strings.Cut(line, "=")
			i := strings.LastIndexByte(name, '.')
			before := query.Graph.Term(dataflow.TermOptions{})
			tuples, err := scheduler.Expand(query, metaquery.Tuple{Operator: name[:i], Param: name[i+1:], Value: value}, catalog.Operators)
			if err != nil {
				b.WriteString(err.Error() + "\n")
			}
			for _, t := range tuples {
				b.WriteString(t.Operator + "." + t.Param + "=" + t.Value + "\n")
			}
			if query.Graph.Term(dataflow.TermOptions{}) != before {
				t.Error("the graph was changed")
			}
		}
		return b.String()
	})
}
