package api

import (
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"net"
	"net/http"
	"strings"
)

// Auth says who may use the API.
type Auth struct {
	tokens [][sha256.Size]byte
}

// Bounds of tokens.
const (
	minToken  = 16 // characters
	maxToken  = 4096
	maxTokens = 100
)

// NewAuth makes an Auth of tokens. Without any, everybody who reaches the scheduler may use it.
func NewAuth(tokens ...string) (Auth, error) {
	var a Auth
	if len(tokens) > maxTokens {
		return a, fmt.Errorf("there are %d tokens; %d are possible", len(tokens), maxTokens)
	}
	for i, t := range tokens {
		if len(t) < minToken || len(t) > maxToken || strings.ContainsAny(t, " \t\r\n") {
			return a, fmt.Errorf("token %d must have %d to %d characters without space", i+1, minToken, maxToken)
		}
		a.tokens = append(a.tokens, sha256.Sum256([]byte(t)))
	}
	return a, nil
}

// Needed tells whether a token is needed.
func (a Auth) Needed() bool { return len(a.tokens) > 0 }

// check tells why a request may not be served.
func (a Auth) check(r *http.Request, open bool) *Error {
	if !a.Needed() {
		return checkHost(r)
	}
	if open {
		return nil
	}
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return Errorf(Unauthorized, "a token is needed: Authorization: Bearer TOKEN")
	}
	sum, match := sha256.Sum256([]byte(strings.TrimSpace(token))), 0
	for i := range a.tokens {
		match |= subtle.ConstantTimeCompare(sum[:], a.tokens[i][:])
	}
	if match == 0 {
		return Errorf(Unauthorized, "the token is not valid")
	}
	return nil
}

// checkHost refuses names that are not this machine's: a page of another site could have made one of its own
// names point here.
func checkHost(r *http.Request) *Error {
	host := r.Host
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	host = strings.Trim(host, "[]")
	if strings.EqualFold(host, "localhost") || net.ParseIP(host) != nil {
		return nil
	}
	return Errorf(Forbidden, "without tokens the scheduler is for requests to localhost or an IP address, not to %q", host)
}
