package channel

import (
	"testing"

	"sluice/metaquery"
)

// versions are those of frames, by the version of the control stream.
var versions = map[int]uint32{1: 'S' | 'l'<<8 | 'c'<<16 | 1<<24}

// TestVersion: workers of two releases send each other frames, and only the control stream says that they cannot.
func TestVersion(t *testing.T) {
	if versions[metaquery.Version] != magic {
		t.Errorf("version %d of the control stream has frames that begin with %#x, not %#x: what changes frames must change metaquery.Version, too",
			metaquery.Version, versions[metaquery.Version], magic)
	}
}
