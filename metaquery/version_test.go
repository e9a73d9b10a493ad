package metaquery

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
)

// shapes are checksums of the types of messages, by version.
var shapes = map[int]string{
	1: "97d33d898f2fe216",
}

// TestVersion holds the version against what messages are.
func TestVersion(t *testing.T) {
	var b strings.Builder
	for _, m := range []any{ToWorker{}, ToScheduler{}} {
		writeShape(&b, reflect.TypeOf(m))
	}
	sum := sha256.Sum256([]byte(b.String()))
	if got := hex.EncodeToString(sum[:8]); got != shapes[Version] {
		t.Errorf("messages between scheduler and workers are not those of version %d any more: add one to Version and note %q in shapes; "+
			"as long as no release has this version, note it in place of %q", Version, got, shapes[Version])
	}
}

// writeShape writes a type as it is in JSON.
func writeShape(b *strings.Builder, t reflect.Type) {
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice:
		fmt.Fprintf(b, "%s ", t.Kind())
		writeShape(b, t.Elem())
	case reflect.Map:
		fmt.Fprintf(b, "map %s ", t.Key())
		writeShape(b, t.Elem())
	case reflect.Struct:
		fmt.Fprintf(b, "%s{", t.Name())
		for i := range t.NumField() {
			f := t.Field(i)
			fmt.Fprintf(b, "%s %q ", f.Name, f.Tag.Get("json"))
			writeShape(b, f.Type)
		}
		b.WriteString("}")
	default:
		fmt.Fprintf(b, "%s;", t.Kind())
	}
}

func TestOtherVersions(t *testing.T) {
	for text, theirs := range map[string]int{
		`v2 {"here":true}`: 2, `v0 `: 0, `{"here":true}`: 0, `{`: 0, `v999999 anything`: 999999,
	} {
		_, err := DecodeToWorker([]byte(text))
		var other *VersionError
		if !errors.As(err, &other) || other.Theirs != theirs || !strings.Contains(err.Error(), fmt.Sprintf("version %d", theirs)) {
			t.Errorf("%q: error %v", text, err)
		}
		if _, err := DecodeToScheduler([]byte(text)); !errors.As(err, &other) {
			t.Errorf("%q: error %v", text, err)
		}
	}
	for _, text := range []string{"", "v", "v1", "v1{}", "v {}", "v-1 {}", "v1234567 {}", "w1 {}", "[]", "v1x {}"} {
		if _, err := DecodeToWorker([]byte(text)); !errors.Is(err, errNoVersion) {
			t.Errorf("%q: error %v", text, err)
		}
	}
}
