package mesos

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/gogo/protobuf/proto"
	"github.com/mesos/mesos-go/api/v1/lib/encoding/codecs"
	"github.com/mesos/mesos-go/api/v1/lib/encoding/framing"
	"github.com/mesos/mesos-go/api/v1/lib/recordio"
	sched "github.com/mesos/mesos-go/api/v1/lib/scheduler"
)

const (
	schedulerPath  = "/api/v1/scheduler"
	streamIDHeader = "Mesos-Stream-Id"
)

// Bounds of what a master says.
const (
	maxRecord    = 32 << 20 // bytes of an event: the offers of many thousand agents
	maxErrorText = 4 << 10
	maxRedirects = 5
)

// callTimeout bounds a call other than SUBSCRIBE.
const callTimeout = 10 * time.Second

// access is how masters are spoken to.
type access struct {
	scheme            string // http or https
	tls               *tls.Config
	principal, secret string // no authentication if the principal is ""
}

// session is one subscription: connections, and a stream id, of its own.
type session struct {
	access
	sub      int64
	ctx      context.Context
	cancel   context.CancelFunc
	http     *http.Client
	master   string // host:port
	streamID string
	records  framing.Reader
	body     io.Closer
}

func newSession(ctx context.Context, a access, sub int64) *session {
	s := &session{access: a, sub: sub}
	s.ctx, s.cancel = context.WithCancel(ctx)
	s.http = &http.Client{
		Transport:     &http.Transport{TLSClientConfig: a.tls, Proxy: nil, MaxIdleConnsPerHost: 2},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return s
}

// close ends the stream and all calls under way. Only who subscribes calls it; others cancel.
func (s *session) close() {
	s.cancel()
	if s.body != nil {
		_ = s.body.Close() // of no use any more
	}
	s.http.CloseIdleConnections()
}

// answerError is an answer of a master that is no success.
type answerError struct {
	status int
	text   string
}

// Error implements error.
func (e *answerError) Error() string {
	return fmt.Sprintf("answer %d %s: %s", e.status, http.StatusText(e.status), e.text)
}

// refusal reports whether an error means that the call itself was wrong while the subscription holds.
func refusal(err error) bool {
	var a *answerError
	if !errors.As(err, &a) || a.status != http.StatusBadRequest {
		return false
	}
	return !strings.Contains(a.text, "Framework cannot be found") && !strings.Contains(a.text, "stream ID") &&
		!strings.Contains(a.text, streamIDHeader)
}

// post sends a call. Who gets an answer without an error closes its body.
func (s *session) post(ctx context.Context, call *sched.Call) (*http.Response, error) {
	body, err := proto.Marshal(call)
	if err != nil {
		return nil, fmt.Errorf("writing %s: %w", call.Type, err)
	}
	u := url.URL{Scheme: s.scheme, Host: s.master, Path: schedulerPath}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, u.String(), bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", string(codecs.MediaTypeProtobuf))
	req.Header.Set("Accept", string(codecs.MediaTypeProtobuf))
	if s.streamID != "" {
		req.Header.Set(streamIDHeader, s.streamID)
	}
	if s.principal != "" {
		req.SetBasicAuth(s.principal, s.secret)
	}
	return s.http.Do(req)
}

// subscribe opens the stream, at whichever master the first one sends to.
func (s *session) subscribe(master string, call *sched.Call) error {
	s.master = master
	for range maxRedirects {
		res, err := s.post(s.ctx, call)
		if err != nil {
			return err
		}
		if res.StatusCode == http.StatusOK {
			return s.opened(res)
		}
		err = answer(res)
		if res.StatusCode != http.StatusTemporaryRedirect {
			return fmt.Errorf("master %s: %w", s.master, err)
		}
		to, bad := url.Parse(res.Header.Get("Location"))
		if bad != nil || to.Host == "" {
			return fmt.Errorf("master %s sends to %q, which is no address", s.master, res.Header.Get("Location"))
		}
		s.master = to.Host
	}
	return fmt.Errorf("master %s: sent on more than %d times", master, maxRedirects)
}

func (s *session) opened(res *http.Response) error {
	s.streamID, s.body = res.Header.Get(streamIDHeader), res.Body
	kind := res.Header.Get("Content-Type")
	if s.streamID == "" || kind != string(codecs.MediaTypeProtobuf) {
		return fmt.Errorf("master %s: the answer to SUBSCRIBE has the stream id %q and the type %q; it is no Mesos master of a version that is supported",
			s.master, s.streamID, kind)
	}
	s.records = recordio.NewReader(res.Body, recordio.MaxMessageSize(maxRecord))
	return nil
}

// next waits for an event.
func (s *session) next() (*sched.Event, error) {
	frame, err := s.records.ReadFrame()
	if err != nil {
		return nil, err
	}
	e := new(sched.Event)
	if err := proto.Unmarshal(frame, e); err != nil {
		return nil, fmt.Errorf("reading an event of master %s: %w", s.master, err)
	}
	return e, nil
}

// call says something on the subscription.
func (s *session) call(call *sched.Call) error {
	ctx, cancel := context.WithTimeout(s.ctx, callTimeout)
	defer cancel()
	res, err := s.post(ctx, call)
	if err != nil {
		return err
	}
	return answer(res)
}

// answer reads an answer to its end; nil if it is a success.
func answer(res *http.Response) error {
	defer res.Body.Close()
	text, err := io.ReadAll(io.LimitReader(res.Body, maxErrorText))
	if res.StatusCode == http.StatusAccepted || res.StatusCode == http.StatusOK {
		return nil
	}
	if err != nil {
		text = []byte(err.Error())
	}
	return &answerError{res.StatusCode, strings.TrimSpace(string(text))}
}
