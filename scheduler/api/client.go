package api

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// Client calls the API of a scheduler. It may be used by several goroutines.
type Client struct {
	URL   string // of the scheduler, such as http://127.0.0.1:8090; the first one if there are several
	Token string // "" for none
	HTTP  *http.Client
	// Patience is how long an answer may take; 0 is the usual time, which is above what schedulers allow themselves.
	Patience time.Duration

	addresses []*url.URL
}

// maxRedirects bounds how often a call is sent on to the scheduler that leads.
const maxRedirects = 5

// NewClient makes a Client. address is that of a scheduler, or those of several, with commas between, of which the first
// one is called that can be reached. base makes the connections; nil is the usual way.
//
// A scheduler that does not lead sends calls to the one that does. The token goes there only if its host is one of
// these, or if base knows its certificate by authorities of its own.
func NewClient(address, token string, base http.RoundTripper) (*Client, error) {
	all, err := parseAddresses(address)
	if err != nil {
		return nil, err
	}
	c := &Client{URL: all[0].String(), Token: token, addresses: all}
	c.HTTP = &http.Client{Transport: base, CheckRedirect: c.sendOn}
	return c, nil
}

func (c *Client) authorize(r *http.Request) {
	if c.Token != "" {
		r.Header.Set("Authorization", "Bearer "+c.Token)
	}
}

// Do calls a path below Prefix. in is the body of the request, nil for none; the answer goes into out unless
// that is nil. An *Error is what the scheduler says is wrong.
func (c *Client) Do(ctx context.Context, method, path string, in, out any) error {
	ctx, cancel := c.limited(ctx, method)
	defer cancel()
	resp, err := c.send(ctx, method, path, in, "")
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if out == nil {
		_, err = io.Copy(io.Discard, resp.Body)
		return err
	}
	if err := json.NewDecoder(resp.Body).Decode(out); err != nil {
		return fmt.Errorf("%s: the answer is not that of a scheduler: %w", c.URL, err)
	}
	return nil
}

// send sends a request and returns the answer if it is no error.
func (c *Client) send(ctx context.Context, method, path string, in any, after string) (*http.Response, error) {
	var text []byte
	if in != nil {
		var err error
		if text, err = json.Marshal(in); err != nil {
			return nil, err
		}
	}
	if err := checkName(path); err != nil {
		return nil, err
	}
	for i, at := range c.addresses {
		resp, err := c.sendAgain(ctx, at.String(), method, path, text, after)
		if err == nil || !unreached(err) || ctx.Err() != nil || i == len(c.addresses)-1 {
			return resp, err
		}
	}
	return nil, errors.New("there is no address of a scheduler")
}

// How often, and after which pause, a scheduler is called again that knows of no leader, or has sent the call on to one that is
// not there: the leader has just ended, and the next one does not lead yet.
const (
	mostAgain  = 2
	againPause = 500 * time.Millisecond
)

// sendAgain sends a request to one scheduler, and again if it has certainly reached no leader.
func (c *Client) sendAgain(ctx context.Context, at, method, path string, text []byte, after string) (*http.Response, error) {
	for again := 0; ; again++ {
		resp, err := c.sendTo(ctx, at, method, path, text, after)
		var known *Error
		none := errors.As(err, &known) && known.Code == NoLeader || unreached(err) && sentOn(err, at)
		if !none || again == mostAgain {
			return resp, err
		}
		select {
		case <-ctx.Done():
			return nil, err
		case <-time.After(againPause):
		}
	}
}

// sendTo sends a request to one scheduler. text is its body, nil for none.
func (c *Client) sendTo(ctx context.Context, at, method, path string, text []byte, after string) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, method, at+Prefix+path, bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	c.authorize(r)
	if text != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	if after != "" {
		r.Header.Set("Last-Event-ID", after)
	}
	resp, err := c.HTTP.Do(r)
	if err != nil {
		return nil, c.callError(ctx, err)
	}
	if resp.StatusCode < 300 {
		return resp, nil
	}
	defer resp.Body.Close()
	var failure Failure
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxAnswer)).Decode(&failure); err != nil || failure.Error.Code == "" {
		return nil, fmt.Errorf("%s: %s, which is not the answer of a scheduler", at, resp.Status)
	}
	return nil, &failure.Error
}

// maxAnswer bounds the body of an error, in bytes.
const maxAnswer = 16 << 20

// EventsOptions say which events are wanted.
type EventsOptions struct {
	Query string // "" for all
	// After is the ID of the last event that is known; "" for those that come from now on. Events keeps it up to date, so
	// that another call goes on where one has ended.
	After string
	// Once ends the stream with the last event that there is; with no After it begins with the oldest that is kept.
	Once bool
}

// ErrBroken is the error of a stream of events that has broken, as when its scheduler is killed.
var ErrBroken = errors.New("the stream of events has broken")

// Events calls f with each event until ctx is done, f fails, or the scheduler ends the stream, which is nil.
func (c *Client) Events(ctx context.Context, o *EventsOptions, f func(Event) error) error {
	path := "/events"
	if o.Query != "" {
		path = "/queries/" + url.PathEscape(o.Query) + path
	}
	if o.Once {
		path += "?follow=false"
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	patience := c.patience(http.MethodGet)
	silent := time.AfterFunc(patience, func() { cancel(&silentError{d: patience}) })
	defer silent.Stop()
	resp, err := c.send(ctx, http.MethodGet, path, nil, o.After)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, maxAnswer)
	for lines.Scan() {
		silent.Reset(max(patience, streamPatience))
		if id, ok := strings.CutPrefix(lines.Text(), "id:"); ok {
			o.After = strings.TrimSpace(id)
		}
		data, ok := strings.CutPrefix(lines.Text(), "data:")
		if !ok {
			continue
		}
		var e Event
		if err := json.Unmarshal([]byte(data), &e); err != nil {
			return fmt.Errorf("%s: the event is not that of a scheduler: %w", c.URL, err)
		}
		if err := f(e); err != nil {
			return err
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("%w: %w", ErrBroken, cmp.Or(context.Cause(ctx), err))
	}
	return nil
}
