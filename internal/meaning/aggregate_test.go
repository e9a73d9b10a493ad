package meaning

import (
	"fmt"
	"slices"
	"strings"
)

// aggregation is an aggregate that is drawn.
type aggregation struct {
	keys, items []string
	out         stream
	timed       bool
	lost        bool // a key is not selected
}

func (d *drawer) aggregate(in *stream) {
	a := &aggregation{out: stream{name: "s" + d.name}}
	var params []param
	window := ""
	if in.time != "" && !d.chance(3, "no window of time") {
		a.timed = true
		window = draw(d, "window", "tumbling(10s)", "tumbling(7s)", "tumbling(1m)", "hopping(10s, 5s)", "hopping(10s, 4s)", "session(4s)", "session(10s)")
	} else {
		window = draw(d, "window", "", "", "rows(2)", "rows(3)", "rows(3, 1)", "rows(100)")
	}
	for i := range draw(d, "keys", 0, 1, 1, 2, 2) {
		d.key(in, a, i)
	}
	for i := range d.int(1, 3, "aggregates") {
		d.call(in, a, i)
	}
	if a.timed {
		d.windowColumns(a)
	}
	if len(a.keys) > 0 {
		params = append(params, param{"group-by", strings.Join(a.keys, ", ")})
	}
	params = append(params, param{"select", strings.Join(a.items, ", ")})
	if window != "" {
		params = append(params, param{"window", window})
	}
	if d.chance(4, "having") {
		params = append(params, param{"having", draw(d, "having condition", "count(*) > 1", "count(*) % 2 = 1", "10 / (count(*) - 2) > 1", "count(*) > 1 AND count(*) < 9")})
	}
	if a.lost {
		a.out.order = anyOrder
	}
	outputs := []output{{"", a.out}}
	if a.timed && d.chance(4, "lateness") {
		params = append(params, param{"allowed-lateness", draw(d, "allowed-lateness", "3s", "12s", "5m")})
	}
	if a.timed && d.chance(3, "late rows") {
		late := *in
		late.name, late.order = "l"+d.name, anyOrder
		outputs = append(outputs, output{"late", late})
	}
	params, outputs = d.onError(&stream{columns: append(append([]column(nil), in.columns...), a.out.columns...)}, params, outputs)
	d.write("aggregate", []*stream{in}, params, outputs...)
}

// key draws an expression to group by. Mostly it is selected.
func (d *drawer) key(in *stream, a *aggregation, i int) {
	x := d.keyExpression(in)
	if x.text == "" {
		return
	}
	// Nothing may be grouped by twice, under whatever name.
	plain := func(key string) string { return strings.NewReplacer(in.name+".", "", "(", "", ")", "").Replace(key) }
	if slices.ContainsFunc(a.keys, func(k string) bool { return plain(k) == plain(x.text) }) {
		return
	}
	a.keys = append(a.keys, x.text)
	if d.chance(6, "key not selected") {
		a.lost = true
		return
	}
	c := column{fmt.Sprintf("%sk%d", d.name, i+1), x.kind, true, x.exact}
	a.items = append(a.items, x.text+" AS "+c.name)
	a.out.columns = append(a.out.columns, c)
	a.out.order.columns = append(a.out.order.columns, c.name)
}

func (d *drawer) keyExpression(in *stream) expression {
	if len(stable(in)) == 0 {
		return expression{}
	}
	if len(in.order.columns) > 0 && d.chance(2, "key again") {
		// An aggregate by some of the keys of the one above.
		name := draw(d, "key", in.order.columns...)
		c := in.columns[slices.IndexFunc(in.columns, func(c column) bool { return c.name == name })]
		return expression{d.reference(in, c), c.kind, c.stable, c.exact, false}
	}
	kind := draw(d, "key kind", "string", "string", "int", "int", "int", "float", "decimal", "bool")
	var x expression
	if d.chance(3, "computed key") {
		x = d.expression(in, kind, 1)
	} else {
		x = d.reading(in, kind)
	}
	if !x.stable || x.constant {
		return expression{}
	}
	return x
}

// call draws an aggregate, and something computed from it.
func (d *drawer) call(in *stream, a *aggregation, i int) {
	c := column{name: fmt.Sprintf("%sa%d", d.name, i+1), kind: "int", stable: true, exact: true}
	text := ""
	switch function := draw(d, "function", "count(*)", "count", "sum", "sum", "avg", "min", "max", "first", "first", "last", "last", "stddev_samp"); function {
	case "count(*)":
		text = function
	case "count":
		x := d.expression(in, draw(d, "kind", "int", "string", "bool"), 1)
		distinct := ""
		if x.stable && d.chance(2, "distinct") {
			distinct = "DISTINCT "
		}
		text = "count(" + distinct + x.text + ")"
	case "sum", "avg":
		x := d.expression(in, draw(d, "kind", "int", "float", "decimal"), 1)
		distinct := ""
		if x.stable && d.chance(6, "distinct") {
			distinct = "DISTINCT "
		}
		text = function + "(" + distinct + x.text + ")"
		c.kind, c.stable, c.exact = x.kind, x.exact, x.exact && function == "sum"
		if function == "avg" && x.kind == "int" {
			c.kind = "float"
		}
	case "stddev_samp":
		x := d.expression(in, draw(d, "kind", "int", "float"), 0)
		text, c.kind, c.stable, c.exact = "stddev_samp("+x.text+")", "float", false, false
	default:
		x := d.expression(in, draw(d, "kind", "int", "string", "float", "decimal", "timestamp"), 1)
		text, c.kind, c.stable, c.exact = function+"("+x.text+")", x.kind, x.stable, x.exact
	}
	if d.chance(5, "filtered") {
		text += " FILTER (WHERE " + d.condition(in, 1) + ")"
	}
	if c.kind == "int" && d.chance(6, "computed from it") {
		text = draw(d, "computation", text+" + 1", text+" * 2 - count(*)", "10 / "+text, "coalesce("+text+", 0)")
	}
	a.items = append(a.items, text+" AS "+c.name)
	a.out.columns = append(a.out.columns, c)
}

func (d *drawer) windowColumns(a *aggregation) {
	if d.chance(3, "window_start") {
		a.items = append(a.items, "window_start AS "+d.name+"from")
		a.out.columns = append(a.out.columns, column{d.name + "from", "timestamp", true, true})
	}
	if !d.chance(4, "no window_time") {
		a.items = append(a.items, "window_time AS "+d.name+"time")
		a.out.columns = append(a.out.columns, column{d.name + "time", "timestamp", true, true})
		a.out.time = d.name + "time"
	}
}
