package api

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
)

// Client calls the API of a scheduler. It may be used by several goroutines.
type Client struct {
	URL   string // of the scheduler, such as http://127.0.0.1:8090
	Token string // "" for none
	HTTP  *http.Client
}

// maxRedirects bounds how often a call is sent on to the scheduler that leads.
const maxRedirects = 5

// NewClient makes a Client. base makes the connections; nil is the usual way.
func NewClient(address, token string, base http.RoundTripper) (*Client, error) {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, fmt.Errorf("the address of a scheduler is like http://127.0.0.1:8090; it is %q", address)
	}
	c := &Client{URL: strings.TrimRight(address, "/"), Token: token}
	c.HTTP = &http.Client{Transport: base, CheckRedirect: func(r *http.Request, via []*http.Request) error {
		if len(via) > maxRedirects {
			return errors.New("the schedulers send the call around in a circle")
		}
		c.authorize(r)
		return nil
	}}
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
	var body io.Reader
	if in != nil {
		text, err := json.Marshal(in)
		if err != nil {
			return nil, err
		}
		body = bytes.NewReader(text)
	}
	r, err := http.NewRequestWithContext(ctx, method, c.URL+Prefix+path, body)
	if err != nil {
		return nil, err
	}
	c.authorize(r)
	if in != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	if after != "" {
		r.Header.Set("Last-Event-ID", after)
	}
	resp, err := c.HTTP.Do(r)
	if err != nil {
		return nil, fmt.Errorf("no scheduler answers: %w", err)
	}
	if resp.StatusCode < 300 {
		return resp, nil
	}
	defer resp.Body.Close()
	var failure Failure
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxAnswer)).Decode(&failure); err != nil || failure.Error.Code == "" {
		return nil, fmt.Errorf("%s: %s, which is not the answer of a scheduler", c.URL, resp.Status)
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
	resp, err := c.send(ctx, http.MethodGet, path, nil, o.After)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, maxAnswer)
	for lines.Scan() {
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
		return fmt.Errorf("%w: %w", ErrBroken, err)
	}
	return nil
}
