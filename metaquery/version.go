package metaquery

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
)

// Version is that of the messages between scheduler and workers. It changes whenever one of their types does, since
// fields that are not known are refused: what a message says besides could be what matters. It also changes with the frames
// that workers send each other (package executor/channel): this is where it is found out that they cannot.
const Version = 1

// Each message begins with its version, "v1 ", in all versions. Before there were versions it began with the JSON.
const (
	versionMark = 'v'
	versionEnd  = ' '
	versionSize = 8 // bytes up to versionEnd, at most
)

// VersionError says that the other side speaks another version, so that nothing it says can be understood.
type VersionError struct{ Theirs int }

func (e *VersionError) Error() string {
	return fmt.Sprintf("version %d of the control stream, and this program version %d: they are of releases that cannot work together", e.Theirs, Version)
}

var errNoVersion = errors.New("it does not begin with its version")

// addVersion puts the version before the JSON of a message.
func addVersion(text []byte) []byte {
	out := make([]byte, 0, len(text)+versionSize)
	out = append(out, versionMark)
	out = strconv.AppendInt(out, Version, 10)
	return append(append(out, versionEnd), text...)
}

// cutVersion gives the JSON of a message of this version.
func cutVersion(text []byte) ([]byte, error) {
	if len(text) > 0 && text[0] == '{' {
		return nil, &VersionError{}
	}
	if len(text) == 0 || text[0] != versionMark {
		return nil, errNoVersion
	}
	end := bytes.IndexByte(text[:min(versionSize, len(text))], versionEnd)
	if end < 0 {
		return nil, errNoVersion
	}
	theirs, err := strconv.ParseUint(string(text[1:end]), 10, 31)
	if err != nil {
		return nil, errNoVersion
	}
	if theirs != Version {
		return nil, &VersionError{int(theirs)}
	}
	return text[end+1:], nil
}
