package file

import (
	"slices"
	"strings"
	"testing"
)

func readCSV(t testing.TB, schema, text string, o DecodeOptions) ([]string, error) {
	t.Helper()
	o.Schema = columns(t, schema)
	d, err := newCSVDecoder(strings.NewReader(text), o)
	if err != nil {
		return nil, err
	}
	return drainDecoder(d)
}

func TestCSVRows(t *testing.T) {
	header := DecodeOptions{Header: true}
	for _, c := range []struct {
		name, schema, text string
		o                  DecodeOptions
		want               []string
	}{
		{"by name", "b int, a string", "a,x,b\nn,?,1\nm,?,2\n", header, []string{"1|n", "2|m"}},
		{"by position", "a int, b string", "1,n\n2,m\n", DecodeOptions{}, []string{"1|n", "2|m"}},
		{"byte order mark, CRLF, no last line end", "a int,b string", "\xEF\xBB\xBFa,b\r\n1,n\r\n2,", header, []string{"1|n", "2|NULL"}},
		{"quoted header", "a int,a b string", "\r\n\n\"a\",\"a b\"\n1,x\n", header, []string{"1|x"}},
		{"only a header", "a int", "a", header, nil},
		{"null and empty", "a string,b string", ",\"\"\n\"\",\n", DecodeOptions{}, []string{"NULL|", "|NULL"}},
		{"null text", "a string,b int", "NA,NA\n\"NA\",1\nNAN,\n", DecodeOptions{Null: "NA"}, []string{"NULL|NULL", "NA|1", "NAN|NULL"}},
		{"quotes", "a string,b string", "\"a,\"\"b\"\"\",\"x\ny\"\r\n\"\"\"\",\"12\"\n", DecodeOptions{}, []string{"a,\"b\"|x\ny", "\"|12"}},
		{"blank lines", "a int,b int", "\n1,2\n\r\n\n3,4\n\n", DecodeOptions{}, []string{"1|2", "3|4"}},
		{"blank lines of one column", "a int", "1\n\n\r\n2\n", DecodeOptions{}, []string{"1", "NULL", "NULL", "2"}},
		{"tab", "a int,b string", "1\ta,b\n", DecodeOptions{Delimiter: '\t'}, []string{"1|a,b"}},
		{"carriage return inside", "a string,b string", "x\ry,z\r\r\n", DecodeOptions{}, []string{"x\ry|z\r"}},
		{"all types", "b bool,i int,f float,d decimal,s string,y bytes,t timestamp,u duration",
			"t,-5,1.50,12.340,é,aGk=,2001-01-01 06:55,1h30m\n\"0\",\"7\",\"1e3\",\"1\",\"x\",\"\",\"2001-01-01\",\"0s\"\n,,,,,,,\n", DecodeOptions{},
			[]string{"true|-5|1.5|12.34|é|aGk=|2001-01-01T06:55:00Z|1h30m", "false|7|1000|1|x||2001-01-01T00:00:00Z|0s", "NULL|NULL|NULL|NULL|NULL|NULL|NULL|NULL"}},
		{"timestamp format", "t timestamp", "31/12/2001 23.59\n2001-01-01\n", DecodeOptions{TimestampFormat: "%d/%m/%Y %H.%M"},
			[]string{"2001-12-31T23:59:00Z", `2: column "t": "2001-01-01" is not a timestamp of the form %d/%m/%Y %H.%M [2001-01-01]`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := readCSV(t, c.schema, c.text, c.o)
			if err != nil || !slices.Equal(got, c.want) {
				t.Errorf("got %q, %v\nwant %q", got, err, c.want)
			}
		})
	}
}

func TestCSVBadRows(t *testing.T) {
	for _, c := range []struct {
		name, schema, text string
		want               []string
	}{
		{"not an int", "a int,delay int", "1,2\n3,abc\r\n5,6\n", []string{"1|2", `2: column "delay": "abc" is not an int [3,abc]`, "5|6"}},
		{"first reason wins", "a int,b int", "x,y\n", []string{`1: column "a": "x" is not an int [x,y]`}},
		{"too few, too many", "a int,b int", "1\n1,2,3\n1,2\n", []string{"1: 1 field instead of 2 [1]", "2: 3 fields instead of 2 [1,2,3]", "1|2"}},
		{"too many at the end", "a int,b int", "1,2\n1,2,3,4,5,6,7,8,9", []string{"1|2", "2: 9 fields instead of 2 [1,2,3,4,5,6,7,8,9]"}},
		{"empty is not a number", "a int", "\"\"\n", []string{`1: column "a": "" is not an int [""]`}},
		{"null", "a int!,t timestamp*", "1,\n,2001-01-01\n1,0\n", []string{`1: column "t": the event time is NULL [1,]`, `2: column "a" is NULL [,2001-01-01]`, "1|1970-01-01T00:00:00Z"}},
		{"quote inside", "a string,b int", "a\"b,1\nc,2\n\"d\n\",3\n", []string{`1: field 1 has a quote, but is not quoted [a"b,1]`, "c|2", "d\n|3"}},
		{"after the quote", "a string,b int", "\"a\"b,1\n\"c\" ,2\nd,3\n", []string{`1: field 1 goes on after its closing quote ["a"b,1]`, `2: field 1 goes on after its closing quote ["c" ,2]`, "d|3"}},
		{"no closing quote", "a int,b string", "1,\"x\ny\"\n2,\"x\ny\n3,z\n", []string{"1|x\ny", "3: the quote that opens field 2 is not closed [2,\"x\ny\n3,z]"}},
		{"lines after quoted line feeds", "a int,b string", "1,\"x\n\n\ny\"\nq,\"\n\"\nr,2\n", []string{"1|x\n\n\ny", "5: column \"a\": \"q\" is not an int [q,\"\n\"]", `7: column "a": "r" is not an int [r,2]`}},
		{"UTF-8", "a int,b string", "1,\xff\n2,é\n3,\"\xc3\"\n", []string{"1: column \"b\": \"\\xff\" is not UTF-8 [1,\xff]", "2|é", "3: column \"b\": \"\\xc3\" is not UTF-8 [3,\"\xc3\"]"}},
		{"quoted value", "a int,b int", "\"1\"\"2\",3\n", []string{`1: column "a": "1\"2" is not an int ["1""2",3]`}},
		{"long value", "a int", strings.Repeat("x", 200), []string{`1: column "a": "` + strings.Repeat("x", 100) + `"... is not an int [` + strings.Repeat("x", 200) + "]"}},
		{"every type", "b bool,f float,d decimal,y bytes,u duration", "2,,,,\n,x,,,\n,,1.234,,\n,,,?,\n,,,,1\n,,,,\n", []string{
			`1: column "b": "2" is not a bool [2,,,,]`, `2: column "f": "x" is not a float [,x,,,]`,
			`3: column "d": "1.234" has more than 2 digits after the point [,,1.234,,]`, `4: column "y": "?" is not base64 [,,,?,]`,
			`5: column "u": "1" is not a duration [,,,,1]`, "NULL|NULL|NULL|NULL|NULL"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := readCSV(t, c.schema, c.text, DecodeOptions{})
			if err != nil || !slices.Equal(got, c.want) {
				t.Errorf("got %q, %v\nwant %q", got, err, c.want)
			}
		})
	}
}

func TestCSVHeaderErrors(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"date,dely\n", `the header has no column "delay"; did you mean "dely"?`},
		{"x,y\n1,2\n", `the header has no column "delay"`},
		{"delay,delay\n", `the header has column "delay" twice`},
		{"", "the input is empty; a header was expected"},
		{"\xEF\xBB\xBF\n", "the input is empty; a header was expected"},
		{"\"delay\n1\n", "in the header, the quote that opens field 1 is not closed"},
		{"delay\"\n1\n", "in the header, field 1 has a quote, but is not quoted"},
	} {
		if _, err := readCSV(t, "delay int", c.text, DecodeOptions{Header: true}); err == nil || err.Error() != c.want {
			t.Errorf("%q: %v, want %s", c.text, err, c.want)
		}
	}
	for o, want := range map[DecodeOptions]string{
		{Delimiter: '"'}:        `csv: the delimiter must be an ASCII character other than a quote or a line end, not '"'`,
		{TimestampFormat: "%Q"}: `unknown directive "%Q" in timestamp format`,
	} {
		if _, err := readCSV(t, "a int", "", o); err == nil || err.Error() != want {
			t.Errorf("%v: %v, want %s", o, err, want)
		}
	}
}
