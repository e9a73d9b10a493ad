package zktest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// Install is the command that installs what the tests need.
const Install = "scripts/install-packages default-jre-headless libzookeeper-java"

// jar is where Debian has ZooKeeper; its manifest names all else that it needs.
const jar = "/usr/share/java/zookeeper.jar"

// startTimeout bounds how long a server may take until it serves: a JVM on a busy machine.
const startTimeout = 40 * time.Second

// Server is a running ZooKeeper.
type Server struct {
	dir      string
	port     int
	ensemble string // what the settings of a member of an ensemble are beside those of all servers; empty if it is alone

	process *os.Process
	ended   chan struct{} // closed when the process has ended
	paused  bool
}

// Start runs a server that ends with the test.
func Start(t testing.TB) *Server {
	t.Helper()
	s, err := start(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Kill)
	return s
}

// start runs a server with its data in dir.
func start(dir string) (*Server, error) {
	if err := installed(); err != nil {
		return nil, err
	}
	var err error
	// Another process may take the port that was free a moment ago.
	for range 3 {
		s := &Server{dir: dir}
		if s.port, err = freePort(); err != nil {
			return nil, err
		}
		if err = s.run(); err == nil {
			return s, nil
		}
	}
	return nil, err
}

func installed() error {
	_, err := exec.LookPath("java")
	if _, jarErr := os.Stat(jar); jarErr != nil {
		err = errors.Join(err, jarErr)
	}
	if err != nil {
		return fmt.Errorf("this test needs ZooKeeper; install it with %s: %w", Install, err)
	}
	return nil
}

func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

// Addr is host:port of the server.
func (s *Server) Addr() string {
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port))
}

const configuration = `clientPort=%d
clientPortAddress=127.0.0.1
dataDir=%s
tickTime=100
minSessionTimeout=200
maxSessionTimeout=60000
maxClientCnxns=0
admin.enableServer=false
4lw.commands.whitelist=ruok,dump,srvr
`

// Classes of a server that is alone, and of a member of an ensemble.
const (
	aloneClass  = "org.apache.zookeeper.server.ZooKeeperServerMain"
	memberClass = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
)

// run starts the process and waits until it serves.
func (s *Server) run() error {
	if err := s.begin(); err != nil {
		return err
	}
	return s.await()
}

// begin starts the process.
func (s *Server) begin() error {
	config := filepath.Join(s.dir, "zoo.cfg")
	text := fmt.Sprintf(configuration, s.port, s.data()) + s.ensemble
	if err := os.WriteFile(config, []byte(text), 0o644); err != nil {
		return err
	}
	return s.launch(config)
}

func (s *Server) data() string { return filepath.Join(s.dir, "data") }

// await waits until the server serves.
func (s *Server) await() error {
	deadline := time.Now().Add(startTimeout)
	for time.Now().Before(deadline) {
		if s.serves() {
			return nil
		}
		select {
		case <-s.ended:
			return fmt.Errorf("ZooKeeper has ended: %s", s.output())
		case <-time.After(20 * time.Millisecond):
		}
	}
	s.Kill()
	return fmt.Errorf("ZooKeeper does not serve after %s: %s", startTimeout, s.output())
}

// serves reports whether clients may connect: a server that answers "ruok" may still close their connections.
func (s *Server) serves() bool {
	answer := s.ask("dump")
	return answer != "" && !strings.Contains(answer, "not currently serving")
}

// launch starts the process. It is killed with the thread that started it, which therefore stays.
func (s *Server) launch(config string) error {
	class := aloneClass
	if s.ensemble != "" {
		class = memberClass
	}
	// Small and quick to start. forceSync=no: the machine does not lose power in a test.
	cmd := exec.Command("java", "-Xmx192m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto",
		"-Dzookeeper.forceSync=no", "-Djava.net.preferIPv4Stack=true", "-cp", jar, class, config)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := os.OpenFile(filepath.Join(s.dir, "output"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	cmd.Stdout, cmd.Stderr = out, out
	started := make(chan error)
	ended := make(chan struct{})
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer close(ended)
		defer out.Close()
		err := cmd.Start()
		started <- err
		if err == nil {
			// How it ended is of no interest: it is killed.
			_ = cmd.Wait()
		}
	}()
	if err := <-started; err != nil {
		return err
	}
	s.process, s.ended, s.paused = cmd.Process, ended, false
	return nil
}

// ask sends one of the four-letter words and returns the answer; none if the server does not serve.
func (s *Server) ask(word string) string {
	conn, err := net.DialTimeout("tcp", s.Addr(), time.Second)
	if err != nil {
		return ""
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(2 * time.Second)); err != nil {
		return ""
	}
	if _, err := io.WriteString(conn, word); err != nil {
		return ""
	}
	answer, err := io.ReadAll(conn)
	if err != nil {
		return ""
	}
	return string(answer)
}

// Sessions is what the server tells about its sessions and ephemeral nodes, for messages.
func (s *Server) Sessions() string { return s.ask("dump") }

// output is the end of what the process has printed.
func (s *Server) output() string {
	b, err := os.ReadFile(filepath.Join(s.dir, "output"))
	if err != nil {
		return err.Error()
	}
	return string(bytes.TrimSpace(b[max(0, len(b)-2000):]))
}

// Kill ends the server as kill -9 does.
func (s *Server) Kill() {
	// Errors say that it has ended already.
	_ = s.process.Kill()
	<-s.ended
}

// Restart starts a killed server on the same port and data.
func (s *Server) Restart(t testing.TB) {
	t.Helper()
	if err := s.run(); err != nil {
		t.Fatal(err)
	}
}

// Pause stops the server: connections stay, and nothing is answered.
func (s *Server) Pause(t testing.TB) {
	t.Helper()
	if err := s.process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	for !s.stopped(t) {
		time.Sleep(time.Millisecond)
	}
	s.paused = true
}

// stopped says whether all threads of the server stand still, which takes a moment after the signal.
func (s *Server) stopped(t testing.TB) bool {
	t.Helper()
	stats, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", s.process.Pid))
	if err != nil || len(stats) == 0 {
		t.Fatalf("the server has no threads: %v", err)
	}
	for _, stat := range stats {
		b, err := os.ReadFile(stat)
		if err != nil {
			continue // the thread has ended
		}
		// The state follows the name, which is in parentheses.
		if _, state, _ := strings.Cut(string(b[bytes.LastIndexByte(b, ')'):]), " "); !strings.HasPrefix(state, "T") {
			return false
		}
	}
	return true
}

// Resume lets a paused server go on.
func (s *Server) Resume(t testing.TB) {
	t.Helper()
	if err := s.process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	s.paused = false
}

// shared is the server of all tests of a package.
var shared struct {
	once sync.Once
	dir  string
	s    *Server
	err  error
}

// Shared is the address of the server that all tests of a package share. The package's TestMain calls Main.
func Shared(t testing.TB) string {
	t.Helper()
	shared.once.Do(func() {
		if shared.dir, shared.err = os.MkdirTemp("", "sluice-zookeeper-"); shared.err == nil {
			shared.s, shared.err = start(shared.dir)
		}
	})
	if shared.err != nil {
		t.Fatal(shared.err)
	}
	return shared.s.Addr()
}

// Main runs the tests and ends the shared server.
func Main(m *testing.M) int {
	code := m.Run()
	if shared.s != nil {
		shared.s.Kill()
	}
	if shared.dir != "" {
		if err := os.RemoveAll(shared.dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return max(code, 1)
		}
	}
	return code
}
