package file

import (
	"strings"
	"testing"
)

func TestInferText(t *testing.T) {
	for _, c := range []struct {
		name, format, text string
		o                  DecodeOptions
		rows               int
		want               string
	}{
		{"flights", "csv", "date,delay,origin\n2001-01-01 00:47,66,DTW\n2001-01-01 01:10,95,HNL\n", DecodeOptions{Header: true}, 10,
			"(date timestamp eventtime not null, delay int not null, origin string not null)"},
		{"kinds", "csv", "b,i,f,u,z,d,m,n\ntrue,1,1,1h,007,2001-01-01,1,\nfalse,-2,1.5,250ms,8,1,x,\n,3,1e3,,9,2001-01-02,,\n", DecodeOptions{Header: true}, 10,
			"(b bool, i int not null, f float not null, u duration, z string not null, d string not null, m string, n string)"},
		{"not all rows seen", "csv", "t,u\n2001-01-01,2001-01-01\n", DecodeOptions{Header: true}, 1, "(t timestamp eventtime, u timestamp)"},
		{"event time without NULL", "csv", "t,u\n,2001-01-01\n2001-01-01,2001-01-01T00:00:00Z", DecodeOptions{Header: true}, 10,
			"(t timestamp, u timestamp eventtime not null)"},
		{"no header", "csv", "1;x\n2;\"y\"\n", DecodeOptions{Delimiter: ';'}, 10, "(c1 int not null, c2 string not null)"},
		{"bad rows are passed over", "csv", "a,b\n1,2\n3\n4,5,6\n", DecodeOptions{Header: true}, 10, "(a int not null, b int not null)"},
		{"only a header", "csv", "\xEF\xBB\xBFa,\"b c\"", DecodeOptions{Header: true}, 10, "(a string not null, b c string not null)"},
		{"0 and 1 are numbers", "csv", "0\n1\n", DecodeOptions{}, 10, "(c1 int not null)"},
		{"ndjson", "ndjson", "{\"t\":\"2001-01-01T00:00:00Z\",\"i\":1,\"f\":1,\"s\":\"12\",\"o\":{}}\n\nbad\n{\"f\":1.5,\"i\":2,\"t\":\"2001-01-01\",\"s\":\"\",\"b\":true,\"u\":\"5m\"}\n{\"t\":\"2001-01-01\",\"i\":null,\"f\":0,\"s\":\"\"}", DecodeOptions{}, 10,
			"(t timestamp eventtime not null, i int, f float not null, s string not null, b bool, u duration)"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, err := inferText(strings.NewReader(c.text), c.format, c.o, c.rows)
			if err != nil || s.String() != c.want {
				t.Errorf("got %v, %v\nwant %s", s, err, c.want)
			}
		})
	}
	for _, c := range []struct{ format, text, want string }{
		{"csv", "", "the input is empty"}, {"csv", "a,a\n", `the header has column "a" twice`},
		{"csv", "\"a\n", "in the header, the quote that opens field 1 is not closed"},
		{"ndjson", "[]\n5\n", "there are no columns to infer a type from"},
	} {
		if s, err := inferText(strings.NewReader(c.text), c.format, DecodeOptions{Header: true}, 10); err == nil || err.Error() != c.want {
			t.Errorf("%q: %v, %v, want %s", c.text, s, err, c.want)
		}
	}
}
