package api

import (
	"fmt"
	"net/http"

	"sluice/dataflow"
)

// Code names a kind of error; it never changes its meaning.
type Code string

// The codes of errors.
const (
	BadRequest   Code = "bad-request"
	Unauthorized Code = "unauthorized"
	Forbidden    Code = "forbidden"
	UnknownPath  Code = "unknown-path"
	UnknownQuery Code = "unknown-query"
	UnknownRule  Code = "unknown-rule"
	BadMethod    Code = "bad-method"
	QueryExists  Code = "query-exists"
	QueryEnded   Code = "query-ended"
	OutputTaken  Code = "output-taken"
	TooSlow      Code = "too-slow"
	TooLarge     Code = "too-large"
	BadMedia     Code = "bad-media-type"
	BadSpec      Code = "bad-spec"
	BadSetting   Code = "bad-setting"
	BadEdit      Code = "bad-edit"
	TooMany      Code = "too-many"
	Internal     Code = "internal"
	NoLeader     Code = "no-leader"
	Unavailable  Code = "unavailable"
)

// codes is the table of all codes: the status, and what they mean.
var codes = map[Code]struct {
	status int
	means  string
}{
	BadRequest:   {http.StatusBadRequest, "The body, a parameter or an option is wrong."},
	Unauthorized: {http.StatusUnauthorized, "There is no valid token."},
	Forbidden:    {http.StatusForbidden, "A request that changes something comes from a page of another site, or any is for another host."},
	UnknownPath:  {http.StatusNotFound, "There is no such path."},
	UnknownQuery: {http.StatusNotFound, "There is no query of this name."},
	UnknownRule:  {http.StatusNotFound, "There is no rule of this name."},
	BadMethod:    {http.StatusMethodNotAllowed, "The path does not have this method."},
	QueryExists:  {http.StatusConflict, "A query of this name runs."},
	QueryEnded:   {http.StatusConflict, "The query does not run any more."},
	OutputTaken:  {http.StatusConflict, "Another query writes to an output of this one."},
	TooSlow:      {http.StatusRequestTimeout, "The body has not come in time."},
	TooLarge:     {http.StatusRequestEntityTooLarge, "The body is too large."},
	BadMedia:     {http.StatusUnsupportedMediaType, "The body is not said to be application/json."},
	BadSpec:      {http.StatusUnprocessableEntity, "The spec is wrong; the diagnostics say where."},
	BadSetting:   {http.StatusUnprocessableEntity, "The operator, the parameter or the value is wrong, or cannot be set."},
	BadEdit:      {http.StatusConflict, "The edited query cannot go on with what the query has left; the query is what it was."},
	TooMany:      {http.StatusTooManyRequests, "As many queries run, or as many streams of events are open, as may be."},
	Internal:     {http.StatusInternalServerError, "A fault in the program."},
	NoLeader:     {http.StatusServiceUnavailable, "No scheduler leads at the moment; try again."},
	Unavailable:  {http.StatusServiceUnavailable, "The store or the query does not answer at the moment; try again."},
}

// Error is an error with a code.
type Error struct {
	Code        Code         `json:"code"`
	Message     string       `json:"message"`
	Diagnostics []Diagnostic `json:"diagnostics,omitempty"`
}

func (e *Error) Error() string { return e.Message }

// Errorf makes an Error.
func Errorf(code Code, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

// Diagnostics gives diagnostics their form in JSON.
func Diagnostics(diags dataflow.Diagnostics) []Diagnostic {
	var list []Diagnostic
	for _, d := range diags {
		severity := "error"
		if d.Severity == dataflow.Warning {
			severity = "warning"
		}
		list = append(list, Diagnostic{d.Pos.File, d.Pos.Line, d.Pos.Col, severity, d.Operator, d.Message, d.Suggestion})
	}
	return list
}
