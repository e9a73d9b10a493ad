package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"sluice/executor/transport"
	"sluice/operators/catalog"
	"sluice/scheduler"
	"sluice/scheduler/api"
	"sluice/scheduler/service"
	"sluice/scheduler/store"
	"sluice/scheduler/store/zkconn"
)

// schedulerCommand is the service.
type schedulerCommand struct {
	Listen    string `help:"Where the API listens." default:"127.0.0.1:8090" placeholder:"HOST:PORT"`
	Advertise string `help:"The address of the API for others, such as a standby scheduler." placeholder:"URL"`
	Cluster   string `help:"Where workers run: local:N, N processes of this machine for each query; mesos://HOST:PORT,... or zk://HOST:PORT,.../PATH, the masters of a Mesos cluster or where they are found." default:"local:3" placeholder:"CLUSTER"`
	StateRoot string `help:"Folder, shared by all schedulers and workers, for the state of queries." required:"" placeholder:"DIR"`
	Store     string `help:"Where schedulers keep what they must not forget and who of them leads: a folder, or zk://HOST:PORT,.../PATH. STATE-ROOT/store by default." placeholder:"PLACE"`

	Token    string `help:"File with the tokens that clients may use, one a line." placeholder:"FILE"`
	TokenEnv string `help:"Environment variable with such a token." placeholder:"NAME"`
	TLSCert  string `name:"tls-cert" help:"File with the certificate of the API, in PEM form." placeholder:"FILE"`
	TLSKey   string `name:"tls-key" help:"File with the key of the certificate." placeholder:"FILE"`

	Keys    string        `help:"File with the keys of the cluster, which encrypt the connections between processes." placeholder:"FILE"`
	Session time.Duration `help:"Session timeout of a store in ZooKeeper: after how long another scheduler takes over; 4s by default." placeholder:"TIME"`
	Mesos   mesosOptions  `embed:"" prefix:"mesos-"`
	Verbose bool          `help:"Log checkpoints too."`
}

// schedulerProcess is a scheduler that runs.
type schedulerProcess struct {
	c       *schedulerCommand
	s       streams
	log     *slog.Logger
	auth    api.Auth
	tls     *tls.Config
	dir     string // of no use when the process has ended
	sockets transport.Options
}

// controlHighWater is how many messages of a worker may wait inside libzmq. They are small, and a scheduler that is
// busy for some seconds should not make workers hold theirs back.
const controlHighWater = 4096

// endTime is how long connections to the API may take to end.
const endTime = 3 * time.Second

// Run implements the command.
func (c *schedulerCommand) Run(s streams) error {
	signal.Ignore(syscall.SIGPIPE)
	ctx, now, restore := twoSignals()
	defer restore()
	level := slog.LevelInfo
	if c.Verbose {
		level = slog.LevelDebug
	}
	p := &schedulerProcess{c: c, s: s, log: slog.New(slog.NewTextHandler(s.err, &slog.HandlerOptions{Level: level}))}
	if err := p.prepare(); err != nil {
		return err
	}
	dir, remove, err := makeRunDir()
	if err != nil {
		return err
	}
	defer remove()
	p.dir = dir
	return p.serve(ctx, now)
}

// twoSignals gives a context that the first Ctrl-C or SIGTERM ends, and one that the second one ends.
func twoSignals() (first, second context.Context, restore func()) {
	first, endFirst := context.WithCancel(context.Background())
	second, endSecond := context.WithCancel(context.Background())
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		for _, end := range []func(){endFirst, endSecond} {
			select {
			case <-second.Done():
				return
			case <-signals:
				end()
			}
		}
	}()
	return first, second, func() {
		signal.Stop(signals)
		endFirst()
		endSecond()
	}
}

// prepare reads all that the command line names.
func (p *schedulerProcess) prepare() (err error) {
	c := p.c
	if c.StateRoot, err = filepath.Abs(c.StateRoot); err != nil {
		return err
	}
	if c.Store == "" {
		c.Store = filepath.Join(c.StateRoot, "store")
	}
	if p.auth, err = c.tokens(); err != nil {
		return usageErrorf("%v", err)
	}
	if !p.auth.Needed() && !loopback(c.Listen) {
		return usageErrorf("without --token or --token-env the API can only listen on this machine, at 127.0.0.1 or localhost; --listen is %q", c.Listen)
	}
	if (c.TLSCert == "") != (c.TLSKey == "") {
		return usageErrorf("--tls-cert and --tls-key go together")
	}
	if c.TLSCert != "" {
		cert, err := tls.LoadX509KeyPair(c.TLSCert, c.TLSKey)
		if err != nil {
			return usageErrorf("the certificate: %v", err)
		}
		p.tls = &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{cert}}
	}
	p.sockets, err = socketOptions(c.Keys)
	return err
}

// tokens reads the tokens. The variable is removed, so that no worker has it.
func (c *schedulerCommand) tokens() (api.Auth, error) {
	var tokens []string
	if c.TokenEnv != "" {
		token := os.Getenv(c.TokenEnv)
		if token == "" {
			return api.Auth{}, fmt.Errorf("the environment has no variable %s", c.TokenEnv)
		}
		tokens = append(tokens, token)
		if err := os.Unsetenv(c.TokenEnv); err != nil {
			return api.Auth{}, err
		}
	}
	if c.Token == "" {
		return api.NewAuth(tokens...)
	}
	f, err := os.Open(c.Token)
	if err != nil {
		return api.Auth{}, err
	}
	defer f.Close()
	before := len(tokens)
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		if t := strings.TrimSpace(lines.Text()); t != "" && !strings.HasPrefix(t, "#") {
			tokens = append(tokens, t)
		}
	}
	if err := lines.Err(); err != nil {
		return api.Auth{}, fmt.Errorf("%s: %w", c.Token, err)
	}
	if len(tokens) == before {
		return api.Auth{}, fmt.Errorf("%s has no token", c.Token)
	}
	return api.NewAuth(tokens...)
}

// loopback tells whether an address is of this machine alone.
func loopback(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return false
	}
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// serve runs the service and its API until ctx is done. When now is done it ends at once.
func (p *schedulerProcess) serve(ctx, now context.Context) (err error) {
	listener, err := net.Listen("tcp", p.c.Listen)
	if err != nil {
		return usageErrorf("the API cannot listen: %v", err)
	}
	defer listener.Close()
	url := p.url(listener.Addr().String())
	clusters, err := p.clusters(url)
	if err != nil {
		return err
	}
	kept, err := p.openStore(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, kept.Close()) }()
	sockets := p.sockets
	sockets.HighWater = controlHighWater
	control, err := transport.NewZMQ(sockets)
	if err != nil {
		return err
	}
	defer control.Close()
	svc := service.New(service.Options{
		Store: kept, StateRoot: filepath.Join(p.c.StateRoot, "queries"), Clusters: clusters.open, Transport: control,
		Compile: p.compile, Catalog: catalog.Operators, URL: url, Cluster: withoutPassword(p.c.Cluster), Log: p.log,
	})
	server := api.NewServer(api.NewHandler(api.Options{Backend: svc, Auth: p.auth, Log: p.log, Extra: clusters.extra}), p.log)
	server.TLSConfig = p.tls
	served := make(chan error, 1)
	go func() { served <- p.listen(server, listener) }()
	p.log.Info("the API listens", "url", url)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	over := make(chan struct{})
	go func() {
		svc.Run(ctx, now)
		close(over)
	}()
	select {
	case err = <-served:
		cancel()
	case <-ctx.Done():
	}
	<-over
	late, stop := context.WithTimeout(context.Background(), endTime)
	defer stop()
	if server.Shutdown(late) != nil {
		_ = server.Close() // clients that do not go are cut off
	}
	return err
}

func (p *schedulerProcess) listen(server *http.Server, l net.Listener) error {
	err := error(nil)
	if p.tls != nil {
		err = server.ServeTLS(l, "", "")
	} else {
		err = server.Serve(l)
	}
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// withoutPassword is an address for others to see.
func withoutPassword(address string) string {
	scheme, rest, ok := strings.Cut(address, "://")
	if i := strings.LastIndex(rest, "@"); ok && i >= 0 {
		return scheme + "://" + rest[i+1:]
	}
	return address
}

// url is the address of the API for others.
func (p *schedulerProcess) url(listens string) string {
	if p.c.Advertise != "" {
		return strings.TrimSuffix(p.c.Advertise, "/")
	}
	scheme := "http"
	if p.tls != nil {
		scheme = "https"
	}
	host, port, err := net.SplitHostPort(listens)
	if ip := net.ParseIP(host); err == nil && ip != nil && ip.IsUnspecified() {
		if name, err := os.Hostname(); err == nil {
			listens = net.JoinHostPort(name, port)
		}
	}
	return scheme + "://" + listens
}

// openStore opens the store of all schedulers.
func (p *schedulerProcess) openStore(ctx context.Context) (store.Store, error) {
	if !strings.HasPrefix(p.c.Store, "zk://") {
		if p.c.Session != 0 {
			return nil, usageErrorf("--session is for a store in ZooKeeper; --store is %q", p.c.Store)
		}
		s, err := store.OpenDir(p.c.Store)
		if err != nil {
			return nil, usageErrorf("%v", err)
		}
		return s, nil
	}
	place, err := zkconn.ParseURL(p.c.Store)
	if err != nil {
		return nil, usageErrorf("--store: %v", err)
	}
	kept, err := store.OpenZooKeeper(ctx, place.Hosts, place.Path, store.Options{
		Session: p.c.Session, Auth: place.Auth, LargeDir: filepath.Join(p.c.StateRoot, "large"), Log: p.log,
	})
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, fmt.Errorf("--store: ended before ZooKeeper at %s could be reached", strings.Join(place.Hosts, ","))
	case err != nil:
		return nil, usageErrorf("--store: %v", err)
	}
	return kept, nil
}

// worker is the command of a worker process on this machine.
func (p *schedulerProcess) worker(id scheduler.WorkerID, control string) *exec.Cmd {
	cmd := workerCommand(id, control, p.c.Keys)
	cmd.Stdout, cmd.Stderr = p.s.err, p.s.err
	return cmd
}
