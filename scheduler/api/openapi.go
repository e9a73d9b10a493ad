package api

import (
	_ "embed"
	"net/http"
)

// openapiText describes the API; a test compares it with the routes and types.
//
//go:embed openapi.json
var openapiText []byte

func (h *handler) openapi(w http.ResponseWriter, _ *http.Request) error {
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(openapiText) // a client that has gone wants no answer
	return nil
}
