package api_test

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"sluice/scheduler/api"
)

// hosts makes connections to names that are servers of a test.
type hosts map[string]string

func (h hosts) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	name, _, _ := net.SplitHostPort(addr)
	if real, ok := h[name]; ok {
		addr = real
	}
	return (&net.Dialer{}).DialContext(ctx, network, addr)
}

// scheduler is a server that notes the tokens that it gets, and answers with status and Location.
func scheduler(t *testing.T, secure bool, status int, location func(*http.Request) string) (at string, s *httptest.Server, token *atomic.Value) {
	t.Helper()
	token = &atomic.Value{}
	token.Store("")
	s = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		token.Store(r.Header.Get("Authorization"))
		if location != nil {
			w.Header().Set("Location", location(r))
		}
		w.WriteHeader(status)
		_, _ = w.Write([]byte(`{"queries":[]}`))
	}))
	if secure {
		s.StartTLS()
	} else {
		s.Start()
	}
	t.Cleanup(s.Close)
	u, err := url.Parse(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	return u.Host, s, token
}

// TestClientSentOn: the token goes on to the scheduler that leads where it may, and to no other host that an answer names.
func TestClientSentOn(t *testing.T) {
	leader, _, got := scheduler(t, false, http.StatusOK, nil)
	_, secureServer, secureGot := scheduler(t, true, http.StatusOK, nil)
	secure := secureServer.Listener.Addr().String()
	own := &tls.Config{RootCAs: secureServer.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs, ServerName: "example.com"}
	for _, c := range []struct {
		name, addresses, to string
		secure              bool // who sends on
		private             bool // the client has authorities of its own
		token               bool
		status              int
		path                string // in place of that which was asked for
		want                string // in the error; "" for none
	}{
		{name: "the same host", addresses: "http://127.0.0.1:FIRST", to: "http://localhost:80", token: true, status: 307},
		{name: "no token", addresses: "http://127.0.0.1:FIRST", to: "http://other:80", status: 307},
		{name: "another host", addresses: "http://127.0.0.1:FIRST", to: "http://other:80", token: true, status: 307, want: "name all schedulers that may have it, as in --scheduler http://127.0.0.1:FIRST,http://other:80"},
		{name: "one that was named", addresses: "http://127.0.0.1:FIRST,http://other:80", to: "http://other:80", token: true, status: 307},
		{name: "another port of another host", addresses: "http://127.0.0.1:FIRST,http://other:81", to: "http://other:80", token: true, status: 307, want: "for which the token may not be meant"},
		{name: "the usual port", addresses: "http://127.0.0.1:FIRST,http://other", to: "http://other:80", token: true, status: 307},
		{name: "in the clear", addresses: "https://first:443,http://other:80", to: "http://other:80", secure: true, private: true, token: true, status: 307, want: "not encrypted"},
		{name: "in the clear without a token", addresses: "https://first:443", to: "http://other:80", secure: true, private: true, status: 307, want: "not encrypted"},
		{name: "a known certificate", addresses: "https://first:443", to: "https://other:443", secure: true, private: true, token: true, status: 307},
		{name: "not by a scheduler", addresses: "http://127.0.0.1:FIRST", to: "http://127.0.0.1:80", token: true, status: 302, want: "as no scheduler does (status 302)"},
		{name: "another path", addresses: "http://127.0.0.1:FIRST", to: "http://127.0.0.1:80", token: true, status: 307, path: "/login", want: "as no scheduler does"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got.Store("none")
			secureGot.Store("none")
			first, _, _ := scheduler(t, c.secure, c.status, func(r *http.Request) string {
				if c.path != "" {
					return c.to + c.path
				}
				return c.to + r.URL.RequestURI()
			})
			_, port, _ := net.SplitHostPort(first)
			names := hosts{"first": first, "other": leader, "localhost": leader}
			if strings.HasPrefix(c.to, "https") {
				names["other"] = secure
			}
			base := &http.Transport{DialContext: names.dial}
			if c.private {
				base.TLSClientConfig = own
			}
			token, want := "", "none"
			if c.token {
				token = "a-secret-that-nobody-knows"
			}
			if c.want == "" {
				want = strings.TrimSuffix("Bearer "+token, "Bearer ")
			}
			client, err := api.NewClient(strings.ReplaceAll(c.addresses, "FIRST", port), token, base)
			if err != nil {
				t.Fatal(err)
			}
			err = client.Do(t.Context(), http.MethodGet, "/queries", nil, &api.QueryList{})
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), strings.ReplaceAll(c.want, "FIRST", port)) {
				t.Errorf("error %v, want %q", err, c.want)
			}
			took := got.Load().(string)
			if strings.HasPrefix(c.to, "https") {
				took = secureGot.Load().(string)
			}
			if took != want {
				t.Errorf("the host that the answer names got %q, want %q", took, want)
			}
		})
	}
}

// TestClientPatience: a scheduler that takes a call and says nothing is given up, with a message; so is a stream.
func TestClientPatience(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0") // connections are made, and nobody answers
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	client, err := api.NewClient("http://"+l.Addr().String(), "", nil)
	if err != nil {
		t.Fatal(err)
	}
	client.Patience = 50 * time.Millisecond
	want := "no scheduler answers at http://" + l.Addr().String() + ": it has said nothing for 50ms, and may stand still"
	for method, more := range map[string]string{http.MethodGet: "", http.MethodPost: "; whether it has done what was asked is not known"} {
		if err := client.Do(t.Context(), method, "/queries", nil, nil); err == nil || err.Error() != want+more {
			t.Errorf("%s: %v, want %q", method, err, want+more)
		}
	}
	if err := client.Events(t.Context(), &api.EventsOptions{}, nil); err == nil || err.Error() != want {
		t.Errorf("events: %v, want %q", err, want)
	}
}

// TestClientNextAddress: of several schedulers the first one is called that can be reached.
func TestClientNextAddress(t *testing.T) {
	gone, s, _ := scheduler(t, false, http.StatusOK, nil)
	s.Close()
	there, _, token := scheduler(t, false, http.StatusOK, nil)
	client, err := api.NewClient("http://"+gone+", http://"+there+"/", "secret", nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := client.Do(t.Context(), http.MethodGet, "/queries", nil, &api.QueryList{}); err != nil || token.Load() != "Bearer secret" {
		t.Errorf("error %v, token %q", err, token.Load())
	}
	if _, err := api.NewClient("http://"+gone+",other:80", "", nil); err == nil {
		t.Error("an address without a scheme is taken")
	}
	client, err = api.NewClient("http://"+gone, "", nil)
	if err != nil {
		t.Fatal(err)
	}
	err = client.Do(t.Context(), http.MethodGet, "/queries", nil, nil)
	var at *net.OpError
	if want := "no scheduler answers at http://" + gone + ": dial tcp"; !errors.As(err, &at) || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("error %v, want %q", err, want)
	}
}

// TestClientLeaderGone: a scheduler that still names a leader which has just ended is asked again.
func TestClientLeaderGone(t *testing.T) {
	gone, s, _ := scheduler(t, false, http.StatusOK, nil)
	s.Close()
	leads, _, _ := scheduler(t, false, http.StatusOK, nil)
	calls, old := atomic.Int64{}, int64(2)
	standby, _, _ := scheduler(t, false, http.StatusTemporaryRedirect, func(r *http.Request) string {
		if calls.Add(1) <= old {
			return "http://" + gone + r.URL.RequestURI()
		}
		return "http://" + leads + r.URL.RequestURI()
	})
	client, err := api.NewClient("http://"+standby, "", nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := client.Do(t.Context(), http.MethodPost, "/queries/q/stop", nil, nil); err != nil || calls.Load() != 3 {
		t.Errorf("error %v after %d calls", err, calls.Load())
	}
	calls.Store(0)
	old = 99
	err = client.Do(t.Context(), http.MethodPost, "/queries/q/stop", nil, nil)
	if want := "no scheduler answers at http://" + gone + ": "; err == nil || !strings.HasPrefix(err.Error(), want) || calls.Load() != 3 {
		t.Errorf("error %v after %d calls", err, calls.Load())
	}
}

// TestClientNames: names that would make the path of a call another one are names of no query.
func TestClientNames(t *testing.T) {
	there, _, token := scheduler(t, false, http.StatusOK, nil)
	client, err := api.NewClient("http://"+there, "secret", nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"", ".", ".."} {
		for _, path := range []string{"", "/set", "/events?after=0", "?allowDrop=true"} {
			err := client.Do(t.Context(), http.MethodDelete, "/queries/"+url.PathEscape(name)+path, nil, nil)
			var known *api.Error
			if !errors.As(err, &known) || known.Code != api.UnknownQuery || token.Load() != "" {
				t.Errorf("%q: error %v, token %q", name+path, err, token.Load())
			}
		}
	}
}
