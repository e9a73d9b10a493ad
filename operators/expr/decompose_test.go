package expr

import (
	"strings"
	"testing"

	"sluice/dataflow"
)

func TestDecomposeAggregate(t *testing.T) {
	schema := &dataflow.Schema{Columns: []dataflow.Column{
		{Name: "t", Type: dataflow.TimestampType, EventTime: true}, {Name: "k", Type: dataflow.StringType},
		{Name: "n", Type: dataflow.IntType}, {Name: "d", Type: dataflow.DecimalType(10, 2)}, {Name: "u", Type: dataflow.DurationType},
	}}
	s := NewScope("rows", schema)
	got, err := DecomposeAggregate(AggregateText{
		GroupBy: "k, hour(t)",
		Select:  "window_start, rows.k, hour(t) AS h, count(*) AS c, round(avg(n), 1) AS mean, sum(d) FILTER (WHERE n > 0) AS total, avg(d) AS price",
		Having:  "c >= 2 AND max(n) > 5",
	}, s, true)
	if err != nil {
		t.Fatal(err)
	}
	want := [3]AggregateText{
		{GroupBy: `k AS k, hour(t) AS "key 2"`, Select: `k, "key 2", count(*) AS "part 1", count(n) AS "part 2", sum(CAST(n AS decimal(38,0))) AS "part 3", ` +
			`sum(d) FILTER (WHERE n > 0) AS "part 4", count(d) AS "part 5", sum(d) AS "part 6", max(n) AS "part 7", window_time`},
		{GroupBy: `k, "key 2"`, Select: `k, "key 2", sum("part 1") AS "part 1", sum("part 2") AS "part 2", sum("part 3") AS "part 3", ` +
			`sum("part 4") AS "part 4", sum("part 5") AS "part 5", sum("part 6") AS "part 6", max("part 7") AS "part 7", window_time`},
		{GroupBy: `k, "key 2"`, Select: `window_start AS window_start, k AS k, "key 2" AS h, coalesce(sum("part 1"), 0) AS c, ` +
			`round((CAST(sum("part 3") AS float) / sum("part 2")), 1) AS mean, sum("part 4") AS total, ` +
			`CAST(sum("part 6") / sum("part 5") AS decimal(38,6)) AS price`,
			Having: `c >= 2 AND max("part 7") > 5`},
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("stage %d is\n%+v, want\n%+v", i+1, got[i], want[i])
		}
	}
	// Each stage compiles over what the one before gives, and the last has the types of the whole.
	whole, _ := CompileAggregate("k", "k, window_time, count(*) AS c, avg(n) AS a, min(u) AS m, sum(d) AS s, sum(n) AS o", "", s, true)
	stages, err := DecomposeAggregate(AggregateText{GroupBy: "k", Select: "k, window_time, count(*) AS c, avg(n) AS a, min(u) AS m, sum(d) AS s, sum(n) AS o"}, s, true)
	if err != nil {
		t.Fatal(err)
	}
	scope := s
	for i, st := range stages {
		plan, errs := CompileAggregate(st.GroupBy, st.Select, st.Having, scope, true)
		if len(errs) > 0 {
			t.Fatalf("stage %d: %v", i+1, errs)
		}
		if i < 2 && plan.Schema.EventTime() < 0 {
			t.Errorf("stage %d has no event time", i+1)
		}
		if i == 2 && plan.Schema.String() != whole.Schema.String() {
			t.Errorf("the last stage gives %s, the whole %s", plan.Schema, whole.Schema)
		}
		for _, c := range plan.Calls {
			if i == 0 && c.Func == Sum && c.Type == dataflow.DecimalType(38, 0) && c.Arg.ColumnIndex() < 0 {
				t.Errorf("%s makes decimals of the ints", c.Text)
			}
		}
		again, err := DecomposeAggregate(st, scope, true)
		if err != nil {
			t.Fatal(err)
		}
		last := scope
		for _, part := range again {
			over, errs := CompileAggregate(part.GroupBy, part.Select, part.Having, last, true)
			if len(errs) > 0 {
				t.Fatalf("stage %d divided again: %v", i+1, errs)
			}
			last = NewScope("between", over.Schema)
			if part == again[2] && over.Schema.String() != plan.Schema.String() {
				t.Errorf("stage %d gives %s, divided again %s", i+1, plan.Schema, over.Schema)
			}
		}
		scope = NewScope("between", plan.Schema)
	}
	for _, sel := range []string{"first(n) AS x", "count(DISTINCT n) AS x", "stddev_samp(n) AS x", "avg(u) AS x"} {
		if _, err := DecomposeAggregate(AggregateText{Select: sel}, s, false); err == nil || !strings.Contains(err.Error(), "cannot be merged") {
			t.Errorf("%s: error %v", sel, err)
		}
	}
}

func TestConjuncts(t *testing.T) {
	got := Conjuncts("a > 1 AND (b OR c) AND NOT (d AND e)")
	if want := "a > 1|b OR c|NOT (d AND e)"; strings.Join(got, "|") != want {
		t.Errorf("got %v", got)
	}
}
