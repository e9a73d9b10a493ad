package meaning

import (
	"fmt"
	"slices"
)

// expression is a drawn expression.
type expression struct {
	text          string
	kind          string
	stable, exact bool // as of a column
	constant      bool
}

// reference names a column, sometimes with its stream.
func (d *drawer) reference(in *stream, c column) string {
	if in.name != "" && d.chance(4, "qualified") {
		return in.name + "." + c.name
	}
	return c.name
}

// reading draws a column of a kind; a constant if there is none.
func (d *drawer) reading(in *stream, kind string) expression {
	var of []column
	for _, c := range in.columns {
		if c.kind == kind && c.name != "place" {
			of = append(of, c)
		}
	}
	if len(of) > 0 {
		c := draw(d, "column", of...)
		return expression{d.reference(in, c), kind, c.stable, c.exact, false}
	}
	text := map[string]string{
		"int": "7", "string": "'x'", "float": "5e-1", "decimal": "2.5", "bool": "TRUE", "timestamp": "TIMESTAMP '2001-01-01 00:00:05'",
	}[kind]
	return expression{text, kind, true, true, true}
}

// expression draws an expression of a kind. It may fail for some rows.
func (d *drawer) expression(in *stream, kind string, depth int) expression {
	if depth == 0 || d.chance(2, "plain") {
		return d.reading(in, kind)
	}
	x := d.expression(in, kind, depth-1)
	part := func(kind string) expression {
		y := d.expression(in, kind, depth-1)
		x.stable, x.exact, x.constant = x.stable && y.stable, x.exact && y.exact, x.constant && y.constant
		return y
	}
	form := ""
	switch kind {
	case "int":
		form = draw(d, "form", "(%s + 1)", "(%s * 2)", "(%s %% 3)", "(12 / %s)", "abs(%s)", "coalesce(%s, 0)", "greatest(%s, 2)", "plus", "length", "case")
		switch form {
		case "plus":
			x.text = fmt.Sprintf("(%s - %s)", x.text, part("int").text)
			return x
		case "length":
			y := part("string")
			return expression{"length(" + y.text + ")", kind, y.stable, y.exact, y.constant}
		}
	case "string":
		form = draw(d, "form", "upper(%s)", "substring(%s, 1, 1)", "coalesce(%s, 'none')", "(%s || '-')", "case")
	case "float":
		form = draw(d, "form", "(%s * 2)", "(%s / 3)", "(%s + 25e-2)", "(1e0 / %s)", "case")
		x.exact = x.exact && form != "(%s / 3)" && form != "(1e0 / %s)"
	case "decimal":
		form = draw(d, "form", "(%s + 0.01)", "abs(%s)", "(%s * 2)", "case")
	case "timestamp":
		form = draw(d, "form", "(%s + 1s)", "date_trunc('minute', %s)", "case")
		if d.clock && d.chance(3, "clock") {
			form = "greatest(%s, now())"
		}
	case "bool":
		c := d.condition(in, depth-1)
		return expression{"(" + c + ")", kind, true, true, false}
	}
	if form == "case" {
		c := d.condition(in, depth-1)
		x.text = "CASE WHEN " + c + " THEN " + x.text + " END"
		x.constant = false
		return x
	}
	x.text = fmt.Sprintf(form, x.text)
	return x
}

// stable are the columns that conditions may depend on.
func stable(in *stream) []column {
	return slices.DeleteFunc(slices.Clone(in.columns), func(c column) bool { return !c.stable })
}

// condition draws a condition over stable columns. It may fail for some rows.
func (d *drawer) condition(in *stream, depth int) string {
	if depth > 0 && d.chance(2, "joined") {
		a, b := d.condition(in, depth-1), d.condition(in, depth-1)
		switch draw(d, "joined by", "AND", "AND", "AND", "OR", "NOT") {
		case "AND":
			return a + " AND " + b
		case "OR":
			return "(" + a + " OR " + b + ")"
		}
		return "NOT (" + a + ")"
	}
	of := stable(in)
	if len(of) == 0 {
		return "TRUE"
	}
	if d.clock && d.chance(12, "clock") {
		return "extract(second FROM now()) % 3 > 0"
	}
	c := draw(d, "column", of...)
	name := d.reference(in, c)
	forms := map[string][]string{
		"int":       {"%s > 0", "%s <= 2", "%s IN (1, 2, 3)", "12 / %s > 3", "%s %% 2 = 0", "%s IS NOT NULL", "%s IS NULL", "%s + 1 > 2", "%s BETWEEN 0 AND 3"},
		"string":    {"%s = 'a'", "%s LIKE '%%b%%'", "%s IS NULL", "length(%s) > 0", "%s <> 'c'"},
		"float":     {"%s > 0", "%s < 37e-2", "%s IS NOT NULL", "1e0 / %s > 1"},
		"decimal":   {"%s > 0", "%s < 1.25", "1 / %s < 1"},
		"bool":      {"%s", "NOT %s", "%s IS NULL"},
		"timestamp": {"%s > TIMESTAMP '2001-01-01 00:00:20'", "%s IS NOT NULL", "extract(second FROM %s) > 10"},
	}[c.kind]
	return fmt.Sprintf(draw(d, "condition", forms...), name)
}
