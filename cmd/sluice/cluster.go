package main

import (
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/user"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"sluice/executor/worker"
	"sluice/scheduler/mesos"
	"sluice/scheduler/mesos/detect"
	"sluice/scheduler/service"
)

// mesosOptions are the options for a cluster of Mesos.
type mesosOptions struct {
	User      string        `help:"Who executors run as; the user of the scheduler by default." placeholder:"NAME"`
	Framework string        `help:"The framework's name." default:"sluice" placeholder:"NAME"`
	Roles     []string      `help:"Roles in which resources are taken; * by default." placeholder:"ROLE"`
	Principal string        `help:"Principal of the framework." placeholder:"NAME"`
	Secret    string        `help:"File with the secret of the principal." placeholder:"FILE"`
	HTTPS     bool          `name:"https" help:"Speak TLS to the masters."`
	CA        string        `name:"ca" help:"File with the certificates of those who have signed the masters'." placeholder:"FILE"`
	Failover  time.Duration `help:"For how long Mesos keeps workers without a scheduler." default:"168h"`
	Silence   time.Duration `help:"After how long without a scheduler workers end by themselves." default:"5m"`
	Margin    time.Duration `help:"What workers may take to end then, and clocks to differ." default:"30s"`
	Control   string        `help:"The host, as agents reach it, at which workers find the scheduler; that of --advertise by default." placeholder:"HOST"`
	Executor  string        `help:"Path of sluice on the agents; they fetch it from the scheduler by default." placeholder:"PATH"`
	Keys      string        `help:"Path of the file of --keys on the agents." placeholder:"PATH"`

	Workers    int      `help:"Workers of a query that does not say." default:"3" placeholder:"N"`
	CPUs       float64  `name:"cpus" help:"CPUs of a worker." default:"1" placeholder:"N"`
	Mem        float64  `help:"Memory of a worker, in MB." default:"1024" placeholder:"N"`
	Disk       float64  `help:"Disk of a worker, in MB." placeholder:"N"`
	GPUs       bool     `name:"gpus" help:"Take offers of agents that have GPUs, for operators that need some."`
	Ports      int      `help:"Ports that a worker gets of its agent; with 0 it listens on any free one." placeholder:"N"`
	Attributes []string `help:"Attributes that agents must have: NAME=VALUE." placeholder:"NAME=VALUE"`
}

// clusterChoice is what --cluster says.
type clusterChoice struct {
	open  service.OpenClusters
	extra map[string]http.Handler // for the API's server
}

func (p *schedulerProcess) clusters(api string) (*clusterChoice, error) {
	if text, ok := strings.CutPrefix(p.c.Cluster, "local:"); ok {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > maxNodes {
			return nil, usageErrorf("--cluster local:N must have N from 1 to %d; it is %q", maxNodes, p.c.Cluster)
		}
		usual := &mesosOptions{}
		if err := kong.ApplyDefaults(usual); err != nil {
			return nil, err
		}
		if !reflect.DeepEqual(*usual, p.c.Mesos) {
			return nil, usageErrorf("options that begin with --mesos- are for a cluster of Mesos; --cluster is %q", p.c.Cluster)
		}
		return &clusterChoice{open: service.Local{Usual: n, Most: maxNodes, Dir: p.dir, Command: p.worker}.Open}, nil
	}
	masters, named := strings.CutPrefix(p.c.Cluster, "mesos://")
	if !named && !strings.HasPrefix(p.c.Cluster, "zk://") {
		return nil, usageErrorf("--cluster must be local:N, mesos://HOST:PORT,... or zk://HOST:PORT,.../PATH; it is %q", p.c.Cluster)
	}
	m, err := p.mesos(api)
	if err != nil {
		return nil, usageErrorf("%v", err)
	}
	if named {
		m.Options.Masters = strings.Split(masters, ",")
	} else {
		m.Detect = func() (service.Detector, error) {
			return detect.Open(p.c.Cluster, detect.Options{Log: p.log})
		}
	}
	return p.fetched(m, api)
}

// mesos is the cluster without its masters and executor.
func (p *schedulerProcess) mesos(api string) (*service.Mesos, error) {
	o := &p.c.Mesos
	base, err := url.Parse(api)
	if err != nil || base.Hostname() == "" {
		return nil, fmt.Errorf("--advertise must be a URL such as http://10.0.0.1:8090; it is %q", api)
	}
	host := o.Control
	if host == "" {
		host = base.Hostname()
	}
	if o.User == "" {
		u, err := user.Current()
		if err != nil {
			return nil, fmt.Errorf("--mesos-user must be given: %w", err)
		}
		o.User = u.Username
	}
	if (p.c.Keys == "") != (o.Keys == "") {
		return nil, errors.New("--keys and --mesos-keys go together")
	}
	secret := ""
	if o.Secret != "" {
		text, err := os.ReadFile(o.Secret)
		if err != nil {
			return nil, err
		}
		secret = strings.TrimSpace(string(text))
	}
	need, err := o.need()
	if err != nil {
		return nil, err
	}
	name, err := os.Hostname()
	if err != nil {
		return nil, err
	}
	listen, host := controlPlace(host)
	return &service.Mesos{
		Options: mesos.Options{
			Config: mesos.Config{
				User: o.User, Name: o.Framework, Principal: o.Principal, Roles: o.Roles, GPUs: o.GPUs, Hostname: name, WebUI: api,
				NewID: rand.Text, FailoverTimeout: o.Failover, Silence: o.Silence, Margin: o.Margin,
			},
			HTTPS: o.HTTPS, CAFile: o.CA, Secret: secret, Log: func(text string) { p.log.Warn(text) },
		},
		Need: need, Listen: listen, Host: host, Usual: o.Workers, Most: maxNodes,
	}, nil
}

// controlPlace says where control streams listen so that workers find them at a host, and its name if that is not the
// address of listen. Who listens at a name, or at an address that only others know, listens at all of its own: what a name
// means on the machine that has it is often another thing than for others.
func controlPlace(host string) (listen, name string) {
	const local = "localhost"
	switch {
	case host == local:
		return "tcp://127.0.0.1:*", local
	case ownAddress(net.ParseIP(host)):
		return "tcp://" + net.JoinHostPort(host, "*"), ""
	}
	return "tcp://0.0.0.0:*", host
}

// ownAddress tells whether an address is one of this machine; nil is none.
func ownAddress(ip net.IP) bool {
	if ip == nil || ip.IsLoopback() {
		return ip != nil
	}
	addrs, err := net.InterfaceAddrs()
	return err == nil && slices.ContainsFunc(addrs, func(a net.Addr) bool {
		n, ok := a.(*net.IPNet)
		return ok && n.IP.Equal(ip)
	})
}

// need is what each worker takes.
func (o *mesosOptions) need() (mesos.Need, error) {
	n := mesos.Need{
		CPUs: o.CPUs, MemMB: o.Mem, DiskMB: o.Disk, Ports: o.Ports, Attributes: map[string]string{}, Shared: true,
	}
	for _, a := range o.Attributes {
		name, value, ok := strings.Cut(a, "=")
		if !ok {
			return n, fmt.Errorf("--mesos-attributes must be NAME=VALUE; it is %q", a)
		}
		n.Attributes[name] = value
	}
	if o.Workers < 1 || o.Workers > maxNodes {
		return n, fmt.Errorf("--mesos-workers must be from 1 to %d", maxNodes)
	}
	return n, n.Validate()
}

// fetched adds how agents start workers: with the program at a path of theirs, or with the one that they fetch
// from here.
func (p *schedulerProcess) fetched(m *service.Mesos, api string) (*clusterChoice, error) {
	var args []string
	if p.c.Mesos.Keys != "" {
		args = append(args, "--keys", p.c.Mesos.Keys)
	}
	c := &clusterChoice{}
	if path := p.c.Mesos.Executor; path != "" {
		m.Executor = func(control string) mesos.ExecutorSpec {
			return mesos.ExecutorSpec{Command: mesos.ExecutorCommand(path, args...), Env: worker.Environment(), Control: control}
		}
	} else {
		a, err := mesos.NewArtifacts(p.dir) // until the end of this process
		if err != nil {
			return nil, err
		}
		m.Executor = func(control string) mesos.ExecutorSpec {
			e := a.Executor(api, control, args...)
			e.Env = worker.Environment()
			return e
		}
		c.extra = map[string]http.Handler{"GET " + mesos.ArtifactsPath: a}
	}
	c.open = m.Open
	return c, nil
}
