package api

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// How long an answer may take: what the server allows itself, and some more.
const (
	lookPatience   = callTime + 5*time.Second
	changePatience = setTime + 5*time.Second
	streamPatience = 3 * pingTime // between two signs of life of a stream
)

// patience is how long an answer to a method may take.
func (c *Client) patience(method string) time.Duration {
	switch {
	case c.Patience > 0:
		return c.Patience
	case method == http.MethodGet:
		return lookPatience
	}
	return changePatience
}

// parseAddresses takes the addresses of schedulers apart.
func parseAddresses(list string) ([]*url.URL, error) {
	var all []*url.URL
	for address := range strings.SplitSeq(list, ",") {
		u, err := url.Parse(strings.TrimRight(strings.TrimSpace(address), "/"))
		if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			return nil, fmt.Errorf("the address of a scheduler is like http://127.0.0.1:8090, and several are separated by commas; it is %q", address)
		}
		all = append(all, u)
	}
	return all, nil
}

// redirectError says why a call is not sent on.
type redirectError struct{ text string }

func (e *redirectError) Error() string { return e.text }

// sendOn checks a request that a scheduler sends on to another one. What it names could be any host: the call goes on
// as it is, never in the clear if it was not before, and with the token only where that was meant to go.
func (c *Client) sendOn(r *http.Request, via []*http.Request) error {
	from, to := via[len(via)-1].URL, r.URL
	refuse := func(format string, args ...any) error {
		return &redirectError{fmt.Sprintf("%s sends the call on to %s, ", origin(from), origin(to)) + fmt.Sprintf(format, args...)}
	}
	status := r.Response.StatusCode
	switch {
	case len(via) > maxRedirects:
		return &redirectError{"the schedulers send the call around in a circle"}
	case status != http.StatusTemporaryRedirect && status != http.StatusPermanentRedirect || called(from) != called(to):
		return refuse("as no scheduler does (status %d)", status)
	case from.Scheme == "https" && to.Scheme != "https":
		return refuse("which is not encrypted; --advertise of the scheduler that leads must be an https address")
	case c.Token != "" && !c.trusts(to):
		return refuse("for which the token may not be meant: name all schedulers that may have it, as in --scheduler %s,%s", origin(from), origin(to))
	}
	c.authorize(r)
	return nil
}

// called is what is called of a scheduler, wherever its API begins.
func called(u *url.URL) string {
	if i := strings.LastIndex(u.Path, Prefix+"/"); i >= 0 {
		return u.Path[i:] + "?" + u.RawQuery
	}
	return u.String()
}

func origin(u *url.URL) string { return u.Scheme + "://" + u.Host }

// trusts tells whether the token may go to an address: one that was named, one of this machine if one of this machine was
// named (several schedulers on it have different ports), or one whose certificate is signed by those who were named for it.
func (c *Client) trusts(u *url.URL) bool {
	for _, known := range c.addresses {
		if sameHost(known, u) {
			return true
		}
	}
	t, ok := c.HTTP.Transport.(*http.Transport)
	return ok && u.Scheme == "https" && t.TLSClientConfig != nil && t.TLSClientConfig.RootCAs != nil
}

// checkName refuses names of queries that no query can have, and that would make the path another one.
func checkName(path string) error {
	rest, ok := strings.CutPrefix(path, "/queries/")
	if !ok {
		return nil
	}
	rest, _, _ = strings.Cut(rest, "?")
	if name, _, _ := strings.Cut(rest, "/"); name == "" || name == "." || name == ".." {
		return Errorf(UnknownQuery, "there is no query %q", name)
	}
	return nil
}

// sameHost tells whether two addresses are of one host and port, or of this machine, which has several names.
func sameHost(a, b *url.URL) bool {
	if isLoopback(a.Hostname()) && isLoopback(b.Hostname()) {
		return true
	}
	return strings.EqualFold(a.Hostname(), b.Hostname()) && portOf(a) == portOf(b)
}

func portOf(u *url.URL) string {
	usual := "80"
	if u.Scheme == "https" {
		usual = "443"
	}
	return cmp.Or(u.Port(), usual)
}

func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return strings.EqualFold(host, "localhost") || ip != nil && ip.IsLoopback()
}

// unreached tells whether a call has certainly reached nobody.
func unreached(err error) bool {
	var at *net.OpError
	return errors.As(err, &at) && at.Op == "dial"
}

// callError says what is wrong when there is no answer.
func (c *Client) callError(ctx context.Context, err error) error {
	var refused *redirectError
	if errors.As(err, &refused) {
		return refused
	}
	at := c.URL
	var u *url.Error
	if errors.As(err, &u) {
		err = u.Err
		if parsed, bad := url.Parse(u.URL); bad == nil {
			at = origin(parsed)
		}
	}
	if cause := context.Cause(ctx); ctx.Err() != nil && cause != nil {
		err = cause
	}
	return &silence{at, err}
}

// silence says that nobody answers at an address.
type silence struct {
	at  string
	err error
}

func (e *silence) Error() string { return fmt.Sprintf("no scheduler answers at %s: %v", e.at, e.err) }
func (e *silence) Unwrap() error { return e.err }

// sentOn tells whether it was another scheduler than the one at an address that did not answer.
func sentOn(err error, at string) bool {
	var e *silence
	return errors.As(err, &e) && !strings.HasPrefix(at+"/", e.at+"/")
}

// silentError is the cause of the end of a call that takes too long.
type silentError struct {
	d      time.Duration
	change bool // something was to be changed
}

func (e *silentError) Error() string {
	text := fmt.Sprintf("it has said nothing for %v, and may stand still", e.d)
	if e.change {
		text += "; whether it has done what was asked is not known"
	}
	return text
}

// limited bounds a call.
func (c *Client) limited(ctx context.Context, method string) (context.Context, context.CancelFunc) {
	d := c.patience(method)
	return context.WithTimeoutCause(ctx, d, &silentError{d, method != http.MethodGet})
}
