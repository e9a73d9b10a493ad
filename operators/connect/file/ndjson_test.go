package file

import (
	"slices"
	"strings"
	"testing"
)

func readNDJSON(t testing.TB, schema, text string, o DecodeOptions) ([]string, error) {
	t.Helper()
	o.Schema = columns(t, schema)
	d, err := newNDJSONDecoder(strings.NewReader(text), o)
	if err != nil {
		return nil, err
	}
	return drainDecoder(d)
}

func TestNDJSONRows(t *testing.T) {
	for _, c := range []struct {
		name, schema, text string
		want               []string
	}{
		{"any order", "a int,b string", `{"a":1,"b":"x"}` + "\n" + `{"b":"y","a":2}` + "\r\n" + ` { "a" : 3 , "b" : "z" } `, []string{"1|x", "2|y", "3|z"}},
		{"missing and null", "a int,b string", "{}\n{\"b\":null}\n{\"a\":null,\"b\":\"\"}\n{\"b\":\"x\",\"a\":1}", []string{"NULL|NULL", "NULL|NULL", "NULL|", "1|x"}},
		{"blank lines, byte order mark", "a int", "\xEF\xBB\xBF\n{\"a\":1}\n  \r\n\n{\"a\":2}\n\n", []string{"1", "2"}},
		{"unknown members", "a int", `{"x":[1,{"y":"]}\""},[[]],{}],"z":-1.5e3,"a":1,"w":true,"v":false,"u":null,"t":{"a":2}}`, []string{"1"}},
		{"last of duplicates", "a int,b string", `{"a":1,"b":"long","a":2,"b":"s"}` + "\n" + `{"a":1,"a":null,"b":null,"b":"x"}` + "\n" + `{"a":1,"b":"x","b":null}`,
			[]string{"2|s", "NULL|x", "1|NULL"}},
		{"escapes", "a string,é\" int", `{"a":"\"\\\/\b\f\n\r\t\u00e9\ud83d\ude00 \u0000","\u00e9\"":5}`, []string{"\"\\/\b\f\n\r\té😀 \x00|5"}},
		{"types", "b bool,i int,f float,d decimal,y bytes,t timestamp,u duration",
			`{"b":true,"i":-5,"f":1.5e3,"d":12.340,"y":"aGk=","t":"2001-01-01 06:55","u":"1m"}` + "\n" +
				`{"b":false,"i":1.0,"f":7,"d":"1e2","y":"","t":978332100000,"u":"0s"}` + "\n" + `{"i":1e3,"t":1e3}`,
			[]string{"true|-5|1500|12.34|aGk=|2001-01-01T06:55:00Z|1m", "false|1|7|100||2001-01-01T06:55:00Z|0s", "NULL|1000|NULL|NULL|NULL|1970-01-01T00:00:01Z|NULL"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := readNDJSON(t, c.schema, c.text, DecodeOptions{})
			if err != nil || !slices.Equal(got, c.want) {
				t.Errorf("got %q, %v\nwant %q", got, err, c.want)
			}
		})
	}
}

func TestNDJSONBadRows(t *testing.T) {
	deep := strings.Repeat("[", 2000)
	for _, c := range []struct{ schema, text, want string }{
		{"a int", `[1]`, "the row is not a JSON object"},
		{"a int", `5`, "the row is not a JSON object"},
		{"a int", `{"a":1}{"a":2}`, "there is more after the JSON object"},
		{"a int", `{"a":1`, "the row ends where JSON wants a comma or }"},
		{"a int", `{"a":1,}`, "there is '}' where JSON wants a name in quotes"},
		{"a int", `{"a" 1}`, "there is '1' where JSON wants a colon"},
		{"a int", `{a:1}`, "there is 'a' where JSON wants a name in quotes"},
		{"a int", `{"a":}`, "there is '}' where JSON wants a value"},
		{"a int", `{"a":nul}`, "there is 'n' where JSON wants a value"},
		{"a int", `{"a":`, "the row ends where JSON wants a value"},
		{"a int", `{"a":01}`, "01 is not a JSON number"},
		{"a int", `{"a":1.}`, "1. is not a JSON number"},
		{"a int", `{"a":-}`, "- is not a JSON number"},
		{"a int", `{"a":+1}`, "there is '+' where JSON wants a value"},
		{"a int", `{"a":1.5}`, `column "a": 1.5 is not an int`},
		{"a int", `{"a":"1"}`, `column "a": "1" is not an int`},
		{"a int", `{"a":9223372036854775808}`, `column "a": 9223372036854775808 is out of range for int`},
		{"a int", `{"a":1e30}`, `column "a": 1e30 is out of range for int`},
		{"a int", `{"a":[1]}`, `column "a": [1] is not an int`},
		{"a bool", `{"a":"true"}`, `column "a": "true" is not a bool`},
		{"a bool", `{"a":1}`, `column "a": 1 is not a bool`},
		{"a float", `{"a":1e400}`, `column "a": 1e400 is out of range for float`},
		{"a float", `{"a":true}`, `column "a": true is not a float`},
		{"a string", `{"a":5}`, `column "a": 5 is not a string`},
		{"a string", `{"a":{"b":1}}`, `column "a": {"b":1} is not a string`},
		{"a bytes", `{"a":"?"}`, `column "a": "?" is not base64`},
		{"a bytes", `{"a":5}`, `column "a": 5 is not a string of base64`},
		{"a decimal", `{"a":1.234}`, `column "a": 1.234 has more than 2 digits after the point`},
		{"a timestamp", `{"a":"x"}`, `column "a": "x" is not a timestamp`},
		{"a timestamp", `{"a":1.5}`, `column "a": 1.5 is not a timestamp`},
		{"a duration", `{"a":5}`, `column "a": 5 is not a duration`},
		{"a int!", `{}`, `column "a" is NULL`},
		{"a int!", `{"a":null}`, `column "a" is NULL`},
		{"a timestamp*", `{"a":null}`, `column "a": the event time is NULL`},
		{"a string", `{"a":"x`, "a string is not closed"},
		{"a string", `{"a":"x\`, "a string is not closed"},
		{"a string", "{\"a\":\"x\ty\"}", "a string has a control character that is not escaped"},
		{"a string", `{"a":"\x"}`, `a string has the escape \x, which JSON does not have`},
		{"a string", `{"a":"\u12g4"}`, "a string has an escape that JSON does not have, or half of a surrogate pair"},
		{"a string", `{"a":"\ud800"}`, "a string has an escape that JSON does not have, or half of a surrogate pair"},
		{"a string", `{"a":"\ud800\u0041"}`, "a string has an escape that JSON does not have, or half of a surrogate pair"},
		{"a string", `{"a":"\udc00\ud800"}`, "a string has an escape that JSON does not have, or half of a surrogate pair"},
		{"a string", `{"b":"\x"}`, `a string has the escape \x, which JSON does not have`},
		{"a string", "{\"a\":\"\xff\"}", "the row is not UTF-8"},
		{"a int", `{"b":` + deep + `}`, "the row is nested more than 1000 deep"},
		{"a int", `{"b":[1 2]}`, "there is '2' where JSON wants a comma or ]"},
	} {
		good := `{"a":null}`
		if strings.ContainsAny(c.schema, "!*") {
			good = ""
		}
		got, err := readNDJSON(t, c.schema, good+"\n"+c.text+"\n"+good, DecodeOptions{})
		want := []string{"NULL", "2: " + c.want + " [" + c.text + "]", "NULL"}
		if good == "" {
			want = want[1:2]
		}
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("got %q, %v\nwant %q", got, err, want)
		}
	}
}
