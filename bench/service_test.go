package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestMasters runs the masters as the benchmark does, and counts what nobody has asked of them.
func TestMasters(t *testing.T) {
	var out bytes.Buffer
	if err := runMasters("2", strings.NewReader(""), &out); err != nil {
		t.Fatal(err)
	}
	addr, said, _ := strings.Cut(out.String(), "\n")
	if !strings.HasPrefix(addr, "127.0.0.1:") {
		t.Errorf("the masters are at %q", addr)
	}
	var got taken
	if err := json.Unmarshal([]byte(said), &got); err != nil {
		t.Fatal(err)
	}
	if got.calls() != 0 || got.Offers != 0 {
		t.Errorf("the masters were asked %+v", got)
	}
}

func TestResident(t *testing.T) {
	now, peak, err := resident()
	if err != nil {
		t.Fatal(err)
	}
	if now < 1e6 || peak < now/2 {
		t.Errorf("this process has %d bytes, at most %d", now, peak)
	}
}

// TestHasRow tells a header, a row that is not whole, and a row apart.
func TestHasRow(t *testing.T) {
	path := filepath.Join(t.TempDir(), "out.csv")
	if hasRow(path) {
		t.Error("no file has a row")
	}
	for _, c := range []struct {
		text string
		want bool
	}{{"", false}, {"id\n", false}, {"id\n1", false}, {"id\n1\n", true}} {
		if err := os.WriteFile(path, []byte(c.text), 0o666); err != nil {
			t.Fatal(err)
		}
		if got := hasRow(path); got != c.want {
			t.Errorf("%q has a row: %v", c.text, got)
		}
	}
}
