package window

import (
	"errors"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestParse(t *testing.T) {
	const s = int64(1_000_000)
	for text, want := range map[string]Spec{
		"":                         {},
		" \n ":                     {},
		"tumbling(10s)":            {Tumbling, 10 * s, 10 * s},
		"Tumbling( 250ms )":        {Tumbling, s / 4, s / 4},
		"tumbling(1h30m)":          {Tumbling, 5400 * s, 5400 * s},
		"tumbling(2d)":             {Tumbling, 172800 * s, 172800 * s},
		"hopping(10s, 2s)":         {Hopping, 10 * s, 2 * s},
		"hopping(10s,10s)":         {Hopping, 10 * s, 10 * s},
		"\thopping ( 10s ,\n3s ) ": {Hopping, 10 * s, 3 * s},
		"session(5m)":              {Session, 300 * s, 0},
		"ROWS(100)":                {Rows, 100, 100},
		"rows(100, 10)":            {Rows, 100, 10},
		"rows(1)":                  {Rows, 1, 1},
	} {
		if got, err := Parse(text); err != nil || got != want {
			t.Errorf("Parse(%q) = %v, %v; want %v", text, got, err, want)
		}
	}
}

func TestParseErrors(t *testing.T) {
	for _, c := range []struct {
		text       string
		offset     int
		suggestion string
		message    string
	}{
		{"tumblin(10s)", 0, "tumbling", `unknown window "tumblin"`},
		{"  sesion(5m)", 2, "session", `unknown window "sesion"`},
		{"cumulate(10s)", 0, "", `unknown window "cumulate"; a window is tumbling(10s),`},
		{"(10s)", 0, "", `unknown window ""`},
		{"tumbling", 8, "", "needs its arguments in parentheses, as in tumbling(10s)"},
		{"tumbling(10s", 12, "", "lacks its closing parenthesis"},
		{"tumbling(10s) x", 14, "", `unexpected "x" after the window`},
		{"tumbling((10s))", 9, "", `unexpected "("`},
		{"tumbling()", 9, "", "lacks an argument"},
		{"tumbling(10s, 2s)", 0, "", "does not take 2 arguments; write tumbling(10s)"},
		{"hopping(10s)", 0, "", "does not take 1 argument; write hopping(10s, 2s)"},
		{"session(5m, 1m)", 0, "", "does not take 2 arguments"},
		{"tumbling(10)", 9, "", `needs a unit`},
		{"tumbling(ten)", 9, "", `"ten" is not a duration`},
		{"tumbling(0s)", 9, "", "is not longer than 0"},
		{"hopping(10s, -2s)", 13, "", "is not longer than 0"},
		{"hopping(2s, 10s)", 12, "", "the hop 10s is longer than the window 2s"},
		{"rows(2, 3)", 8, "", "the hop 3 is longer than the window 2"},
		{"rows(0)", 5, "", `"0" is not a number of rows`},
		{"rows(10s)", 5, "", `"10s" is not a number of rows`},
		{"rows(99999999999999999999)", 5, "", "is not a number of rows"},
		{"tumbling(100000000d)", 9, "", "too long"},
	} {
		_, err := Parse(c.text)
		var p *ParseError
		if !errors.As(err, &p) {
			t.Errorf("Parse(%q) gives the error %v", c.text, err)
			continue
		}
		if p.Offset != c.offset || p.Suggestion != c.suggestion || !strings.Contains(p.Message, c.message) {
			t.Errorf("Parse(%q) gives %d: %q, suggestion %q; want %d: %q, %q", c.text, p.Offset, p.Message, p.Suggestion, c.offset, c.message, c.suggestion)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"", "tumbling(10s)", "hopping(1h, 5m)", "rows(3,2)", "session(1.5s)", "tumbling(", "x(((", "rows(1,2,3)"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, err := Parse(text)
		var p *ParseError
		switch {
		case err == nil:
			if s.Kind != None && s.Size <= 0 || s.Hop < 0 || s.Hop > s.Size {
				t.Errorf("Parse(%q) = %v", text, s)
			}
		case !errors.As(err, &p), p.Offset < 0, p.Offset > len(text), p.Message == "":
			t.Errorf("Parse(%q) gives %#v", text, err)
		case utf8.ValidString(text) && !utf8.ValidString(err.Error()):
			t.Errorf("Parse(%q) cuts a character in %q", text, err)
		}
	})
}
