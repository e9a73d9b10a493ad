package mesos

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/gogo/protobuf/proto"
	"github.com/mesos/mesos-go/api/v1/lib/encoding/codecs"
	exec "github.com/mesos/mesos-go/api/v1/lib/executor"
	"github.com/mesos/mesos-go/api/v1/lib/recordio"
)

const (
	executorPath = "/api/v1/executor"
	maxRecord    = 8 << 20 // bytes of an event
	maxErrorText = 4 << 10
	callTimeout  = 10 * time.Second
)

// client speaks to the agent.
type client struct {
	http  *http.Client
	url   string
	token string // for agents that want executors to authenticate
}

func newClient(scheme, endpoint, token string) *client {
	return &client{
		http: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 2}},
		url:  scheme + "://" + endpoint + executorPath, token: token,
	}
}

// post sends a call. Who gets an answer without an error closes its body.
func (c *client) post(ctx context.Context, call *exec.Call) (*http.Response, error) {
	body, err := proto.Marshal(call)
	if err != nil {
		return nil, fmt.Errorf("writing %s: %w", call.Type, err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", string(codecs.MediaTypeProtobuf))
	req.Header.Set("Accept", string(codecs.MediaTypeProtobuf))
	if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	res, err := c.http.Do(req)
	if err != nil {
		return nil, err
	}
	if res.StatusCode == http.StatusOK || res.StatusCode == http.StatusAccepted {
		return res, nil
	}
	defer res.Body.Close()
	text, err := io.ReadAll(io.LimitReader(res.Body, maxErrorText))
	if err != nil {
		text = []byte(err.Error())
	}
	return nil, fmt.Errorf("%s: answer %s: %s", call.Type, res.Status, strings.TrimSpace(string(text)))
}

// subscribe opens the stream and hands over its events until it ends, for which it returns the cause.
func (c *client) subscribe(ctx context.Context, call *exec.Call, take func(*exec.Event)) error {
	res, err := c.post(ctx, call)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	records := recordio.NewReader(res.Body, recordio.MaxMessageSize(maxRecord))
	for {
		frame, err := records.ReadFrame()
		if err != nil {
			return err
		}
		e := new(exec.Event)
		if err := proto.Unmarshal(frame, e); err != nil {
			return fmt.Errorf("reading an event of the agent: %w", err)
		}
		take(e)
	}
}

// call says something to the agent.
func (c *client) call(ctx context.Context, call *exec.Call) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	res, err := c.post(ctx, call)
	if err != nil {
		return err
	}
	return res.Body.Close()
}
