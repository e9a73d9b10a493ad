package main

import (
	"strings"
	"testing"
)

func TestNormalField(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"", ""},
		{`""`, ""},
		{`"site-007"`, "site-007"},
		{"site-007", "site-007"},
		{"0", "0"},
		{"-0", "0"},
		{"-0.0", "0"},
		{"+5", "5"},
		{"007", "7"},
		{"75", "75"},
		{"75.0", "75"},
		{"75.", "75"},
		{".5", "0.5"},
		{"0.5", "0.5"},
		{"-1.25", "-1.25"},
		{"99.984375", "99.984375"},
		{"99.9843750", "99.984375"},
		{"1e3", "1000"},
		{"1.5E-2", "0.015"},
		{"1e+06", "1000000"},
		{"0.30000000000000004", "0.30000000000000004"},
		{"123456789012345678", "123456789012345680"},
		{"1.2.3", "1.2.3"},
		{"-", "-"},
		{"e5", "e5"},
		{"0x10", "0x10"},
		{"nan", "nan"},
		{"2024-01-01T00:00:00Z", "2024-01-01T00:00:00Z"},
		{"2024-01-01 00:00:00", "2024-01-01T00:00:00Z"},
		{`"2024-01-01 00:00:00.000"`, "2024-01-01T00:00:00Z"},
		{"2024-01-01T00:00:00.250Z", "2024-01-01T00:00:00.25Z"},
		{"2024-01-01T00:00:10Z", "2024-01-01T00:00:10Z"},
		{"2024-01-01", "2024-01-01"},
		{"2024-01-01T00:00:00+01", "2024-01-01T00:00:00+01"},
	} {
		if got := string(normalField(nil, []byte(c.in))); got != c.want {
			t.Errorf("normalField(%q) = %q, want %q", c.in, got, c.want)
		}
	}
}

func TestDigestIgnoresOrderAndForm(t *testing.T) {
	a := "key,value,ts\n1,2.50,2024-01-01 00:00:00\n2,3,2024-01-01 00:01:00\n"
	b := "\"key\",value,ts\r\n2,3.0,2024-01-01T00:01:00Z\r\n1,2.5,2024-01-01T00:00:00.000Z\r\n"
	da, db := mustDigest(t, a), mustDigest(t, b)
	if da != db || da.rows != 2 {
		t.Errorf("digests differ: %v and %v", da, db)
	}
}

func TestDigestSeesDifferences(t *testing.T) {
	base := mustDigest(t, "key,value,ts\n1,2,x\n3,4,y\n")
	for _, other := range []string{
		"key,value,ts\n1,2,x\n3,4,z\n",
		"key,value,ts\n1,2,x\n",
		"key,value,ts\n1,2,x\n3,4,y\n3,4,y\n",
		"key,value,ts\n1,4,x\n3,2,y\n",
		"key,value,ts\n12,,x\n3,4,y\n",
		"key,value,ts\n",
	} {
		if mustDigest(t, other) == base {
			t.Errorf("%q has the digest of another table", other)
		}
	}
}

func TestDigestRefusesHeader(t *testing.T) {
	for _, text := range []string{"", "key,value\n", "value,key,ts\n1,2,3\n"} {
		if _, err := digestCSV(strings.NewReader(text), "key,value,ts"); err == nil {
			t.Errorf("digestCSV(%q) accepts the header", text)
		}
	}
}

func mustDigest(t *testing.T, text string) digest {
	t.Helper()
	d, err := digestCSV(strings.NewReader(text), "key,value,ts")
	if err != nil {
		t.Fatal(err)
	}
	return d
}
