package zkconn

import (
	"slices"
	"strings"
	"testing"
)

func TestParseURL(t *testing.T) {
	for url, want := range map[string]Place{
		"zk://h/mesos":                      {[]string{"h:2181"}, "", "/mesos"},
		"zk://h:1,10.0.0.1:2,[::1]:3/a/b/":  {[]string{"h:1", "10.0.0.1:2", "[::1]:3"}, "", "/a/b"},
		"zk://u:p/w@x,y@h:1/mesos":          {[]string{"h:1"}, "u:p/w@x,y", "/mesos"},
		"zk://[::1]/sluice":                 {[]string{"[::1]:2181"}, "", "/sluice"},
		"zk://::1/sluice":                   {[]string{"[::1]:2181"}, "", "/sluice"},
		"zk://zk1.example.com,zk2:99/a.b_c": {[]string{"zk1.example.com:2181", "zk2:99"}, "", "/a.b_c"},
	} {
		got, err := ParseURL(url)
		if err != nil || !slices.Equal(got.Hosts, want.Hosts) || got.Auth != want.Auth || got.Path != want.Path {
			t.Errorf("%s: %+v, error %v, want %+v", url, got, err, want)
		}
	}
	for url, want := range map[string]string{
		"":               "zk://",
		"http://h/x":     "zk://",
		"zk://h":         "no path",
		"zk://h/":        "no path",
		"zk://h//":       "no path",
		"zk://h/a//b":    "no path",
		"zk:///x":        "host:port",
		"zk://h,/x":      "host:port",
		"zk://h:x/y":     "host:port",
		"zk://h:/y":      "host:port",
		"zk://h:1:2/y":   "host:port",
		"zk://h:1:x/y":   "host:port",
		"zk://a b/y":     "host:port",
		"zk://user@h/x":  "user:password",
		"zk://:pass@h/x": "user:password",
	} {
		if got, err := ParseURL(url); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %+v, error %v, want %q", url, got, err, want)
		}
	}
}
