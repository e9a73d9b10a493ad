package main

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"

	"github.com/pebbe/zmq4"
)

// The program runs itself with these as its first argument, to send and to receive messages with bare sockets
// of libzmq: what two processes can do at most.
const (
	rawSender   = "raw-libzmq-sender"
	rawReceiver = "raw-libzmq-receiver"
)

// rawQueue is how many messages wait in a socket at most. With more of them the caches help less.
const rawQueue = 64

// runRaw sends or receives: args are an address, a number of messages and their size.
func runRaw(role string, args []string) error {
	if len(args) != 3 {
		return fmt.Errorf("%s takes an address, a number and a size", role)
	}
	n, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	size, err := strconv.Atoi(args[2])
	if err != nil {
		return err
	}
	if role == rawReceiver {
		return rawReceive(args[0], n, size)
	}
	return rawSend(args, n, size)
}

// rawSend starts the receiver, sends it n messages, and waits until it has them.
func rawSend(args []string, n, size int) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	child := exec.Command(self, append([]string{rawReceiver}, args...)...)
	child.Stderr = os.Stderr
	said, err := child.StdoutPipe()
	if err != nil {
		return err
	}
	if err := child.Start(); err != nil {
		return err
	}
	addr, err := bufio.NewReader(said).ReadString('\n')
	if err != nil {
		return err
	}
	out, err := zmq4.NewSocket(zmq4.DEALER)
	if err != nil {
		return err
	}
	defer out.Close()
	if err := out.SetSndhwm(rawQueue); err != nil {
		return err
	}
	if err := out.Connect(strings.TrimSpace(addr)); err != nil {
		return err
	}
	msg := make([]byte, size)
	for range n {
		if _, err := out.SendBytes(msg, 0); err != nil {
			return err
		}
	}
	return child.Wait()
}

// rawReceive says where it listens and takes n messages.
func rawReceive(addr string, n, size int) error {
	in, err := zmq4.NewSocket(zmq4.ROUTER)
	if err != nil {
		return err
	}
	defer in.Close()
	if err := in.SetRcvhwm(rawQueue); err != nil {
		return err
	}
	if err := in.Bind(addr); err != nil {
		return err
	}
	at, err := in.GetLastEndpoint()
	if err != nil {
		return err
	}
	fmt.Println(at)
	for range n {
		parts, err := in.RecvMessageBytes(0)
		if err != nil {
			return err
		}
		if len(parts) != 2 || len(parts[1]) != size {
			return fmt.Errorf("a message of %d parts, not one of %d bytes behind a name", len(parts), size)
		}
	}
	return nil
}
