package expr

import (
	"slices"

	"sluice/dataflow"
)

// Scope is what an expression may name: the columns of its inputs. A column's index counts through
// the inputs in the order in which they were added.
type Scope struct {
	cols    []scopeColumn
	streams []string
	unknown bool // an input's schema is not known, so that any name may be one of its columns
}

type scopeColumn struct {
	stream string
	dataflow.Column
}

// NewScope makes the scope of one input: its columns go by `name` or `stream.name`. A nil schema
// stands for one that is not known because of an error elsewhere: then every name is accepted and has
// the type Invalid.
func NewScope(stream string, s *dataflow.Schema) *Scope {
	return new(Scope).Add(stream, s)
}

// Add adds a further input to s and returns s.
func (s *Scope) Add(stream string, schema *dataflow.Schema) *Scope {
	s.streams = append(s.streams, stream)
	if schema == nil {
		s.unknown = true
		return s
	}
	for _, c := range schema.Columns {
		s.cols = append(s.cols, scopeColumn{stream, c})
	}
	return s
}

// find returns the indices of the columns that a name may mean; stream may be empty.
func (s *Scope) find(stream, name string) []int {
	var found []int
	for i := range s.cols {
		if s.cols[i].Name == name && (stream == "" || s.cols[i].stream == stream) {
			found = append(found, i)
		}
	}
	return found
}

func (s *Scope) hasStream(stream string) bool { return slices.Contains(s.streams, stream) }

// names lists the columns of a stream, or of all streams.
func (s *Scope) names(stream string) []string {
	var names []string
	for i := range s.cols {
		if stream == "" || s.cols[i].stream == stream {
			names = append(names, s.cols[i].Name)
		}
	}
	return names
}
